"""Writes by SQL and by ``df.writeTo``, through the catalog: INSERT INTO and INSERT OVERWRITE."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as sf

import chronolake
from chronolake_model.vocabulary import State
from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]

NewTable = Callable[..., SparkTable]
KINDS = pytest.mark.parametrize(
    ("type_", "index"),
    [
        ("copy_on_write", "bucket"),
        ("merge_on_read", "bucket"),
        ("copy_on_write", "simple"),
        ("merge_on_read", "record"),
    ],
)


def sales(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id long, day string, price double")


def new_sales(lake: SparkSession, new_table: NewTable, type_: str, index: str) -> SparkTable:
    how: dict[str, Any] = {"buckets": 2} if index == "bucket" else {"index": index}
    return new_table(sales(lake), "id", type=type_, partition_fields=["day"], **how)


@pytest.fixture
def dynamic_mode(lake: SparkSession) -> Iterator[None]:
    """Spark's own mode of overwrites that replace the partitions of their rows."""
    lake.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    yield
    lake.conf.unset("spark.sql.sources.partitionOverwriteMode")


def rows_of(table: SparkTable) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, table.read().collect()))


@KINDS
def test_insert_adds_rows_and_refuses_keys_that_exist(
    lake: SparkSession, new_table: NewTable, type_: str, index: str
) -> None:
    table = new_sales(lake, new_table, type_, index)
    lake.sql(f"INSERT INTO lake.{table.name} VALUES (1, 'a', 1.0), (2, 'b', 2.0)")
    lake.sql(f"INSERT INTO lake.{table.name} (day, id) SELECT 'a', 3")
    with pytest.raises(IllegalArgumentException, match="MERGE INTO"):
        lake.sql(f"INSERT INTO lake.{table.name} VALUES (1, 'a', 5.0), (4, 'a', 4.0)")

    # The column that the second statement does not name is null. The third is whole, or not at all.
    assert rows_of(table) == [(1, "a", 1.0), (2, "b", 2.0), (3, "a", None)]
    lake.sql(f"INSERT INTO lake.{table.name} WITH (operation = 'upsert') VALUES (1, 'a', 5.0), (4, 'a', 4.0)")
    sales(lake, (5, "b", 5.0)).writeTo(f"lake.{table.name}").append()
    sales(lake, (6, "b", 6.0)).write.mode("append").saveAsTable(f"lake.{table.name}")
    sales(lake, (7, "b", 7.0)).write.insertInto(f"lake.{table.name}")
    assert rows_of(table) == [
        (1, "a", 5.0),
        (2, "b", 2.0),
        (3, "a", None),
        (4, "a", 4.0),
        (5, "b", 5.0),
        (6, "b", 6.0),
        (7, "b", 7.0),
    ]


@KINDS
def test_insert_overwrite_replaces_the_table_or_one_partition(
    lake: SparkSession, new_table: NewTable, type_: str, index: str
) -> None:
    table = new_sales(lake, new_table, type_, index)
    name = f"lake.{table.name}"
    lake.sql(f"INSERT OVERWRITE {name} VALUES (1, 'a', 1.0), (2, 'b', 2.0), (3, null, 3.0)")
    lake.sql(
        f"INSERT OVERWRITE {name} PARTITION (day = 'a') SELECT id * 10, price + 1 FROM {name} WHERE id = 1"
    )
    assert rows_of(table) == [(2, "b", 2.0), (3, None, 3.0), (10, "a", 2.0)]

    lake.sql(f"INSERT OVERWRITE {name} PARTITION (day = 'b') SELECT id, price FROM {name} WHERE false")
    assert rows_of(table) == [(3, None, 3.0), (10, "a", 2.0)]

    with pytest.raises(IllegalArgumentException, match="is of another partition"):
        sales(lake, (4, "x", 4.0)).writeTo(name).overwrite(sf.col("day") == "a")
    with pytest.raises(IllegalArgumentException, match="replaces the whole table, or"):
        sales(lake, (4, "a", 4.0)).writeTo(name).overwrite(sf.col("price") == 4)
    lake.sql(f"INSERT OVERWRITE {name} WITH (partitions = 'dynamic') VALUES (4, 'a', 4.0)")
    assert rows_of(table) == [(3, None, 3.0), (4, "a", 4.0)]
    lake.sql(f"INSERT OVERWRITE {name} SELECT id, day, -price FROM {name}")
    assert rows_of(table) == [(3, None, -3.0), (4, "a", -4.0)]


@KINDS
def test_a_dynamic_overwrite_replaces_the_partitions_that_its_rows_have(
    lake: SparkSession, new_table: NewTable, type_: str, index: str, dynamic_mode: None
) -> None:
    table = new_sales(lake, new_table, type_, index)
    name = f"lake.{table.name}"
    lake.sql(f"INSERT INTO {name} VALUES (1, 'a', 1.0), (2, 'b', 2.0), (3, null, 3.0)")
    lake.sql(f"INSERT OVERWRITE {name} SELECT id * 10, day, price FROM {name} WHERE day = 'a' OR day IS NULL")
    assert rows_of(table) == [(2, "b", 2.0), (10, "a", 1.0), (30, None, 3.0)]

    many = lake.range(100, 600, numPartitions=3).selectExpr("id", "'b' as day", "cast(id as double) as price")
    many.writeTo(name).overwritePartitions()
    sales(lake).writeTo(name).overwritePartitions()
    assert rows_of(table) == [
        (10, "a", 1.0),
        (30, None, 3.0),
        *((id, "b", float(id)) for id in range(100, 600)),
    ]
    with pytest.raises(PySparkException, match="differ from another row"):
        sales(lake, (5, "a", 5.0), (5, "a", 6.0)).writeTo(name).overwritePartitions()
    assert rows_of(table)[0] == (10, "a", 1.0)


def test_a_dynamic_overwrite_does_not_lose_what_another_writer_adds(
    lake: SparkSession, new_table: NewTable, shared_server_url: str, dynamic_mode: None
) -> None:
    """One adds a row before Spark plans the query, another while a task reads it."""
    table = new_sales(lake, new_table, "copy_on_write", "bucket")
    name = f"lake.{table.name}"
    lake.sql(f"INSERT INTO {name} VALUES (1, 'a', 1.0)")
    older = lake.sql(f"SELECT id, day, price + 1 AS price FROM {name} WHERE id IN (SELECT id FROM {name})")
    older.collect()
    lake.sql(f"INSERT INTO {name} VALUES (2, 'a', 2.0)")
    older.writeTo(name).overwritePartitions()
    assert rows_of(table) == [(1, "a", 2.0), (2, "a", 3.0)]

    table_name = table.name

    def add(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        with chronolake.connect(shared_server_url) as client:
            rows = pa.table({"id": [9], "day": ["a"], "price": [9.0]})
            client.table(table_name).upsert(rows)

    reading = lake.table(name).coalesce(1).mapInArrow(add, older.schema)
    with pytest.raises(IllegalArgumentException, match="would be lost"):
        reading.writeTo(name).overwritePartitions()
    assert rows_of(table) == [(1, "a", 2.0), (2, "a", 3.0), (9, "a", 9.0)]


def test_rows_of_a_dynamic_overwrite_are_of_one_attempt_of_each_task_and_let_go(
    lake: SparkSession, new_table: NewTable, tmp_path: Path, dynamic_mode: None
) -> None:
    table = new_sales(lake, new_table, "copy_on_write", "simple")
    (tmp_path / "first").touch()

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        with contextlib.suppress(FileNotFoundError):
            (tmp_path / "first").unlink()
            raise RuntimeError("after the rows of the first attempt")

    rows = lake.range(0, 100, numPartitions=1).selectExpr("id", "'a' as day", "cast(id as double) as price")
    rows.mapInPandas(fail_once, rows.schema).writeTo(f"lake.{table.name}").overwritePartitions()
    assert rows_of(table) == [(id, "a", float(id)) for id in range(100)]
    assert not list(lake.sparkContext._jsc.getPersistentRDDs())


def test_an_overwrite_by_an_older_state_of_the_table_is_refused(
    lake: SparkSession, new_table: NewTable
) -> None:
    table = new_sales(lake, new_table, "copy_on_write", "bucket")
    name = f"lake.{table.name}"
    lake.sql(f"INSERT INTO {name} VALUES (1, 'a', 1.0)")
    older = lake.sql(f"SELECT id, day, price + 1 AS price FROM {name} WHERE id IN (SELECT id FROM {name})")
    older.collect()
    past = lake.read.option("versionAsOf", table.metastore.snapshot().as_of).table(name)
    lake.sql(f"INSERT INTO {name} VALUES (2, 'a', 2.0)")

    with pytest.raises(IllegalArgumentException, match="would be lost"):
        older.write.mode("overwrite").insertInto(name)
    assert rows_of(table) == [(1, "a", 1.0), (2, "a", 2.0)]
    past.write.mode("overwrite").insertInto(name)
    assert rows_of(table) == [(1, "a", 1.0)]


def test_explain_names_the_write_and_begins_nothing(lake: SparkSession, new_table: NewTable) -> None:
    table = new_sales(lake, new_table, "copy_on_write", "bucket")
    name = f"lake.{table.name}"
    before = len(list(table.metastore.instants(state=list(State))))
    for statement, shown in (
        (f"INSERT INTO {name} VALUES (1, 'a', 1.0)", "append"),
        (f"INSERT OVERWRITE {name} VALUES (1, 'a', 1.0)", "overwrite"),
        (f"DELETE FROM {name} WHERE price > 2", "delete"),
    ):
        [(plan,)] = lake.sql(f"EXPLAIN {statement}").collect()
        assert f"chronolake {name} ({shown})" in plan and "chronolake.spark." not in plan, plan
    assert len(list(table.metastore.instants(state=list(State)))) == before


def test_options_of_a_write_are_checked(lake: SparkSession, new_table: NewTable) -> None:
    table = new_sales(lake, new_table, "copy_on_write", "bucket")
    rows = sales(lake, (1, "a", 1.0))
    with pytest.raises(IllegalArgumentException, match="no option 'opperation'"):
        rows.writeTo(f"lake.{table.name}").option("opperation", "upsert").append()
    with pytest.raises(IllegalArgumentException, match="are for reads"):
        rows.writeTo(f"lake.{table.name}").option("as_of", "20260101000000000").append()
    assert rows_of(table) == []


def test_an_insert_takes_the_options_of_a_write_and_refuses_its_rows(
    lake: SparkSession, new_table: NewTable
) -> None:
    table = new_sales(lake, new_table, "copy_on_write", "bucket")
    into = f"INSERT INTO lake.{table.name} WITH (operation = 'upsert'"
    lake.sql(f"{into}, row_order = 'price') VALUES (3, 'a', 8.0), (3, 'a', 3.0), (4, 'a', null)")
    lake.sql(f"{into}, delete_when = 'price is null') VALUES (4, 'a', null)")
    assert rows_of(table) == [(3, "a", 8.0)]
    for rows, reason in (
        ("(null, 'a', 1.0)", "fill them in"),
        ("(5, 'a', 1.0), (5, 'a', 2.0)", r"WITH \(row_order"),
        ("(6, '', 1.0)", r"nullif\(day, ''\)"),
    ):
        with pytest.raises(IllegalArgumentException, match=reason):
            lake.sql(f"{into}) VALUES {rows}")
    with pytest.raises(PySparkException, match="CANNOT_SAFELY_CAST"):
        lake.sql(f"{into}) SELECT concat('x', id), 'a', 1.0 FROM range(1)")
    assert rows_of(table) == [(3, "a", 8.0)]


def test_create_table_as_select_makes_the_table_and_its_rows_or_neither(
    lake: SparkSession, new_table: NewTable, tmp_path: Path
) -> None:
    how = f"TBLPROPERTIES (record_key = 'id') LOCATION '{tmp_path / 'made'}'"
    lake.sql(f"CREATE TABLE lake.spark.made {how} AS SELECT 1L AS id, 2 AS v")
    assert [tuple(row) for row in lake.table("lake.spark.made").collect()] == [(1, 2)]

    with pytest.raises(IllegalArgumentException, match="INSERT OVERWRITE"):
        lake.sql(f"CREATE OR REPLACE TABLE lake.spark.made {how} AS SELECT 3L AS id, 4 AS v")
    with pytest.raises(IllegalArgumentException, match="INSERT OVERWRITE"):
        lake.range(1).write.mode("overwrite").saveAsTable("lake.spark.made")
    with pytest.raises(IllegalArgumentException, match=r"tableProperty\('record_key'"):
        lake.range(1).write.saveAsTable("lake.spark.without_key")
    assert lake.table("lake.spark.made").count() == 1

    failing = f"TBLPROPERTIES (record_key = 'id') LOCATION '{tmp_path / 'failing'}'"
    with pytest.raises(PySparkException, match="no value"):
        query = "SELECT id, CAST(raise_error('no value') AS int) AS v FROM range(3)"
        lake.sql(f"CREATE TABLE lake.spark.failing {failing} AS {query}")
    assert not lake.catalog.tableExists("lake.spark.failing")
