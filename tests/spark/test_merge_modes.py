"""Merge modes: which record counts in tables of both types, and what hudi-rs reads after each write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from chronolake.errors import WriteConflict
from chronolake.slices import columns
from chronolake_model.publication import PublicationState
from chronolake_model.vocabulary import TableType
from chronolake_spark import SparkTable, errors
from tests.spark.test_merge_on_read import overtake

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
TYPES = pytest.mark.parametrize("type_", list(TableType))
COLUMNS = "id long not null, ts long not null, price double, note string, code string not null"


def orders(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), COLUMNS)


def given(spark: SparkSession, names: str, *rows: tuple[Any, ...]) -> DataFrame:
    types = {part.split()[0]: part for part in COLUMNS.split(", ")}
    return spark.createDataFrame(list(rows), ", ".join(types[name] for name in names.split()))


def rows_of(table: SparkTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.read().collect())


def has_been_compared_with_hudi(table: SparkTable) -> bool:
    """``new_table`` compares after each write, unless publication is paused."""
    return table.metastore.publication().state is PublicationState.PUBLISHING


@TYPES
def test_by_commit_time_the_later_write_wins_whatever_its_ordering_value(
    spark: SparkSession, new_table: NewTable, type_: TableType
) -> None:
    mode = {"merge.mode": "commit-time"}
    table = new_table(orders(spark), "id", ordering_field="ts", type=type_, buckets=1, properties=mode)
    table.insert(orders(spark, (1, 9, 1.0, "a", "x"), (2, 9, 1.0, "a", "x"), (3, 9, 1.0, "a", "x")))
    # Of the rows of one frame the ordering field still chooses, by its type in the table: 10 and not "5".
    written = orders(spark, (1, 10, 2.0, "b", "x"), (1, 5, 3.0, "c", "x"), (2, 1, 2.0, "b", "x"))
    table.upsert(written.withColumn("ts", written["ts"].cast("string")))
    table.delete(given(spark, "id ts", (3, 0)))
    later = table.upsert(orders(spark, (3, 1, 5.0, "e", "x"), (2, 0, 6.0, "f", "x")))

    assert rows_of(table) == [(1, 10, 2.0, "b", "x"), (2, 0, 6.0, "f", "x"), (3, 1, 5.0, "e", "x")]
    assert has_been_compared_with_hudi(table)
    changed = table.changes(later.requested_time).select(columns.CHANGE_TYPE, "id").collect()
    assert sorted(map(tuple, changed)) == [("upsert", 2), ("upsert", 3)]


@pytest.mark.parametrize(
    ("type_", "ordering_field"),
    [
        (TableType.MERGE_ON_READ, "ts"),
        pytest.param(TableType.MERGE_ON_READ, None, marks=pytest.mark.slow),
        pytest.param(TableType.COPY_ON_WRITE, "ts", marks=pytest.mark.slow),
    ],
)
def test_columns_that_a_frame_lacks_keep_their_stored_values(
    spark: SparkSession, new_table: NewTable, type_: TableType, ordering_field: str | None
) -> None:
    mode = {"merge.mode": "partial-update"}
    table = new_table(
        orders(spark), "id", ordering_field=ordering_field, type=type_, buckets=1, properties=mode
    )
    table.upsert(orders(spark, (1, 5, 1.0, "a", "x"), (2, 5, 2.0, "b", "y"), (3, 5, 3.0, "c", "z")))
    table.upsert(given(spark, "id price", (1, 1.5), (2, None)))
    table.upsert(given(spark, "id ts note", (1, 6, "new"), (3, 4, "old")))
    old = "c" if ordering_field else "old"
    third = (3, 5 if ordering_field else 4, 3.0, old, "z")
    assert rows_of(table) == [(1, 6, 1.5, "new", "x"), (2, 5, None, "b", "y"), third]

    # A new key needs the columns that are not nullable; the others are null.
    with pytest.raises(errors.RequiredValueMissing, match=r"lack the columns code.*'7'"):
        table.upsert(given(spark, "id ts price", (1, 7, 9.0), (7, 7, 7.0)))
    table.upsert(given(spark, "id ts code", (7, 7, "new"), (2, 6, "yy")))
    table.upsert(given(spark, "id ts", (2, 8), (9, 8)), delete_when="id = 2 or id = 9")
    assert rows_of(table) == [(1, 6, 1.5, "new", "x"), third, (7, 7, None, None, "new")]
    assert has_been_compared_with_hudi(table)
    for write in (table.insert, table.bulk_insert):
        with pytest.raises(errors.SchemaMismatch, match="lack the columns"):
            write(given(spark, "id price", (8, 1.0)))
    explanation = table.explain("upsert", given(spark, "id price", (1, 0.0)))
    assert "depends on what it read" in str(explanation) or type_ is TableType.COPY_ON_WRITE
    plain = new_table(orders(spark), "id", ordering_field="ts")
    with pytest.raises(errors.SchemaMismatch, match="lack the columns price, note, code"):
        plain.upsert(given(spark, "id ts", (1, 1)))


@TYPES
def test_a_partial_update_of_a_record_that_changed_meanwhile_loses_and_is_repeated(
    spark: SparkSession, new_table: NewTable, monkeypatch: pytest.MonkeyPatch, type_: TableType
) -> None:
    mode = {"merge.mode": "partial-update"}
    table = new_table(orders(spark), "id", type=type_, buckets=1, properties=mode)
    table.upsert(orders(spark, (1, 5, 1.0, "a", "x")))
    overtake(monkeypatch, lambda: table.upsert(given(spark, "id note", (1, "b"))))
    with pytest.raises(WriteConflict):
        table.upsert(given(spark, "id price", (1, 2.0)))
    overtake(monkeypatch, lambda: table.upsert(given(spark, "id note", (1, "c"))))
    table.upsert(given(spark, "id price", (1, 3.0)), on_conflict="retry")
    assert rows_of(table) == [(1, 5, 3.0, "c", "x")]
