"""Runs of the archive that a drop has proved are trusted by the next one, which reads back what leaves."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from psycopg import conninfo

from chronolake_metastore import errors
from chronolake_metastore.archive import leaving, rows, thinning
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.archive.thinning import ThinningPlan
from chronolake_metastore.domain import archives, eras, publication
from chronolake_metastore.domain.archives import ArchivedFile, ChainSpan, ListedRun
from chronolake_metastore.domain.eras import EraPart
from chronolake_metastore.domain.leaving_rows import LeavingRows
from chronolake_metastore.domain.needed_instants import InstantBorder
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.times import Micros
from chronolake_storage.files import Files
from tests.fix_postgres import clone_of
from tests.forked_program import run
from tests.store import archiving, thinned
from tests.store.archive_reads import reader_of
from tests.store.archiving import change_rows, forge_run, local
from tests.store.history import History
from tests.store.test_eras import answers
from tests.store.test_leaving_instants import TABLE, cleaned_table, rebuild
from tests.store.thinned import query

VERSIONS = "SELECT table_id, version FROM event"
RECORDS = "SELECT version FROM event WHERE type = 'EraArchived'"
UNFIT = "does not prove what it has"


class Proved(msgspec.Struct, frozen=True):
    """A database whose first era a drop has proved, the time at its end, its archive of one run, and a copy."""

    name: str
    now_us: int
    folder: Path
    copy: Path


@pytest.fixture(scope="module")
def proved(postgres: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proved]:
    """Answers have left. Events and instants may leave."""
    place = tmp_path_factory.mktemp("proved")
    with clone_of(postgres, template) as dsn:
        with cleaned_table(dsn) as history:
            thinned.begin_era(dsn)
            archiving.write(dsn, local(place / "archive"))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(eras, "may_thin", lambda *_: [])
                assert archiving.drop_once(dsn, local(place / "archive")).eras == [1]
            shutil.copytree(place / "archive", place / "copy")
        name = str(conninfo.conninfo_to_dict(dsn)["dbname"])
        yield Proved(name, history.now_us, place / "archive", place / "copy")


@pytest.fixture
def dsn(postgres: str, proved: Proved) -> Iterator[str]:
    with clone_of(postgres, proved.name) as dsn:
        yield dsn


@pytest.fixture
def history(dsn: str, proved: Proved) -> Iterator[History]:
    with History(dsn, keys="later") as history:
        history.now_us = proved.now_us
        history.pass_seconds(1)
        yield history


@pytest.fixture
def archive(proved: Proved) -> Path:
    """The archive, at the location that is recorded."""
    shutil.rmtree(proved.folder)
    shutil.copytree(proved.copy, proved.folder)
    return proved.folder


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The files that are read as a whole, by run and table."""
    found: list[tuple[str, str]] = []
    read = ArchiveStorage.content

    def content(storage: ArchiveStorage, listed: ListedRun, file: ArchivedFile) -> bytes:
        found.append((listed.name, file.table))
        return read(storage, listed, file)

    monkeypatch.setattr(ArchiveStorage, "content", content)
    return found


def runs(archive: Path) -> list[ListedRun]:
    return list(ArchiveStorage(local(archive)).manifest().runs)


def recorded(dsn: str) -> list[str]:
    return list(query(dsn, "SELECT runs FROM archived_era ORDER BY era DESC LIMIT 1")[0][0])


class ReadFiles:
    """The names of files that are read as a whole."""

    def __init__(self, files: Files) -> None:
        self._storage = ArchiveStorage(files)
        self._read = ArchiveStorage.content
        self.names: set[str] = set()

    def content(self, listed: ListedRun, file: ArchivedFile) -> bytes:
        self.names.add(file.name)
        return self._read(self._storage, listed, file)


async def no_instants(_: Database) -> list[InstantBorder]:
    return []


def test_a_drop_reads_new_runs_and_of_others_the_files_whose_rows_leave(
    dsn: str, history: History, archive: Path, reads: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eras, "may_thin", lambda *_: [])
    [old] = runs(archive)
    assert recorded(dsn) == [old.sha256]
    history.write(TABLE, 1)
    thinned.begin_era(dsn)
    archiving.write(dsn, local(archive))
    reads.clear()

    assert archiving.drop_once(dsn, local(archive)).eras == [2]

    [_, new] = runs(archive)
    # The last answer of a chain leaves with the next ones.
    assert {table for run, table in reads if run == old.name} <= {"outcome", "outcome_key", "refusal"}
    assert {table for run, table in reads if run == new.name} >= {"event", "write_stat", "outcome", "instant"}
    assert recorded(dsn) == [old.sha256, new.sha256]


def test_a_drop_of_the_whole_archive_reads_all_runs(
    dsn: str, history: History, archive: Path, reads: list[tuple[str, str]]
) -> None:
    archiving.drop_once(dsn, local(archive), whole=True)
    assert {table for _, table in reads} >= {"event", "event_order", "outcome_key", "instant"}


@pytest.mark.parametrize(
    "table",
    ["event", "event_order", "event_entry", "write_stat", "deleted_file", "outcome", "instant", "run"],
)
def test_nothing_leaves_that_is_damaged_in_a_trusted_run(dsn: str, archive: Path, table: str) -> None:
    suffix = "json" if table == "run" else "parquet"
    archiving.flip(next(archive.glob(f"runs/*/{table}.{suffix}")))
    before = query(dsn, "SELECT count(*) FROM instant"), thinned.log(dsn)

    with pytest.raises(errors.ConfigurationError, match=f"{table}.*run archive verify"):
        archiving.drop_once(dsn, local(archive))

    after = query(dsn, "SELECT count(*) FROM instant"), thinned.log(dsn)
    # Events leave before their instants.
    assert (after == before) or (table == "instant" and after[0] == before[0])


def test_events_and_instants_leave_for_a_trusted_run_that_is_whole(dsn: str, archive: Path) -> None:
    dropped = archiving.drop_once(dsn, local(archive))
    assert dropped.events > 0
    assert dropped.instants > 0


@pytest.mark.parametrize("table", ["event", "outcome"])
def test_no_instant_leaves_whose_events_are_damaged_in_a_trusted_run(
    dsn: str, archive: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(leaving, "plan", no_instants)
        assert archiving.drop_once(dsn, local(archive)).events > 0
    archiving.flip(next(archive.glob(f"runs/*/{table}.parquet")))
    before = query(dsn, "SELECT count(*) FROM instant")

    with pytest.raises(errors.ConfigurationError, match=rf"{table}\.parquet.*these rows stay in PostgreSQL"):
        archiving.drop_once(dsn, local(archive))

    assert query(dsn, "SELECT count(*) FROM instant") == before


@pytest.mark.slow
def test_events_and_instants_that_left_are_read_without_files_that_were_not_read_back(
    postgres: str, template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In small files, hashes begin before the files of the rows that leave."""
    for module, name, size in (
        (archives, "CHECKPOINT_EVERY", 10),
        (rows, "BATCH_ROWS", 3),
        (rows, "FILE_BYTES_MAX", 1),
    ):
        monkeypatch.setattr(module, name, size)
    files = local(tmp_path / "archive")
    instants = "SELECT micros(requested_time) FROM instant"
    with clone_of(postgres, template) as dsn, cleaned_table(dsn):
        thinned.begin_era(dsn)
        archiving.write(dsn, files)
        with monkeypatch.context() as patch:
            patch.setattr(eras, "may_thin", lambda *_: [])
            assert archiving.drop_once(dsn, files).eras == [1]
        before, had = query(dsn, VERSIONS), query(dsn, instants)
        read = ReadFiles(files)
        with monkeypatch.context() as patch:
            patch.setattr(ArchiveStorage, "content", read.content)
            archiving.drop_once(dsn, files)
        left, gone = {*before} - {*query(dsn, VERSIONS)}, {*had} - {*query(dsn, instants)}
    [listed] = runs(tmp_path / "archive")
    described = ArchiveStorage(files).run(listed).files
    folder = tmp_path / "archive" / "runs" / listed.name
    unread = [file for file in described if file.name not in read.names]
    [table_id] = {table_id for table_id, _ in left}

    # A read of instants opens all files of events.
    for file in (file for file in unread if file.table != "event"):
        (folder / file.name).unlink()
    found = reader_of(files).instants(table_id, [Micros(time) for (time,) in gone])
    assert (bool(found), None in found) == (True, False)

    for file in (file for file in unread if file.table == "event"):
        (folder / file.name).unlink()
    for _, version in left:
        # A reader of its own knows no hash from the event before.
        page = reader_of(files).events_of_table(table_id, version - 1, version, 1, 1 << 20)
        assert [archived.event.version for archived in page.events] == [version]
    assert {"event", "outcome"} <= {file.table for file in unread}


def test_an_event_that_a_newer_one_may_release_is_read_before_it_leaves(
    dsn: str, history: History, archive: Path
) -> None:
    """The archive is there, since the command looks for its key in it."""
    history.done(publication.RecordHudiFiles(TABLE, ["x"], 1))
    [[table_id, version]] = query(dsn, "SELECT table_id, version FROM event WHERE type = 'HudiFilesFound'")
    planned = ThinningPlan([[EraPart(1, 9, Micros(0), 0, has_left=False)]], {}, {table_id: version + 1}, 0)

    async def run() -> LeavingRows:
        database = Database(Settings(dsn=dsn, role="none"))
        try:
            return await thinning.rows(database, planned)
        finally:
            await database.close()

    assert asyncio.run(run()).events.within([ChainSpan(table_id, version, version, "", "")]) != []


@pytest.mark.parametrize("table", ["outcome", "outcome_key"])
def test_no_answer_leaves_that_is_damaged_in_a_trusted_run(
    dsn: str, history: History, archive: Path, table: str
) -> None:
    history.write(TABLE, 1)
    thinned.begin_era(dsn)
    archiving.write(dsn, local(archive))
    archiving.flip(archive / "runs" / runs(archive)[0].name / f"{table}.parquet")
    before = answers(dsn)

    with pytest.raises(errors.ConfigurationError, match=rf"{table}\.parquet.*these rows stay in PostgreSQL"):
        archiving.drop_once(dsn, local(archive))

    assert answers(dsn) == before


def _forge_rows(run: Path, _: dict[str, Any]) -> None:
    def replace(found: list[Any]) -> None:
        found[0] = (*found[0][:7], "mallory", *found[0][8:])

    change_rows(run / "event.parquet", "event", replace)


def _forge_end(_: Path, description: dict[str, Any]) -> None:
    description["outcomes"][-1]["hash"] = "00" * 32


@pytest.mark.parametrize("forge", [_forge_rows, _forge_end])
def test_a_replaced_run_whose_digests_fit_is_proved_by_its_rows(
    dsn: str, archive: Path, forge: Callable[[Path, dict[str, Any]], None]
) -> None:
    forge_run(archive, 0, forge)
    before = thinned.log(dsn)
    with pytest.raises(errors.ConfigurationError, match=UNFIT):
        archiving.drop_once(dsn, local(archive))
    assert thinned.log(dsn) == before


def test_a_run_that_was_merged_from_proved_and_new_ones_is_proved_by_its_rows(
    dsn: str, history: History, archive: Path, reads: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MERGED_AT_ONCE", 2)
    history.write(TABLE, 1)
    thinned.begin_era(dsn)
    assert archiving.write(dsn, local(archive)).merges == 1
    reads.clear()

    assert archiving.drop_once(dsn, local(archive)).eras == [2]

    [merged] = runs(archive)
    assert (merged.name, "event_order") in reads
    assert recorded(dsn) == [merged.sha256]


def test_a_proof_for_events_and_instants_is_recorded_once(
    dsn: str, history: History, archive: Path, reads: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eras, "to_drop", lambda *_: [])
    with monkeypatch.context() as patch:
        patch.setattr(leaving, "plan", no_instants)
        assert archiving.drop_once(dsn, local(archive)).events > 0
    assert len(query(dsn, RECORDS)) == 1
    history.write(TABLE, 1)
    archiving.write(dsn, local(archive))

    assert archiving.drop_once(dsn, local(archive)).instants > 0

    # Without answers that leave, only a proof reads this index.
    assert "outcome_key" in {table for _, table in reads}
    assert recorded(dsn) == [run.sha256 for run in runs(archive)]
    assert len(query(dsn, RECORDS)) == 2
    rebuild(dsn, local(archive), with_instants=True)
    reads.clear()
    assert archiving.drop_once(dsn, local(archive)).instants > 0
    assert "outcome_key" not in {table for _, table in reads}
    assert len(query(dsn, RECORDS)) == 2


def test_an_era_that_waits_for_the_archive_needs_no_proof(
    dsn: str, history: History, archive: Path, reads: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eras, "may_thin", lambda *_: [])
    history.write(TABLE, 1)
    archiving.write(dsn, local(archive))
    query(dsn, "SELECT pg_current_xact_id()")
    thinned.begin_era(dsn)
    reads.clear()
    assert 2 in archiving.drop_once(dsn, local(archive)).waiting
    assert reads == []


def test_a_copy_at_another_location_is_proved_by_its_rows(dsn: str, archive: Path, tmp_path: Path) -> None:
    shutil.copytree(archive, tmp_path / "copy")
    archiving.flip(next(tmp_path.glob("copy/runs/*/event_order.parquet")))
    with pytest.raises(errors.ConfigurationError, match=UNFIT):
        archiving.drop_once(dsn, local(tmp_path / "copy"))


def test_damage_beside_what_leaves_is_found_by_a_proof_of_the_whole(dsn: str, archive: Path) -> None:
    # No answer leaves.
    archiving.flip(next(archive.glob("runs/*/outcome_key.parquet")))
    assert archiving.drop_once(dsn, local(archive)).events > 0
    arguments = ["--dsn", dsn, "--archive", str(archive), "--whole"]
    refused = run("archive", "drop", *arguments)
    assert (refused.returncode, UNFIT in refused.stderr) == (2, True)
