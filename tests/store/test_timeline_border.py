"""The timeline across the border of its instants: the answers are those of before they left PostgreSQL."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain import restores, savepoints
from chronolake_metastore.queries import conflicts, event_lists, files, iceberg, instants as queries, timeline
from chronolake_metastore.queries.event_lists import ListRequest
from chronolake_metastore.queries.timeline import Answers, Timeline
from chronolake_metastore.store import archived, instants
from chronolake_metastore.store.archived import LogBorder
from chronolake_metastore.store.instants import Filter
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Query
from chronolake_model.instants import FindConflicts
from chronolake_model.times import Bound, Micros, ReadTime, parse_time
from chronolake_model.vocabulary import Direction, State, TimeOrder
from tests.store import archiving, shown
from tests.store.archiving import local
from tests.store.history import History, completion
from tests.store.shown import TESTER
from tests.store.test_border import ask
from tests.store.thinned import query
from tests.store.timelines import draw_filter

TABLE = "shop.orders"
LIMITS = (3, 5, 7, 1_000)
ORDERS = [Filter(order_by=order_by, direction=direction) for order_by in TimeOrder for direction in Direction]
Read = Callable[[Database], Awaitable[Any]]


@pytest.fixture
def history(dsn: str) -> Iterator[History]:
    """A table with instants that overlap, that were undone, rolled back or taken over, and a pending one."""
    with History(dsn) as history:
        history.make_namespace("shop")
        history.make_table(TABLE)
        pinned, _ = history.write(TABLE, 0, 1)
        pin = savepoints.CreateSavepoint(TABLE, parse_time(pinned), "ann")
        savepoint = parse_time(shown.instant(history.done(pin)).requested_time)
        for number in range(3):
            history.write(TABLE, number, writer="hourly")
        lost = history.begin(TABLE)
        history.renew(TABLE, lost)
        history.done(restores.RestoreTable(TABLE, savepoint, "ann", "wrong"))
        history.roll_back(TABLE, history.begin(TABLE, writer="bob"), "bob")
        history.done(savepoints.ReleaseSavepoint(TABLE, savepoint, "ann", "over"))
        slow = history.begin(TABLE, writer="slow")
        history.write(TABLE, 1)
        slower = history.begin(TABLE, writer="slow")
        history.write(TABLE, 0, 2)
        history.done(completion(TABLE, slow, [3]))
        for number in range(3):
            history.write(TABLE, number)
        history.done(completion(TABLE, slower, []))
        history.write(TABLE, 0)
        history.begin(TABLE, writer="alive")
        yield history


def leave(dsn: str, patch: pytest.MonkeyPatch, share: float, *, keep: bool = False) -> None:
    """Let the instants before a share of the clean cuts leave; some rows stay if they are to ``keep``."""
    cuts = query(dsn, """
        SELECT cut.requested_time
        FROM instant cut
        WHERE NOT EXISTS (
            SELECT
            FROM instant i
            WHERE i.requested_time < cut.requested_time
                AND (
                    i.state IN ('requested', 'inflight')
                    OR greatest(i.completion_time, i.undone_completion_time, i.rolled_back_at, i.rolled_back_by)
                        >= cut.requested_time
                )
        )
        ORDER BY cut.requested_time
    """)  # fmt: skip
    [since] = cuts[round(share * (len(cuts) - 1))]
    kept = "AND state = 'rolled_back'" if keep else ""
    query(dsn, f"""
        INSERT INTO first_event
        SELECT table_id, max(version) + 1, max(version) + 1, '{since}', '{since}'
        FROM event WHERE instant < '{since}' GROUP BY table_id
    """)  # fmt: skip
    query(dsn, f"DELETE FROM instant WHERE requested_time < '{since}' {kept}")
    [[end]] = query(dsn, "SELECT max(transaction_id::text::bigint) FROM event")
    patch.setattr(archived, "find_border", lambda: Query.known(LogBorder(end)))


@pytest.fixture
def reads(history: History) -> list[Read]:
    """Reads of a timeline, with the times and the filters that they ask for."""

    async def all_(database: Database) -> list[Any]:
        async with database.reading() as connection:
            return await instants.page(connection, table_id, Filter(), None, 1_000)

    [[table_id]] = query(history.dsn, "SELECT table_id FROM lake_table")
    found = ask(history.dsn, None, all_)
    draws = random.Random(7)
    filters = [*ORDERS, *(draw_filter(draws, found) for _ in range(12))]
    times = [instant.requested_time for instant in found]
    ends = sorted(of.completion_time or of.undone_completion_time or of.requested_time for of in found)
    nearby = draws.sample([Micros(time + ticks * 1_000) for time in (*times, *ends) for ticks in (0, 1)], 20)
    ranges = [sorted(draws.choices(nearby, k=2)) for _ in range(10)]
    return [
        lambda database: pages(database, filters),
        lambda database: each(database, times),
        lambda database: of_past(database, nearby, ranges),
        lambda database: nth_completions(database, table_id, ranges[:3]),
    ]


async def pages(database: Database, filters: Sequence[Filter]) -> list[object]:
    """All pages of filters, from the beginning and after some instants."""
    draws, answers = random.Random(7), list[object]()
    for wanted in filters:
        for skip in (0, draws.randint(1, 30)):
            limit, cursor, is_cut = draws.choice(LIMITS), None, True
            while is_cut:
                page = await queries.page(TESTER, database, TABLE, wanted, limit, cursor, skip)
                answers.append((wanted, skip, limit, page))
                cursor, is_cut = page.next_cursor, page.next_cursor is not None
    return answers


async def each(database: Database, times: Sequence[Micros]) -> list[object]:
    """Each instant with its plan, what would refuse its completion, its plan's instants; completion times."""
    answers: list[object] = []
    for time in times:
        answers.append(await queries.get(TESTER, database, TABLE, time))
        answers.append(await conflicts.find(TESTER, database, TABLE, time, FindConflicts([])))
        request = ListRequest(time, 1_000, None)
        answers.append(await event_lists.planned_instants(TESTER, database, TABLE, request))
    asked = [*reversed(times), Micros(1), *times]
    answers.append(await queries.completion_times(TESTER, database, TABLE, asked))
    with pytest.raises(errors.InstantNotFound):
        await queries.get(TESTER, database, TABLE, Micros(times[0] + 1))
    return answers


async def of_past(
    database: Database, times: Sequence[Micros], ranges: Sequence[Sequence[Micros]]
) -> list[object]:
    """Snapshots as of times, and changes in ranges."""
    answers: list[object] = []
    read_times: list[ReadTime] = [*times, Bound.LATEST, Bound.EARLIEST]
    for time in read_times:
        answers.append(await files.snapshot(TESTER, database, TABLE, time, None, 1_000, None))
    for after, until in ranges:
        for begin, end in ((after, until), (None, until), (after, None)):
            answers.append(await files.changes(TESTER, database, TABLE, begin, end, 1_000, None))
    return answers


async def nth_completions(
    database: Database, table_id: UUID, ranges: Sequence[Sequence[Micros]]
) -> list[object]:
    """When each of the writes in ranges completed."""

    async def read(answers: Answers) -> list[object]:
        async with database.reading() as connection:
            of_table = Timeline(answers, connection, table_id)
            return [
                await of_table.nth_completion(after, until, nth)
                for after, until in ranges
                for nth in range(1, 18)
            ]

    return await timeline.answered(database, read)


@pytest.mark.parametrize(("share", "keep"), [(0.5, False), (0.75, True), (1.0, False)])
def test_the_answers_are_those_of_before(
    history: History,
    reads: list[Read],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    share: float,
    keep: bool,
) -> None:
    """apache/hudi PR 10845, still open: one timeline of the active and the archived instants."""
    before = [ask(history.dsn, None, read) for read in reads]
    archiving.write(history.dsn, local(tmp_path), 7)

    leave(history.dsn, monkeypatch, share, keep=keep)

    for read, expected in zip(reads, before, strict=True):
        assert ask(history.dsn, tmp_path, read) == expected


def test_without_an_archive_the_active_timeline_and_the_end_are_answered(
    history: History, reads: list[Read], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archiving.write(history.dsn, local(tmp_path))
    leave(history.dsn, monkeypatch, 0.7)
    present = query(history.dsn, "SELECT micros(requested_time) FROM instant ORDER BY 1")

    async def active(database: Database) -> list[object]:
        found = []
        for order in ORDERS:
            wanted = Filter(order_by=order.order_by, direction=order.direction, active_only=True)
            found.append(await queries.page(TESTER, database, TABLE, wanted, 1_000, None, 0))
            last = Filter(order_by=order.order_by, direction=Direction.DESCENDING)
            await queries.page(TESTER, database, TABLE, last, 1, None, 0)
        await queries.page(TESTER, database, TABLE, Filter(states=frozenset({State.INFLIGHT})), 9, None, 0)
        await files.snapshot(TESTER, database, TABLE, None, None, 1_000, None)
        return [{parse_time(instant.requested_time) for instant in page.instants} for page in found]

    of_requests, *others = ask(history.dsn, None, active)
    assert of_requests == {time for (time,) in present} == others[0]
    assert others[1] == others[2] < of_requests
    for read in reads:
        with pytest.raises(errors.ArchiveNotSet, match="--archive"):
            ask(history.dsn, None, read)


def test_the_oldest_state_for_iceberg_has_a_parent_when_older_ones_have_left(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_whole(database: Database) -> bool:
        return (await iceberg.states(TESTER, database, TABLE, 1_000)).is_whole

    assert ask(history.dsn, None, is_whole)
    leave(history.dsn, monkeypatch, 0.7)
    assert not ask(history.dsn, None, is_whole)
