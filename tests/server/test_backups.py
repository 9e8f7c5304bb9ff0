"""A backup of a running database is restored, as root and as a user, and the copy waits for its claims."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import chronolake
from chronolake_metastore import backups
from tests import forked_program
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.published import PublishedTable, row
from tests.server.test_embedded import EmbeddingServer, postgres_of

SECONDS_MAX = 60.0
ACTS = ("--publisher-seconds", "0.05", "--deleter-seconds", "0.05")


@pytest.fixture(autouse=True)
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables may be in any folder, for every program of a test."""
    monkeypatch.setenv("CHRONOLAKE_LOCATIONS", "/")


@pytest.fixture
def original(tmp_path: Path) -> Iterator[EmbeddingServer]:
    """A server with an embedded database, which publishes."""
    server = EmbeddingServer(tmp_path / "original", "--publisher-seconds", "0.05")
    yield server
    server.process.terminate()
    server.process.wait(SECONDS_MAX)


def succeeds(*arguments: str) -> str:
    done = forked_program.run(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_restored_backup_of_a_running_embedded_database_only_reads_until_it_is_claimed(
    original: EmbeddingServer, tmp_path: Path
) -> None:
    backup, restored = str(tmp_path / "backup"), tmp_path / "restored"
    with chronolake.connect(original.url) as client:
        table = PublishedTable(client, tmp_path / "lake")
        table.write(row(1))
        table.published()
        succeeds("backup", backup, "--data-dir", str(tmp_path / "original"))
        succeeds("restore", backup, "--data-dir", str(restored))
        assert_owned_by_its_account(restored)

        # Beside the running original, which goes on.
        copy = EmbeddingServer(restored, "--publisher-seconds", "0.05", ready_status=409)
        table.write(row(2), bucket=1)
        table.published()
        assert table.hudi_rows() == table.rows()
        copy.process.terminate()
        copy.process.wait(SECONDS_MAX)

        assert succeeds("verify", "--data-dir", str(restored))
        original.process.terminate()
        original.process.wait(SECONDS_MAX)
    succeeds("claim", "--data-dir", str(restored))
    continued = EmbeddingServer(restored, "--publisher-seconds", "0.05")
    try:
        with chronolake.connect(continued.url) as client:
            assert client.table(table.table.name).begin(writer="w").requested_time
    finally:
        continued.process.terminate()
        continued.process.wait(SECONDS_MAX)


def assert_owned_by_its_account(data_dir: Path) -> None:
    """Every file belongs to the account that runs PostgreSQL, which is another one for root."""
    account = pwd.getpwnam("pgserver").pw_uid if os.geteuid() == 0 else os.geteuid()
    assert {path.lstat().st_uid for path in (data_dir / "postgres").rglob("*")} == {account}


def test_a_copied_data_folder_of_a_running_database_only_reads(
    original: EmbeddingServer, tmp_path: Path
) -> None:
    with chronolake.connect(original.url) as client:
        client.create_namespace("shop")
    shutil.copytree(
        tmp_path / "original/postgres",
        tmp_path / "copy/postgres",
        ignore=lambda _, names: [name for name in names if name.startswith(".s.PGSQL")],
        copy_function=copy_with_owner,
    )
    copy_owner(tmp_path / "original/postgres", tmp_path / "copy/postgres")

    copy = EmbeddingServer(tmp_path / "copy", ready_status=409)

    answer = httpx.post(f"{copy.url}/v1/namespaces", json={"name": "another"})
    assert answer.json()["code"] == "metastore-moved"
    assert httpx.get(f"{copy.url}/v1/namespaces/shop").status_code == 200
    copy.process.terminate()
    copy.process.wait(SECONDS_MAX)


class Servers:
    """Servers with an embedded database, one after another: a start ends the one before."""

    def __init__(self) -> None:
        self._running: EmbeddingServer | None = None
        self._data_dir = Path()

    def __call__(self, data_dir: Path, *flags: str, ready_status: int = 200) -> EmbeddingServer:
        self.end()
        self._data_dir = data_dir
        self._running = EmbeddingServer(data_dir, *ACTS, *flags, ready_status=ready_status)
        return self._running

    def end(self) -> None:
        if self._running is not None:
            self._running.end(signal.SIGTERM)
            wait_until(lambda: not postgres_of(self._data_dir))
            self._running = None


@pytest.fixture
def start() -> Iterator[Servers]:
    servers = Servers()
    yield servers
    servers.end()


def test_a_data_folder_that_is_restored_in_place_only_reads_until_it_is_claimed(
    start: Servers, tmp_path: Path
) -> None:
    folder, backup = tmp_path / "data", tmp_path / "backup"
    with chronolake.connect(start(folder).url) as client:
        table = PublishedTable(client, tmp_path / "lake", properties={"deletions.executor": "server"})
        write = table.table.begin(writer="w", lease_seconds=1)
        [file] = table.files(write.requested_time, [row(1)])
        write.mark(*table.markers([file]))
    start.end()
    copy_in_place(folder, backup)
    with chronolake.connect(start(folder).url) as client:
        table.table = client.table(table.table.name)
        again = table.table.write(write.requested_time)
        again.add(file)
        again.complete()
        table.published()
        path = table.folder / file.partition_path / file.file_name
    start.end()
    copy_in_place(backup, folder)

    # The lease has expired, and this state does not know that the file is published.
    restored = start(folder, "--reaper-seconds", "0.05", ready_status=409)

    answer = httpx.post(f"{restored.url}/v1/namespaces", json={"name": "another"})
    assert (answer.json()["code"], "its database is an earlier state" in answer.text) == (
        "metastore-moved",
        True,
    )
    assert path.exists()

    start.end()
    succeeds("claim", "--data-dir", str(folder))
    start(folder)


def copy_in_place(source: Path, target: Path) -> None:
    """As ``cp -a SOURCE/. TARGET/``: files that exist keep their inodes."""
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)


def copy_with_owner(source: str, target: str) -> None:
    """As ``cp -a``; a file that PostgreSQL removes meanwhile is left out."""
    try:
        shutil.copy2(source, target)
    except FileNotFoundError:
        return


def copy_owner(source: Path, target: Path) -> None:
    state = source.stat()
    for path in (target, *target.rglob("*")):
        os.chown(path, state.st_uid, state.st_gid, follow_symlinks=False)


def test_a_dump_is_restored_into_another_database_which_waits_for_its_claims(
    server: ServerProcess, dsn: str, empty_database: str, tmp_path: Path
) -> None:
    httpx.post(f"{server.url}/v1/namespaces", json={"name": "shop"}).raise_for_status()
    succeeds("backup", str(tmp_path / "backup"), "--dsn", dsn)
    assert (tmp_path / "backup" / backups.DUMP).exists()

    printed = succeeds("restore", str(tmp_path / "backup"), "--dsn", empty_database)

    assert "chronolake-metastore claim" in printed
    assert succeeds("verify", "--dsn", empty_database)
    copy = ServerProcess(empty_database, tmp_path / "copy.log")
    try:
        copy.start(ready_status=409)
    finally:
        copy.stop()


def test_a_dump_is_not_restored_into_a_database_that_has_the_schema(
    server: ServerProcess, dsn: str, tmp_path: Path
) -> None:
    succeeds("backup", str(tmp_path / "backup"), "--dsn", dsn)

    done = forked_program.run("restore", str(tmp_path / "backup"), "--dsn", dsn)

    [line] = forked_program.complaint(done).splitlines()
    assert done.returncode == 2
    assert "has a schema chronolake already: name a database without one" in line


def test_a_dump_that_is_restored_into_its_own_database_waits_for_its_claims_too(
    server: ServerProcess, dsn: str, tmp_path: Path
) -> None:
    httpx.post(f"{server.url}/v1/namespaces", json={"name": "shop"}).raise_for_status()
    succeeds("backup", str(tmp_path / "backup"), "--dsn", dsn)
    httpx.post(f"{server.url}/v1/namespaces", json={"name": "later"}).raise_for_status()
    server.stop()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA chronolake CASCADE")

    succeeds("restore", str(tmp_path / "backup"), "--dsn", dsn)

    restored = ServerProcess(dsn, tmp_path / "restored.log")
    try:
        restored.start(ready_status=409)
        answer = httpx.post(f"{restored.url}/v1/namespaces", json={"name": "another"})
        assert answer.json()["code"] == "metastore-moved"
        succeeds("claim", "--dsn", dsn)
        wait_until(lambda: httpx.get(f"{restored.url}/ready", verify=False).status_code == 200)
    finally:
        restored.stop()


def test_a_backup_that_is_not_whole_is_not_restored(original: EmbeddingServer, tmp_path: Path) -> None:
    succeeds("backup", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "original"))
    files = sorted((tmp_path / "backup" / "postgres" / "base").rglob("[0-9]*"))
    files[-1].unlink()

    failed = forked_program.run("restore", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "restored"))

    assert "is not whole" in forked_program.complaint(failed)
    assert not (tmp_path / "restored" / "postgres").exists()


def make_backup_of_no_files(folder: Path) -> None:
    """The folder of a backup that can be restored, and not be started."""
    folder.mkdir(parents=True)
    (folder / "PG_VERSION").touch()
    (folder / "backup_manifest").write_text('{"Files": []}')


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_folder_that_cannot_be_used_is_one_line(dsn: str, tmp_path: Path, command: str) -> None:
    (tmp_path / "file").touch()

    ended = forked_program.run(command, str(tmp_path / "file/b"), "--dsn", dsn)

    [line] = forked_program.complaint(ended).splitlines()
    assert ended.returncode == 2
    assert f"{tmp_path / 'file'}" in line


def test_a_data_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    make_backup_of_no_files(tmp_path / "backup/postgres")
    (tmp_path / "file").touch()

    ended = forked_program.run("restore", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "file/data"))

    [line] = forked_program.complaint(ended).splitlines()
    assert (ended.returncode, "file/data" in line) == (2, True)


def test_a_backup_and_a_restore_name_their_database(dsn: str, empty_database: str, tmp_path: Path) -> None:
    backup = str(tmp_path / "backup")

    written = succeeds("backup", backup, "--dsn", dsn)
    restored = succeeds("restore", backup, "--dsn", empty_database)

    assert f"dbname={conninfo_to_dict(dsn)['dbname']} written to {backup}" in written
    assert f"dbname={conninfo_to_dict(empty_database)['dbname']}\n" in restored


def test_a_restore_names_its_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_backup_of_no_files(tmp_path / "backup/postgres")
    monkeypatch.setenv("HOME", str(tmp_path))

    printed = succeeds("restore", str(tmp_path / "backup"))

    assert f"the embedded database in {tmp_path / '.local/share/chronolake'}" in printed


@pytest.mark.parametrize(
    "command",
    [
        ("serve",),
        ("migrate",),
        ("verify",),
        ("heads", "--to", "heads"),
        ("rebuild",),
        ("claim",),
        ("backup", "b"),
        ("restore", "b"),
    ],
)
def test_a_data_folder_beside_a_dsn_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)

    ended = forked_program.run(*command, "--dsn", "host=127.0.0.1 port=9", "--data-dir", str(tmp_path / "data"))

    [line] = forked_program.complaint(ended).splitlines()
    assert (ended.returncode, "name two databases" in line) == (2, True)


def test_a_backup_never_overwrites(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    failed = forked_program.run("backup", str(tmp_path), "--dsn", dsn)
    assert "is not empty" in forked_program.complaint(failed)
