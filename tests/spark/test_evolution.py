"""A table whose schema has changed, read and written through Spark: its files are of several versions."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from chronolake import AddColumn, DropColumn, Operation, RenameColumn, SchemaChange, SetNullable, WidenColumn
from chronolake_spark import SparkTable, errors
from chronolake_spark.write import writes
from chronolake_spark.write.writes import WriteSettings

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
BEFORE = "id long, name string, small byte, count int, rate float, price decimal(4,2), gone string"
NOW = "id long, title string, small int, count long, rate double, price decimal(9,2), gone string, note string"
CHANGES: list[SchemaChange] = [
    RenameColumn("name", "title"),
    WidenColumn("small", "int"),
    WidenColumn("count", "bigint"),
    WidenColumn("rate", "double"),
    WidenColumn("price", "decimal(9,2)"),
    DropColumn("gone"),
    # Another column than the one before, for all that its name says.
    AddColumn("gone", "string"),
    AddColumn("note", "string"),
]


def first(spark: SparkSession) -> DataFrame:
    rows = [(n, f"n{n}", n, n, n / 2, Decimal(n), "x") for n in range(8)]
    return spark.createDataFrame(rows, BEFORE)


def old(number: int) -> tuple[Any, ...]:
    """A record of the first frame, as it reads now."""
    return number, f"n{number}", number, number, number / 2, Decimal(number), None, None


def new(number: int) -> tuple[Any, ...]:
    """A record that the first schema could not hold."""
    return number, "t", 70_000, 2**40, 0.1, Decimal("1234567.89"), "y", "z"


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.fixture
def evolved(spark: SparkSession, new_table: NewTable) -> SparkTable:
    """A table with files of the first version of its schema, and the second one."""
    table = new_table(first(spark), "id", buckets=4)
    table.insert(first(spark))
    table.metastore.change_schema(CHANGES)
    return table


def test_files_of_before_are_read_with_the_columns_of_now(evolved: SparkTable) -> None:
    frame = evolved.read(meta_columns=True)

    assert rows_of(frame.drop(*frame.columns[:5])) == [old(number) for number in range(8)]
    assert frame.schema["count"].dataType.simpleString() == "bigint"
    assert frame.schema["price"].dataType.simpleString() == "decimal(9,2)"


def test_files_of_several_versions_are_read_and_merged(spark: SparkSession, evolved: SparkTable) -> None:
    before = evolved.metastore.snapshot().as_of
    instant = evolved.upsert(spark.createDataFrame([new(1), new(9)], NOW))
    merged = {row for row in map(old, range(8)) if row[0] != 1} | {new(1), new(9)}

    assert instant.schema_version == 2
    assert rows_of(evolved.read()) == sorted(merged)
    assert rows_of(evolved.read(as_of=before)) == [old(number) for number in range(8)]

    evolved.delete(spark.createDataFrame([(2,), (9,)], "id long"))
    changed = evolved.changes(before)
    assert rows_of(evolved.read()) == sorted(row for row in merged if row[0] not in (2, 9))
    assert rows_of(changed) == [(*new(1), "upsert"), (*old(2), "delete")]


NESTED = (
    "id long, home struct<city:string,zip:int>, points array<struct<x:int,y:int>>,"
    " attrs map<string,struct<n:int>>"
)
NESTED_NOW = (
    "id long, home struct<zip:bigint,town:string>, points array<struct<y:int,z:string>>,"
    " attrs map<string,struct<m:int>>"
)
NESTED_CHANGES: list[SchemaChange] = [
    RenameColumn("home.city", "gone"),
    WidenColumn("home.zip", "bigint"),
    DropColumn("home.gone"),
    AddColumn("home.town", "string"),
    DropColumn("points.element.x"),
    AddColumn("points.element.z", "string"),
    RenameColumn("attrs.value.n", "m"),
]


def nested_row(number: int) -> tuple[Any, ...]:
    """A record of before the changes."""
    if number == 3:
        return number, None, None, None
    return number, ("Oslo", number), [(1, number), None], {"a": (number,), "b": None}


def nested_row_now(number: int) -> tuple[Any, ...]:
    """The same record with the nested fields of now."""
    if number == 3:
        return number, None, None, None
    return number, (number, None), [(number, None), None], {"a": (number,), "b": None}


def test_nested_fields_are_read_merged_and_compared_by_their_ids(
    spark: SparkSession, new_table: NewTable
) -> None:
    frame = spark.createDataFrame([nested_row(number) for number in range(6)], NESTED)
    table = new_table(frame, "id", buckets=2)
    table.insert(frame)
    table.metastore.change_schema(NESTED_CHANGES)
    before = table.metastore.snapshot().as_of

    assert rows_of(table.read()) == [nested_row_now(number) for number in range(6)]

    new = (9, (2**40, "Bergen"), [(1, "z")], {"a": (1,)})
    table.upsert(spark.createDataFrame([new], NESTED_NOW))
    table.delete(spark.createDataFrame([(1,)], "id long"))
    assert rows_of(table.read()) == [*(nested_row_now(number) for number in (0, 2, 3, 4, 5)), new]
    changed = table.changes(before)
    assert rows_of(changed) == [(*nested_row_now(1), "delete"), (*new, "upsert")]

    slices = table.metastore.snapshot().slices
    files = [file_slice.base_file for file_slice in slices if file_slice.base_file is not None]
    assert {file.has_field_ids for file in files} == {True}
    assert table.metastore.check().totals == []


def test_files_of_a_version_with_the_same_layout_are_read_in_one_scan(
    spark: SparkSession, new_table: NewTable
) -> None:
    frame = spark.createDataFrame([(1, "a")], StructType.fromDDL("id long, name string not null"))
    table = new_table(frame, "id", buckets=2)
    table.insert(frame)
    table.metastore.change_schema([SetNullable("name")])
    table.upsert(spark.createDataFrame([(2, None)], "id long, name string"))

    snapshot = table.read()

    versions = {
        file_slice.base_file.schema_version
        for file_slice in table.metastore.snapshot().slices
        if file_slice.base_file is not None
    }
    assert versions == {1, 2}
    assert "Union" not in snapshot._jdf.queryExecution().toString()
    assert rows_of(snapshot) == [(1, "a"), (2, None)]


def test_a_frame_with_the_columns_of_before_is_refused(spark: SparkSession, evolved: SparkTable) -> None:
    with pytest.raises(errors.SchemaMismatch, match="title"):
        evolved.upsert(first(spark))


def test_rows_that_were_prepared_for_another_schema_are_not_written(
    spark: SparkSession, evolved: SparkTable
) -> None:
    rows = writes.tagged(spark.createDataFrame([new(1)], NOW), evolved.definition)
    stale = evolved.definition
    evolved.metastore.change_schema([AddColumn("more", "int")])
    evolved.metastore._definition = stale

    with pytest.raises(errors.SchemaMismatch, match="to version 3"):
        writes.run(evolved.metastore, rows, WriteSettings(operation=Operation.UPSERT))

    assert len(rows_of(evolved.read())) == 8
