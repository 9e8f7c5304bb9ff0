"""The embedded PostgreSQL restarts when it ends, and ends with the last server, in any way that one ends."""

from __future__ import annotations

import asyncio
import errno
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
import pytest

from chronolake_metastore import embedded
from chronolake_metastore.embedded import EmbeddedPostgres
from chronolake_metastore.errors import ConfigurationError
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import identity
from chronolake_metastore.store.postgres import migrations
from chronolake_metastore.store.postgres.engine import Database
from tests import forked_program
from tests.fix_server import QUIET, free_port
from tests.processes import wait_until
from tests.server import rest
from tests.server.rest import succeeded

SECONDS_MAX = 60.0


class EmbeddingServer:
    """A ``serve`` with an embedded database in ``data_dir``, as a user starts it."""

    def __init__(self, data_dir: Path, *flags: str, ready_status: int = 200) -> None:
        self._ready_status = ready_status
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "chronolake_metastore", "serve", *QUIET),
                *("--data-dir", str(data_dir), "--port", str(port), "--log-level", "error"),
                *flags,
            ]
        )
        wait_until(self.is_ready)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, "the server ended"
        try:
            return httpx.get(f"{self.url}/ready", verify=False).status_code == self._ready_status
        except httpx.TransportError:
            return False

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(SECONDS_MAX)


def test_a_data_folder_whose_files_belong_to_another_is_refused_with_the_command_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres/PG_VERSION").write_text("18\n")
    other = pwd.getpwnam("daemon")
    monkeypatch.setattr(embedded, "_account", lambda: other)

    with pytest.raises(ConfigurationError, match=f"chown -R daemon {tmp_path / 'postgres'}"):
        EmbeddedPostgres(tmp_path).start()


def test_a_postgresql_that_does_not_start_is_told_with_its_last_lines_and_no_older_ones(data_dir: Path) -> None:
    folder = data_dir / "postgres"
    forked_program.run("migrate", "--data-dir", str(data_dir))
    wait_until(lambda: not postgres_of(data_dir))
    with (folder / "log").open("a") as log:
        log.write("an old line\n" * 100)
    folder.chmod(0o755)

    ended = forked_program.run("serve", "--data-dir", str(data_dir), "--port", "0")

    [line] = forked_program.complaint(ended).splitlines()
    assert ended.returncode == 2
    assert "it does not start: " in line
    assert "Permissions should be u=rwx (0700)" in line
    assert "an old line" not in line
    assert "pg_ctl" not in line


def test_a_postgresql_that_has_not_begun_its_log_when_the_wheel_reads_it_is_waited_for(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = embedded._wheel()

    def started(folder: Path, **how: Any) -> None:
        wheel.get_server(folder, **how)
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(folder / "log"))

    fake = SimpleNamespace(get_server=started, utils=wheel.utils)
    monkeypatch.setattr(embedded, "_wheel", lambda: fake)
    embedding = EmbeddedPostgres(data_dir)
    embedding.start()
    try:
        assert embedding.is_running()
    finally:
        embedding.release()


def postgres_of(data_dir: Path) -> list[psutil.Process]:
    """The live PostgreSQL processes that work in a data folder."""
    folder = str(data_dir / "postgres")
    return [
        process
        for process in psutil.process_iter(["name", "cwd", "status"])
        if process.info["name"] == "postgres"
        and process.info["cwd"] == folder
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def watchers_of(data_dir: Path) -> list[psutil.Process]:
    """The live processes that wait for the last user of a data folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if (process.info["cmdline"] or [])[1:] == ["-m", "chronolake_metastore.embedded", str(data_dir)]
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    # As in fix_postgres: pytest's own folder is closed to the user that PostgreSQL runs as.
    folder = Path(tempfile.mkdtemp(prefix="chronolake-embedded-")).resolve()
    yield folder
    wait_until(lambda: not watchers_of(folder))
    shutil.rmtree(folder)


@pytest.fixture
def serve(data_dir: Path) -> Iterator[Callable[[], EmbeddingServer]]:
    started: list[EmbeddingServer] = []

    def start() -> EmbeddingServer:
        started.append(EmbeddingServer(data_dir))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.end(signal.SIGTERM)


def test_an_embedded_postgresql_that_is_killed_is_started_again_and_has_lost_nothing(
    data_dir: Path, serve: Callable[[], EmbeddingServer]
) -> None:
    server = serve()
    with rest.connect(server.url) as http:
        table = rest.make_table(http, base_path=str(data_dir / "tables" / "orders"))
        begun = table.begun()
        postmaster = int((data_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0])

        os.kill(postmaster, signal.SIGKILL)
        after = succeeded(table.begin())

        assert after["requested_time"] > begun
        assert succeeded(http.get(f"/v1/tables/{table.name}/instants/{begun}"))["state"] == "inflight"


def test_after_a_kill_of_the_last_server_no_postgresql_is_left(
    data_dir: Path, serve: Callable[[], EmbeddingServer]
) -> None:
    killed, stopped = serve(), serve()
    killed.end(signal.SIGKILL)
    assert stopped.is_ready()

    stopped.end(signal.SIGTERM)
    left_by_the_stopped = postgres_of(data_dir)
    last = serve()
    last.end(signal.SIGKILL)

    assert left_by_the_stopped == []
    wait_until(lambda: not postgres_of(data_dir))
    assert serve().is_ready()


def test_a_watcher_that_is_killed_is_replaced(data_dir: Path, serve: Callable[[], EmbeddingServer]) -> None:
    server = serve()
    [first] = watchers_of(data_dir)
    first.kill()
    wait_until(lambda: watchers_of(data_dir) not in ([], [first]))

    server.end(signal.SIGKILL)

    wait_until(lambda: not postgres_of(data_dir))


def test_a_copied_folder_does_not_hold_the_identity_and_its_original_does(data_dir: Path) -> None:
    original, copy = EmbeddedPostgres(data_dir / "original"), EmbeddedPostgres(data_dir / "copy")
    original.start()
    migrations.upgrade(original.dsn)
    original.release()
    subprocess.run(["cp", "-a", data_dir / "original", data_dir / "copy"], check=True)
    original.start()
    # As in a copy of a folder whose PostgreSQL runs.
    for file in (data_dir / "original" / "postgres").glob("*PGSQL.*.lock"):
        shutil.copy2(file, data_dir / "copy" / "postgres")
    shutil.copy2(data_dir / "original" / "postgres" / "postmaster.pid", data_dir / "copy" / "postgres")
    assert not copy.is_running()
    copy.start()

    try:
        assert original.is_running()
        assert asyncio.run(is_of_this_database(original.dsn))
        assert not asyncio.run(is_of_this_database(copy.dsn))
    finally:
        original.release()
        copy.release()
        wait_until(lambda: not watchers_of(data_dir / "original") + watchers_of(data_dir / "copy"))


async def is_of_this_database(dsn: str) -> bool:
    database = Database(Settings(dsn=dsn))
    try:
        async with database.reading() as connection:
            return (await identity.get(connection)).is_of_this_database
    finally:
        await database.close()


def test_a_file_that_names_another_process_does_not_keep_postgresql_from_starting(data_dir: Path) -> None:
    first = EmbeddedPostgres(data_dir)
    first.start()
    left = (data_dir / "postgres" / "postmaster.pid").read_text().splitlines()
    first.release()
    # As after a reboot, when a process of another program has the number.
    (data_dir / "postgres" / "postmaster.pid").write_text("\n".join([str(os.getpid()), *left[1:]]) + "\n")

    second = EmbeddedPostgres(data_dir)
    second.start()

    assert second.is_running()
    second.release()
    assert not second.is_running()
