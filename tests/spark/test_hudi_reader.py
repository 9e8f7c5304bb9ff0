"""hudi-rs reads tables of Spark: changes, earlier states, schemas, and instants pending, undone and cleaned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hudi
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import chronolake
from chronolake import AddColumn, DropColumn, SchemaChange, WidenColumn
from chronolake.errors import NotPublished
from chronolake.slices import columns
from chronolake_model.instants import Instant
from chronolake_spark import SparkTable
from tests.spark import hudi_reader

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
LAYOUTS = pytest.mark.parametrize("partition_fields", [[], ["country"]], ids=["unpartitioned", "partitioned"])


def orders(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id long, country string, price int")


def incremental(table: SparkTable, first: Instant, last: Instant) -> pa.Table:
    """The changes by hudi-rs after the completion of ``first`` up to that of ``last``."""
    options = (
        hudi.HudiReadOptions()
        .with_query_type(hudi.HudiQueryType.Incremental)
        .with_start_timestamp(str(first.completion_time))
        .with_end_timestamp(str(last.completion_time))
    )
    return hudi_reader.rows_of_hudi(table.metastore, options)


@LAYOUTS
def test_hudi_reads_the_same_upserts_as_changes(
    spark: SparkSession, new_table: NewTable, partition_fields: list[str]
) -> None:
    table = new_table(orders(spark), "id", partition_fields=partition_fields, buckets=1)
    instants = [
        table.upsert(orders(spark, (1, "de", 10), (2, "de", 20), (3, "fr", 30), (4, "fr", 40))),
        table.upsert(orders(spark, (1, "de", 11), (5, "fr", 50))),
        table.delete(orders(spark, (2, "de", 0), (5, "fr", 0))),
        table.upsert(orders(spark, (1, "de", 12), (2, "de", 21))),
    ]

    for number, first in enumerate(instants):
        for last in instants[number + 1 :]:
            changes = table.changes(first.completion_time, last.completion_time, meta_columns=True)
            upserts = changes.where(f"{columns.CHANGE_TYPE} = 'upsert'").drop(columns.CHANGE_TYPE)
            hudi_reader.assert_same_rows(incremental(table, first, last), upserts.toArrow())


def test_rows_that_an_upsert_copies_keep_their_commit_time(spark: SparkSession, new_table: NewTable) -> None:
    table = new_table(orders(spark), "id", buckets=1)
    first = table.upsert(orders(spark, (1, "de", 10), (2, "de", 20)))
    second = table.upsert(orders(spark, (2, "de", 21), (3, "fr", 30)))
    third = table.delete(orders(spark, (3, "fr", 0)))

    [file_slice] = table.metastore.snapshot().slices
    rows = hudi_reader.rows_of_hudi(table.metastore).to_pylist()

    assert file_slice.base_instant_time == third.requested_time
    assert {row["id"]: row["_hoodie_commit_time"] for row in rows} == {
        1: first.requested_time,
        2: second.requested_time,
    }


@LAYOUTS
def test_hudi_reads_the_table_as_of_each_commit(
    spark: SparkSession, new_table: NewTable, partition_fields: list[str]
) -> None:
    table = new_table(orders(spark), "id", partition_fields=partition_fields)
    instants = [
        table.upsert(orders(spark, (1, "de", 10), (2, "fr", 20))),
        table.upsert(orders(spark, (1, "de", 11), (3, "it", 30))),
        table.delete(orders(spark, (1, "de", 0), (2, "fr", 0), (3, "it", 0))),
    ]

    for instant in instants:
        # Hudi's as-of goes by requested times.
        options = hudi.HudiReadOptions().with_as_of_timestamp(instant.requested_time)
        of_hudi = hudi_reader.rows_of_hudi(table.metastore, options)
        hudi_reader.assert_same_rows(of_hudi, hudi_reader.rows_of(table.metastore, instant.completion_time))


CHANGES: list[SchemaChange] = [
    WidenColumn("small", "int"),
    WidenColumn("count", "bigint"),
    WidenColumn("rate", "double"),
    WidenColumn("home.zip", "bigint"),
    DropColumn("points.element.x"),
    AddColumn("points.element.z", "string"),
    AddColumn("home.town", "string"),
    AddColumn("note", "string"),
    DropColumn("gone"),
]
BEFORE = (
    "id long, small smallint, count int, rate float, gone string, "
    "home struct<city:string,zip:int>, points array<struct<x:int,y:int>>"
)
NOW = (
    "id long, small int, count long, rate double, "
    "home struct<city:string,zip:long,town:string>, points array<struct<y:int,z:string>>, note string"
)


def test_hudi_reads_files_of_several_schemas(spark: SparkSession, new_table: NewTable) -> None:
    old = [(number, number, number, 0.5, "x", ("Oslo", 1), [(1, 2), None]) for number in range(6)]
    frame = spark.createDataFrame([*old, (6, None, None, None, None, None, None)], BEFORE)
    table = new_table(frame, "id", buckets=2)
    table.insert(frame)

    table.metastore.change_schema(CHANGES)
    hudi_reader.publish_and_compare(table.metastore)
    table.upsert(spark.createDataFrame([(9, 70_000, 2**40, 0.1, ("a", 2**40, "b"), [(1, "z")], "n")], NOW))

    assert table.metastore.publication().lag_versions == 0


def test_a_renamed_field_pauses_publication_and_hudi_reads_the_state_before(
    spark: SparkSession, new_table: NewTable
) -> None:
    frame = spark.createDataFrame([(1, ("Oslo",))], "id long, home struct<city:string>")
    table = new_table(frame, "id", buckets=1)
    table.insert(frame)
    before = hudi_reader.rows_of_hudi(table.metastore)
    table.metastore.change_schema([chronolake.RenameColumn("home.city", "town")])

    with pytest.raises(NotPublished, match=r"'home\.town' was renamed"):
        table.metastore.publish()
    assert hudi_reader.rows_of_hudi(table.metastore).equals(before)

    table.upsert(spark.createDataFrame([(1, ("Bergen",))], "id long, home struct<town:string>"))
    [row] = hudi_reader.rows_of_hudi(table.metastore).to_pylist()
    assert row["home"] == {"town": "Bergen"}


def test_hudi_reads_each_state_around_pending_undone_and_cleaned_instants(
    spark: SparkSession, new_table: NewTable
) -> None:
    table = new_table(orders(spark), "id", partition_fields=["country"], buckets=2)
    table.upsert(orders(spark, (1, "de", 10), (2, "fr", 20)))
    pending = table.metastore.begin()
    table.upsert(orders(spark, (1, "de", 11), (3, "de", 30)))
    savepoint = table.metastore.savepoint()
    pending.rollback()
    hudi_reader.publish_and_compare(table.metastore)
    table.upsert(orders(spark, (1, "de", 12), (4, "it", 40)))
    table.metastore.restore(savepoint.requested_time)
    hudi_reader.publish_and_compare(table.metastore)
    table.metastore.release_savepoint(savepoint.requested_time)
    table.upsert(orders(spark, (1, "de", 13)))
    table.metastore.clean(retain_commits=1)
    hudi_reader.publish_and_compare(table.metastore)

    rows = hudi_reader.rows_of_hudi(table.metastore).select(["id", "price"]).to_pylist()
    assert sorted((row["id"], row["price"]) for row in rows) == [(1, 13), (2, 20), (3, 30)]
    assert table.metastore.publication().lag_versions == 0
