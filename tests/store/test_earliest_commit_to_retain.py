"""The earliest commit to retain of cleans: it never goes back, and moves also when there is nothing to delete.

Report 15 of Hudi's users (#5835, #6373, #6953, #11647, #17844): on append-only tables no clean ever has a file,
so each one lists the whole table, and archival waits for a clean.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from chronolake_metastore.domain import cleans, deletions, instants
from chronolake_metastore.domain.cleans import CleanScope, FileToClean, PlanClean, Retention
from chronolake_metastore.notes import readers
from chronolake_model import instants as wire
from chronolake_model.marker_names import DeletedFile
from chronolake_model.readers import BeginReading
from chronolake_model.service_properties import EMPTY_CLEAN_HOURS
from chronolake_model.times import Micros, format_time, parse_time
from chronolake_model.vocabulary import FILES_TO_CLEAN_MAX, Action, TableType
from tests.store import shown
from tests.store.shown import TESTER
from tests.store.tables_of_types import COW, MOR, TablesOfTypes, group, restore

HOUR = 3_600


def clean(history: TablesOfTypes, table: str = COW, **retention: int) -> wire.Instant | None:
    """Plan a clean, and execute it to its end."""
    planned = shown.clean(history.done(PlanClean(table, Retention(**retention), "cleaner")))
    if planned is not None:
        assert planned.plan is not None
        time = parse_time(planned.requested_time)
        files = [DeletedFile("", name) for name in planned.plan.files_to_delete]
        history.done(deletions.ReportDeletions(table, time, files))
        history.done(instants.CompleteInstant(table, time))
    return planned


def earliest(history: TablesOfTypes, table: str = COW) -> str | None:
    """The earliest commit to retain of a table."""
    return _column(history, table, "earliest_commit_to_retain")


def cleaned_before(history: TablesOfTypes, table: str = COW) -> str | None:
    return _column(history, table, "cleaned_before")


def _column(history: TablesOfTypes, table: str, column: str) -> str | None:
    query = f"SELECT chronolake.micros({column}) FROM chronolake.lake_table WHERE namespace || '.' || name = %s"
    [[time]] = _rows(history, query, table)
    return None if time is None else format_time(Micros(time))


def empty_cleans(history: TablesOfTypes) -> int:
    """The number of cleans without a file in the log."""
    query = (
        "SELECT count(*) FROM chronolake.event WHERE payload ->> 'action' = 'clean'"
        " AND payload #> '{plan,earliest_commit_to_retain}' IS NOT NULL"
        " AND payload #> '{plan,cleaned_before}' IS NULL"
    )
    [[number]] = _rows(history, query)
    return int(number)


def _rows(history: TablesOfTypes, query: str, *parameters: Any) -> list[Any]:
    with psycopg.connect(history.dsn) as connection:
        return connection.execute(query.encode(), parameters).fetchall()


def test_a_clean_retains_the_oldest_commit_of_its_policy(history: TablesOfTypes) -> None:
    writes = [history.written(COW, Action.COMMIT, 0) for _ in range(4)]
    planned = clean(history, commits=2)
    assert planned is not None
    assert planned.plan is not None
    assert planned.plan.earliest_commit_to_retain == writes[2].requested_time
    assert earliest(history) == writes[2].requested_time


def test_on_a_table_of_inserts_an_empty_clean_moves_it_and_no_reader_loses_a_time(
    history: TablesOfTypes,
) -> None:
    writes = [history.written(COW, Action.COMMIT, bucket) for bucket in range(3)]
    assert clean(history, commits=2) is None
    assert earliest(history) == writes[1].requested_time
    assert (empty_cleans(history), cleaned_before(history)) == (1, None)
    assert len(history.seen(COW, writes[0].completion_time)) == 1


def test_empty_cleans_come_once_in_an_interval(history: TablesOfTypes) -> None:
    first = history.written(COW, Action.COMMIT, 0)
    clean(history, commits=1)
    second = history.written(COW, Action.COMMIT, 1)
    history.pass_seconds(23 * HOUR)
    clean(history, commits=1)
    assert earliest(history) == first.requested_time
    history.pass_seconds(HOUR)
    clean(history, commits=1)
    assert earliest(history) == second.requested_time
    history.pass_seconds(24 * HOUR)
    clean(history, commits=1)
    assert empty_cleans(history) == 2, "it would not move"


@pytest.mark.parametrize(("hours", "expected"), [("-1", 0), ("0", 3)])
def test_a_property_bounds_empty_cleans(history: TablesOfTypes, hours: str, expected: int) -> None:
    history.make_table_of("shop.own", TableType.COPY_ON_WRITE, {EMPTY_CLEAN_HOURS: hours})
    for bucket in range(3):
        history.written("shop.own", Action.COMMIT, bucket)
        clean(history, "shop.own", commits=1)
    assert empty_cleans(history) == expected


def test_it_never_goes_back(history: TablesOfTypes) -> None:
    writes = [history.written(COW, Action.COMMIT, bucket) for bucket in (0, 0, 0, 1, 2)]
    clean(history, commits=1)
    assert earliest(history) == writes[-1].requested_time
    last = history.written(COW, Action.COMMIT, 0)
    later = clean(history, commits=3)
    assert later is None, "the file that left is among the last three commits"
    by_hand = history.start(COW, Action.CLEAN)
    time, before = parse_time(by_hand.requested_time), writes[1].completion_time
    assert before is not None
    history.done(instants.CompleteInstant(COW, time, cleaned_before=parse_time(before)))
    assert earliest(history) == writes[-1].requested_time
    history.pass_seconds(25 * HOUR)
    assert clean(history, commits=1) is not None
    assert earliest(history) == last.requested_time


def test_it_does_not_pass_a_pending_write(history: TablesOfTypes) -> None:
    first = history.written(COW, Action.COMMIT, 0)
    history.start(COW, Action.COMMIT, lease_seconds=86_400)
    history.written(COW, Action.COMMIT, 0)
    history.written(COW, Action.COMMIT, 1)
    assert clean(history, commits=1) is None
    assert earliest(history) == first.requested_time


def test_it_does_not_pass_a_file_that_a_plan_holds(history: TablesOfTypes) -> None:
    """Report 12: a replaced group must not be archived while its files are there."""
    writes = [history.written(MOR, Action.DELTACOMMIT, 1) for _ in range(2)]
    history.planned(MOR, Action.COMPACTION, group(1), inflight=False)
    history.written(MOR, Action.DELTACOMMIT, 2)
    assert clean(history, MOR, commits=1) is None
    assert earliest(history, MOR) == writes[0].requested_time, "the first file left with the second write"


def test_it_does_not_pass_a_file_that_a_reader_holds(history: TablesOfTypes) -> None:
    first = history.written(COW, Action.COMMIT, 1)
    lease = BeginReading("r", lease_seconds=86_400)
    history._runner.run(readers.begin(TESTER, history._database, COW, lease, None))
    history.written(COW, Action.COMMIT, 1)
    history.written(COW, Action.COMMIT, 2)
    assert clean(history, commits=1) is None
    assert earliest(history) == first.requested_time


def test_files_that_were_deleted_move_it_although_another_is_held(history: TablesOfTypes) -> None:
    """Hudi's readers are refused as of times before it; otherwise they would miss deleted files silently."""
    history.written(COW, Action.COMMIT, 1)
    lease = BeginReading("r", lease_seconds=86_400)
    history._runner.run(readers.begin(TESTER, history._database, COW, lease, None))
    for _ in range(2):
        history.written(COW, Action.COMMIT, 1)
    last = history.written(COW, Action.COMMIT, 1)
    assert clean(history, commits=1) is not None
    assert earliest(history) == last.requested_time


def test_a_clean_by_versions_moves_it_only_with_files(history: TablesOfTypes) -> None:
    history.written(COW, Action.COMMIT, 0)
    assert clean(history, versions=1) is None
    assert earliest(history) is None
    second = history.written(COW, Action.COMMIT, 0)
    history.written(COW, Action.COMMIT, 1)
    assert clean(history, versions=1) is not None
    assert earliest(history) == second.requested_time


def test_a_restore_leaves_it(history: TablesOfTypes) -> None:
    first = history.written(COW, Action.COMMIT, 0)
    saved = history.save(COW, first)
    second = history.written(COW, Action.COMMIT, 1)
    clean(history, commits=1)
    history.done(restore(history, saved))
    assert earliest(history) == second.requested_time


def test_a_full_plan_retains_what_left_with_its_last_file() -> None:
    files = [FileToClean(f"f{number}", 1, Micros(10 + number)) for number in range(FILES_TO_CLEAN_MAX)]
    scope = CleanScope(Micros(10**9), None, ())
    assert cleans.retained_until(scope, files) == files[-1].left_at - 1
    assert cleans.retained_until(scope, files[:-1]) == scope.until
