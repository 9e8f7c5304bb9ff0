"""Reads with a filter: the rows that match, all of them, from the files that could have them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pyspark.sql import DataFrame, SparkSession, functions as sf

from chronolake import (
    Action,
    DropColumn,
    Field,
    FileGroupName,
    Filter,
    Operation,
    RenameColumn,
    WidenColumn,
    col,
)
from chronolake.errors import InvalidFilter
from chronolake_model.filters import And, Compare, ComparisonOperator, In, Or
from chronolake_spark import SparkTable, errors
from chronolake_spark.read import filters
from tests import records

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
_ARROW: Final = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "decimal(10, 2)": pa.decimal128(10, 2),
    "decimal(4,1)": pa.decimal128(4, 1),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "array<string>": pa.list_(pa.string()),
}
_RECORDS: Final = [records.record(random.Random(seed)) for seed in range(100)]


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.fixture(scope="module")
def everything(spark: SparkSession) -> Iterator[DataFrame]:
    """Records with values of all types, and their places as ``number``."""
    columns = {
        name: pa.array([row[name] for row in _RECORDS], _ARROW[type_]) for name, type_ in records.TYPES.items()
    }
    frame: DataFrame = spark.createDataFrame(pa.table({**columns, "number": range(len(_RECORDS))}))
    yield frame.cache()
    frame.unpersist()


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(records.filters(), min_size=40, max_size=40))
def test_spark_finds_the_records_that_match(everything: DataFrame, wanted: list[Filter]) -> None:
    conditions = [filters.condition(filter_, records.TABLE.definition.schema) for filter_ in wanted]

    rows = everything.select("number", *conditions).orderBy("number").collect()

    assert [[truth is True for truth in row[1:]] for row in rows] == [
        [records.matches(filter_, row) for filter_ in wanted] for row in _RECORDS
    ]


@pytest.mark.parametrize("large", [2**63, -(2**63) - 1, 10**38 - 1])
def test_a_number_that_no_column_holds_is_compared_all_the_same(everything: DataFrame, large: int) -> None:
    less = filters.condition(col("id") < large, records.TABLE.definition.schema)

    expected = [row["id"] for row in _RECORDS if row["id"] is not None and row["id"] < large]

    assert everything.where(less).count() == len(expected)


_BESIDE: Final[dict[ComparisonOperator, list[int]]] = {
    ComparisonOperator.EQUAL: [],
    ComparisonOperator.NOT_EQUAL: [1, 2, 4],
    ComparisonOperator.LESS: [2, 4],
    ComparisonOperator.LESS_OR_EQUAL: [2, 4],
    ComparisonOperator.GREATER: [1],
    ComparisonOperator.GREATER_OR_EQUAL: [1],
}


@pytest.mark.parametrize("comparison", _BESIDE)
def test_a_decimal_with_more_digits_than_its_column_is_compared_exactly(
    spark: SparkSession, comparison: ComparisonOperator
) -> None:
    values = [(1, Decimal("0.0000000001")), (2, Decimal(0)), (3, None), (4, Decimal("-0.0000000001"))]
    frame = spark.createDataFrame(values, "id long, wide decimal(38,10)")
    fields = [Field("id", "bigint"), Field("wide", "decimal(38,10)")]
    literal = "0.00000000005"

    compared = filters.condition(Compare("wide", comparison, literal), fields)
    among = filters.condition(In("wide", [literal]), fields)

    assert [row["id"] for row in frame.where(compared).orderBy("id").collect()] == _BESIDE[comparison]
    assert frame.where(among).count() == 0


@pytest.mark.slow
def test_the_largest_filter_is_understood(everything: DataFrame) -> None:
    parts: list[Filter] = [Compare("id", ComparisonOperator.EQUAL, number) for number in range(2, 1_001)]

    for wanted in (Or(parts), And(parts)):
        condition = filters.condition(wanted, records.TABLE.definition.schema)
        expected = sum(records.matches(wanted, row) for row in _RECORDS)
        assert everything.where(condition).count() == expected


def visits(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id long, country string, price decimal(6,2), note string")


def make_table(spark: SparkSession, new_table: NewTable) -> SparkTable:
    """Two partitions, and a bucket for each of many ids."""
    frame = visits(
        spark, *((number, "de" if number < 50 else None, None, f"n{number:03}") for number in range(100))
    )
    made = new_table(frame, "id", partition_fields=["country"], buckets=16)
    made.insert(frame)
    return made


@pytest.fixture
def table(spark: SparkSession, new_table: NewTable) -> SparkTable:
    """A table of the test's own."""
    return make_table(spark, new_table)


@pytest.fixture(scope="module")
def read_table(spark: SparkSession, new_table: NewTable) -> SparkTable:
    """The same for all tests that only read it."""
    return make_table(spark, new_table)


@pytest.fixture(scope="module")
def changed_table(spark: SparkSession, new_table: NewTable) -> tuple[SparkTable, str | None]:
    """A table with an insert, updates and deletes, and the time before them; the tests only read it."""
    table = make_table(spark, new_table)
    start = table.metastore.snapshot().as_of
    table.upsert(visits(spark, (7, "de", None, "z"), (200, "fr", None, "z")))
    table.delete(visits(spark, (8, "de", None, None), (9, "de", None, None)))
    return table, start


FILTERS: Final = pytest.mark.parametrize(
    ("wanted", "sql", "files_max"),
    [
        (col("country") == "de", "country = 'de'", 16),
        (col("country").is_null(), "country IS NULL", 16),
        (col("id") == 7, "id = 7", 16),
        ("id in (7, 93) and not country is null", "id IN (7, 93) AND country IS NOT NULL", 16),
        (col("note").starts_with("n00"), "note LIKE 'n00%'", 16),
        ("note = 'n000' or note = 'n099'", "note IN ('n000', 'n099')", 4),
        (~(col("id") < 200), "false", 0),
        ("price > 1.50", "false", 0),
    ],
)


@FILTERS
def test_a_snapshot_with_a_filter_has_the_rows_that_match_from_fewer_files(
    read_table: SparkTable, wanted: Filter | str, sql: str, files_max: int
) -> None:
    matching = read_table.read(filter=wanted)

    assert rows_of(matching.na.fill("-")) == rows_of(read_table.read().where(sql).na.fill("-"))
    assert len(matching.inputFiles()) <= files_max < len(read_table.read().inputFiles())
    assert read_table.read(meta_columns=True, filter=wanted).columns[5:] == matching.columns


def test_a_file_that_could_not_match_is_not_looked_at(table: SparkTable) -> None:
    wanted = col("id").is_in([3, 7])
    kept = {Path(file).name for file in table.read(filter=wanted).inputFiles()}
    for file in Path(table.definition.base_path).rglob("*.parquet"):
        if file.name not in kept:
            file.unlink()

    assert [row["id"] for row in table.read(filter=wanted).orderBy("id").collect()] == [3, 7]


def test_as_of_a_time_a_filter_is_judged_by_the_files_of_then(spark: SparkSession, table: SparkTable) -> None:
    before = table.metastore.snapshot().as_of
    table.upsert(visits(spark, (7, "de", None, "z")))

    assert rows_of(table.read(filter="note = 'z'").select("id")) == [(7,)]
    assert rows_of(table.read(before, filter="note = 'z'")) == []
    assert rows_of(table.read(before, filter="note = 'n007'").select("id")) == [(7,)]
    assert rows_of(table.read(filter="note = 'n007'")) == []


@pytest.mark.parametrize(
    "wanted",
    [
        "country = 'de'",
        "id in (9, 200)",
        "note = 'n007'",
        "id < 1000",
        pytest.param("id = 7", marks=pytest.mark.slow),
        pytest.param("id = 8", marks=pytest.mark.slow),
        pytest.param("note = 'z'", marks=pytest.mark.slow),
        pytest.param("note = 'n008'", marks=pytest.mark.slow),
    ],
)
def test_changes_with_a_filter_are_those_that_match(
    changed_table: tuple[SparkTable, str | None], wanted: str
) -> None:
    table, start = changed_table

    for from_ in (None, start):
        everything = table.changes(from_).where(wanted)
        assert rows_of(table.changes(from_, filter=wanted).na.fill("-")) == rows_of(everything.na.fill("-"))


def test_changes_with_a_filter_include_a_replacement_and_a_restore(
    spark: SparkSession, table: SparkTable
) -> None:
    start = table.metastore.snapshot().as_of
    savepoint = table.metastore.savepoint()
    table.upsert(visits(spark, (7, "de", None, "z")))
    [group] = [
        slice_ for slice_ in table.metastore.scan(col("note") == "z").slices if slice_.base_file is not None
    ]
    with table.metastore.begin(operation=Operation.DELETE_PARTITION, action=Action.REPLACECOMMIT) as write:
        write.replace(FileGroupName(group.partition_path, group.file_id))
    replaced = table.metastore.snapshot().as_of
    table.metastore.restore(savepoint.requested_time)

    for from_, to in ((start, replaced), (replaced, None), (start, None)):
        for wanted in ("id = 7", "note = 'z'", "note = 'n007'", "id = 1000"):
            changes = table.changes(from_, to, filter=wanted)
            assert rows_of(changes.na.fill("-")) == rows_of(table.changes(from_, to).where(wanted).na.fill("-"))


def test_files_of_earlier_schemas_are_pruned_by_the_columns_of_now(
    spark: SparkSession, new_table: NewTable
) -> None:
    frame = spark.createDataFrame([(n, f"n{n}", n) for n in range(20)], "id long, name string, count int")
    table = new_table(frame, "id", buckets=8)
    table.insert(frame)
    table.metastore.change_schema([RenameColumn("name", "title"), WidenColumn("count", "bigint")])
    table.upsert(spark.createDataFrame([(3, "x", 2**40)], "id long, title string, count long"))

    assert rows_of(table.read(filter=f"count = {2**40} or title = 'n4'").select("id")) == [(3,), (4,)]
    assert len(table.read(filter="title = 'n4'").inputFiles()) < 8
    with pytest.raises(InvalidFilter, match="no column 'name'"):
        table.read(filter="name = 'n4'")


def test_columns_that_change_while_a_table_is_read_are_not_taken_for_others(
    table: SparkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = table.metastore.scan

    def and_then_changed(*args: Any) -> Any:
        scanned = scan(*args)
        table.metastore.change_schema([DropColumn("note")])
        return scanned

    monkeypatch.setattr(table.metastore, "scan", and_then_changed)

    with pytest.raises(errors.SchemaMismatch, match="read it again"):
        table.read(filter="id = 7")


@pytest.mark.parametrize(
    ("wanted", "error", "why"),
    [
        ("id = ", ValueError, "at character 6: expected a value"),
        (sf.lit, TypeError, "chronolake.col"),
        (col("amount") > 1, InvalidFilter, "no column 'amount'"),
    ],
)
def test_an_invalid_filter_is_refused(
    read_table: SparkTable, wanted: Any, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        read_table.read(filter=wanted)
    with pytest.raises(error, match=why):
        read_table.changes(filter=wanted)


@pytest.mark.parametrize("condition", ["v > 100", "v = double('NaN')", "not (v <= 100)", "s.x > 100"])
def test_nan_is_the_largest_value_as_in_spark(spark: SparkSession, new_table: NewTable, condition: str) -> None:
    rows = spark.sql(
        "SELECT id, v, named_struct('x', v) AS s FROM VALUES (1L, 1D), (2L, double('NaN')) AS t (id, v)"
    )
    table = new_table(rows, "id", buckets=1)
    table.insert(rows)

    assert [row.id for row in table.read().where(condition).select("id").collect()] == [2]
    table.delete(condition)
    assert [row.id for row in table.read().select("id").collect()] == [1]


def test_changes_leave_out_a_record_that_came_and_went_within_their_range(
    spark: SparkSession, table: SparkTable
) -> None:
    start = table.metastore.snapshot().as_of
    came = table.upsert(visits(spark, (300, "fr", None, "short")))
    went = table.delete(visits(spark, (300, "fr", None, None)))

    assert rows_of(table.changes(start, went)) == []
    ranges = [(start, came), (came, went)]
    changes = [rows_of(table.changes(*of).select("id", "_change_type")) for of in ranges]
    assert changes == [[(300, "upsert")], [(300, "delete")]]
