"""Hudi's Spark bundle and hudi-rs read tables whose oldest instants have left the active timeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import chronolake
from chronolake.hudi import releasing
from chronolake_model.vocabulary import Action, TableType
from tests.fix_s3 import S3
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.hudi.hudi_spark import HudiSpark
from tests.hudi.keyed_table import (
    KeyedTable,
    assert_as_of,
    assert_readers_agree,
    changes_of_java,
)
from tests.hudi.test_hudi_spark_adoption import written_with
from tests.published import Row
from tests.server.publication.archived_tables import SHORT, active_times, archived, times

pytestmark = pytest.mark.hudi_spark
RELEASED_COLUMNS = "id bigint, day string, ts bigint, name string"
ARCHIVES = {
    "hoodie__clean__commits__retained": "1",
    "hoodie__keep__min__commits": "2",
    "hoodie__keep__max__commits": "3",
    "hoodie__timeline__compaction__batch__size": "2",
    "hoodie__metadata__enable": "false",
}
"""Hudi archives as soon as it may, and compacts the files of the history."""
EXACT = {"hoodie__datasource__read__incr__fallback__fulltablescan__enable": "false"}
"""Hudi reads the files of each commit, and not the present table."""


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, hudi_spark: HudiSpark) -> Store:
    """A folder, or a bucket that Spark reaches."""
    if request.param == "local":
        return Store((tmp_path / "lake").as_uri(), None)
    s3: S3 = request.getfixturevalue("s3")
    store = Store(s3.base_path, s3.options)
    hudi_spark.reach(store)
    return store


@pytest.fixture
def client(shared_server: ServerProcess, place: Store) -> Iterator[chronolake.Client]:
    """A client that reaches the place."""
    with chronolake.connect(shared_server.url, storage_options=place.options, retry_seconds=10) as client:
        yield client


def row(number: int, ts: int = 1, day: str = "a", name: str = "x") -> Row:
    return {"id": number, "day": day, "ts": ts, "name": name}


@pytest.mark.parametrize("version", [8, 9])
def test_a_copy_on_write_table_is_read_on_both_sides_of_the_border(
    hudi_spark: HudiSpark, client: chronolake.Client, place: Store, version: int
) -> None:
    table = KeyedTable(client, place, ordering="bigint", version=version, properties=SHORT)
    for number in range(10):
        table.upsert(row(number, day=f"d{number}"), row(100, number, name=f"n{number}"))
        table.publish()
        if number % 3 == 0:
            assert_readers_agree(hudi_spark, table)
    gone = [time for time in table.requested_times if time in times(archived(table))]
    assert len(gone) >= 6
    ends = [table.completion_time(time) for time in table.requested_times]
    for number in (0, 3, len(gone) - 1, len(gone), 9):
        assert_as_of(hudi_spark, table, table.requested_times[number], ends[number])
    # Within the history, over the border, and from before all.
    border, last = len(gone) - 1, len(ends) - 1
    for after, until in [(0, 1), (0, 4), (border - 1, border), (border, last), (border - 1, last), (0, last)]:
        assert_changes_over_the_border(hudi_spark, table, ends[after], ends[until])
    assert_shown(hudi_spark, table)


def assert_changes_over_the_border(spark: HudiSpark, table: KeyedTable, after: str, until: str) -> None:
    """The changes of a range, exactly; and what Hudi makes of them unless it is told to read each commit.

    If the range begins in the history, it then scans the table, and returns its present rows of the range.
    """
    expected = table.upserts(after, until)
    assert changes_of_java(spark, table, after, until, **EXACT) == expected
    present = table.own_rows()
    if any(after < entry["completionTime"] <= until for entry in archived(table)):
        expected = [changed for changed in expected if changed in present]
    assert changes_of_java(spark, table, after, until) == expected


def assert_shown(spark: HudiSpark, table: KeyedTable) -> None:
    """The procedure of Hudi shows the instants of both, and the metadata of commits."""
    shown = spark.sql(f"CALL show_timeline(path => '{_location(table)}', showArchived => true, limit => 1000)")
    seen = {record["instant_time"] for record in shown if record["state"] == "COMPLETED"}
    assert seen == {*times(archived(table)), *active_times(table)}
    only_active = spark.sql(f"CALL show_timeline(path => '{_location(table)}', showArchived => false)")
    assert {record["instant_time"] for record in only_active} == set(active_times(table))


def _location(table: KeyedTable) -> str:
    return table.location.replace("s3://", "s3a://")


def test_a_merge_on_read_table_is_read_on_both_sides_of_the_border(
    hudi_spark: HudiSpark, client: chronolake.Client, place: Store
) -> None:
    table = KeyedTable(client, place, TableType.MERGE_ON_READ, ordering="bigint", properties=SHORT)
    table.upsert(row(1), row(2), row(3, day="b"))
    for number in range(2, 14):
        table.upsert(row(1, number, name=f"n{number}"), row(100 + number, day="b"))
        if number % 4 == 0:
            requested = table.plan(Action.COMPACTION)
            assert requested is not None
            # A log file of the slice after it, by a delta commit that was requested before it completes.
            table.publish()
            table.upsert(row(2, number, name=f"beside {number}"))
            table.compact(requested)
            table.table.clean(retain_commits=1)
        table.publish()
        if number % 4 in (0, 1):
            assert_readers_agree(hudi_spark, table)
    rows = archived(table)
    assert len(rows) >= 6
    plans = [entry for entry in rows if entry["plan"] is not None]
    assert plans
    assert {entry["action"] for entry in rows} >= {"commit", "deltacommit"}
    ends = [table.completion_time(time) for time in table.requested_times]
    for after in (ends[-4], ends[-2]):
        assert_changes_over_the_border(hudi_spark, table, after, ends[-1])
    assert_shown(hudi_spark, table)


def test_a_released_table_keeps_its_history_and_hudi_archives_on(
    hudi_spark: HudiSpark, client: chronolake.Client, place: Store
) -> None:
    table = KeyedTable(client, place, ordering="bigint", properties=SHORT)
    for number in range(10):
        table.upsert(row(number, day=f"d{number}"))
        table.publish()
    before, rows, ends = (
        times(archived(table)),
        table.own_rows(),
        [*map(table.completion_time, table.requested_times)],
    )
    changes = [table.upserts(ends[0], end) for end in ends]
    releasing.release(client, table.table.name, storage_options=place.options)
    assert table.of_java(hudi_spark) == rows
    assert table.of_hudi_rs() == rows
    for number in (1, 4, 9):
        assert changes_of_java(hudi_spark, table, ends[0], ends[number]) == changes[number]
    assert times(archived(table)) == before

    if place.options is None:
        options = {**written_with(table.table), "hoodie__datasource__write__operation": "upsert"}
        for number in range(8):
            new = [[200 + number, "h", 1, "x"]]
            hudi_spark.write_records(table.location, RELEASED_COLUMNS, new, **options, **ARCHIVES)
        after = times(archived(table))
        assert sorted(after)[: len(before)] == before
        assert len(after) > len(before) + 2
        seen = changes_of_java(hudi_spark, table, ends[0], "20990101000000000", **EXACT)
        assert {key for _, _, key, *_ in seen} == {str(number) for number in (*range(1, 10), *range(200, 208))}
