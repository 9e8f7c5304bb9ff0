"""Records by key, without a scan and without a Spark job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from chronolake import AddColumn
from chronolake.slices import columns, key_search
from chronolake.slices.key_search import KeySet
from chronolake_model.vocabulary import TableType
from chronolake_spark import SparkTable, errors

SCHEMA = "id bigint, day date, price decimal(10,2), ts bigint"
FIRST, SECOND = date(2026, 1, 1), date(2026, 1, 2)
Row = tuple[Any, ...]


def orders(spark: SparkSession, *rows: Row) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA)


def rows_of(frame: DataFrame) -> list[Row]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.spark
@pytest.mark.parametrize("type_", TableType)
def test_a_lookup_has_the_records_that_a_read_has(
    spark: SparkSession, new_table: Callable[..., SparkTable], type_: TableType
) -> None:
    table = new_table(orders(spark), "id", partition_fields=["day"], ordering_field="ts", buckets=3, type=type_)
    assert rows_of(table.lookup([1])) == []
    stored = [(id, day, Decimal(id), 5) for id in range(20) for day in (FIRST, SECOND)]
    inserted = table.insert(orders(spark, *stored))
    table.upsert(orders(spark, (1, FIRST, Decimal(9), 6), (2, FIRST, Decimal(9), 4), (30, FIRST, None, 1)))
    table.delete(orders(spark, (3, FIRST, None, 7)))

    assert rows_of(table.lookup([1, 2, 99])) == [
        (1, FIRST, Decimal(9), 6),
        (1, SECOND, Decimal(1), 5),
        (2, FIRST, Decimal(2), 5),
        (2, SECOND, Decimal(2), 5),
    ]
    assert rows_of(table.lookup([{"id": 1, "day": FIRST}, {"id": 2, "day": SECOND}])) == [
        (1, FIRST, Decimal(9), 6),
        (2, SECOND, Decimal(2), 5),
    ]
    assert rows_of(table.lookup([3])) == [(3, SECOND, Decimal(3), 5)]
    assert rows_of(table.lookup([3], inserted.completion_time)) == [
        (3, FIRST, Decimal(3), 5),
        (3, SECOND, Decimal(3), 5),
    ]
    table.metastore.change_schema([AddColumn("note", "string")])
    assert rows_of(table.lookup([30, 30])) == [(30, FIRST, None, 1, None)]
    every_key = rows_of(table.lookup(list(range(50)), meta_columns=True))
    assert every_key == rows_of(table.read(meta_columns=True))


@pytest.mark.spark
def test_keys_of_several_fields_are_tuples_or_dicts(
    spark: SparkSession, new_table: Callable[..., SparkTable]
) -> None:
    table = new_table(orders(spark), "id,day")
    table.insert(orders(spark, (1, FIRST, Decimal("1.50"), 1), (1, SECOND, Decimal(2), 1), (2, None, None, 1)))

    expected = [(1, SECOND, Decimal(2), 1), (2, None, None, 1)]
    assert rows_of(table.lookup([(1, SECOND), (2, None), (9, FIRST)])) == expected
    assert rows_of(table.lookup([{"day": SECOND, "id": 1}, {"id": 2, "day": None}])) == expected
    for refused in (5, (1,), (1, FIRST, 2), {"id": 1}, {"id": 1, "day": FIRST, "price": 1}, ("x", FIRST)):
        with pytest.raises(errors.SchemaMismatch, match="key"):
            table.lookup([refused])
    with pytest.raises(errors.InvalidRecordKey):
        table.lookup([(None, None)])
    with pytest.raises(TypeError, match="list"):
        table.lookup("1")
    with pytest.raises(ValueError, match="join"):
        table.lookup([(number, FIRST) for number in range(10_001)])


def test_row_groups_without_the_key_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "keys.parquet"
    rows = pa.table({columns.RECORD_KEY: [f"{number:03d}" for number in range(30)], "value": range(30)})
    pq.write_table(rows, path, row_group_size=10, use_dictionary=False, compression="none")
    first = pq.ParquetFile(path).metadata.row_group(0).column(0)
    path.write_bytes(_overwritten(path.read_bytes(), first.data_page_offset, first.total_compressed_size))
    file = pq.ParquetFile(path)

    found = [
        list(key_search.rows(file, rows.column_names, KeySet(pa.array(keys))))
        for keys in (["015"], ["0155", "999"], [])
    ]

    assert [[part.to_pylist() for part in parts] for parts in found] == [
        [[{columns.RECORD_KEY: "015", "value": 15}]],
        [],
        [],
    ]
    with pytest.raises(OSError):
        list(key_search.rows(file, rows.column_names, KeySet(pa.array(["005"]))))


def _overwritten(body: bytes, start: int, length: int) -> bytes:
    return body[:start] + b"\xff" * length + body[start + length :]
