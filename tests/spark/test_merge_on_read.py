"""Merge-on-read tables, written and read through Spark; hudi-rs reads each published state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as sf

from chronolake import AddColumn
from chronolake.errors import WriteConflict
from chronolake.writing import writable_tables
from chronolake.writing.counts import RowCounts
from chronolake_model.publication import PublicationState
from chronolake_model.vocabulary import TableType
from chronolake_spark import SparkTable, errors, row_counts

pytestmark = pytest.mark.spark
NewTable = Callable[..., SparkTable]
SCHEMA = "id bigint not null, day string, amount int, ts bigint not null"


def orders(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA)


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def new_orders(spark: SparkSession, new_table: NewTable, **definition: Any) -> SparkTable:
    definition = {"type": TableType.MERGE_ON_READ, "ordering_field": "ts", "buckets": 2, **definition}
    return new_table(orders(spark), "id", **definition)


def logs_of(table: SparkTable) -> list[int]:
    """The number of log files of each slice."""
    return sorted(len(slice_.log_files) for slice_ in table.metastore.snapshot().slices)


def is_read_by_hudi(table: SparkTable) -> bool:
    """Whether the last state is published: then hudi-rs has read it, and the same rows as Chronolake."""
    publication = table.metastore.publish()
    return publication.state is PublicationState.PUBLISHING and not publication.lag_versions


@pytest.mark.parametrize("log_blocks", ["parquet", "avro"])
def test_upserts_and_deletes_append_log_files_that_reads_merge(
    spark: SparkSession, new_table: NewTable, log_blocks: str
) -> None:
    table = new_orders(spark, new_table, buckets=1, properties={"hudi.log-blocks": log_blocks})
    first = table.insert(orders(spark, (1, "a", 10, 5), (2, "a", 20, 5), (3, "a", 30, 5)))
    second = table.upsert(orders(spark, (1, "a", 11, 6), (2, "a", 0, 4), (4, "b", 40, 1)))
    third = table.delete(orders(spark, (3, "a", 0, 0)).select("id"))
    assert logs_of(table) == [2]
    assert is_read_by_hudi(table)
    assert rows_of(table.read()) == [(1, "a", 11, 6), (2, "a", 20, 5), (4, "b", 40, 1)]
    assert rows_of(table.read(view="read_optimized")) == [(1, "a", 10, 5), (2, "a", 20, 5), (3, "a", 30, 5)]
    assert rows_of(table.read(second.completion_time, columns=["amount", "id"])) == [
        (11, 1),
        (20, 2),
        (30, 3),
        (40, 4),
    ]
    assert rows_of(table.read(filter="id = 4")) == [(4, "b", 40, 1)]
    assert rows_of(table.changes(first.completion_time)) == [
        (1, "a", 11, 6, "upsert"),
        (3, "a", 30, 5, "delete"),
        (4, "b", 40, 1, "upsert"),
    ]
    assert rows_of(table.changes(second.completion_time)) == [(3, "a", 30, 5, "delete")]
    assert row_counts(third) == RowCounts(1, 0, 0, 1, 0, 0)


def test_without_ordering_field_the_later_commit_wins(spark: SparkSession, new_table: NewTable) -> None:
    table = new_orders(spark, new_table, ordering_field=None)
    table.upsert(orders(spark, *((id, "a", 0, 0) for id in range(6))))
    table.upsert(orders(spark, (1, "a", 1, 9), (2, "a", 1, 9)))
    table.delete(orders(spark, (1, "a", 0, 0), (3, "a", 0, 0)).select("id"))
    table.upsert(orders(spark, (1, "a", 2, 1), (2, "a", 2, 1)))
    assert rows_of(table.read().where("id < 5").select("id", "amount")) == [(0, 0), (1, 2), (2, 2), (4, 0)]
    assert is_read_by_hudi(table)


def overtake(monkeypatch: pytest.MonkeyPatch, late: Callable[[], object]) -> None:
    """Let a late write run from begin to end once the next write has begun and has its snapshot."""
    begun = writable_tables.refuse_another_schema

    def overtaken(*args: Any) -> None:
        monkeypatch.setattr(writable_tables, "refuse_another_schema", begun)
        begun(*args)
        late()

    monkeypatch.setattr(writable_tables, "refuse_another_schema", overtaken)


def test_of_two_inserts_of_one_key_at_the_same_time_one_is_refused(
    spark: SparkSession, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_orders(spark, new_table, buckets=1)
    table.insert(orders(spark, (1, "a", 0, 1)))
    early = orders(spark, (2, "a", 1, 5))
    overtake(monkeypatch, lambda: table.insert(orders(spark, (2, "a", 2, 6))))
    with pytest.raises(WriteConflict, match="Nothing was written: run it again, or write with on_"):
        table.insert(early)
    overtake(monkeypatch, lambda: table.upsert(orders(spark, (3, "a", 3, 3))))
    with pytest.raises(errors.DuplicateKeys, match="'2'"):
        table.insert(early, on_conflict="retry")
    assert rows_of(table.read()) == [(1, "a", 0, 1), (2, "a", 2, 6), (3, "a", 3, 3)]


def test_two_writers_that_upsert_the_same_keys_both_succeed_and_the_larger_value_wins(
    spark: SparkSession, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_orders(spark, new_table, partition_fields=["day"], buckets=1)
    table.insert(orders(spark, (1, "a", 0, 1), (2, "a", 0, 1), (3, "b", 0, 1)))
    early = orders(spark, (1, "a", 1, 5), (2, "a", 1, 3), (4, "a", 1, 1))
    late = orders(spark, (1, "a", 2, 4), (2, "a", 2, 6), (3, "b", 2, 2))
    overtake(monkeypatch, lambda: table.upsert(late))
    table.upsert(early)

    assert rows_of(table.read()) == [(1, "a", 1, 5), (2, "a", 2, 6), (3, "b", 2, 2), (4, "a", 1, 1)]
    assert is_read_by_hudi(table)
    with pytest.raises(errors.DuplicateKeys, match="'4'"):
        table.insert(orders(spark, (4, "a", 0, 0)))


def test_log_files_of_earlier_schemas_are_read(spark: SparkSession, new_table: NewTable) -> None:
    table = new_orders(spark, new_table, buckets=1)
    first = table.insert(orders(spark, (1, "a", 10, 5), (2, "a", 20, 5), (3, "a", 30, 5)))
    table.upsert(orders(spark, (2, "a", 21, 6)))
    # After a widening hudi-rs fails at the slice, with an error.
    table.metastore.change_schema([AddColumn("note", "string")])
    table.upsert(orders(spark, (3, "a", 31, 6), (4, "a", 40, 1)).withColumn("note", sf.lit("n")))
    table.delete(orders(spark, (1, "a", 0, 0)).select("id"))

    merged = [(2, "a", 21, 6, None), (3, "a", 31, 6, "n"), (4, "a", 40, 1, "n")]
    assert rows_of(table.read()) == merged
    assert rows_of(table.read(columns=["note"]).na.drop()) == [("n",), ("n",)]
    changed = [(1, "a", 10, 5, None, "delete"), *((*row, "upsert") for row in merged)]
    assert rows_of(table.changes(first.completion_time)) == changed
    assert is_read_by_hudi(table)
