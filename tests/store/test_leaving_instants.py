"""Instants leave PostgreSQL: what the state needs stays, and what is archived cannot be changed any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from chronolake_metastore import errors
from chronolake_metastore.archive import leaving
from chronolake_metastore.archive.log_rows import RowsOfArchive
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.domain import (
    checkpoints,
    cleans,
    deletions,
    instants,
    leases,
    rollbacks,
    savepoints,
    streams,
    sweeps,
    tables,
)
from chronolake_metastore.domain.cleans import Retention
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.needed_instants import InstantsHeldBy
from chronolake_metastore.domain.plans import NewPlan
from chronolake_metastore.domain.policies import Policies
from chronolake_metastore.domain.results import StreamInstantResult, StreamResult
from chronolake_metastore.proof import rebuilding
from chronolake_metastore.queries import deletable
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import (
    archive as stored,
    eras,
    needed_files,
    needed_instants,
    services,
    thinning,
)
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.deletable import Deletable, FindDeletableOrphans
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros, format_time, parse_time
from chronolake_model.vocabulary import Action
from chronolake_storage.files import Files
from tests.store import archiving, shown, tampering, thinned
from tests.store.history import History, file_of
from tests.store.shown import TESTER
from tests.store.test_border import ask
from tests.store.thinned import drop, query

TABLE = "shop.orders"
LEAST = {
    **thinned.LEAST,
    "hudi.publish": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.clustering.async.max.commits": "1",
}
"""Properties of a table that keeps as few instants as it may."""


@pytest.fixture
def archive(tmp_path: Path) -> Files:
    return archiving.local(tmp_path / "archive")


@pytest.fixture
def history(dsn: str) -> Iterator[History]:
    with cleaned_table(dsn) as history:
        yield history


@contextmanager
def cleaned_table(dsn: str) -> Iterator[History]:
    """A table with writes, a rollback and cleans, all long ago but the last writes."""
    with History(dsn) as history:
        history.make_namespace("shop")
        history.make_table(TABLE)
        history.done(tables.AlterTable(TABLE, set=LEAST))
        history.write(TABLE, 2)
        for _ in range(6):
            history.write(TABLE, 0, 1)
            history.pass_seconds(4_000)
        lost = history.begin(TABLE)
        history.roll_back(TABLE, lost)
        clean(history)
        for _ in range(4):
            history.write(TABLE, 0, 1)
            history.pass_seconds(4_000)
            clean(history)
        yield history


def clean(history: History) -> None:
    """Clean, report all files as deleted, and sweep."""
    planned = shown.clean(history.done(cleans.PlanClean(TABLE, Retention(commits=1), "cleaner")))
    assert planned is not None
    time = parse_time(planned.requested_time)
    entries = query(
        history.dsn, f"SELECT name FROM event_entry WHERE instant = moment({time}) AND list = 'plan-files'"
    )
    history.done(deletions.ReportDeletions(TABLE, time, [DeletedFile("", name) for (name,) in entries]))
    history.done(instants.CompleteInstant(TABLE, time))
    history.pass_seconds(4_000)
    for unswept, since in query(
        history.dsn,
        "SELECT micros(requested_time), micros(unswept_since) FROM instant WHERE unswept_since IS NOT NULL",
    ):
        history.done(sweeps.RecordSweep(TABLE, unswept, since))


def test_instants_leave_and_all_else_is_proved(dsn: str, history: History, archive: Files) -> None:
    before = rows_of(dsn)
    assert let_leave(dsn, archive) > 5
    after, first = rows_of(dsn), border(dsn)
    assert first is not None
    assert after.items() <= before.items()
    assert {time for time in before if time >= first} <= after.keys()
    assert tampering.verify(dsn, archive=archive).findings == []

    rebuild(dsn, archive)
    assert rows_of(dsn) == after
    rebuild(dsn, archive, with_instants=True)
    assert rows_of(dsn) == before
    assert border(dsn) is None
    assert tampering.verify(dsn, archive=archive).findings == []


def test_an_instant_that_has_left_takes_no_command(dsn: str, history: History, archive: Files) -> None:
    times = sorted(rows_of(dsn))
    let_leave(dsn, archive)
    first = times[0]
    assert first not in rows_of(dsn)
    commands: list[Command] = [
        instants.CompleteInstant(TABLE, first, []),
        rollbacks.RollbackInstant(TABLE, first, "ann", "late"),
        savepoints.CreateSavepoint(TABLE, first, "ann"),
        savepoints.ReleaseSavepoint(TABLE, first, "ann"),
        leases.RenewLease(TABLE, first),
        sweeps.RecordSweep(TABLE, first, Micros(0)),
    ]
    for command in commands:
        refusal = history.refused(command)
        assert isinstance(refusal, errors.IllegalTransition), command
        assert refusal.context["state"] == "archived"
    history.done(savepoints.CreateSavepoint(TABLE, None, "ann"))


def test_a_file_of_a_failed_write_may_be_deleted_when_its_instant_has_left(
    dsn: str, history: History, archive: Files, tmp_path: Path
) -> None:
    lost, kept = (
        query(dsn, f"SELECT instant_time(min(requested_time), 1000) FROM instant WHERE state = '{state}'")[0][0]
        for state in ("rolled_back", "completed")
    )
    files = [DeletedFile("", base_file_name(bucket_file_id(0), "9-9-9", time)) for time in (lost, kept)]
    never = DeletedFile("", base_file_name(bucket_file_id(0), "0-0-0", "20200101000000000"))
    body = FindDeletableOrphans([*files, never, DeletedFile("", file_of(kept, 2).file_name)])

    def orphans(database: Database) -> Awaitable[Deletable]:
        return deletable.find_deletable_orphans(TESTER, database, TABLE, body)

    before = ask(dsn, None, orphans)
    assert [of.file_name for of in before.refused] == [of.file_name for of in body.files[2:]]
    let_leave(dsn, archive)
    assert parse_time(lost) not in rows_of(dsn)
    assert ask(dsn, tmp_path / "archive", orphans) == before


def test_a_job_is_restored_when_the_instants_of_its_checkpoints_have_left(
    dsn: str, history: History, archive: Files
) -> None:
    def open_stream() -> int:
        opened = history.done(streams.OpenStream(TABLE, "job", "w"))
        assert isinstance(opened, StreamResult)
        return opened.of.stream.epoch

    epoch = open_stream()
    given = history.done(checkpoints.RequestInstant(TABLE, "job", epoch, "0", -1, blocking=True))
    assert isinstance(given, StreamInstantResult)
    time = given.requested_time
    files = [file_of(format_time(time, given.tick), bucket) for bucket in (0, 1)]

    def report(epoch: int, *files: WriteStat, bootstrap: bool) -> checkpoints.ReportWriteMetadata:
        of = TABLE, "job", epoch, "0", -1
        return checkpoints.ReportWriteMetadata(
            *of, requested_time=time, write_stats=files, last_batch=True, bootstrap=bootstrap
        )

    history.done(report(epoch, files[0], bootstrap=False))
    history.done(checkpoints.CompleteCheckpoints(TABLE, "job", epoch, 1))
    history.done(streams.CloseStream(TABLE, "job", epoch))
    for _ in range(4):
        history.write(TABLE, 0, 1)
        history.pass_seconds(4_000)
        clean(history)
    expected = history.done(report(open_stream(), files[0], bootstrap=True))
    history.done(streams.CloseStream(TABLE, "job", epoch + 1))
    let_leave(dsn, archive)
    assert time not in rows_of(dsn)

    epoch = open_stream()
    assert history.done(report(epoch, files[0], bootstrap=True)) == expected
    for refused in (report(epoch, *files, bootstrap=True), report(epoch, files[0], bootstrap=False)):
        assert history.refused(refused).context["state"] == "archived"


def test_a_file_group_exists_whose_only_instant_has_left(dsn: str, history: History, archive: Files) -> None:
    let_leave(dsn, archive)
    [[time]] = query(dsn, "SELECT micros(min(requested_time)) FROM file WHERE superseded_at IS NULL")
    assert time not in rows_of(dsn)
    plan = NewPlan([FileGroupName("", bucket_file_id(2))])
    history.done(instants.BeginInstant(TABLE, "w", Action.CLUSTERING, inflight=False, plan=plan))


def test_a_name_is_refused_where_equal_instants_may_have_left(
    dsn: str, history: History, archive: Files
) -> None:
    history.make_table("shop.clicks")
    waiting = history.begin("shop.clicks")
    for _ in range(4):
        history.write(TABLE, 0, 1)
        history.pass_seconds(4_000)
        clean(history)
    let_leave(dsn, archive)
    first = border(dsn)
    assert first is not None
    assert parse_time(waiting) < first
    history.done(tables.AlterTable(TABLE, new_name="shop.old"))
    history.done(tables.AlterTable("shop.clicks", new_name="shop.new"))
    for table, name in (("shop.new", TABLE), ("shop.old", "shop.clicks")):
        refusal = history.refused(tables.AlterTable(table, new_name=name))
        assert isinstance(refusal, errors.IllegalTransition)
        assert refusal.context["instants"] == [waiting]


def test_a_trigger_that_is_raised_counts_commits_that_have_left(
    dsn: str, history: History, archive: Files
) -> None:
    [[table_id]] = query(dsn, "SELECT table_id FROM lake_table")
    policy = Policies.of({"hoodie.clustering.async.max.commits": "9"}).clustering

    async def count(database: Database) -> int:
        async with database.reading() as connection:
            return (await services.clustering_history(connection, table_id, policy)).since_requested.number

    before = ask(dsn, None, count)
    let_leave(dsn, archive)
    assert [row[0] for row in rows_of(dsn).values()].count("commit") < before
    assert ask(dsn, None, count) == before == 9


def test_instants_that_a_savepoint_keeps_stay(dsn: str, history: History, archive: Files) -> None:
    history.done(savepoints.CreateSavepoint(TABLE, None, "ann"))
    for _ in range(4):
        history.write(TABLE, 0, 1)
        history.pass_seconds(4_000)
    kept = {time for time, row in rows_of(dsn).items() if row[0] == "savepoint"}
    let_leave(dsn, archive)
    first = border(dsn)
    assert first is not None
    assert first <= min(kept)


@pytest.mark.parametrize(
    ("change", "held_by"),
    [
        ({"hoodie.clean.commits.retained": "500"}, InstantsHeldBy.COMMITS),
        (
            {
                "hoodie.compact.inline.trigger.strategy": "NUM_OR_TIME",
                "hoodie.compact.inline.max.delta.seconds": "999999",
            },
            InstantsHeldBy.SECONDS,
        ),
        (
            {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": "999"},
            InstantsHeldBy.SECONDS,
        ),
    ],
)
def test_instants_stay_that_policies_count(
    dsn: str, history: History, archive: Files, change: dict[str, str], held_by: InstantsHeldBy
) -> None:
    history.done(tables.AlterTable(TABLE, set=change))
    assert let_leave(dsn, archive) == 0
    assert [of.held_by for of in borders(dsn)] == [held_by]


def test_instants_of_a_table_stay_whose_publication_may_begin(
    dsn: str, history: History, archive: Files
) -> None:
    history.done(tables.AlterTable(TABLE, unset=["hudi.publish"]))
    assert let_leave(dsn, archive) == 0
    assert borders(dsn) == []


def test_instants_and_cleaned_files_of_a_dropped_table_leave(
    dsn: str, history: History, archive: Files
) -> None:
    history.done(tables.AlterTable(TABLE, unset=["hudi.publish"]))
    history.done(tables.DropTable(TABLE))
    before, files = rows_of(dsn), files_of(dsn)

    assert let_leave(dsn, archive) > 5

    assert len(files_of(dsn)) < len(files)
    assert [of.until - of.since for of in borders(dsn)] == [0]
    assert tampering.verify(dsn, archive=archive).findings == []
    rebuild(dsn, archive, with_instants=True)
    assert (rows_of(dsn), files_of(dsn)) == (before, files)


def test_a_row_that_must_stay_and_was_deleted_is_found(dsn: str, history: History, archive: Files) -> None:
    let_leave(dsn, archive)
    first = border(dsn)
    [[last]] = query(
        dsn,
        "SELECT micros(max(requested_time)) FROM instant"
        f" WHERE action = 'clean' AND requested_time < moment({first})",
    )
    for time in (last, first):
        query(dsn, f"CREATE TABLE kept AS SELECT * FROM instant WHERE requested_time = moment({time})")
        query(dsn, f"DELETE FROM instant WHERE requested_time = moment({time})")
        assert len(tampering.verify(dsn, archive=archive).findings) == 1
        query(dsn, "INSERT INTO instant SELECT * FROM kept")
        query(dsn, "DROP TABLE kept")


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    ("step", "after"),
    [
        ("announce", True),
        ("delete", True),
        ("delete_files", True),
        pytest.param("announce", False, marks=pytest.mark.slow),
        pytest.param("wait_for_readers", True, marks=pytest.mark.slow),
        pytest.param("delete", False, marks=pytest.mark.slow),
        pytest.param("delete_files", False, marks=pytest.mark.slow),
    ],
)
def test_a_command_that_dies_is_ended_by_the_next_one(
    dsn: str, history: History, archive: Files, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    monkeypatch.setattr(needed_instants, "DELETED_AT_ONCE", 3)
    monkeypatch.setattr(needed_files, "DELETED_AT_ONCE", 3)
    expected, expected_files = rows_of(dsn), files_of(dsn)
    places: dict[str, Any] = {"wait_for_readers": thinning.Thinning, "delete_files": needed_files}
    place, name = places.get(step, needed_instants), step.removesuffix("_files")
    original = getattr(place, name)

    async def die(*arguments: Any) -> Any:
        result = await original(*arguments) if after else None
        raise Killed(result)

    drop(dsn, archive)  # The events of later eras leave first.
    rebuild(dsn, archive, with_instants=True)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(place, name, die)
        let_leave(dsn, archive)
    assert tampering.verify(dsn, archive=archive).findings == []
    assert let_leave(dsn, archive) > 0
    assert query(dsn, "SELECT 1 FROM first_event WHERE instants_from <> instants_dropped_before") == []
    assert rows_of(dsn).items() <= expected.items()
    assert files_of(dsn).items() < expected_files.items()
    assert tampering.verify(dsn, archive=archive).findings == []


def test_a_reader_that_began_before_keeps_the_rows_until_it_ends(
    dsn: str, history: History, archive: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thinning, "WAIT_SECONDS", 0.3)
    drop(dsn, archive)
    rebuild(dsn, archive, with_instants=True)
    before = rows_of(dsn)
    with psycopg.connect(dsn) as reading:
        reading.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        reading.execute("SELECT count(*) FROM chronolake.clock")
        with pytest.raises(errors.ConfigurationError, match=eras.READ[:20]):
            let_leave(dsn, archive)
    assert rows_of(dsn) == before
    assert let_leave(dsn, archive) > 0


def test_only_the_owner_may_let_instants_leave(dsn: str, history: History) -> None:
    statements = ["DELETE FROM chronolake.instant", "UPDATE chronolake.first_event SET instants_from = now()"]
    for statement in statements:
        with psycopg.connect(dsn) as connection:
            connection.execute("SET ROLE chronolake_server")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def let_leave(dsn: str, archive: Files) -> int:
    """Begin an era, archive, then drop; gives the number of instants that left."""
    thinned.begin_era(dsn)
    return drop(dsn, archive).instants


def borders(dsn: str) -> list[Any]:
    async def run() -> list[Any]:
        database = Database(Settings(dsn=dsn, role="none"))
        try:
            async with stored.at_one_moment(database) as tx:
                return await leaving.borders(tx)
        finally:
            await database.close()

    return asyncio.run(run())


def rebuild(dsn: str, archive: Files, *, with_instants: bool = False) -> None:
    archived = RowsOfArchive(ArchiveStorage(archive))
    asyncio.run(rebuilding.rebuild(Settings(dsn=dsn), archived=archived, with_instants=with_instants))


def border(dsn: str) -> Micros | None:
    rows = query(dsn, "SELECT micros(instants_from) FROM first_event")
    return rows[0][0] if rows else None


def rows_of(dsn: str) -> dict[Micros, tuple[Any, ...]]:
    """The rows of the instants by their requested times."""
    rows = query(dsn, "SELECT micros(requested_time), action, to_jsonb(i)::text FROM instant i")
    return {Micros(time): tuple(row) for time, *row in rows}


def files_of(dsn: str) -> dict[tuple[int, int, Micros], tuple[Micros | None, str]]:
    """The rows of the files, with the clean of each, by their keys: the first file has the lowest one."""
    rows = query(
        dsn, "SELECT version, ordinal, micros(live_from), micros(cleaned_by), to_jsonb(f)::text FROM file f"
    )
    return {(version, ordinal, time): (cleaned_by, row) for version, ordinal, time, cleaned_by, row in rows}
