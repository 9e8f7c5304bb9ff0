"""Writes that Spark does not shuffle: INSERT into views, and frames of drivers without the import."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession, functions as sf

import chronolake_spark
from chronolake_model.vocabulary import Action, State
from chronolake_spark import SparkTable, errors
from tests.spark.prices import orphans_of

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]


def orders(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id long, country string, price double").selectExpr(
        "*",
        "date'2026-01-01' + cast(id as int) as day",
        "timestamp_micros(id * 1000001) as at",
        "concat('n', id) as note",
    )


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row)[:3] for row in frame.collect())


def save_by_spark(frame: DataFrame, table: SparkTable, **options: str) -> None:
    """``save`` in a driver that did not import ``chronolake_spark``."""
    writer = frame.write.format("chronolake").mode("append")
    writer.options(table=table.name, url=table._client.url, **options)._jwrite.save()


def records_of(table: SparkTable) -> dict[tuple[str, str], int]:
    """The number of records in the base file of each file group."""
    slices = table.metastore.snapshot().slices
    return {
        (slice_.partition_path, slice_.file_id): slice_.base_file.records
        for slice_ in slices
        if slice_.base_file is not None
    }


@pytest.mark.parametrize(
    ("type_", "partition_fields"),
    [
        ("copy_on_write", ["country", "day"]),
        ("merge_on_read", []),
        pytest.param("copy_on_write", [], marks=pytest.mark.slow),
        pytest.param("merge_on_read", ["country", "day"], marks=pytest.mark.slow),
    ],
)
def test_rows_are_staged_merged_and_nothing_stays_behind(
    spark: SparkSession, new_table: NewTable, type_: str, partition_fields: list[str]
):
    frame = orders(spark, *((number, ["de", "fr", None][number % 3], 1.0) for number in range(30)))
    table = new_table(frame, "id,note", type=type_, partition_fields=partition_fields, buckets=3)
    shuffled = new_table(frame, "id,note", type=type_, partition_fields=partition_fields, buckets=3)
    shuffled.insert(frame)

    save_by_spark(frame.repartition(3), table, operation="insert")
    assert rows_of(table.read().na.fill("-")) == rows_of(frame.na.fill("-"))
    # The same rows in the same groups: record keys, partition paths and buckets are those of a shuffled write.
    groups = [
        {
            (slice_.partition_path, slice_.file_id): slice_.base_file.records
            for slice_ in slices
            if slice_.base_file
        }
        for slices in (table.metastore.snapshot().slices, shuffled.metastore.snapshot().slices)
    ]
    assert groups[0] == groups[1]
    update = orders(spark, (1, "fr", 2.0), (31, "it", 2.0)).selectExpr(
        "note", "price", "at", "day", "country", "id"
    )
    save_by_spark(update, table)
    save_by_spark(
        orders(spark, (0, "de", 0.0)).select("id", "note", "country", "day"), table, operation="delete"
    )
    save_by_spark(frame.where("id < 0"), table)

    kept = [(number, ["de", "fr", None][number % 3], 1.0) for number in range(2, 30)]
    changed = [(1, "fr", 2.0), *kept, (31, "it", 2.0)]
    assert rows_of(table.read().na.fill("-")) == rows_of(orders(spark, *changed).na.fill("-"))
    assert orphans_of(table) == []
    assert {instant.state for instant in table.metastore.instants()} == {State.COMPLETED}


def test_sql_inserts_into_views_and_no_completion_is_refused(spark: SparkSession, new_table: NewTable):
    table = new_table(orders(spark), "id", buckets=2)
    name = table.name.removeprefix("spark.")
    chronolake_spark.views(spark, "spark", table._client.url)
    spark.sql(f"INSERT INTO {name} SELECT 1, 'de', 1.5, date'2026-01-01', timestamp'2026-01-01', 'n'")
    with pytest.raises(errors.InvalidOption, match="does not name the columns country, day, at, note"):
        spark.sql(f"INSERT INTO {name.upper()} (price, id) VALUES (9.5, 1)")
    with pytest.raises(errors.InvalidOption, match="does not name the columns country, price"):
        spark.sql(f"INSERT INTO {name} BY NAME SELECT 1L id, null day, null at, null note")
    rest = "null country, null day, null at, null note"
    spark.sql(f"INSERT INTO {name.upper()} BY NAME SELECT 2.5 price, 2 id, {rest}")
    assert rows_of(spark.sql(f"SELECT * FROM {name}").na.fill("-")) == [(1, "de", 1.5), (2, "-", 2.5)]
    with pytest.raises(errors.InvalidRecordKey, match="fill them in") as refused:
        spark.sql(f"INSERT INTO {name} VALUES (null, 'de', 2.5, null, null, null)")
    assert "[chronolake:" not in str(refused.value)
    orders(spark, (2, "it", 3.5)).write.insertInto(name)
    assert rows_of(spark.table(name)) == [(1, "de", 1.5), (2, "it", 3.5)]
    given = f"table '{table.name}', url '{table._client.url}'"
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW by_hand USING chronolake OPTIONS ({given}, operation 'insert')"
    )
    with pytest.raises(errors.DuplicateKeys, match="have a record key that the table"):
        spark.sql("INSERT INTO by_hand SELECT 1, 'de', 9.0, null, null, null")
    spark.sql(f"INSERT OVERWRITE {name} SELECT 7, 'se', 9.0, null, null, null")
    assert rows_of(spark.table(name)) == [(7, "se", 9.0)]
    with pytest.raises(PySparkException, match="the mode overwrite replaces"):
        spark.sql("INSERT OVERWRITE by_hand SELECT 1, 'de', 9.0, null, null, null")
    assert orphans_of(table) == []
    # Staged files are deleted before the completion, because each refusal is recorded.
    assert "unreconciled-markers" not in httpx.get(f"{table._client.url}/metrics").text


def test_nested_columns_are_inserted(spark: SparkSession, new_table: NewTable):
    types = (
        "id long, tags array<string>, m map<string, array<int>>, s struct<a: array<struct<b: long>>, c: date>"
    )
    rows = spark.createDataFrame(
        [(1, ["x", None], {"k": [1, None]}, ([(2,), None], None)), (2, *[None] * 3)], types
    )
    table = new_table(rows, "id")
    save_by_spark(rows, table)
    chronolake_spark.views(spark, "spark", table._client.url)
    name = table.name.removeprefix("spark.")
    spark.sql(f"INSERT INTO {name} SELECT id + 2, tags, m, s FROM {name}")

    expected = rows.union(rows.selectExpr("id + 2 as id", "tags", "m", "s"))
    assert table.read().orderBy("id").collect() == expected.orderBy("id").collect()
    with pytest.raises(PySparkException, match="its column s is struct"):
        save_by_spark(rows.selectExpr("id", "tags", "m", "named_struct('c', s.c, 'a', s.a) as s"), table)


def test_overwrites_replace_partitions_or_the_table(spark: SparkSession, new_table: NewTable):
    table = new_table(orders(spark), "id", partition_fields=["country"])
    frame = orders(spark, (1, "de", 1.0), (2, "fr", 2.0), (3, "fr", 3.0))
    given = {"table": table.name, "url": table._client.url}

    def overwrite(frame: DataFrame, save: Callable[..., None], **options: str) -> list[tuple[Any, ...]]:
        save(frame.write.format("chronolake").mode("overwrite").options(**given, **options))
        return rows_of(table.read())

    for save in (DataFrameWriter.save, lambda writer: writer._jwrite.save()):
        table.upsert(frame)
        new = orders(spark, (4, "fr", 4.0))
        assert overwrite(new, save, partitions="dynamic") == [(1, "de", 1.0), (4, "fr", 4.0)]
        assert overwrite(new, save) == [(4, "fr", 4.0)]
        assert overwrite(new.where("id < 0"), save) == []
    assert orphans_of(table) == []


def test_refused_rows_leave_no_instant_and_no_file(spark: SparkSession, new_table: NewTable):
    table = new_table(orders(spark), "id", partition_fields=["country"])
    row = orders(spark, (1, "de", 1.0))
    for frame, options, message in (
        (row.withColumn("id", sf.expr("nullif(id, 1L)")), {}, "record key"),
        (row.drop("note"), {}, "lacks the columns note"),
        (row.selectExpr("*", "1 as more"), {}, "columns that the table does not: more"),
        (
            row.selectExpr("cast(id as string) id", "country", "price", "day", "at", "note"),
            {},
            "its column id is string",
        ),
        (row.union(row.withColumn("price", sf.lit(9.0))), {}, "order is not defined"),
        (row, {"delete_when": "id = 1"}, "delete_when need `import chronolake_spark`"),
        (row, {"as_of": "latest"}, "as_of are for reads"),
        (row, {"operation": "bulk_insert"}, "bulk_insert needs `import chronolake_spark`"),
        (
            row.selectExpr("raise_error('broken') id", "country", "price", "day", "at", "note"),
            {},
            "broken|is void",
        ),
        (
            row.selectExpr("id + if(id > 0, cast(raise_error('broken') as long), 0L) id", *row.columns[1:]),
            {},
            "broken",
        ),
    ):
        with pytest.raises(PySparkException, match=message):
            save_by_spark(frame, table, **options)
    assert {
        instant.state for instant in table.metastore.instants() if instant.action is not Action.ROLLBACK
    } <= {State.ROLLED_BACK}
    assert orphans_of(table) == []
    assert list(Path(table.definition.base_path).rglob("*.parquet")) == []


def test_sql_inserts_into_tables_without_buckets_look_keys_up(spark: SparkSession, new_table: NewTable):
    given = {"partition_fields": ["country"], "ordering_field": "price"}
    simple = new_table(orders(spark), "id", index="simple", **given)
    unique = new_table(orders(spark), "id", index="record", type="merge_on_read", **given)
    chronolake_spark.views(spark, "spark", simple._client.url)
    rest = "date'2026-01-01', timestamp'2026-01-01', 'n'"
    for table in (simple, unique):
        name = table.name.removeprefix("spark.")
        spark.sql(f"INSERT INTO {name} SELECT id, 'de', 1.0, {rest} FROM range(4)")
        spark.sql(f"INSERT INTO {name} SELECT id, if(id = 1, 'fr', 'de'), 2.0, {rest} FROM range(1, 6, 2)")
        spark.sql(f"INSERT INTO {name} SELECT 3, 'de', 0.5, {rest}")
        moved = [] if table is unique else [(1, "de", 1.0)]
        expected = [(0, "de", 1.0), (1, "fr", 2.0), (2, "de", 1.0), (3, "de", 2.0), (5, "de", 2.0)]
        assert rows_of(spark.table(name)) == sorted([*expected, *moved])
        assert orphans_of(table) == []
    assert [row.country for row in unique.lookup([1]).collect()] == ["fr"]
