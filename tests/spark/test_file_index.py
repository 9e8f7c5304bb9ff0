"""The simple and the bloom index look for keys in the files; inserts fill small files or open new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from chronolake.indexes import bloom_filters
from chronolake.writing import writable_tables
from chronolake.writing.counts import RowCounts
from chronolake_model.files import DataFile
from chronolake_model.vocabulary import TableType
from chronolake_spark import SparkTable, errors, row_counts
from chronolake_spark.index import locating

pytestmark = pytest.mark.spark
NewTable = Callable[..., SparkTable]
SCHEMA = "id bigint not null, day string, amount int, ts bigint not null"
# A file of some records has about 5,000 bytes, which is less than a small file may have.
SMALL = {
    "files.small-file-limit": "20000",
    "files.max-file-size": "20000",
    "files.record-size-estimate": "400",
}


def orders(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA)


def rows_of(table: SparkTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.read().collect())


def groups_of(table: SparkTable) -> dict[str, tuple[str, int]]:
    """The partition and the number of log files of each file group."""
    slices = table.metastore.snapshot().slices
    return {slice_.file_id: (slice_.partition_path, len(slice_.log_files)) for slice_ in slices}


def base_files_of(table: SparkTable, partition_path: str | None = None) -> list[DataFile]:
    slices = table.metastore.snapshot(partition_path=partition_path).slices
    return [slice_.base_file for slice_ in slices if slice_.base_file is not None]


@pytest.mark.parametrize(
    ("index", "table_type"),
    [
        pytest.param("simple", TableType.COPY_ON_WRITE, marks=pytest.mark.slow),
        ("bloom", TableType.MERGE_ON_READ),
    ],
)
def test_keys_are_found_where_they_are_and_small_files_are_filled(
    spark: SparkSession,
    new_table: NewTable,
    monkeypatch: pytest.MonkeyPatch,
    index: str,
    table_type: TableType,
) -> None:
    table = new_table(
        orders(spark), "id", index=index, type=table_type, partition_fields=["day"], properties=SMALL
    )
    is_copy_on_write = table_type is TableType.COPY_ON_WRITE
    first = table.insert(
        orders(spark, *((id, "a", 0, 1) for id in range(30)), (100, "b", 0, 1)).union(
            spark.range(1_000, 1_400).selectExpr("id", "'d'", "0", "1L")
        )
    )
    assert row_counts(first) == RowCounts(431, 431, 0, 0, 0, 0)
    groups = groups_of(table)
    # More records than a file should have go to several files, each of them small enough.
    sizes = [file.records for file in base_files_of(table, "day=d")]
    assert len(sizes) == 8
    assert max(sizes) < 100
    assert sorted(path for path, _ in groups.values() if path != "day=d") == ["day=a", "day=b"]

    # An update of one group, an insert that fills the other, and a key that the other partition has.
    second = table.upsert(orders(spark, (1, "a", 1, 2), (101, "b", 1, 2), (1, "b", 1, 2)))
    assert row_counts(second) == RowCounts(3, 2, 1, 0, 0, 0)
    assert {(path, logs) for path, logs in groups_of(table).values() if path != "day=d"} == {
        ("day=a", 0 if is_copy_on_write else 1),
        ("day=b", 0),
    }
    assert groups_of(table).keys() == groups.keys()

    # A group with log files takes no inserts. Rows of one new key meet in one group.
    table.upsert(orders(spark, (200, "a", 1, 2), (200, "a", 2, 2)), row_order=["amount"])
    assert len(groups_of(table)) - len(groups) == (0 if is_copy_on_write else 1)
    with pytest.raises(errors.DuplicateKeys, match="'200'"):
        table.insert(orders(spark, (200, "a", 9, 9), (201, "a", 9, 9)))
    table.insert(orders(spark, (200, "a", 9, 9), (300, "c", 3, 3)), duplicates="drop")
    # As with many keys: they are joined by Spark.
    monkeypatch.setattr(locating, "KEYS_SENT_MAX", 0)
    table.delete(orders(spark, (2, "a", 0, 0), (999, "a", 0, 0), (1, "nowhere", 0, 0)).select("id", "day"))
    expected = [
        *((id, "a", int(id == 1), 2 if id == 1 else 1) for id in range(30) if id != 2),
        *((200, "a", 2, 2), (100, "b", 0, 1), (101, "b", 1, 2), (1, "b", 1, 2), (300, "c", 3, 3)),
    ]
    assert [row for row in rows_of(table) if row[1] != "d"] == sorted(expected)
    table.overwrite(orders(spark, (5, "d", 5, 5), (6, "d", 6, 6)), "dynamic")
    table.bulk_insert(orders(spark, (7, "d", 7, 7)))
    table.upsert(orders(spark, (7, "d", 8, 8)))
    assert rows_of(table) == sorted([*expected, (5, "d", 5, 5), (6, "d", 6, 6), (7, "d", 8, 8)])
    path = f"{table.definition.base_path}/{base_files_of(table)[0].path}"
    assert (bloom_filters.FILTER in pq.read_metadata(path).metadata) == (index == "bloom")


@pytest.mark.parametrize("index", ["simple", "record"])
def test_a_deleted_record_stays_deleted_although_its_write_inserted_another(
    spark: SparkSession, new_table: NewTable, index: str
) -> None:
    table = new_table(
        orders(spark), "id", index=index, type=TableType.MERGE_ON_READ, ordering_field="ts", properties=SMALL
    )
    table.upsert(orders(spark, (1, "a", 0, 1), (2, "a", 0, 1)))
    table.upsert(orders(spark, (1, "a", -1, 10), (3, "a", 0, 1)), delete_when="amount < 0")
    table.upsert(orders(spark, (1, "a", 0, 5)))
    assert [row[0] for row in rows_of(table)] == [2, 3]
    # A write without deletes still fills the small file group.
    groups = groups_of(table)
    table.upsert(orders(spark, (4, "a", 0, 1)))
    assert groups_of(table).keys() == groups.keys()


def interleaved(
    table: SparkTable, monkeypatch: pytest.MonkeyPatch, early: Callable[[], Any], late: Callable[[], Any]
) -> Any:
    """Once the early write has begun and has its snapshot, the late one runs from begin to end."""
    begun = writable_tables.refuse_another_schema

    def run_late(*args: Any) -> None:
        monkeypatch.setattr(writable_tables, "refuse_another_schema", begun)
        begun(*args)
        late()

    monkeypatch.setattr(writable_tables, "refuse_another_schema", run_late)
    return early()


def test_of_two_writers_of_one_new_key_the_second_conflicts_and_is_repeated(
    spark: SparkSession, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(orders(spark), "id", index="bloom", partition_fields=["day"])
    table.insert(orders(spark, (1, "a", 0, 1)))
    again = interleaved(
        table,
        monkeypatch,
        lambda: table.upsert(orders(spark, (3, "b", 1, 1)), on_conflict="retry"),
        lambda: table.upsert(orders(spark, (3, "b", 2, 2))),
    )
    assert again.extra_metadata["conflicts.retries"] == "1"
    assert rows_of(table) == [(1, "a", 0, 1), (3, "b", 1, 1)]


def test_a_bulk_insert_writes_the_rows_of_each_task_without_a_shuffle(
    spark: SparkSession, new_table: NewTable
) -> None:
    frame = spark.range(0, 300, 1, 2).selectExpr(
        "id", "if(id % 3 = 0, 'b', 'a') day", "cast(id as int) amount", "1L ts"
    )
    table = new_table(frame, "id", index="bloom", partition_fields=["day"], properties=SMALL)
    instant = table.bulk_insert(frame)

    # Two tasks, each with 100 rows of one partition and 50 of the other, and files of 50 rows.
    assert [file.records for file in base_files_of(table)] == [50] * 6
    assert instant.summary is not None
    assert (instant.summary.inserts, row_counts(instant)) == (300, RowCounts(300, 300, 0, 0, 0, 0))
    table.bulk_insert(frame.where("id < 60").selectExpr("id + 300 id", "day", "amount", "ts"), sort="partition")
    assert sorted(file.records for file in base_files_of(table)) == [20, 40, *[50] * 6]
    table.delete(frame.selectExpr("id + 90 id", "day"))
    assert [row[0] for row in rows_of(table)] == list(range(90))

    with pytest.raises(errors.InvalidRecordKey):
        table.bulk_insert(frame.selectExpr("if(id = 7, null, id) id", "day", "amount", "ts"))
    with pytest.raises(errors.DuplicateKeys):
        table.bulk_insert(frame.selectExpr("id % 2 id", "day", "amount", "ts"))
    assert table.metastore.orphans().orphans == []
