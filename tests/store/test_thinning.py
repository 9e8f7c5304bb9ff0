"""Events leave PostgreSQL: what the state needs stays, and all answers are those of before."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import conninfo, sql

from chronolake_metastore import errors
from chronolake_metastore.domain import savepoints
from chronolake_metastore.queries import cursors, events as event_queries, following
from chronolake_metastore.queries.following import FeedPosition
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import thinning
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.thinning import Thinning
from chronolake_storage.files import Files
from tests.fix_postgres import clone_of
from tests.store import archiving, tampering, test_border, thinned
from tests.store.archive_reads import reader_of
from tests.store.history import History
from tests.store.shown import TESTER
from tests.store.tables_of_types import projections
from tests.store.test_border import ask
from tests.store.thinned import drop, make, query

STEPS = ("copy", "announce", "wait_for_readers", "swap")


@pytest.fixture
def archive(tmp_path: Path) -> Files:
    return archiving.local(tmp_path / "archive")


@pytest.fixture(scope="module")
def made(postgres: str, template: str) -> Iterator[tuple[str, int]]:
    """The name of a database whose tables keep few events, in several eras, and the time at its end."""
    with clone_of(postgres, template) as dsn:
        with History(dsn) as history:
            make(dsn, history)
        yield str(conninfo.conninfo_to_dict(dsn)["dbname"]), history.now_us


@pytest.fixture
def dsn(postgres: str, made: tuple[str, int]) -> Iterator[str]:
    """A copy of that database."""
    with clone_of(postgres, made[0]) as dsn:
        yield dsn


@pytest.fixture
def history(dsn: str, made: tuple[str, int]) -> Iterator[History]:
    """A history that goes on after that one."""
    with History(dsn, keys="later") as history:
        history.now_us = made[1]
        history.pass_seconds(0)
        yield history


def verify(dsn: str, archive: Files) -> None:
    assert tampering.verify(dsn, archive=archive).findings == []
    assert archiving.verify(archive, dsn).findings == []


def test_what_the_state_does_not_need_leaves_and_the_rest_is_proved(
    dsn: str, history: History, archive: Files
) -> None:
    before = thinned.log(dsn)
    gone = drop(dsn, archive).events

    after = thinned.log(dsn)
    assert all(after[table] - before[table] == set() for table in ("event_entry", "write_stat", "deleted_file"))
    assert gone == len(before["event"] - after["event"]) > 8
    assert len(after["write_stat"]) <= len(before["write_stat"])
    verify(dsn, archive)
    with pytest.raises(errors.ConfigurationError, match="add --archive"):
        tampering.verify(dsn)
    with pytest.raises(errors.ConfigurationError, match="add --archive"):
        history.rebuild()
    state = projections(dsn)
    history.rebuild(archive)
    assert projections(dsn) == state
    verify(dsn, archive)
    assert thinned.left_over(dsn) == []


def test_events_of_tables_that_are_not_published_leave(dsn: str, history: History, archive: Files) -> None:
    query(dsn, "DELETE FROM publication")
    assert drop(dsn, archive).events > 8
    verify(dsn, archive)


def test_events_of_a_hidden_table_leave(dsn: str, history: History, archive: Files) -> None:
    query(dsn, "UPDATE publication SET published_version = 1, hidden_at = now(), history = NULL")
    assert drop(dsn, archive).events > 8


def test_events_that_are_to_be_published_next_stay(dsn: str, history: History, archive: Files) -> None:
    query(dsn, "UPDATE publication SET published_version = 1, history = NULL")
    assert drop(dsn, archive).events == 0


def test_from_the_first_event_on_all_are_there(dsn: str, history: History, archive: Files) -> None:
    for _ in range(3):
        drop(dsn, archive)
        gaps = """
            SELECT c.table_id
            FROM clock c LEFT JOIN first_event f USING (table_id)
            WHERE c.version - coalesce(f.version, 1) + 1 <> (
                SELECT count(*) FROM event e
                WHERE e.table_id = c.table_id AND e.version >= coalesce(f.version, 1)
            ) OR f.version <> f.dropped_before
        """
        assert query(dsn, gaps) == []
        history.write("shop.clicks", 1)
        history.pass_seconds(600)
        history.write("shop.orders", 1)
        thinned.publish(dsn)
    assert query(dsn, "SELECT count(*) FROM first_event WHERE version > 1") != [(0,)]


def test_plans_that_can_be_read_stay_when_their_events_have_left(
    dsn: str, history: History, archive: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    thinned.need_little(monkeypatch)
    plans = """
        SELECT table_id, version, ordinal, name FROM event_entry
        WHERE list = 'plan-file-groups' AND instant IN (SELECT readable_plans(table_id))
    """
    before = query(dsn, plans)
    for _ in range(2):
        assert drop(dsn, archive).events > 0
        assert query(dsn, plans) == before != []
        history.write("shop.clicks", 1)
        thinned.begin_era(dsn)


def test_a_thinned_partition_is_as_an_ordinary_one(dsn: str, history: History, archive: Files) -> None:
    drop(dsn, archive)
    present = query(dsn, "SELECT max(era) FROM era")[0][0]

    assert query(dsn, "SELECT to_regclass('event_1'), to_regclass('event_2')") == [(None, None)]
    for table in thinned.TABLES:
        assert thinned.catalog(dsn, table, 3) == thinned.catalog(dsn, table, present)
    thinned.begin_era(dsn)
    for table in thinned.TABLES:
        assert thinned.catalog(dsn, table, 3) == thinned.catalog(dsn, table, present + 1)


@pytest.mark.parametrize("table", thinned.TABLES)
@pytest.mark.parametrize("change", ["UPDATE {} SET era = era", "DELETE FROM {}", "TRUNCATE {}"])
def test_what_stays_is_append_only(dsn: str, history: History, archive: Files, table: str, change: str) -> None:
    drop(dsn, archive)
    with (
        psycopg.connect(dsn) as connection,
        pytest.raises(psycopg.errors.RestrictViolation, match="append-only"),
    ):
        connection.execute(change.format(f"chronolake.{table}_3").encode())


def test_only_the_owner_may_thin(dsn: str) -> None:
    for call in ("prepare_thinning(1)", "announce_thinning(1, 1, '{}', '{}')", "thin_eras(1, 1)"):
        with psycopg.connect(dsn) as connection:
            connection.execute("SET ROLE chronolake_server")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT chronolake.{call}".encode())


@pytest.mark.parametrize("call", ["announce_thinning(1, 1, '{}', '{}')", "thin_eras(1, 1)"])
def test_no_events_leave_that_are_not_archived(dsn: str, history: History, call: str) -> None:
    with pytest.raises(psycopg.errors.RestrictViolation):
        query(dsn, f"SELECT {call}")


def test_events_stay_for_as_long_as_they_are_to_be_kept(dsn: str, history: History, archive: Files) -> None:
    before = thinned.log(dsn)
    archiving.write(dsn, archive)
    assert archiving.drop(dsn, archive, keep_seconds=3_600).events == 0
    assert thinned.log(dsn) == before


# ------------------------------------------------------------------------------ readers


@pytest.mark.parametrize("share", [pytest.param(0.5, marks=pytest.mark.slow), 1.0])
def test_readers_get_the_answers_of_before(
    log_dsn: str, archive: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    tampering.refuse(log_dsn, "shop.clicks")
    tampering.plan(log_dsn)
    assert drop(log_dsn, archive).events == 0
    folder = tmp_path / "archive"
    before = [ask(log_dsn, folder, read) for read in test_border.READS]
    thinned.need_little(monkeypatch, share)
    assert archiving.thin(log_dsn, archive) > 0

    for read, expected in zip(test_border.READS, before, strict=True):
        assert ask(log_dsn, folder, read) == expected, read.__name__
    for read in test_border.READS:
        with pytest.raises(errors.ArchiveNotSet):
            ask(log_dsn, None, read)


def test_auditors_are_told_that_a_state_has_left(
    log_dsn: str, archive: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = "SELECT * FROM state_at(NULL)"
    before = query(log_dsn, present)
    thinned.need_little(monkeypatch, 1.0)
    assert drop(log_dsn, archive).events > 0

    assert query(log_dsn, present) == before
    [[first]] = query(log_dsn, "SELECT min(transaction_id::text::bigint) FROM event")
    position = cursors.encode(event_queries.LogPlace(str(first), 1))
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="have left PostgreSQL"):
        query(log_dsn, f"SELECT * FROM state_at('{position}')")


def test_kept_events_are_not_shown_twice(dsn: str, history: History, archive: Files, tmp_path: Path) -> None:
    drop(dsn, archive)
    history.write("shop.clicks", 1)
    read = ask(dsn, tmp_path / "archive", lambda database: test_border.followed_from(database, FeedPosition()))
    versions: dict[object, list[int]] = {}
    for event in read:
        versions.setdefault(event.table_id, []).append(event.version)
    heads = query(dsn, "SELECT table_id, version FROM clock")
    assert {of: sorted(found) for of, found in versions.items()} == {
        of: list(range(1, version + 1)) for of, version in heads
    }


# ------------------------------------------------------------------------------ crashes and races


class Killed(Exception):
    pass


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_command_that_dies_leaves_all_answers_and_the_next_one_ends_its_work(
    dsn: str, history: History, archive: Files, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    archiving.write(dsn, archive)
    place: Any = thinning if step == "swap" else Thinning
    original = getattr(place, step)

    async def die(*arguments: Any) -> Any:
        result = await original(*arguments) if after else None
        raise Killed(result)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(place, step, die)
        archiving.drop(dsn, archive)
    verify_either(dsn, archive)
    history.write("shop.clicks", 1)
    history.pass_seconds(600)
    thinned.publish(dsn)
    archiving.write(dsn, archive)
    assert archiving.drop(dsn, archive).events > 0
    assert thinned.left_over(dsn) == []
    verify(dsn, archive)
    history.rebuild(archive)


def verify_either(dsn: str, archive: Files) -> None:
    assert tampering.verify(dsn, archive=archive).findings == []


KILLED = """
import os, signal, sys
from chronolake_metastore.store import thinning
from chronolake_metastore.store.thinning import Thinning
from tests.store import archiving
step, dsn, folder = sys.argv[1:]
place = thinning if step == "swap" else Thinning
async def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(place, step, die)
archiving.drop(dsn, archiving.local(__import__("pathlib").Path(folder)))
"""


@pytest.mark.parametrize("step", STEPS)
def test_a_process_that_is_killed_is_followed_by_another(
    dsn: str, history: History, archive: Files, tmp_path: Path, step: str
) -> None:
    archiving.write(dsn, archive)
    arguments = [sys.executable, "-c", KILLED, step, dsn, str(tmp_path / "archive")]
    killed = subprocess.run(arguments, env={**os.environ}, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    verify_either(dsn, archive)
    archiving.write(dsn, archive)
    assert archiving.drop(dsn, archive).events > 0
    assert thinned.left_over(dsn) == []
    verify(dsn, archive)


def test_of_several_commands_at_once_each_leaves_the_log_whole(
    dsn: str, history: History, archive: Files
) -> None:
    archiving.write(dsn, archive)
    refusals: list[BaseException] = []

    def run() -> None:
        try:
            archiving.drop(dsn, archive)
        except errors.ConfigurationError as exc:
            refusals.append(exc)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refusals) < 3
    drop(dsn, archive)
    assert query(dsn, "SELECT count(*) FROM first_event WHERE version > 1") != [(0,)]
    verify(dsn, archive)


def test_what_is_needed_again_meanwhile_stays(
    dsn: str, history: History, archive: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A savepoint pins an old instant after the copies were made."""
    original = Thinning.wait_for_readers
    pinned: list[int] = []

    async def pin_then_wait(session: Thinning) -> bool:
        if not pinned:
            [[time]] = query(dsn, """
                SELECT micros(min(requested_time)) FROM instant JOIN lake_table USING (table_id)
                WHERE name = 'clicks' AND state = 'completed' AND action = 'commit'
            """)  # fmt: skip
            pinned.append(time)
            thread = threading.Thread(
                target=lambda: history.done(savepoints.CreateSavepoint("shop.clicks", time, "ann"))
            )
            thread.start()
            thread.join()
        return await original(session)

    query(dsn, "UPDATE publication SET history = jsonb_set(history, '{last_completion}', '0')")
    monkeypatch.setattr(Thinning, "wait_for_readers", pin_then_wait)
    archiving.write(dsn, archive)
    archiving.drop(dsn, archive)
    [[missing]] = query(dsn, f"""
        SELECT count(*) FROM first_event f JOIN lake_table t USING (table_id)
        WHERE t.name = 'clicks' AND f.version > (
            SELECT min(e.version) FROM event e WHERE e.table_id = f.table_id AND e.time >= moment({pinned[0]})
        )
    """)  # fmt: skip
    assert missing == 0
    verify(dsn, archive)


def test_a_reader_that_began_before_keeps_the_rows_until_it_ends(
    dsn: str, history: History, archive: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thinning, "WAIT_SECONDS", 0.3)
    archiving.write(dsn, archive)
    with psycopg.connect(dsn) as reading:
        reading.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        reading.execute("SELECT count(*) FROM chronolake.clock")
        with pytest.raises(errors.ConfigurationError, match="read the log all the time"):
            archiving.drop(dsn, archive)
        [[versions]] = reading.execute("SELECT sum(version) FROM chronolake.clock").fetchall()
        [[events]] = reading.execute("SELECT count(*) FROM chronolake.event").fetchall()
        assert events == versions
    verify_either(dsn, archive)
    assert drop(dsn, archive).events > 0
    verify(dsn, archive)


def test_writers_and_followers_go_on(dsn: str, history: History, archive: Files) -> None:
    """Each follower reads the log from its beginning, again and again, while events leave."""
    ended = threading.Event()
    failures: list[BaseException] = []
    log = reader_of(archive)

    async def follow() -> None:
        database = Database(Settings(dsn=dsn), lambda: log)
        try:
            while not ended.is_set():
                position = FeedPosition()
                versions: dict[UUID, int] = {}
                while page := await following.page(database, position, 3, 1_000_000):
                    for event in page:
                        assert event.version == versions.get(event.table_id, 0) + 1
                        versions[event.table_id] = event.version
                        position = position.behind(event)
        finally:
            await database.close()

    def run() -> None:
        try:
            asyncio.run(follow())
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        left = 0
        for _ in range(4):
            left += drop(dsn, archive).events
            history.write("shop.clicks", 1, 2)
            history.pass_seconds(600)
            thinned.publish(dsn)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert left > 0
    verify(dsn, archive)


def test_a_restored_backup_reads_its_own_history_in_a_newer_archive(
    dsn: str, made: tuple[str, int], archive: Files, tmp_path: Path
) -> None:
    drop(dsn, archive)
    name = str(conninfo.conninfo_to_dict(dsn)["dbname"])
    copy = conninfo.make_conninfo(dsn, dbname=f"{name}_copy")
    with psycopg.connect(dsn, dbname="postgres", autocommit=True) as connection:
        names = map(sql.Identifier, (f"{name}_copy", name))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))
    folder = tmp_path / "archive"
    before = [ask(copy, folder, read) for read in (all_tables, all_of_table)]
    with History(dsn, keys="later") as history:
        history.now_us = made[1]
        history.pass_seconds(100_000)
        for _ in range(3):
            history.write("shop.clicks", 1)
        thinned.publish(dsn)
        assert drop(dsn, archive).events > 0

    assert [ask(copy, folder, read) for read in (all_tables, all_of_table)] == before
    assert tampering.verify(copy, archive=archive).findings == []
    with pytest.raises(errors.ConfigurationError, match="restored"):
        archiving.write(copy, archive)


async def all_tables(database: Database) -> object:
    return await following.page(database, FeedPosition(), 1_000, 10_000_000)


async def all_of_table(database: Database) -> object:
    page = await event_queries.page(TESTER, database, "shop.orders", None, 1_000)
    return page.events


# ------------------------------------------------------------------------------ proof


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE event_3 SET actor = 'eve' WHERE type = 'InstantCompleted'",
        "UPDATE write_stat_3 SET records = records + 1",
        "DELETE FROM event_3 WHERE type = 'InstantCompleted'",
        "DELETE FROM write_stat_3",
    ],
)
def test_a_kept_row_that_was_changed_or_deleted_is_found(
    dsn: str, history: History, archive: Files, change: str
) -> None:
    drop(dsn, archive)
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path TO chronolake")
        for table in thinned.TABLES:
            connection.execute(f"ALTER TABLE {table}_3 DISABLE TRIGGER ALL".encode())
        assert connection.execute(change.encode()).rowcount > 0
        for table in thinned.TABLES:
            connection.execute(f"ALTER TABLE {table}_3 ENABLE ALWAYS TRIGGER {table}_3_append_only".encode())
    report = tampering.verify(dsn, archive=archive)
    assert [finding for finding in report.findings if "PostgreSQL keeps" in finding.what] != []


def test_eras_after_another_are_merged_into_one_partition(dsn: str, history: History, archive: Files) -> None:
    for _ in range(4):
        history.write("shop.clicks", 1)
        history.pass_seconds(600)
        thinned.publish(dsn)
        drop(dsn, archive)
    [[partitions]] = query(dsn, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'event'::regclass")
    assert partitions == 2
    verify(dsn, archive)
