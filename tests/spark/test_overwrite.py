"""Overwrites of partitions and tables, and deletes of partitions, on both table types."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as sf

from chronolake.errors import WriteConflict
from chronolake.slices import columns
from chronolake.writing.choices import Replaces
from chronolake_model.vocabulary import Action, Operation, TableType
from chronolake_spark import SparkTable, errors
from chronolake_spark.write import writes
from chronolake_spark.write.writes import WriteSettings

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
TYPES = pytest.mark.parametrize("type_", list(TableType))
BEFORE = ((1, "de", "a", 10), (2, "fr", "a", 20), (3, "fr", "b", 30), (4, None, "a", 40))


def sales(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id long, country string, shop string, price int")


def rows_of(table: SparkTable, as_of: str | None = None) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, table.read(as_of).collect()))


def prices_of(table: SparkTable) -> dict[int, int]:
    return {row.id: row.price for row in table.read().collect()}


def changes_of(table: SparkTable, from_: str | None) -> list[tuple[Any, ...]]:
    changed = table.changes(from_).select(columns.CHANGE_TYPE, "id", "price")
    return sorted(tuple(row) for row in changed.collect())


@TYPES
def test_an_overwrite_replaces_the_partitions_that_the_frame_has_rows_of(
    spark: SparkSession, new_table: NewTable, type_: TableType
) -> None:
    table = new_table(sales(spark), "id", partition_fields=["country", "shop"], type=type_, buckets=2)
    first = table.insert(sales(spark, *BEFORE))
    table.upsert(sales(spark, (2, "fr", "a", 21)))
    instant = table.overwrite(
        sales(spark, (2, "fr", "a", 22), (5, "fr", "a", 50), (6, "it", "a", 60)), "dynamic"
    )

    assert (instant.action, instant.operation) == (Action.REPLACECOMMIT, Operation.INSERT_OVERWRITE)
    assert prices_of(table) == {1: 10, 2: 22, 3: 30, 4: 40, 5: 50, 6: 60}
    # What is written to the new groups later, and a second overwrite, count on.
    table.upsert(sales(spark, (2, "fr", "a", 23), (7, "fr", "a", 70)))
    table.overwrite(sales(spark, (2, "fr", "a", 24)), "dynamic")
    table.upsert(sales(spark, (5, "fr", "a", 51)))
    assert prices_of(table) == {1: 10, 2: 24, 3: 30, 4: 40, 5: 51, 6: 60}
    assert rows_of(table, first.completion_time) == sorted(BEFORE)
    assert changes_of(table, first.completion_time) == [("upsert", 2, 24), ("upsert", 5, 51), ("upsert", 6, 60)]


@TYPES
def test_an_overwrite_of_all_replaces_the_table_also_with_nothing(
    spark: SparkSession, new_table: NewTable, type_: TableType
) -> None:
    table = new_table(sales(spark), "id", partition_fields=["country"], type=type_, buckets=2)
    first = table.insert(sales(spark, *BEFORE))
    table.overwrite(sales(spark), "dynamic")
    assert rows_of(table) == sorted(BEFORE)

    table.overwrite(sales(spark, (1, "fr", "a", 11)), "all")
    assert rows_of(table) == [(1, "fr", "a", 11)]
    table.overwrite(sales(spark), "all")
    assert rows_of(table) == []
    assert changes_of(table, first.completion_time) == [("delete", n, 10 * n) for n in (1, 2, 3, 4)]
    # The buckets' groups are gone for good: the next ones are opened.
    table.insert(sales(spark, *BEFORE[:2]))
    assert rows_of(table) == sorted(BEFORE[:2])


@TYPES
def test_partitions_are_deleted_by_their_values(
    spark: SparkSession, new_table: NewTable, type_: TableType, caplog: pytest.LogCaptureFixture
) -> None:
    table = new_table(sales(spark), "id", partition_fields=["country", "shop"], type=type_, buckets=2)
    table.insert(sales(spark, *BEFORE))
    instant = table.delete_partitions([{"country": "fr", "shop": "a"}, {"country": "nowhere"}])

    warnings = [record.getMessage() for record in caplog.records if record.name == "chronolake.spark"]
    assert warnings == [
        f"{table.name} has no partition with the values {{'country': 'nowhere'}}: nothing of it is deleted"
    ]
    assert (instant.action, instant.operation) == (Action.REPLACECOMMIT, Operation.DELETE_PARTITION)
    assert [row[0] for row in rows_of(table)] == [1, 3, 4]
    table.upsert(sales(spark, (2, "fr", "a", 21)))
    table.delete_partitions({"country": None, "shop": "a"})
    assert [row[0] for row in rows_of(table)] == [1, 2, 3]
    table.delete_partitions({"country": "fr"}, {"country": "fr"})
    assert [row[0] for row in rows_of(table)] == [1]


def test_partitions_that_are_not_named_by_their_values_are_refused(
    spark: SparkSession, new_table: NewTable
) -> None:
    table = new_table(sales(spark), "id", partition_fields=["price", "country"])
    with pytest.raises(errors.InvalidPartitionValue, match="the type int, and 'cheap' is no value"):
        table.delete_partitions({"price": "cheap"})
    with pytest.raises(errors.InvalidPartitionValue, match=r"by values of price, country, .* not by 'shop'"):
        table.delete_partitions({"shop": "a"})
    with pytest.raises(errors.InvalidPartitionValue, match="not by nothing"):
        table.delete_partitions({})
    with pytest.raises(errors.InvalidPartitionValue, match="has no partitions"):
        new_table(sales(spark), "id").delete_partitions({"country": "de"})
    with pytest.raises(ValueError, match="name each partition"):
        table.delete_partitions()


@TYPES
def test_an_overwrite_by_a_frame_of_the_table_loses_no_write_that_came_after_the_frame(
    spark: SparkSession, new_table: NewTable, type_: TableType
) -> None:
    table = new_table(sales(spark), "id", type=type_, buckets=1)
    empty = table.read()
    first = table.insert(sales(spark, *BEFORE))
    frame = table.read().where("price < 30")
    with pytest.raises(ValueError, match="cannot have on_conflict"):
        table.overwrite(frame, "all", on_conflict="retry")
    frame.createOrReplaceTempView("v_before")
    outdated = [
        empty,
        frame.withColumn("price", sf.lit(1)),
        table.read(filter="price < 30"),
        spark.table("v_before"),
    ]
    table.upsert(sales(spark, (9, "de", "a", 90)))
    for stale in outdated:
        with pytest.raises(errors.FrameOutdated, match="1 of its file groups have changed since"):
            table.overwrite(stale, "all")
    table.overwrite(table.read().where("price > 30"), "all")
    assert prices_of(table) == {4: 40, 9: 90}
    # Who names a state wants it back.
    table.overwrite(table.read(first.completion_time), "all")
    assert rows_of(table) == sorted(BEFORE)


@TYPES
def test_an_overwrite_loses_to_an_upsert_that_completed_meanwhile_and_can_be_repeated(
    spark: SparkSession, new_table: NewTable, type_: TableType, tmp_path: Path
) -> None:
    table = new_table(sales(spark), "id", type=type_, buckets=1)
    table.insert(sales(spark, *BEFORE))
    rows = writes.tagged(sales(spark, (9, "de", "a", 90)), table.definition)

    def after_an_upsert(price: int) -> Callable[[str], DataFrame]:
        def overtaken(_: str) -> DataFrame:
            if not (overtook := tmp_path / str(price)).exists():
                overtook.touch()
                table.upsert(sales(spark, (1, "de", "a", price)))
            return rows

        return overtaken

    settings = WriteSettings(operation=Operation.INSERT_OVERWRITE, replaces=Replaces.TABLE)
    with pytest.raises(WriteConflict):
        table._write(after_an_upsert(11), settings)
    assert rows_of(table)[0] == (1, "de", "a", 11)

    instant = table._write(after_an_upsert(12), dataclasses.replace(settings, options={"on_conflict": "retry"}))
    assert rows_of(table) == [(9, "de", "a", 90)]
    assert instant.extra_metadata["conflicts.retries"] == "1"
    assert table.metastore.orphans().orphans == []
