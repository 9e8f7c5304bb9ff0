"""Spark's SQL catalog: it finds namespaces and tables, and reads the rows that ``SparkTable.read`` reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

from chronolake.slices import stored_slices
from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]


@pytest.fixture(scope="module", params=["copy_on_write", "merge_on_read"])
def orders(
    request: pytest.FixtureRequest, lake: SparkSession, new_table: Callable[..., SparkTable]
) -> SparkTable:
    """A table of a hundred rows, of which an update changed the first ten."""
    rows = lake.range(100).selectExpr("id", "id * 1.5d as price", "concat('d', id % 3) as day")
    table = new_table(rows, "id", type=request.param, partition_fields=["day"], buckets=2)
    table.insert(rows)
    table.upsert(rows.where("id < 10").selectExpr("id", "-1d as price", "day"))
    return table


def _sql(lake: SparkSession, text: str, **names: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.sql(text.format(**names)).collect())


def test_namespaces_and_tables_are_listed(lake: SparkSession, orders: SparkTable) -> None:
    assert ("spark",) in _sql(lake, "SHOW NAMESPACES IN lake")
    name = orders.name.partition(".")[2]
    assert ("spark", name, False) in _sql(lake, "SHOW TABLES IN lake.spark")


def test_rows_are_those_of_the_table(lake: SparkSession, orders: SparkTable) -> None:
    expected = sorted(tuple(row) for row in orders.read().collect())
    assert _sql(lake, "SELECT * FROM lake.{name}", name=orders.name) == expected
    assert _sql(lake, "SELECT count(*) FROM lake.{name}", name=orders.name) == [(100,)]
    assert _sql(lake, "SELECT sum(price) FROM lake.{name} WHERE id < 20", name=orders.name) == [(207.5,)]


def test_filters_leave_out_files_and_no_rows(lake: SparkSession, orders: SparkTable) -> None:
    """Each condition reads the rows that Spark finds itself; one on the partition reads no other files."""
    for condition in (
        "id = 5",
        "5 > id",
        "day = 'd1' AND price < 0",
        "day IN ('d0', 'd2') OR id IS NULL",
        "NOT (price >= 3.0) OR day LIKE 'd2%'",
        "price <=> -1.0",
        "id BETWEEN 3 AND 20 AND length(day) = 2",
    ):
        expected = sorted(tuple(row) for row in orders.read().where(condition).collect())
        assert _sql(lake, f"SELECT * FROM lake.{orders.name} WHERE {condition}") == expected, condition


def test_statistics_are_those_of_the_files_that_a_condition_leaves(
    lake: SparkSession, orders: SparkTable
) -> None:
    files = [file for slice_ in orders.metastore.snapshot().slices for file in stored_slices.files_of(slice_)]
    whole = _bytes_read(lake, f"SELECT * FROM lake.{orders.name}")
    assert 0 < whole <= sum(file.size_bytes for file in files)
    assert _bytes_read(lake, f"SELECT id FROM lake.{orders.name}") < whole
    assert _bytes_read(lake, f"SELECT * FROM lake.{orders.name} WHERE day = 'd1'") < whole / 2


def _bytes_read(lake: SparkSession, query: str) -> int:
    """The size that Spark plans joins with."""
    return int(
        lake.sql(query)._jdf.queryExecution().optimizedPlan().collectLeaves().head().stats().sizeInBytes()
    )


def test_time_travel_by_completion_time_and_by_instant(lake: SparkSession, orders: SparkTable) -> None:
    first = min(orders.metastore.instants(), key=lambda instant: instant.requested_time)
    for version in (first.completion_time, first.requested_time):
        query = "SELECT min(price) FROM lake.{name} VERSION AS OF '{version}'"
        assert _sql(lake, query, name=orders.name, version=version) == [(0.0,)]


def test_unknown_table_is_an_error_of_analysis(lake: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        lake.sql("SELECT * FROM lake.spark.nothing")


def test_changes_have_the_records_before_and_after(
    lake: SparkSession, new_table: Callable[..., SparkTable]
) -> None:
    """One range with inserts, updates and deletes, one of the first commit, and one that a restore ends."""
    rows = lake.range(10).selectExpr("id", "'old' as name")
    for type_ in ("copy_on_write", "merge_on_read"):
        table = new_table(rows, "id", type=type_, buckets=2)
        first = table.insert(rows)
        savepoint = table.metastore.savepoint()
        changed = table.upsert(lake.sql("SELECT id, 'new' AS name FROM range(8, 12)"))
        deleted = table.delete("id = 0")
        begin, middle, end = (str(one.completion_time) for one in (first, changed, deleted))
        query = f"SELECT id, name, _change_type, _commit_version FROM lake.{table.name} CHANGES FROM VERSION "
        with pytest.raises(IllegalArgumentException, match="FROM VERSION '0' is the beginning"):
            lake.sql(f"{query} 'earliest'")
        updates = [
            *((key, "old", "update_preimage", middle) for key in (8, 9)),
            *((key, "new", "update_postimage", middle) for key in (8, 9)),
            *((key, "new", "insert", middle) for key in (10, 11)),
        ]
        delete = (0, "old", "delete", end)
        assert _sql(lake, f"{query} '{middle}' TO VERSION '{end}'") == sorted([*updates, delete])
        assert _sql(lake, f"{query} '{begin}' EXCLUSIVE TO VERSION '{end}' EXCLUSIVE") == sorted(updates)
        assert len(_sql(lake, f"{query} 0 TO VERSION '{begin}'")) == 10
        restored = str(table.metastore.restore(savepoint.requested_time).completion_time)
        back = _sql(lake, f"{query} '{end}' EXCLUSIVE TO VERSION '{restored}'")
        assert back == sorted(
            [
                (0, "old", "insert", restored),
                *((key, "new", "update_preimage", restored) for key in (8, 9)),
                *((key, "old", "update_postimage", restored) for key in (8, 9)),
                *((key, "new", "delete", restored) for key in (10, 11)),
            ]
        )
