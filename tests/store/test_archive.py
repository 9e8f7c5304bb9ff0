"""The archive of the log: complete, verified from storage alone, whole after a kill, one log per archive."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from chronolake_metastore import errors
from chronolake_metastore.archive import rows
from chronolake_metastore.archive.log_rows import RowsOfArchive
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.domain.archives import ListedRun
from chronolake_metastore.domain.proof import Check
from chronolake_storage import opening
from chronolake_storage.files import Content, Files
from tests.fix_s3 import S3
from tests.forked_program import run
from tests.store import archiving, tampering
from tests.store.archiving import local

PLAN_EVENTS = 3
"""The events of ``tampering.plan``."""


def grow(dsn: str) -> None:
    """Refuse a command, which adds an outcome and a refusal to the log."""
    tampering.refuse(dsn, "shop.orders")


@pytest.fixture
def restore(postgres: str) -> Iterator[Callable[[str], str]]:
    """Makes a copy of a database, with the identity of its original, as a restored backup has it."""
    made: list[str] = []

    def copy(dsn: str) -> str:
        original = conninfo_to_dict(dsn)["dbname"]
        made.append(f"{original}_restored")
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{made[-1]}" TEMPLATE "{original}" STRATEGY wal_log'.encode())
        return make_conninfo(postgres, dbname=made[-1])

    yield copy
    with psycopg.connect(postgres, autocommit=True) as connection:
        for name in made:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def counts(dsn: str) -> dict[str, int]:
    with psycopg.connect(dsn) as connection:
        return {
            table: connection.execute(f"SELECT count(*) FROM chronolake.{table}".encode()).fetchall()[0][0]
            for table in tampering.LOG
        }


def test_an_archive_has_every_row_of_the_log(log_dsn: str, tmp_path: Path) -> None:
    tampering.plan(log_dsn)
    files = local(tmp_path)

    archiving.write(log_dsn, files)

    found = archiving.content(files)
    assert {table: len(of_table) for table, of_table in found.items()} == counts(log_dsn)
    assert all(found.values())
    assert archiving.verify(files, log_dsn).findings == []


def test_an_archive_in_pieces_has_the_rows_of_one_written_at_once(
    log_dsn: str, pieces: Path, tmp_path: Path
) -> None:
    at_once = local(tmp_path / "at once")
    archiving.write(log_dsn, at_once)

    levels = [entry["level"] for entry in json.loads((pieces / "manifest.json").read_bytes())["runs"]]

    assert archiving.content(local(pieces)) == archiving.content(at_once)
    assert set(levels) == {0, 1}
    assert archiving.verify(local(pieces), log_dsn).findings == []


@pytest.mark.parametrize(("batch_rows", "batch_bytes"), [(3, 1 << 20), (1_000, 1)])
def test_large_tables_have_several_files(
    log_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_rows: int, batch_bytes: int
) -> None:
    archiving.write(log_dsn, local(tmp_path / "whole"))
    monkeypatch.setattr(rows, "BATCH_ROWS", batch_rows)
    monkeypatch.setattr(rows, "BATCH_BYTES", batch_bytes)
    monkeypatch.setattr(rows, "FILE_BYTES_MAX", 1)

    archiving.write(log_dsn, local(tmp_path / "split"))

    assert len(list(tmp_path.glob("split/runs/*/event-*.parquet"))) > 3
    assert archiving.content(local(tmp_path / "split")) == archiving.content(local(tmp_path / "whole"))
    assert archiving.verify(local(tmp_path / "split"), log_dsn).findings == []


def test_a_second_run_has_only_what_is_new(log_dsn: str, tmp_path: Path) -> None:
    files = local(tmp_path)
    archiving.write(log_dsn, files)

    nothing = archiving.write(log_dsn, files)
    grow(log_dsn)
    tampering.plan(log_dsn)
    new = archiving.write(log_dsn, files)

    assert (nothing.runs, new.runs, new.events) == (0, 1, PLAN_EVENTS)
    assert {table: len(found) for table, found in archiving.content(files).items()} == counts(log_dsn)


def test_events_after_an_open_transaction_wait_for_its_end(log_dsn: str, tmp_path: Path) -> None:
    files = local(tmp_path)
    with psycopg.connect(log_dsn) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        tampering.plan(log_dsn)
        before = archiving.write(log_dsn, files)

    after = archiving.write(log_dsn, files)

    assert (before.events + after.events, after.events) == (counts(log_dsn)["event"], PLAN_EVENTS)
    assert archiving.verify(files, log_dsn).findings == []


# ------------------------------------------------------------------------------ refusals


def test_a_damaged_log_is_not_archived(log_dsn: str, tmp_path: Path) -> None:
    tampering.tamper(log_dsn, f"UPDATE event SET actor = 'mallory' {tampering.EVENT} 3")

    with pytest.raises(errors.ConfigurationError, match="does not fit its hashes"):
        archiving.write(log_dsn, local(tmp_path))

    assert not (tmp_path / "manifest.json").exists()


def test_a_removed_event_stops_the_archive(log_dsn: str, tmp_path: Path) -> None:
    tampering.tamper(log_dsn, f"DELETE FROM event {tampering.EVENT} 3")

    with pytest.raises(errors.ConfigurationError, match="lacks events"):
        archiving.write(log_dsn, local(tmp_path))


@pytest.mark.parametrize("location", ["orders", "orders/archive", ""])
def test_a_location_in_or_around_the_folder_of_a_table_is_refused(
    log_dsn: str, tmp_path: Path, location: str
) -> None:
    key = f"file://{tmp_path.resolve()}/orders/"
    tampering.tamper(log_dsn, f"UPDATE base_path SET key = '{key}' WHERE table_id = {tampering.ORDERS}")

    with pytest.raises(errors.ConfigurationError, match="outside of all tables"):
        archiving.write(log_dsn, local(tmp_path / location))

    assert list(tmp_path.rglob("*.json")) == []


# ------------------------------------------------------------------------------ other databases


def test_an_archive_that_is_newer_than_a_restored_database_is_explained(
    restore: Callable[[str], str], log_dsn: str, tmp_path: Path
) -> None:
    restored = restore(log_dsn)
    files = local(tmp_path)
    grow(log_dsn)
    archiving.write(log_dsn, files)

    [finding] = archiving.verify(files, restored).findings

    assert (finding.check, "newer than the database" in finding.found) == (Check.ARCHIVE, True)
    with pytest.raises(errors.ConfigurationError, match="newer than the database"):
        archiving.write(restored, files)


def test_a_restored_database_that_was_written_since_is_explained(
    restore: Callable[[str], str], log_dsn: str, tmp_path: Path
) -> None:
    restored = restore(log_dsn)
    files = local(tmp_path)
    grow(log_dsn)
    archiving.write(log_dsn, files)
    grow(restored)

    with pytest.raises(errors.ConfigurationError, match="restored from a backup and written since"):
        archiving.write(restored, files)


def test_an_archive_of_another_metastore_is_explained(
    log_dsn: str, new_database: Callable[[], str], tmp_path: Path
) -> None:
    other = new_database()
    tampering.make(other)
    archiving.write(log_dsn, local(tmp_path))

    with pytest.raises(errors.ConfigurationError, match="whose identity this database never had"):
        archiving.write(other, local(tmp_path))


def test_a_restored_database_of_the_same_log_goes_on_with_the_archive(
    restore: Callable[[str], str], log_dsn: str, tmp_path: Path
) -> None:
    archiving.write(log_dsn, local(tmp_path))
    restored = restore(log_dsn)
    grow(restored)

    archiving.write(restored, local(tmp_path))

    assert archiving.verify(local(tmp_path), restored).findings == []


# ------------------------------------------------------------------------------ kills and races


class Killed(BaseException):
    """The process was killed."""


class DyingFiles:
    """Files whose user is killed right before one of the calls of their methods."""

    def __init__(self, files: Files, number: int) -> None:
        self._files = files
        self._left = number

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._files, name)
        if not callable(method):
            return method

        def call(*arguments: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                raise Killed
            return method(*arguments)

        return call


def is_killed(dsn: str, archive: Path, number: int) -> bool:
    """Whether an archiver was killed before a call, and did not end before it."""
    try:
        archiving.write(dsn, DyingFiles(local(archive), number))
    except Killed:
        return True
    return False


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_kill_at_any_step_leaves_a_valid_archive(log_dsn: str, tmp_path: Path, first: int) -> None:
    base, whole = tmp_path / "base", tmp_path / "whole"
    for _ in range(10):
        grow(log_dsn)
        archiving.write(log_dsn, local(base))
    for _ in range(9):
        grow(log_dsn)
        archiving.write(log_dsn, local(base))
    grow(log_dsn)
    shutil.copytree(base, whole)
    assert archiving.write(log_dsn, local(whole)).merges == 1
    expected = archiving.content(local(whole))

    for number in itertools.count(first, 3):
        archive = tmp_path / f"{number}"
        shutil.copytree(base, archive)
        if not is_killed(log_dsn, archive, number):
            break
        assert archiving.verify(local(archive), log_dsn).findings == []
        archiving.write(log_dsn, local(archive))
        assert archiving.content(local(archive)) == expected
        shutil.rmtree(archive)

    assert number > 50


def test_what_was_merged_is_removed_by_the_next_archiver(log_dsn: str, tmp_path: Path) -> None:
    for _ in range(10):
        grow(log_dsn)
        archiving.write(log_dsn, local(tmp_path))
    storage = ArchiveStorage(local(tmp_path))
    before = list(storage.unlisted(storage.manifest()))

    archiving.write(log_dsn, local(tmp_path))

    assert len(before) >= 10
    assert list(storage.unlisted(storage.manifest())) == []
    assert len(list(tmp_path.glob("runs/*"))) == len(storage.manifest().runs)
    assert archiving.verify(local(tmp_path), log_dsn).findings == []


class MeanwhileFiles:
    """Files that run something else before the first description of a run is put."""

    def __init__(self, files: Files, meanwhile: Callable[[], object]) -> None:
        self._files = files
        self._meanwhile: Iterator[Callable[[], object]] = iter([meanwhile])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def put(self, path: str, body: bytes) -> None:
        if path.endswith("run.json"):
            for meanwhile in self._meanwhile:
                thread = threading.Thread(target=meanwhile)
                thread.start()
                thread.join()
        self._files.put(path, body)


class ReadTwiceFiles:
    """Files that run something else before a file with this name is read for the second time."""

    def __init__(self, files: Files, name: str, meanwhile: Callable[[], object]) -> None:
        self._files = files
        self._name = name
        self._reads = 0
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def read(self, path: str, bytes_max: int = 64 * 1024) -> Content | None:
        self._reads += path.endswith(self._name)
        if self._reads == 2:
            self._reads += 1
            thread = threading.Thread(target=self._meanwhile)
            thread.start()
            thread.join()
        return self._files.read(path, bytes_max)


@pytest.fixture
def merged_meanwhile(log_dsn: str, tmp_path: Path) -> ReadTwiceFiles:
    """An archive of nine runs, which become one when the second of them is read."""

    def grow_and_write() -> None:
        grow(log_dsn)
        archiving.write(log_dsn, local(tmp_path))

    def merge_and_remove() -> None:
        grow_and_write()
        grow_and_write()

    for _ in range(9):
        grow_and_write()
    return ReadTwiceFiles(local(tmp_path), "run.json", merge_and_remove)


def test_runs_that_are_merged_while_they_are_verified_are_no_damage(
    log_dsn: str, merged_meanwhile: Files
) -> None:
    report = archiving.verify(merged_meanwhile, log_dsn)

    assert report.findings == []
    assert report.runs == 2


def test_runs_that_are_merged_while_the_log_is_verified_with_them_are_no_damage(
    merged_meanwhile: Files,
) -> None:
    archived = RowsOfArchive(ArchiveStorage(merged_meanwhile))
    with pytest.raises(errors.ConfigurationError, match="merged while they were read; run this command again"):
        list(archived.events(2**62))
    assert list(archived.events(2**62)) != []


def test_a_run_listed_while_merged_runs_are_removed_stays_listed(log_dsn: str, tmp_path: Path) -> None:
    archiving.write(log_dsn, local(tmp_path))
    archiving.change_manifest(tmp_path, lambda manifest: manifest.update(merged_away=["merged"]))
    storage = ArchiveStorage(local(tmp_path))
    grow(log_dsn)

    def remove_and_list() -> None:
        assert archiving.write(log_dsn, local(tmp_path)).runs == 1
        listed.extend(storage.manifest().runs)

    listed: list[ListedRun] = []
    archiving.write(log_dsn, ReadTwiceFiles(local(tmp_path), "manifest.json", remove_and_list))

    assert len(listed) == 2
    assert list(storage.manifest().runs) == listed


def test_of_two_archivers_at_once_one_lists_the_run(log_dsn: str, tmp_path: Path) -> None:
    def meanwhile() -> None:
        archiving.write(log_dsn, local(tmp_path))
        grow(log_dsn)

    second = archiving.write(log_dsn, MeanwhileFiles(local(tmp_path), meanwhile))

    storage = ArchiveStorage(local(tmp_path))
    assert (second.runs, second.events) == (1, 0)
    assert list(storage.unlisted(storage.manifest())) == []
    assert archiving.verify(local(tmp_path), log_dsn).findings == []
    assert {table: len(found) for table, found in archiving.content(local(tmp_path)).items()} == counts(log_dsn)


class ForgetfulFiles:
    """Files that say of a conditional put that it lost, as after a request that was sent twice."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def create(self, path: str, body: bytes) -> bool:
        self._files.create(path, body)
        return False

    def read(self, path: str, bytes_max: int = 64 * 1024) -> Content | None:
        return self._files.read(path, bytes_max)


def test_a_manifest_whose_answer_was_lost_counts(log_dsn: str, tmp_path: Path) -> None:
    done = archiving.write(log_dsn, ForgetfulFiles(local(tmp_path)))

    assert done.runs == 1
    assert archiving.verify(local(tmp_path), log_dsn).findings == []


# ------------------------------------------------------------------------------ places and commands


def test_an_archive_on_s3_is_as_a_local_one(log_dsn: str, pieces: Path, s3: S3) -> None:
    files = opening.open_files(f"s3://{s3.bucket}/archive", s3.options)

    archiving.write(log_dsn, files, 1)

    assert archiving.content(files) == archiving.content(local(pieces))
    assert archiving.verify(files, log_dsn).findings == []


def test_the_commands_write_verify_and_measure(log_dsn: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "archive")
    written = run("archive", "write", "--dsn", log_dsn, "--archive", folder)
    verified = run("archive", "verify", "--archive", folder)
    compared = run("archive", "verify", "--archive", folder, "--dsn", log_dsn)
    status = run("archive", "status", "--archive", folder, "--json")
    archiving.flip(next(Path(folder).glob("runs/*/event.parquet")))
    damaged = run("archive", "verify", "--archive", folder)

    assert written.stdout.startswith(f"1 new run, {counts(log_dsn)['event']} events")
    assert all("all holds" in ended.stdout for ended in (verified, compared))
    events = counts(log_dsn)["event"]
    assert verified.stderr.splitlines()[-1] == f"verifying the archive: {events} of {events}"
    assert json.loads(status.stdout)["archive"]["events"] == counts(log_dsn)["event"]
    assert (damaged.returncode, "event.parquet" in damaged.stdout) == (1, True)


@pytest.mark.parametrize("command", [["status"], ["verify"], ["verify", "--dsn"], ["drop", "--dsn"]])
def test_a_location_without_an_archive_is_one_error(log_dsn: str, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "orders.parquet").touch()
    dsn = [log_dsn] if "--dsn" in command else []
    ended = run("archive", *command, *dsn, "--archive", str(tmp_path))

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.splitlines()[-1].startswith(
        f"chronolake-metastore: there is no archive at {tmp_path}, because it has no manifest.json"
    )


@pytest.mark.parametrize("command", [["archive", "verify", "--archive"], ["verify", "--archive"]])
def test_the_archive_of_another_metastore_is_one_error(
    log_dsn: str, new_database: Callable[[], str], tmp_path: Path, command: list[str]
) -> None:
    other = new_database()
    tampering.make(other)
    archiving.write(other, local(tmp_path / "other"))

    ended = run(*command, str(tmp_path / "other"), "--dsn", log_dsn)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "whose identity this database never had" in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "command", [["archive", "write"], ["archive", "drop"], ["archive", "verify"], ["verify"]]
)
def test_an_older_copy_of_the_archive_is_one_error(log_dsn: str, tmp_path: Path, command: list[str]) -> None:
    archiving.write(log_dsn, local(tmp_path / "archive"))
    shutil.copytree(tmp_path / "archive", tmp_path / "older")
    grow(log_dsn)
    archiving.write(log_dsn, local(tmp_path / "archive"))
    assert archiving.drop(log_dsn, local(tmp_path / "archive")).eras == [1]

    ended = run(*command, "--archive", str(tmp_path / "older"), "--dsn", log_dsn)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert (
        f"older copy; the log has left for the archive at {tmp_path / 'archive'}"
        in ended.stderr.splitlines()[-1]
    )
