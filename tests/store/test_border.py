"""Reads across the border: what the database does not have any more is read from the archive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import msgspec
import psycopg
import pytest

from chronolake_metastore import errors
from chronolake_metastore.archive.reading import ArchiveReader
from chronolake_metastore.commands import group
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import namespaces
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.logs import CATALOG_ID
from chronolake_metastore.event_ring import EncodedEvent
from chronolake_metastore.queries import deletions, event_lists, events, following, outcomes
from chronolake_metastore.queries.event_lists import ListRequest
from chronolake_metastore.queries.following import FeedPosition
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import archived, recorded_events
from chronolake_metastore.store.archived import LogBorder
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Query, Session
from chronolake_model.deletable import LogHead
from chronolake_model.times import parse_time
from chronolake_storage.claims import LogState
from tests.store import archiving, tampering
from tests.store.archive_reads import reader_of
from tests.store.archiving import local
from tests.store.shown import TESTER

LIMITS = (1, 2, 5, 1_000)
TABLES = (None, "shop.orders", "shop.clicks")


@pytest.fixture
def log_dsn(log_dsn: str) -> str:
    """The DSN of a log with rows in each of its tables, and events with several in a request."""
    tampering.refuse(log_dsn, "shop.clicks")
    tampering.plan(log_dsn)
    return log_dsn


@pytest.fixture
def archive(log_dsn: str, tmp_path: Path) -> Path:
    """An archive of that log in several runs."""
    archiving.write(log_dsn, local(tmp_path), 5)
    return tmp_path


def rows(dsn: str, query: str) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path = chronolake")
        return connection.execute(query.encode()).fetchall()


def transactions(dsn: str) -> list[int]:
    """The transactions of the log, and the one after the last."""
    found = [row[0] for row in rows(dsn, "SELECT DISTINCT transaction_id::text::bigint FROM event ORDER BY 1")]
    return [*found, found[-1] + 1]


def delete(dsn: str, **conditions: str) -> None:
    """Delete rows of tables of the log, which the database refuses even to its owner."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path = chronolake")
        for table, condition in conditions.items():
            connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER {table}_append_only".encode())
            connection.execute(f"DELETE FROM {table} WHERE {condition}".encode())


@pytest.fixture
def move(monkeypatch: pytest.MonkeyPatch, log_dsn: str) -> Callable[[int], None]:
    """Deletes the rows of the log before a transaction, and makes it the border."""

    def to(transaction_id: int) -> None:
        border = LogBorder(transaction_id)
        monkeypatch.setattr(archived, "find_border", lambda: Query.known(border))
        monkeypatch.setattr(archived, "find_border_of_answers", lambda: Query.known(border))
        before = f"transaction_id < '{transaction_id}'::xid8"
        of_event = f"(table_id, version) IN (SELECT table_id, version FROM event WHERE {before})"
        time = f"(SELECT coalesce(min(time), 'infinity') FROM event WHERE NOT {before})"
        delete(
            log_dsn,
            event_entry=of_event,
            deleted_file=of_event,
            outcome=f"recorded_at < {time}",
            event=before,
        )
        with psycopg.connect(log_dsn) as connection:
            connection.execute("SET search_path = chronolake")
            connection.execute("""
                INSERT INTO first_event (table_id, version, dropped_before)
                SELECT table_id, first, first
                FROM (
                    SELECT c.table_id, coalesce(min(e.version), c.version + 1) AS first
                    FROM clock c LEFT JOIN event e USING (table_id) GROUP BY c.table_id, c.version
                ) AS firsts
            """)

    return to


def ask(dsn: str, archive: Path | None, read: Callable[[Database], Awaitable[Any]]) -> Any:
    """The answer of a database with an archive."""
    log = None if archive is None else reader_of(local(archive))

    async def run() -> Any:
        database = Database(Settings(dsn=dsn), lambda: log)
        try:
            return await read(database)
        finally:
            await database.close()

    return asyncio.run(run())


async def all_pages(database: Database) -> list[bytes]:
    """All pages of the log, of each limit, as they are answered, and that of the end."""
    answers = []
    for table in TABLES:
        for limit in LIMITS:
            after, caught_up = None, False
            while not caught_up:
                page = await events.page(TESTER, database, table, after, limit)
                after, caught_up = page.cursor, page.caught_up
                answers.append(msgspec.json.encode(page))
        answers.append(msgspec.json.encode(await events.page(TESTER, database, table, "latest", 1)))
    return answers


async def times_of_cursors(database: Database) -> list[object]:
    """The time of each cursor of the log, over all tables and over each table."""
    times: list[object] = []
    for table in TABLES:
        page = await events.page(TESTER, database, table, None, 1_000)
        for cursor in [event.cursor for event in page.events]:
            for name in TABLES[1:]:
                try:
                    times.append(await events.time_of_cursor(TESTER, database, name, cursor))
                except errors.InvalidCursor as exc:
                    times.append(exc.code)
    return times


async def followed(database: Database) -> list[object]:
    """The events that followers get, of all tables and of each table."""
    encoded = await followed_from(database, FeedPosition())
    tables = sorted({event.table_id for event in encoded} - {CATALOG_ID})
    of_tables = [await followed_from(database, FeedPosition(table_id)) for table_id in tables]
    return [await following.end(database), encoded, of_tables]


async def followed_from(database: Database, position: FeedPosition) -> list[EncodedEvent]:
    """The events from a position on, page by page."""
    encoded: list[EncodedEvent] = []
    while page := await following.page(database, position, 3, 1_000_000):
        encoded += page
        position = position.behind(page[-1])
    return encoded


async def all_outcomes(database: Database) -> list[object]:
    """The outcomes of the first requests of the history."""
    return [await outcomes.get(TESTER, database, f"request-{number}") for number in range(15)]


async def all_lists(database: Database) -> list[object]:
    """The pages of the plan of the rollback, and of the deleted files."""
    pages: list[object] = []
    page = await events.page(TESTER, database, "shop.clicks", None, 1_000)
    for event in page.events:
        if event.type != "InstantRequested":
            continue
        instant = parse_time(event.time)
        for limit in (1, 40, 1_000):
            cursor: str | None = ""
            while cursor is not None:
                request = ListRequest(instant, limit, cursor or None)
                files = await event_lists.planned_files(TESTER, database, "shop.clicks", request)
                pages.append(files)
                cursor = files.next_cursor
            for unpublished in (False, True):
                cursor = ""
                while cursor is not None:
                    deleted = await deletions.page(
                        TESTER, database, "shop.clicks", instant, limit, cursor or None, unpublished=unpublished
                    )
                    pages.append(deleted)
                    cursor = deleted.next_cursor
    return pages


READS = [all_pages, times_of_cursors, followed, all_outcomes, all_lists]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9, 1.0])
def test_the_answers_are_those_of_before(
    log_dsn: str, archive: Path, move: Callable[[int], None], share: float
) -> None:
    before = [ask(log_dsn, None, read) for read in READS]
    found = transactions(log_dsn)

    move(found[round(share * (len(found) - 1))])

    for read, expected in zip(READS, before, strict=True):
        assert ask(log_dsn, archive, read) == expected, read.__name__


@pytest.mark.parametrize("read", READS)
def test_without_an_archive_the_operator_is_told_to_name_it(
    log_dsn: str, archive: Path, move: Callable[[int], None], read: Callable[[Database], Awaitable[Any]]
) -> None:
    move(transactions(log_dsn)[-1])

    with pytest.raises(errors.ArchiveNotSet, match="--archive"):
        ask(log_dsn, None, read)


@pytest.mark.parametrize("read", READS)
def test_a_damaged_archive_gives_a_problem_and_no_shorter_answer(
    log_dsn: str, archive: Path, move: Callable[[int], None], read: Callable[[Database], Awaitable[Any]]
) -> None:
    move(transactions(log_dsn)[-1])
    for path in archive.glob("runs/*/*.parquet"):
        path.unlink()

    with pytest.raises(errors.ArchiveUnavailable, match="cannot be read"):
        ask(log_dsn, archive, read)


def test_an_archive_that_ends_before_the_border_is_refused(
    log_dsn: str, archive: Path, move: Callable[[int], None]
) -> None:
    move(transactions(log_dsn)[-1] + 1_000_000)

    with pytest.raises(errors.ArchiveUnavailable, match="must name the archive of this database"):
        ask(log_dsn, archive, all_pages)


# ------------------------------------------------------------------------------ claims


def recorded(dsn: str, share: float) -> tuple[UUID, LogHead]:
    """An event of a table that a claim could record, at a share of the table's log."""
    found = rows(
        dsn,
        "SELECT table_id, version, encode(hash, 'hex') FROM event JOIN lake_table USING (table_id)"
        " WHERE name = 'clicks' ORDER BY version",
    )
    table_id, version, digest = found[round(share * (len(found) - 1))]
    return table_id, LogHead(version, digest)


def has(dsn: str, archive: Path | None, table_id: UUID, head: LogHead) -> bool:
    """Whether the log has the event of a claim."""
    state: LogState = ask(dsn, archive, lambda database: recorded_events.log_state(database, table_id, head))
    return state.has_recorded


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_event_that_a_claim_records_is_found_after_it_has_left(
    log_dsn: str, archive: Path, move: Callable[[int], None], share: float
) -> None:
    table_id, head = recorded(log_dsn, share)
    others = [LogHead(head.version, "00" * 32), LogHead(1_000_000, head.hash)]
    before = [has(log_dsn, None, table_id, each) for each in (head, *others)]
    assert before == [True, False, False]

    move(transactions(log_dsn)[-2])

    assert [has(log_dsn, archive, table_id, each) for each in (head, *others)] == before


def test_without_an_archive_a_claim_of_an_event_that_has_left_is_no_earlier_state(
    log_dsn: str, archive: Path, move: Callable[[int], None]
) -> None:
    table_id, head = recorded(log_dsn, 0.0)
    move(transactions(log_dsn)[-2])

    with pytest.raises(errors.ArchiveNotSet):
        has(log_dsn, None, table_id, head)


# ------------------------------------------------------------------------------ commands


def execute(dsn: str, archive: Path | None, *commands: tuple[str, str]) -> list[object]:
    """The results of commands that make namespaces, each with its key, in one group."""

    async def run(database: Database) -> list[object]:
        session = Session(database)
        requests = [
            group.request_of(Context("test", key), namespaces.CreateNamespace(name)) for key, name in commands
        ]
        try:
            return list((await group.run(session, requests, drift_max_us=1_000_000)).results)
        finally:
            await session.close()

    results: list[object] = ask(dsn, archive, run)
    return results


def test_an_archived_key_gets_its_first_answer(
    log_dsn: str, archive: Path, move: Callable[[int], None]
) -> None:
    first = execute(log_dsn, None, ("old key", "ancient"))
    archiving.write(log_dsn, local(archive))
    move(transactions(log_dsn)[-1])

    results = execute(log_dsn, archive, ("new", "modern"), ("old key", "ancient"), ("newer", "later"))

    assert [results[1]] == first
    assert [type(result) for result in results] == [Answer] * 3
    [reused] = execute(log_dsn, archive, ("old key", "other"))
    assert isinstance(reused, errors.IdempotencyKeyReused)
    assert rows(log_dsn, "SELECT count(*) FROM event WHERE type = 'NamespaceCreated'") == [(2,)]


def test_a_command_is_not_executed_while_its_key_cannot_be_looked_up(
    log_dsn: str, archive: Path, move: Callable[[int], None]
) -> None:
    execute(log_dsn, None, ("old key", "ancient"))
    archiving.write(log_dsn, local(archive))
    move(transactions(log_dsn)[-1])

    with pytest.raises(errors.ArchiveNotSet):
        execute(log_dsn, None, ("new", "modern"))

    for path in archive.glob("runs/*/outcome.parquet"):
        path.unlink()
    failed, done = execute(log_dsn, archive, ("old key", "ancient"), ("new", "modern"))
    assert isinstance(failed, errors.ArchiveUnavailable)
    assert isinstance(done, Answer)


def test_a_command_does_not_wait_for_reads_of_archived_history(
    log_dsn: str, archive: Path, move: Callable[[int], None]
) -> None:
    execute(log_dsn, None, ("old key", "ancient"))
    archiving.write(log_dsn, local(archive))
    move(transactions(log_dsn)[-1])
    released = threading.Event()

    def wait(_: object) -> bool:
        return released.wait(60)

    async def run(database: Database) -> list[object]:
        async with database.reading() as connection:
            border = await archived.border_of_answers(connection)
        assert border is not None
        slow = [
            asyncio.create_task(
                archived.ask(database, border, lambda log: cast("ArchiveReader", log).of_runs(wait))
            )
            for _ in range(40)
        ]
        session = Session(database)
        request = group.request_of(Context("test", "old key"), namespaces.CreateNamespace("ancient"))
        try:
            async with asyncio.timeout(30):
                return list((await group.run(session, [request], drift_max_us=1_000_000)).results)
        finally:
            released.set()
            await asyncio.gather(*slow)
            await session.close()

    [answer] = ask(log_dsn, archive, run)
    assert isinstance(answer, Answer)
