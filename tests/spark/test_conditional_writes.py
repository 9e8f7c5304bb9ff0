"""Writes that depend on what the table has: deletes by condition, and merges, on both table types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from pyspark.errors import utils
from pyspark.sql import DataFrame, SparkSession, functions as sf

from chronolake.errors import WriteConflict
from chronolake_model.instants import Instant
from chronolake_model.vocabulary import Operation, TableType
from chronolake_spark import SparkTable, errors
from chronolake_spark.write import conditional_deletes, merges
from chronolake_spark.write.merges import Clause, Merge
from chronolake_spark.write.writes import Rows, WriteSettings

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
TYPES = pytest.mark.parametrize("type_", list(TableType))
COLUMNS = "id long, country string, price int, version int"
BY_COUNTRY: dict[str, Any] = {"partition_fields": ["country"]}
BY_VERSION: dict[str, Any] = {"ordering_field": "version"}
AS_FILTER = "price = 10"
AS_SQL = "price % 20 = 10 and id < 3"
BEFORE = ((1, "de", 10, 1), (2, "fr", 20, 1), (3, "fr", 30, 1), (4, None, 40, 1), (5, "it", None, 1))


def orders(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), COLUMNS)


def rows_of(table: SparkTable) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, table.read().collect()))


@pytest.fixture
def filled(spark: SparkSession, new_table: NewTable) -> Callable[..., SparkTable]:
    def make(type_: TableType, **definition: Any) -> SparkTable:
        table = new_table(orders(spark), "id", type=type_, **{"buckets": 2, **definition})
        table.insert(orders(spark, *BEFORE))
        return table

    return make


@pytest.mark.parametrize(
    ("type_", "definition"),
    [
        (TableType.COPY_ON_WRITE, BY_COUNTRY),
        (TableType.MERGE_ON_READ, BY_VERSION),
        pytest.param(TableType.COPY_ON_WRITE, BY_VERSION, marks=pytest.mark.slow),
        pytest.param(TableType.MERGE_ON_READ, BY_COUNTRY, marks=pytest.mark.slow),
    ],
)
def test_records_for_which_a_condition_holds_are_deleted(
    filled: Callable[..., SparkTable], type_: TableType, definition: dict[str, Any]
) -> None:
    table = filled(type_, **definition)
    instant = table.delete("country = 'fr' and price >= 30")
    assert instant.operation is Operation.DELETE
    assert [row[0] for row in rows_of(table)] == [1, 2, 4, 5]

    table.delete("length(country) + price = 12")
    assert [row[0] for row in rows_of(table)] == [2, 4, 5]
    table.delete(sf.col("price").isNull() | (sf.col("price") > 1_000))
    assert [row[0] for row in rows_of(table)] == [2, 4]
    table.delete("price < 0")
    assert [row[0] for row in rows_of(table)] == [2, 4]


def test_reads_and_deletes_of_a_wide_table_make_no_column_object_for_each_column(
    spark: SparkSession, new_table: NewTable
) -> None:
    wide = spark.range(3).selectExpr("id", *(f"id + {number} as `c {number}`" for number in range(200)))
    table = new_table(wide, "id", buckets=1)
    table.insert(wide)
    # PySpark looks up the caller for each of them, which takes half a millisecond.
    with mock.patch("pyspark.errors.utils._capture_call_site", wraps=utils._capture_call_site) as captured:
        table.read()
        table.delete("`c 7` = 9")
    assert 0 < captured.call_count < 100
    assert sorted(row["id"] for row in table.read().collect()) == [0, 1]


def test_what_is_no_condition_deletes_nothing(filled: Callable[..., SparkTable]) -> None:
    table = filled(TableType.COPY_ON_WRITE)
    with pytest.raises(errors.SchemaMismatch, match="is a int, not a condition"):
        table.delete("price")
    with pytest.raises(errors.SchemaMismatch, match="prize"):
        table.delete(sf.col("prize") > 1)
    assert len(rows_of(table)) == len(BEFORE)


@pytest.mark.parametrize(
    ("type_", "condition"),
    [
        (TableType.COPY_ON_WRITE, AS_FILTER),
        (TableType.MERGE_ON_READ, AS_SQL),
        pytest.param(TableType.COPY_ON_WRITE, AS_SQL, marks=pytest.mark.slow),
        pytest.param(TableType.MERGE_ON_READ, AS_FILTER, marks=pytest.mark.slow),
    ],
)
def test_a_record_that_stopped_matching_meanwhile_is_not_deleted(
    spark: SparkSession, filled: Callable[..., SparkTable], type_: TableType, condition: str
) -> None:
    table = filled(type_)
    rows = conditional_deletes.keys_where(spark, table.metastore, condition)

    with pytest.raises(WriteConflict):
        table._write(
            overtaken(rows, lambda: table.upsert(orders(spark, (1, "de", 11, 2)))),
            WriteSettings(operation=Operation.DELETE, is_based_on_reads=True),
        )
    assert rows_of(table)[0] == (1, "de", 11, 2)


@TYPES
def test_a_merge_updates_deletes_and_inserts(
    spark: SparkSession, filled: Callable[..., SparkTable], type_: TableType
) -> None:
    table = filled(type_, partition_fields=["country"])
    source = spark.createDataFrame(
        [
            (1, "de", 5, "add"),
            (2, "fr", 0, "drop"),
            (3, "fr", 7, "skip"),
            (4, None, 1, "add"),
            (6, "it", 60, "new"),
        ],
        "id long, country string, amount int, what string",
    )
    instant = (
        table.merge(source)
        .when_matched_delete(condition="source.what = 'drop'")
        .when_matched_update(
            {"price": "target.price + source.amount", "version": sf.col("target.version") + 1},
            condition="source.what = 'add'",
        )
        .when_not_matched_insert({"id": "source.id", "country": "source.country", "price": "amount"})
        .execute()
    )
    assert instant.operation is Operation.UPSERT
    after = [(1, "de", 15, 2), (3, "fr", 30, 1), (4, None, 41, 2), (5, "it", None, 1), (6, "it", 60, None)]
    assert rows_of(table) == after

    all_columns = orders(spark, (1, "de", 16, 3), (7, "it", 70, 1), (8, "it", 80, 1))
    merge = table.merge(all_columns, on=["id"]).when_matched_update()
    merge.when_not_matched_insert(condition=sf.col("source.id") == 7).execute()
    assert rows_of(table) == [(1, "de", 16, 3), *after[1:], (7, "it", 70, 1)]

    in_capitals = orders(spark, (7, "it", 71, 2)).toDF("ID", "COUNTRY", "PRICE", "VERSION")
    table.merge(in_capitals).when_matched_update().execute()
    table.merge(in_capitals, on=["Id"]).when_matched_update({"Price": "source.price + 1"}).execute()
    assert rows_of(table) == [(1, "de", 16, 3), *after[1:], (7, "it", 72, 2)]


def test_null_matches_nothing_in_a_merge_but_in_a_key_that_is_named_whole(
    spark: SparkSession, new_table: Callable[..., SparkTable]
) -> None:
    types = "a string, b string, country string, code string, price int"
    stored = [("a", None, None, None, 1), ("a", "b", None, None, 2), (None, "b", "de", "c", 3)]
    frame = spark.createDataFrame(stored, types)
    table = new_table(frame, "a,b", partition_fields=["country"], buckets=1)
    table.insert(frame)

    def prices_after(source: tuple[str | None, ...], *on: str) -> list[int]:
        """The prices of the records, in their order, after the prices of matched ones are set to 100."""
        table.overwrite(frame, "all")
        rows = spark.createDataFrame([(*source, 100)], types)
        table.merge(rows, on or None).when_matched_update({"price": "source.price"}).execute()
        prices = {tuple(row)[:4]: row.price for row in table.read().collect()}
        return [prices[record[:4]] for record in stored]

    assert prices_after(("a", None, None, None), "code") == [1, 2, 3]
    assert prices_after(("a", None, None, "c"), "code") == [1, 2, 100]
    assert prices_after(("a", None, None, None), "b") == [1, 2, 3]
    assert prices_after(("a", None, None, None), "country") == [1, 2, 3]
    assert prices_after(("a", None, None, None)) == [100, 2, 3]
    assert prices_after(("a", None, None, None), "a", "b", "country") == [100, 2, 3]
    assert prices_after(("a", None, None, None), "a", "b", "country", "code") == [1, 2, 3]


@TYPES
def test_an_update_computed_from_a_record_that_changed_meanwhile_is_not_written(
    spark: SparkSession, filled: Callable[..., SparkTable], type_: TableType
) -> None:
    table = filled(type_)
    clause = Clause(when_matched=True, values={"price": "target.price + source.price"})
    rows = merges.rows(spark, table.metastore, orders(spark, (1, "de", 100, 1)), None, [clause])
    settings = WriteSettings(
        operation=Operation.UPSERT, is_based_on_reads=True, options={"on_conflict": "retry"}
    )

    instant = table._write(overtaken(rows, lambda: table.upsert(orders(spark, (1, "de", 11, 2)))), settings)
    assert rows_of(table)[0] == (1, "de", 111, 2)
    assert instant.extra_metadata["conflicts.retries"] == "1"


def test_a_merge_is_refused_that_would_write_a_record_twice_or_move_it(
    spark: SparkSession, filled: Callable[..., SparkTable]
) -> None:
    table = filled(TableType.COPY_ON_WRITE, partition_fields=["country"])
    twice = table.merge(orders(spark, (1, "de", 1, 1), (1, "de", 1, 1), (2, "fr", 2, 1)))
    with pytest.raises(errors.DuplicateKeys, match=r"2 rows of the source change or insert .* the key '1'"):
        twice.when_matched_update().execute()
    with pytest.raises(errors.SchemaMismatch, match="would change the column 'country'"):
        table.merge(orders(spark, (1, "fr", 1, 1)), on=["id"]).when_matched_update().execute()
    refused: dict[str, Merge] = {
        "the columns country are the record key": table.merge(orders(spark)).when_matched_update(
            {"country": "'x'"}
        ),
        "has no columns prize": table.merge(orders(spark)).when_not_matched_insert({"prize": "1"}),
        "sets a column twice": table.merge(orders(spark)).when_not_matched_insert({"price": "1", "Price": "2"}),
        "not both sides have day$": table.merge(orders(spark), on=["day"]).when_matched_delete(),
        r"does not fit (?!.*_chronolake)": table.merge(orders(spark)).when_matched_delete(
            condition="target.chronolake_matched = 1"
        ),
        r"name the side, as in source\.id": table.merge(orders(spark)).when_not_matched_insert({"id": "id"}),
        "not a condition": table.merge(orders(spark)).when_matched_delete(condition="target.price"),
    }
    for message, merge in refused.items():
        with pytest.raises(errors.SchemaMismatch, match=message):
            merge.execute()
    with pytest.raises(ValueError, match="needs a clause"):
        table.merge(orders(spark)).execute()
    # Of two source rows only one changes the record.
    twice.when_matched_update(condition="false").when_not_matched_insert().execute()
    assert rows_of(table) == sorted(BEFORE)


def overtaken(rows: Rows, change: Callable[[], Instant]) -> Rows:
    """The same rows; once, after they are computed from the table, another write completes."""
    changes = [change]

    def of(as_of: str) -> DataFrame:
        assert callable(rows)
        frame = rows(as_of)
        if changes:
            changes.pop()()
        return frame

    return of
