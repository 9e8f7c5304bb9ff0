"""Resizes of buckets: the records stay as they are, and readers and writers find them by the new number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as sf

from chronolake.slices import columns
from chronolake.writing import conflict_retries, writable_tables
from chronolake_model.file_names import bucket_of
from chronolake_model.vocabulary import Action, Operation, TableType
from chronolake_spark import SparkTable, errors
from chronolake_spark.write import resizes

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
DAYS = ("2026-01-01", "2026-01-02")


def sales(spark: SparkSession, ids: range, amount: int) -> DataFrame:
    day = sf.when(sf.col("id") % 3 == 0, DAYS[0]).otherwise(DAYS[1])
    return spark.range(ids.start, ids.stop).select("id", day.alias("day"), sf.lit(amount).alias("amount"))


def amounts(frame: DataFrame) -> dict[int, int]:
    rows = frame.collect()
    assert len({row.id for row in rows}) == len(rows)
    return {row.id: row.amount for row in rows}


def meta_of(table: SparkTable) -> list[tuple[Any, ...]]:
    """The records with Hudi's columns, without the file name."""
    return sorted(tuple(row) for row in table.read(meta_columns=True).drop(columns.FILE_NAME).collect())


def buckets_in_use(table: SparkTable) -> set[int]:
    return {bucket_of(slice_.file_id) for slice_ in table.metastore.snapshot().slices}


@pytest.mark.parametrize(
    "type_", [pytest.param(TableType.COPY_ON_WRITE, marks=pytest.mark.slow), TableType.MERGE_ON_READ]
)
def test_a_resize_leaves_the_records_as_they_are_for_every_reader(
    spark: SparkSession, new_table: NewTable, type_: TableType
) -> None:
    table = new_table(sales(spark, range(0), 0), "id", partition_fields=["day"], buckets=2, type=type_)
    stale = SparkTable(spark, table._client, table._client.table(table.name))
    inserted = table.insert(sales(spark, range(40), 1))
    upserted = table.upsert(sales(spark, range(30, 50), 2))
    table.delete(sales(spark, range(4), 0))
    before, records = amounts(table.read()), meta_of(table)

    instant = table.resize_buckets(7)

    assert (instant.action, instant.operation) == (Action.REPLACECOMMIT, Operation.CLUSTER)
    assert table.metastore.reload().definition.index.buckets == 7
    assert meta_of(table) == records
    assert max(buckets_in_use(table)) > 2
    assert not any(slice_.log_files for slice_ in table.metastore.snapshot().slices)
    assert table.metastore.check().findings == []
    # Time travel, changes and lookups, also through a table that was opened before.
    assert amounts(table.read(inserted.completion_time)) == dict.fromkeys(range(40), 1)
    assert table.changes(upserted.completion_time, "latest").where("amount = 1").count() == 4, "the deletes"
    assert table.changes(instant.requested_time, "latest").count() == 0
    ids = list(range(60))
    for reader in (table, stale):
        assert amounts(reader.lookup(ids)) == before
        assert amounts(reader.lookup(ids, inserted.completion_time)) == dict.fromkeys(range(40), 1)
    assert table.metastore.check(inserted.completion_time).findings == []
    # A resize is no change of a record.
    table.upsert(sales(spark, range(49, 50), 2))
    history = [[of.change for of in table.metastore.record_history(id)] for id in range(8, 32, 4)]
    assert history == [["insert"]] * 6

    # Every later write finds the records, and the new ones their buckets.
    table.upsert(sales(spark, range(45, 60), 3))
    table.resize_buckets(1)
    after = {id: amount for id, amount in before.items() if id < 45} | dict.fromkeys(range(45, 60), 3)
    assert amounts(table.read()) == after
    assert buckets_in_use(table) == {0}
    assert table.metastore.check().findings == []


@pytest.mark.parametrize(
    "type_", [TableType.COPY_ON_WRITE, pytest.param(TableType.MERGE_ON_READ, marks=pytest.mark.slow)]
)
def test_a_write_during_a_resize_is_written_again_by_the_new_number(
    spark: SparkSession, new_table: NewTable, monkeypatch: pytest.MonkeyPatch, type_: TableType
) -> None:
    table = new_table(sales(spark, range(0), 0), "id", buckets=2, type=type_)
    table.resize_buckets(3)  # of an empty table
    table.insert(sales(spark, range(10), 1))
    begun = writable_tables.refuse_another_schema

    def resize_first(*args: Any) -> None:
        monkeypatch.undo()
        begun(*args)
        table.resize_buckets(4)

    monkeypatch.setattr(writable_tables, "refuse_another_schema", resize_first)
    retried = table.upsert(sales(spark, range(5, 15), 2), on_conflict="retry")
    assert retried.extra_metadata[conflict_retries.RETRIES] == "1"
    assert amounts(table.read()) == dict.fromkeys(range(5), 1) | dict.fromkeys(range(5, 15), 2)
    assert table.metastore.check().findings == []


@pytest.mark.slow
def test_a_resize_is_repeated_after_a_write_that_completed_meanwhile(
    spark: SparkSession, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(sales(spark, range(0), 0), "id", buckets=2)
    table.insert(sales(spark, range(10), 1))
    stored_rows = resizes._stored_rows

    def after_an_upsert(*args: Any) -> DataFrame:
        monkeypatch.undo()
        table.upsert(sales(spark, range(5, 15), 2))
        return stored_rows(*args)

    monkeypatch.setattr(resizes, "_stored_rows", after_an_upsert)
    instant = table.resize_buckets(5, on_conflict="retry")
    assert instant.extra_metadata[conflict_retries.RETRIES] == "1"
    assert amounts(table.read()) == dict.fromkeys(range(5), 1) | dict.fromkeys(range(5, 15), 2)
    assert list(table.metastore.timeline.pending()) == []


@pytest.mark.slow
def test_records_of_one_key_stay_as_many_as_they_were(spark: SparkSession, new_table: NewTable) -> None:
    table = new_table(sales(spark, range(0), 0), "id", buckets=1)
    for amount in (1, 2):
        SparkTable.bulk_insert(table, sales(spark, range(3), amount))
    table.resize_buckets(3)
    assert sorted((row.id, row.amount) for row in table.read().collect()) == [
        (id, amount) for id in range(3) for amount in (1, 2)
    ]


def test_a_table_without_buckets_is_not_resized(spark: SparkSession, new_table: NewTable) -> None:
    table = new_table(sales(spark, range(0), 0), "id", index="simple")
    for wrong in (0, 100_001, True, "8", 2.5, None):
        with pytest.raises(ValueError, match="from 1 to 100,000"):
            table.resize_buckets(wrong)  # type: ignore[arg-type]
    with pytest.raises(errors.TableMismatch, match="has the index simple, without buckets"):
        table.resize_buckets(8)


def test_a_table_is_not_resized_to_the_number_of_buckets_that_it_has(
    spark: SparkSession, new_table: NewTable
) -> None:
    table = new_table(sales(spark, range(0), 0), "id", buckets=4)
    with pytest.raises(errors.TableMismatch, match="has 4 buckets already"):
        table.resize_buckets(4)


@pytest.mark.slow
@pytest.mark.parametrize("type_", list(TableType))
def test_a_resize_with_direct_markers_and_columns_of_earlier_schemas(
    spark: SparkSession, new_table: NewTable, type_: TableType
) -> None:
    table = new_table(
        sales(spark, range(0), 0),
        "id",
        partition_fields=["day"],
        buckets=2,
        type=type_,
        properties={"markers.type": "direct"},
    )
    table.insert(sales(spark, range(20), 1))
    table.overwrite(sales(spark, range(10), 2).where("id % 3 = 0"), "dynamic")
    table.upsert(sales(spark, range(30, 40), 3).withColumn("note", sf.lit("new")), merge_schema=True)
    records = meta_of(table)
    for buckets in (5, 1, 3):
        table.resize_buckets(buckets)
        assert meta_of(table) == records
        assert table.metastore.check().findings == []
    table.upsert(sales(spark, range(35, 45), 4).withColumn("note", sf.lit("newer")))
    assert len(amounts(table.read())) == len(records) + 5
    assert table.metastore.check().findings == []
