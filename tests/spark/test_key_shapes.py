"""The shapes of record keys and partitions, crossed with the operations, on both table types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from chronolake_model import partition_paths
from chronolake_model.vocabulary import TableType
from chronolake_spark import SparkTable, errors

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
COLUMNS = "a long, b string, day date, shop string, n int"
PLAIN = {partition_paths.HIVE_STYLE_PROPERTY: "false"}
SHAPES = pytest.mark.parametrize(
    ("key", "definition"),
    [
        pytest.param("a", {}, marks=pytest.mark.slow),
        pytest.param(
            "a,b", {"partition_fields": ["day"], "type": TableType.MERGE_ON_READ}, marks=pytest.mark.slow
        ),
        ("a,b", {"partition_fields": ["day", "shop"], "properties": PLAIN, "type": TableType.MERGE_ON_READ}),
        pytest.param("a", {"partition_fields": ["day", "shop"]}, marks=pytest.mark.slow),
    ],
    ids=["no-partition", "two-keys-mor", "plain-paths-mor", "two-partitions"],
)


def visits(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    texts = spark.createDataFrame(list(rows), "a long, b string, day string, shop string, n int")
    return texts.selectExpr("a", "b", "cast(day as date) day", "shop", "n")


def numbers(table: SparkTable) -> dict[int, int]:
    return {row.a: row.n for row in table.read().collect()}


@SHAPES
def test_each_operation_finds_the_records_of_each_shape(
    spark: SparkSession, new_table: NewTable, key: str, definition: dict[str, Any]
) -> None:
    table = new_table(visits(spark), key, buckets=2, **definition)
    table.bulk_insert(
        visits(spark, (1, "x", "2026-01-01", "s t", 1), (2, None, "2026-01-02", None, 1)), sort="global"
    )
    table.insert(visits(spark, (3, "y", "2026-01-01", "u", 1), (4, "y", None, "u", 1)))
    table.upsert(visits(spark, (2, None, "2026-01-02", None, 2), (5, "z", "2026-01-02", "u", 1)))
    assert numbers(table) == {1: 1, 2: 2, 3: 1, 4: 1, 5: 1}

    source = visits(spark, (1, "x", "2026-01-01", "s t", 7), (6, None, "2026-01-03", "v", 7))
    table.merge(source).when_matched_update({"n": "source.n"}).when_not_matched_insert().execute()
    table.delete("n = 1 and a >= 4")
    table.delete(visits(spark, (3, "y", "2026-01-01", "u", 0)))
    assert numbers(table) == {1: 7, 2: 2, 6: 7}

    table.overwrite(visits(spark, (7, "x", "2026-01-01", "s t", 8)), "dynamic")
    assert numbers(table) == ({7: 8, 2: 2, 6: 7} if table.definition.partition_fields else {7: 8})
    if table.definition.partition_fields:
        table.delete_partitions({"day": "2026-01-02"})
        assert numbers(table) == {7: 8, 6: 7}

    before = numbers(table)
    empty = visits(spark)
    for write in (table.insert, table.upsert, table.bulk_insert, table.delete):
        write(empty)
    table.overwrite(empty, "dynamic")
    table.merge(empty).when_matched_delete().execute()
    assert numbers(table) == before


def test_null_keys_and_rows_of_one_key_are_refused_by_each_operation(
    spark: SparkSession, new_table: NewTable
) -> None:
    table = new_table(visits(spark), "a,b", buckets=1)
    table.insert(visits(spark, (1, "x", None, None, 1)))
    keyless = visits(spark, (None, None, None, "s", 1))
    twice = visits(spark, (2, "x", None, "s", 1), (2, "x", None, "s", 2))
    for write in (table.upsert, table.bulk_insert):
        with pytest.raises(errors.InvalidRecordKey, match=r"record key \(a, b\)"):
            write(keyless)
    with pytest.raises(errors.DuplicateKeys):
        table.insert(twice)
    with pytest.raises(errors.DuplicateKeys):
        table.merge(twice).when_not_matched_insert().execute()
    with pytest.raises(errors.InvalidRecordKey):
        table.delete(keyless)
    assert numbers(table) == {1: 1}
    assert table.metastore.orphans().orphans == []
    with pytest.raises(ValueError, match="sort is 'partition'"):
        table.bulk_insert(twice, sort=["prize"])


def test_a_bulk_insert_writes_sorted_files_and_looks_up_no_keys(
    spark: SparkSession, new_table: NewTable
) -> None:
    frame = spark.range(200).selectExpr(
        "id a", "'x' b", "cast(null as date) day", "'s' shop", "cast(-id as int) n"
    )
    table = new_table(frame, "a", buckets=2)
    table.bulk_insert(frame, sort=["n"])
    instant = table.bulk_insert(frame.where("a < 3").selectExpr("a + 200 a", "b", "day", "shop", "n"))
    assert instant.summary is not None
    assert (instant.summary.inserts, instant.summary.updates) == (3, 0)
    assert len(numbers(table)) == 203

    files = [slice_.base_file.path for slice_ in table.metastore.snapshot().slices if slice_.base_file]
    for path in files:
        in_order = spark.read.parquet(f"{table.definition.base_path}/{path}").where("a < 200").collect()
        assert [row.n for row in in_order] == sorted(row.n for row in in_order)
    table.bulk_insert(frame.where("a = 7"))
    assert table.read().where("a = 7").count() == 2
