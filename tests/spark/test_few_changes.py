"""Slices whose log files change few records: Spark reads their base files, executors the changed records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from chronolake import AddColumn, RenameColumn
from chronolake.slices import slice_reader
from chronolake.slices.stored_slices import StoredSlice
from chronolake_model.vocabulary import TableType
from chronolake_spark import SparkTable, errors
from chronolake_spark.read import few_changes, slice_frames
from tests.spark.test_format import plan_of

pytestmark = pytest.mark.spark
NewTable = Callable[..., SparkTable]
COUNT = 40


@pytest.fixture(autouse=True)
def small_base_files_are_read_by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_changes, "_BASE_BYTES_MIN", 0)


def frame(spark: SparkSession, columns: str, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), columns)


def rows_of(rows: DataFrame) -> list[tuple[Any, ...]]:
    assert "LeftAnti" in plan_of(rows), "executors merge the whole slices"
    return sorted(tuple(row) for row in rows.collect())


@pytest.mark.parametrize("key_type", ["bigint", "smallint", "string", "date"])
@pytest.mark.parametrize("ordering_field", [None, "ts"])
def test_updated_deleted_and_new_records_are_read_once(
    spark: SparkSession, new_table: NewTable, key_type: str, ordering_field: str | None
) -> None:
    def visits(*rows: tuple[int, int, int]) -> DataFrame:
        numbers = frame(spark, "n int, amount int, ts int", *rows)
        id_ = "date_add(date'2026-01-01', n)" if key_type == "date" else f"cast(n as {key_type})"
        return numbers.selectExpr(f"{id_} id", "n", "amount", "ts")

    table = new_table(visits(), "id", type=TableType.MERGE_ON_READ, ordering_field=ordering_field, buckets=2)
    first = table.upsert(visits(*((n, n, 5) for n in range(COUNT))))
    # The record 3 is older than the stored one: with an ordering field it loses.
    table.upsert(visits((1, -1, 6), (3, -3, 4), (COUNT, 0, 1)))
    table.delete(visits((2, 0, 9)).select("id"))
    three = -3 if ordering_field is None else 3
    changed = {1: -1, 3: three, COUNT: 0}
    expected = [(n, changed.get(n, n)) for n in range(COUNT + 1) if n != 2]
    assert rows_of(table.read(columns=["n", "amount"])) == expected
    assert table.read().count() == COUNT
    changes = table.changes(first.completion_time).select("n", "amount", "_change_type")
    upserts = [(1, -1, "upsert"), (2, 2, "delete"), (3, -3, "upsert"), (COUNT, 0, "upsert")]
    assert rows_of(changes) == [row for row in upserts if row[0] != 3 or three == -3]


def test_an_explanation_says_that_spark_reads_the_base_file(spark: SparkSession, new_table: NewTable) -> None:
    """It said that executors merge the whole slice."""
    some = frame(spark, "id int, n int", *((n, n) for n in range(COUNT)))
    table = new_table(some, "id", type=TableType.MERGE_ON_READ, buckets=1)
    table.upsert(some)
    table.upsert(frame(spark, "id int, n int", (1, -1)))
    rows_of(table.read())
    assert [part.what for part in table.explain().parts] == [
        "read by Spark's own Parquet reader, but for the records that log files change"
    ]


@pytest.mark.parametrize(("task_bytes", "tasks"), [(4 * 2**20, 1), (1, 2)])
def test_small_log_files_are_read_in_few_tasks(
    spark: SparkSession,
    new_table: NewTable,
    monkeypatch: pytest.MonkeyPatch,
    task_bytes: int,
    tasks: int,
) -> None:
    monkeypatch.setattr(slice_frames, "_TASK_BYTES_MIN", task_bytes)
    columns = "id long, amount int"
    table = new_table(frame(spark, columns), "id", type=TableType.MERGE_ON_READ, buckets=2)
    table.upsert(frame(spark, columns, *((n, n) for n in range(COUNT))))
    table.upsert(frame(spark, columns, *((n, -n) for n in range(0, COUNT, 10))))
    read = table.read()
    assert rows_of(read) == sorted((n, n if n % 10 else -n) for n in range(COUNT))
    assert f"Range (0, {tasks}, step=1, splits={tasks})" in plan_of(read)


def test_small_slices_are_merged_whole(
    spark: SparkSession, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    columns = "id long, amount int"
    table = new_table(frame(spark, columns), "id", type=TableType.MERGE_ON_READ, buckets=2)
    table.upsert(frame(spark, columns, *((n, n) for n in range(COUNT))))
    table.upsert(frame(spark, columns, (1, -1)))
    read = table.read()
    plan = plan_of(read)
    assert "LeftAnti" not in plan
    assert "splits=1)" in plan
    assert sorted(tuple(row) for row in read.collect())[:2] == [(0, 0), (1, -1)]


def test_a_key_that_two_partitions_have_changes_in_one_of_them(
    spark: SparkSession, new_table: NewTable
) -> None:
    columns = "id long, day string, amount int"
    table = new_table(
        frame(spark, columns), "id", partition_fields=["day"], type=TableType.MERGE_ON_READ, buckets=1
    )
    table.upsert(frame(spark, columns, *((n, day, n) for n in range(COUNT) for day in "ab")))
    table.upsert(frame(spark, columns, (1, "a", -1)))
    table.delete(frame(spark, columns, (2, "b", 0)).select("id", "day"))
    rows = rows_of(table.read())
    assert len(rows) == 2 * COUNT - 1
    assert [row for row in rows if row[0] in (1, 2)] == [(1, "a", -1), (1, "b", 1), (2, "a", 2)]


def test_the_key_field_may_have_any_name(spark: SparkSession, new_table: NewTable) -> None:
    columns = "`a key.``x` long, amount int"
    table = new_table(frame(spark, columns), "a key.`x", type=TableType.MERGE_ON_READ, buckets=1)
    table.upsert(frame(spark, columns, *((n, n) for n in range(COUNT))))
    table.upsert(frame(spark, columns, (1, -1)))
    assert rows_of(table.read())[:3] == [(0, 0), (1, -1), (2, 2)]


def test_a_base_file_with_former_columns_is_read_beside_log_files_with_the_present_ones(
    spark: SparkSession, new_table: NewTable
) -> None:
    table = new_table(frame(spark, "id int, amount int"), "id", type=TableType.MERGE_ON_READ, buckets=1)
    table.upsert(frame(spark, "id int, amount int", *((n, n) for n in range(COUNT))))
    table.metastore.change_schema([RenameColumn("amount", "price"), AddColumn("note", "string")])
    table.upsert(frame(spark, "id int, price int, note string", (1, -1, "x"), (COUNT, 0, "y")))
    rows = rows_of(table.read())
    assert (rows[0], rows[1], rows[COUNT]) == ((0, 0, None), (1, -1, "x"), (COUNT, 0, "y"))
    assert len(rows) == COUNT + 1


def test_a_key_that_is_not_the_text_of_its_number_is_reported() -> None:
    stored = StoredSlice("", "group", None)
    for key in ("id:42", "0042", "42.0", "99999999999999999999"):
        with pytest.raises(errors.LogFileDamaged, match=key):
            slice_reader._numbers(pa.array(["1", key]), stored)
    assert slice_reader._numbers(pa.array(["-9223372036854775808", "0"]), stored).to_pylist() == [-(2**63), 0]
