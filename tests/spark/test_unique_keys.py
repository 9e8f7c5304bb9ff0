"""Tables with a record index: a key is unique in the whole table, and records move between partitions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as sf

from chronolake.errors import WriteConflict
from chronolake.indexes.record import entry_files, record_index
from chronolake.indexes.record.record_index import RecordIndex
from chronolake.slices import columns, merge
from chronolake.writing.counts import RowCounts
from chronolake_model.vocabulary import Operation, TableType
from chronolake_spark import SparkTable, errors, row_counts
from chronolake_spark.index import unique_keys
from chronolake_spark.write import writes
from chronolake_spark.write.writes import WriteSettings
from tests.spark import hand_written

pytestmark = pytest.mark.spark
NewTable = Callable[..., SparkTable]
Row = tuple[Any, ...]
SCHEMA = "id bigint not null, day string, amount int, ts bigint"


def orders(spark: SparkSession, *rows: Row) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA)


def rows_of(table: SparkTable) -> list[Row]:
    rows = sorted(tuple(row) for row in table.read().collect())
    assert rows == sorted(tuple(row) for row in table.lookup([row[0] for row in rows]).collect())
    return rows


def new_orders(spark: SparkSession, new_table: NewTable, type_: TableType, **definition: Any) -> SparkTable:
    return new_table(
        orders(spark),
        "id",
        index="record",
        partition_fields=["day"],
        ordering_field="ts",
        type=type_,
        **definition,
    )


@pytest.mark.parametrize("type_", TableType)
def test_a_record_moves_when_its_partition_changes(
    spark: SparkSession, new_table: NewTable, type_: TableType
) -> None:
    table = new_orders(spark, new_table, type_)
    first = table.insert(orders(spark, *((id, "ab"[id % 2], 0, 5) for id in range(1, 7))))
    moved = table.upsert(
        orders(spark, (1, "a", 1, 6), (2, "b", 1, 4), (3, "b", 1, 5), (4, "c", 1, None), (7, "a", 1, 1))
    )

    expected = [(1, "a", 1, 6), (2, "a", 0, 5), (3, "b", 1, 5), (4, "a", 0, 5), (5, "b", 0, 5), (6, "a", 0, 5)]
    assert rows_of(table) == [*expected, (7, "a", 1, 1)]
    if type_ is TableType.COPY_ON_WRITE:
        # The record that moved counts twice, those that lost are unchanged.
        assert row_counts(moved) == RowCounts(6, 2, 1, 1, 0, 2)
    changes = sorted(
        tuple(row) for row in table.changes(first.completion_time).select("id", "day", "_change_type").collect()
    )
    # It comes once: who applies the changes by key must not delete it.
    assert [change for change in changes if change[0] == 1] == [(1, "a", "upsert")]

    table.delete(orders(spark, (5, "x", 0, 5), (6, "x", 0, 4), (99, "x", 0, 9)).select("id", "ts"))
    assert rows_of(table) == [*(row for row in expected if row[0] != 5), (7, "a", 1, 1)]


@pytest.mark.parametrize("mode", ["event-time", "commit-time"])
def test_spark_and_arrow_choose_the_same_winner_of_the_rows_of_a_key(
    spark: SparkSession, new_table: NewTable, mode: str
) -> None:
    """Spark chooses the partition of a key, and Arrow the row that is stored there."""
    choose = random.Random(29).choice
    floats = [None, math.nan, -math.inf, -1.5, -0.0, 0.0, 1e300]
    texts = [None, "", "a", "B", "é", "\U0001f600", "\uffff"]
    of_type: dict[str, list[Any]] = {
        "o double": floats,
        "f float": [None, math.nan, -0.0, 0.0, 0.5],
        "t string": texts,
        "c string collate UTF8_LCASE": texts,
        "b binary": [None, b"", b"\x00", b"\x7f", b"\xff"],
        "d decimal(20,2)": [None, Decimal("-1.50"), Decimal("0.00"), Decimal("9.99")],
        "s timestamp": [None, datetime(1969, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)],
        "n struct<x:double,y:struct<z:string>>": [
            None,
            (None, None),
            *((x, (y,)) for x in floats for y in texts),
        ],
        "v void": [None],
    }
    order = [definition.split(" ")[0] for definition in of_type]
    names = list(of_type)

    def row(key: int, number: int) -> Row:
        # Any of the columns decides: those before it are the same in all rows of the key.
        decides = key % len(names)
        values = [choose(of_type[name]) if at >= decides else None for at, name in enumerate(names)]
        return (f"k{key}", f"p{number}", choose([True, False]), *values, number)

    rows = [row(key, number) for key in range(600) for number in range(3)]
    frame = spark.createDataFrame(rows, f"id string, day string, gone boolean, {', '.join(names)}, line int")
    table = new_table(
        frame.select("id", "day", "o"),
        "id",
        index="record",
        partition_fields=["day"],
        ordering_field="o",
        properties={"merge.mode": mode},
    ).metastore.definition
    by = [*order[1:], "line"] if mode == "event-time" else [*order, "line"]
    tagged = writes.tagged(frame.drop("gone"), table, row_order=by)
    deleting = writes.tagged(frame, table, delete_when=frame.gone, row_order=by)

    for written in (tagged, deleting):
        of_arrow = merge.latest_per_key(written.toArrow(), table.merge_fields)
        assert not of_arrow.ambiguous
        places = [columns.RECORD_KEY, columns.PARTITION_PATH, columns.DELETE]
        chosen = {tuple(row) for row in unique_keys._winners(written, table).select(places).collect()}
        assert chosen == {tuple(row.values()) for row in of_arrow.records.select(places).to_pylist()}
        assert len(chosen) == 600
    with pytest.raises(errors.SchemaMismatch, match="orders no rows"):
        writes.tagged(frame.select("id", "day", "o"), table, row_order=[sf.array("o")])


def test_an_ordering_field_by_which_records_cannot_move_is_refused(
    spark: SparkSession, new_table: NewTable
) -> None:
    schema = "id bigint, day string, ts decimal(10,2)"
    frame = spark.createDataFrame([(1, "a", Decimal(1))], schema)
    definition = {"index": "record", "ordering_field": "ts", "type": TableType.MERGE_ON_READ}
    with pytest.raises(errors.SchemaMismatch, match=r"cannot move.*decimal\(10,2\)"):
        new_table(frame, "id", partition_fields=["day"], **definition)
    new_table(frame, "id", **definition)
    # The later write wins: its deletes have no ordering value.
    new_table(frame, "id", partition_fields=["day"], **definition, properties={"merge.mode": "commit-time"})


def test_inserts_overwrites_and_stale_entries_leave_one_record_of_a_key(
    spark: SparkSession, new_table: NewTable
) -> None:
    table = new_orders(spark, new_table, TableType.COPY_ON_WRITE)
    table.insert(orders(spark, (1, "a", 0, 1), (2, "b", 0, 1), (3, "c", 0, 1)))
    with pytest.raises(errors.DuplicateKeys):
        table.insert(orders(spark, (1, "b", 9, 9)))
    table.insert(orders(spark, (1, "b", 9, 9), (8, "b", 1, 1)), duplicates="drop")
    # Within a write the larger ordering value says where the record goes.
    table.upsert(orders(spark, (3, "a", 2, 7), (3, "d", 2, 8), (3, "b", 2, 6)))
    assert rows_of(table) == [(1, "a", 0, 1), (2, "b", 0, 1), (3, "d", 2, 8), (8, "b", 1, 1)]
    with pytest.raises(errors.DuplicateKeys):
        table.upsert(orders(spark, (3, "a", 3, 9), (3, "c", 3, 9)))

    with pytest.raises(errors.DuplicateKeys, match="partition"):
        table.overwrite(orders(spark, (1, "b", 0, 9), (10, "b", 0, 9)), "dynamic")
    table.overwrite(orders(spark, (9, "b", 0, 9)), "dynamic")
    table.delete_partitions({"day": "d"})
    # The entries of 8 and 3 are stale.
    table.upsert(orders(spark, (8, "a", 5, 5), (3, "b", 5, 5)))
    assert rows_of(table) == [(1, "a", 0, 1), (3, "b", 5, 5), (8, "a", 5, 5), (9, "b", 0, 9)]


def test_a_partial_update_moves_no_record(spark: SparkSession, new_table: NewTable) -> None:
    properties = {"merge.mode": "partial-update"}
    table = new_orders(spark, new_table, TableType.COPY_ON_WRITE, properties=properties)
    table.insert(orders(spark, (1, "a", 10, 1), (2, "a", 20, 1)))
    with pytest.raises(errors.SchemaMismatch, match="move"):
        table.upsert(orders(spark, (1, "b", 0, 2)).drop("amount"))
    table.upsert(orders(spark, (2, "a", 0, 2), (3, "b", 0, 2)).drop("amount"))
    assert rows_of(table) == [(1, "a", 10, 1), (2, "a", 20, 2), (3, "b", None, 2)]


def test_many_keys_are_looked_up_by_tasks_and_a_large_index_is_built_by_them(
    spark: SparkSession, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(orders(spark), "id", index="record")
    hand_written.commit(table.metastore, {("", "foreign-0"): hand_written.base(*map(str, range(100)))})
    monkeypatch.setattr(record_index, "RECORDS_HERE_MAX", 10)
    monkeypatch.setattr(unique_keys, "KEYS_HERE_MAX", 10)
    monkeypatch.setattr(entry_files, "SHARD_ENTRIES", 30)
    changed = table.upsert(orders(spark, *((id, "a", 1, 1) for id in range(90, 120))))
    manifest = RecordIndex(table.metastore).newest()

    assert row_counts(changed) == RowCounts(30, 20, 10, 0, 0, 0)
    assert manifest is not None
    assert (manifest.shards, manifest.covered) == (4, changed.completion_time)
    assert table.read().count() == 120
    table.delete(spark.createDataFrame([(5,), (500,)], "id bigint"))
    assert table.lookup([5, 500, 119]).count() == 1
    for partitions in ("dynamic", "all"):
        table.overwrite(orders(spark, (5, "a", 1, 1), (7, "a", 1, 1)), partitions)
        assert sorted(row.id for row in table.lookup([5, 7, 119]).collect()) == [5, 7]


def test_of_two_writers_that_move_or_insert_a_key_one_conflicts(
    spark: SparkSession, new_table: NewTable
) -> None:
    """Also where both only append to log files, which otherwise never conflict."""
    table = new_orders(spark, new_table, TableType.MERGE_ON_READ)
    table.insert(orders(spark, (1, "a", 0, 1), (2, "a", 0, 1)))

    def while_another(of_other: Row, own: Row) -> Callable[[Any], DataFrame]:
        """The rows of a write, before which another write completes after the first one's begin."""

        def rows(_snapshot: object) -> DataFrame:
            table.upsert(orders(spark, of_other))
            return writes.tagged(orders(spark, own), table.definition)

        return rows

    for of_other, own in (
        ((1, "b", 1, 2), (1, "a", 2, 3)),
        ((3, "b", 1, 1), (3, "c", 2, 2)),
    ):
        settings = WriteSettings(operation=Operation.UPSERT)
        with pytest.raises(WriteConflict):
            writes.run(table.metastore, while_another(of_other, own), settings)
    assert rows_of(table) == [(1, "b", 1, 2), (2, "a", 0, 1), (3, "b", 1, 1)]


def test_a_deleted_record_does_not_come_back_in_another_partition(
    spark: SparkSession, new_table: NewTable
) -> None:
    table = new_orders(spark, new_table, TableType.MERGE_ON_READ)
    table.insert(orders(spark, (1, "a", 0, 10), (2, "a", 0, 10)))
    table.upsert(orders(spark, (1, "b", 0, 20)))
    table.delete(orders(spark, (1, "b", 0, 30)))
    for late in ((1, "a", 0, 25), (1, "c", 0, 26), (1, "b", 0, 27)):
        table.upsert(orders(spark, late))
    table.insert(orders(spark, (1, "a", 0, 28)), duplicates="drop")
    table.upsert(orders(spark, (1, "d", 0, 29)))
    # A later delete that names another partition counts for the versions after it.
    table.delete(orders(spark, (1, "a", 0, 40)))
    table.upsert(orders(spark, (1, "a", 0, 35)))
    assert rows_of(table) == [(2, "a", 0, 10)]
    table.upsert(orders(spark, (1, "c", 0, 50)))
    assert rows_of(table) == [(1, "c", 0, 50), (2, "a", 0, 10)]
