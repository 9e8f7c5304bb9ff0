"""``make walks``: the number of files that a begin, a complete and a checkpoint of a stream pass.

The Python client and the server run in this process, over an embedded PostgreSQL. A Python file is passed if
one of its functions is called, and a named SQL file if its statement is sent. Each action is done once before
it is counted, because the first one fills caches. Background workers of the server do not count. ``--files``
prints the names.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

import msgspec

import chronolake
from chronolake_metastore import embedded, telemetry
from chronolake_metastore.cli import serving
from chronolake_metastore.settings import LogLevel, LogLineFormat, Settings
from chronolake_metastore.store.postgres import statements

ROOT: Final = Path(__file__).parent.parent
FILES_MAX: Final = {"begin": 36, "complete": 45, "checkpoint": 90}
"""The targets: Python files that each action should pass at most."""
_PACKAGES: Final = ("client/", "metastore/")
_SERVER: Final = "metastore/chronolake_metastore/"
_WORKERS: Final = (f"{_SERVER}workers/", f"{_SERVER}followers.py", f"{_SERVER}api/stalled_clients.py")
"""Modules of coroutines that run as long as the server does."""
_SENDING: Final = f"{_SERVER}store/postgres/"
"""Modules whose functions take the text of a statement that they send."""
_SQL: Final = ROOT / _SERVER / "store/sql"


class Walk(msgspec.Struct, frozen=True):
    """The files that one action passed."""

    python: set[str]
    sql: set[str]


class Tracer:
    """Records the calls of this thread, and of threads that start later."""

    def __init__(self) -> None:
        names = (path.relative_to(_SQL).with_suffix("").as_posix() for path in _SQL.rglob("*.sql"))
        self._names = {statements.load(name): f"{_SERVER}store/sql/{name}.sql" for name in names}
        self._paths: dict[CodeType, str] = {}
        self._walk: Walk | None = None
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    @contextlib.contextmanager
    def recording(self) -> Iterator[Walk]:
        """The walk of the block, complete at its end."""
        self._walk = walk = Walk(set(), set())
        yield walk
        self._walk = None

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        walk = self._walk
        if walk is None or event != "call":
            return
        path = self._path(frame.f_code)
        if not path.startswith(_PACKAGES) or self._is_in_worker():
            return
        walk.python.add(path)
        if path.startswith(_SENDING):
            texts = (value for value in frame.f_locals.values() if isinstance(value, str))
            walk.sql.update(self._names[text] for text in texts if text in self._names)

    def _is_in_worker(self) -> bool:
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return False
        code = getattr(task.get_coro(), "cr_code", None) if task else None
        return code is not None and self._path(code).startswith(_WORKERS)

    def _path(self, code: CodeType) -> str:
        path = self._paths.get(code)
        if path is None:
            path = self._paths[code] = code.co_filename.removeprefix(f"{ROOT}/")
        return path


def measured(dsn: str) -> dict[str, Walk]:
    """The walk of each action, over an empty database with that DSN."""
    serving.migrate(dsn)
    settings = Settings(dsn=dsn, port=_free_port(), reaper_seconds=0, publisher_seconds=0)
    url = f"http://127.0.0.1:{settings.port}"
    with tempfile.TemporaryDirectory(prefix="chronolake-walks-") as folder, ThreadPoolExecutor(1) as pool:
        # The server handles signals, so the main thread is the server's.
        walks = pool.submit(_walks, url, folder, Tracer())
        walks.add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGTERM))
        serving.run(settings)
        return walks.result()


def _walks(url: str, folder: str, tracer: Tracer) -> dict[str, Walk]:
    """Do each action twice, and keep the second walks."""
    walks: dict[str, Walk] = {}
    client = chronolake.connect(url, retry_seconds=60.0)
    client.create_namespace("walks")
    schema = [chronolake.Field("id", "bigint")]
    table = client.create_table(
        "walks.rows", base_path=f"{folder}/rows", schema=schema, record_key_fields=["id"]
    )
    stream = table.open_stream("job", tasks=1)
    for checkpoint in range(2):
        with tracer.recording() as walks["begin"]:
            write = table.begin(operation=chronolake.Operation.INSERT)
        with tracer.recording() as walks["complete"]:
            write.complete([_stat(0, write.requested_time)])
        with tracer.recording() as walks["checkpoint"]:
            instant = stream.instant(checkpoint, "task", blocking=True)
            stream.report(instant, "task", [_stat(1, instant.requested_time)], last_batch=True)
            stream.complete(checkpoint + 1)
    return walks


def _stat(bucket: int, requested_time: str) -> chronolake.WriteStat:
    file_id = f"{bucket:08d}-0000-0000-0000-000000000000-0"
    return chronolake.WriteStat(
        "", file_id, f"{file_id}_0-0-0_{requested_time}.parquet", size_bytes=1_024, records=1
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def report(walks: dict[str, Walk], *, with_names: bool) -> Iterator[str]:
    """The lines that are printed."""
    for action, walk in walks.items():
        client = sum(path.startswith("client/chronolake/") for path in walk.python)
        server = sum(path.startswith(_SERVER) for path in walk.python)
        shared = len(walk.python) - client - server
        yield (
            f"{action}: {len(walk.python)} Python files (target {FILES_MAX[action]}): "
            f"client {client}, server {server}, shared {shared}; {len(walk.sql)} SQL files"
        )
        if with_names:
            yield from (f"  {path}" for path in sorted(walk.python | walk.sql))
            yield ""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Count the files that requests pass.")
    parser.add_argument("--dsn", help="an empty database; otherwise an embedded one is started")
    parser.add_argument("--files", action="store_true", help="print the names of the files")
    given = parser.parse_args()
    telemetry.configure(LogLineFormat.CONSOLE, LogLevel.WARNING)
    walks = measured(given.dsn) if given.dsn else _measured_embedded()
    print("\n".join(report(walks, with_names=given.files)).rstrip())


def _measured_embedded() -> dict[str, Walk]:
    # PostgreSQL runs as another user where this process is root's, and removes its own files late.
    with tempfile.TemporaryDirectory(prefix="chronolake-walks-", ignore_cleanup_errors=True) as folder:
        postgres = embedded.EmbeddedPostgres(Path(folder))
        postgres.start()
        try:
            return measured(postgres.dsn)
        finally:
            postgres.release()


if __name__ == "__main__":
    main()
