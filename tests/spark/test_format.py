"""``format("chronolake")``: frames and SQL views, with and without the methods that ``install`` replaces."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as sf
from pyspark.sql.readwriter import DataFrameReader

import chronolake
import chronolake_spark
from chronolake.errors import ConnectionFailed, TableNotFound
from chronolake_model.schemas import AddColumn, DropColumn
from chronolake_model.tables import Field
from chronolake_model.vocabulary import Operation
from chronolake_spark import SparkTable, errors
from chronolake_spark.sql import views
from tests.fix_server import ServerProcess

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
ID = [Field("id", "bigint", False)]


def orders(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id long, country string, price double, day date").selectExpr(
        "id", "country", "price", "day"
    )


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def loaded_by_spark(reader: DataFrameReader) -> DataFrame:
    """The frame of a driver that did not call ``chronolake_spark.install``."""
    return DataFrame(reader._jreader.load(), reader._spark)


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.fixture
def table(spark: SparkSession, new_table: NewTable) -> SparkTable:
    return new_table(orders(spark), "id", partition_fields=["country"], buckets=2)


@pytest.fixture
def reader(spark: SparkSession, table: SparkTable) -> Callable[..., DataFrameReader]:
    """Makes a reader of the table with options."""
    url = table._client.url
    return lambda **options: spark.read.format("chronolake").options(table=table.name, url=url, **options)


@pytest.fixture
def save(spark: SparkSession, table: SparkTable) -> Callable[..., None]:
    """Writes rows to the table."""

    def save(*rows: tuple[Any, ...], **options: str) -> None:
        writer = orders(spark, *rows).write.format("chronolake").mode("append")
        writer.options(table=table.name, url=table._client.url, **options).save()

    return save


def test_frames_are_saved_and_loaded_by_sparks_own_methods(
    spark: SparkSession,
    table: SparkTable,
    reader: Callable[..., DataFrameReader],
    save: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
):
    save((1, "de", 1.0, None), (2, "fr", 2.0, None), operation="insert")
    save(operation="bulk_insert")
    [first] = table.metastore.instants(operation=Operation.INSERT)
    save((2, "fr", 2.5, None), (3, "it", 3.0, None))
    save((1, "de", None, None), operation="delete", on_conflict="retry")

    now = [(2, "fr", 2.5, None), (3, "it", 3.0, None)]
    assert rows_of(reader().load()) == now
    assert rows_of(reader(as_of=first.completion_time).load().select("id", "price")) == [(1, 1.0), (2, 2.0)]
    assert rows_of(reader(filter="price > 2.6").load().select("id")) == [(3,)]
    changes = reader(**{"from": first.completion_time}).load().select("id", "_change_type")
    assert rows_of(changes) == [(1, "delete"), (2, "upsert"), (3, "upsert")]
    assert "ReadSchema: struct<id:bigint>" in plan_of(reader().load().select("id"))
    assert reader().schema("price double, id long").load().columns == ["price", "id"]
    monkeypatch.setenv("CHRONOLAKE_URL", table._client.url)
    assert rows_of(spark.read.format("chronolake").load(table.name)) == now
    assert rows_of(spark.read.load(table.name, format="Chronolake", meta_columns=True).select("id")) == [
        (2,),
        (3,),
    ]


FILTERS = (
    "country = 'de'",
    "country != 'de'",
    "country in ('de', 'it') and price > 0",
    "not (country in ('de', 'it'))",
    "price >= 'NaN'",
    "price < 'NaN'",
    "price != 'NaN'",
    "price = 'NaN' or country = 'fr'",
    "not (price > 5)",
    "day >= '2026-01-05' and id < 9223372036854775807",
    "country starts with 'd' and price is null",
)


def test_the_data_source_itself_reads_what_frames_read(
    spark: SparkSession, table: SparkTable, reader: Callable[..., DataFrameReader]
):
    table.insert(orders(spark, (1, "de", float("nan"), None), (2, "fr", 2.0, None)))
    later = orders(spark, (3, None, -1.0, None), (4, "de", None, None), (5, "it", 1e300, None))
    table.upsert(later.withColumn("day", sf.expr("date'2026-01-01' + cast(id as int)")))
    for text in FILTERS:
        shown = loaded_by_spark(reader(filter=text)).select("id")
        assert rows_of(shown) == rows_of(table.read(filter=text).select("id")), text
    frame = loaded_by_spark(reader())
    assert rows_of(frame.where("id = 2").select("id")) == [(2,)]
    # Spark keeps the plan of the first query: it must not have the condition of that one.
    assert rows_of(frame.select("id")) == [(1,), (2,), (3,), (4,), (5,)]
    joined = frame.where("id > 3").alias("a").join(frame.where("id < 5").alias("b"), "id").select("id")
    assert rows_of(joined) == [(4,)]
    assert loaded_by_spark(reader(meta_columns="true")).columns[:2] == [
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
    ]
    assert rows_of(loaded_by_spark(reader().schema("price double")).where("price = 2")) == [(2.0,)]


def test_slices_with_log_files_are_merged_and_the_read_optimized_view_leaves_them_out(
    spark: SparkSession, new_table: NewTable
):
    table = new_table(orders(spark), "id", type="merge_on_read", ordering_field="price", buckets=2)
    table.insert(orders(spark, (1, "de", 1.0, None), (2, "fr", 2.0, None)))
    table.upsert(orders(spark, (1, "it", 3.0, None), (2, "it", 1.0, None)))
    reader = spark.read.format("chronolake").options(table=table.name, url=table._client.url)
    for load in (DataFrameReader.load, loaded_by_spark):
        assert rows_of(load(reader).select("id", "country")) == [(1, "it"), (2, "fr")]
    reader.option("view", "read_optimized")
    for load in (DataFrameReader.load, loaded_by_spark):
        assert rows_of(load(reader).select("id", "country")) == [(1, "de"), (2, "fr")]


def test_a_frame_outlives_a_change_of_columns_until_one_of_its_own_is_gone(
    spark: SparkSession, table: SparkTable, reader: Callable[..., DataFrameReader]
):
    table.insert(orders(spark, (1, "de", 1.0, None)))
    first, second, third = (loaded_by_spark(reader()) for _ in range(3))
    table.metastore.change_schema([AddColumn("note", "string")])
    table.upsert(spark.sql("select 2L id, 'fr' country, 2D price, null day, 'n' note"))
    assert rows_of(first.select("id", "price").where("price >= 1")) == [(1, 1.0), (2, 2.0)]
    table.metastore.change_schema([DropColumn("day")])
    with pytest.raises(PySparkException, match=r"columns day of .* were dropped.*make it again"):
        second.collect()
    table._client.drop_table(table.name)
    with pytest.raises(PySparkException, match="TableNotFound"):
        third.collect()


def test_views_show_the_newest_state_of_all_tables_of_a_namespace(
    spark: SparkSession, client: chronolake.Client, new_table: NewTable, tmp_path: Path
):
    namespace = f"sql_{tmp_path.name.replace('-', '_')}"[:40].rstrip("_").lower()
    client.create_namespace(namespace)

    def make(name: str) -> SparkTable:
        path = str(tmp_path / name)
        chronolake_spark.create_table(
            client, f"{namespace}.{name}", orders(spark).schema, base_path=path, record_key_fields=["id"]
        )
        return chronolake_spark.table(spark, f"{namespace}.{name}", client=client)

    first = make("v_first")
    assert chronolake_spark.views(spark, namespace, client.url) == ["v_first"]
    assert spark.sql("select count(*) from v_first").head()[0] == 0
    first.insert(orders(spark, (1, "de", 1.0, None)))
    query = spark.sql(
        "select v.id, w.price from v_first v join V_FIRST w using (id) where v.id > 0 and w.id < 9"
    )
    assert rows_of(query) == [(1, 1.0)]
    assert "FileScan parquet [id" in plan_of(spark.sql("select id from v_first"))
    first.metastore.change_schema([AddColumn("note", "string")])
    assert spark.table("v_first").columns[-1] == "note"
    make("v_second").insert(orders(spark, (7, "it", 7.0, None)))
    assert rows_of(spark.sql("select id from v_second union all select id from v_first")) == [(1,), (7,)]
    client.table(f"{namespace}.v_second").alter(name=f"{namespace}.v-Third")
    client.drop_table(first.name)
    assert rows_of(spark.sql("select id from `v-Third`")) == [(7,)]
    spark.sql("insert into `v-Third` select 8, 'it', 8.0, null")
    assert rows_of(spark.sql("select id from `v-third`")) == [(7,), (8,)]
    client.drop_table(f"{namespace}.v-Third")
    for gone in ("v_first", "v_second", "`v-Third`"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql(f"select * from {gone}")


def test_while_the_server_is_away_queries_that_name_no_view_run(
    spark: SparkSession,
    new_server: Callable[..., ServerProcess],
    dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(views, "_RETRY_SECONDS", 0.1)
    away = new_server(dsn)
    with chronolake.connect(away.url) as client:
        client.create_namespace("away")
        client.create_table("away.v_away", base_path=str(tmp_path), schema=ID, record_key_fields=["id"])
        chronolake_spark.views(spark, "away", away.url)
    away.kill()
    assert spark.sql("select 1").count() == 1
    with pytest.raises(ConnectionFailed):
        spark.sql("select * from v_away")


def test_create_table_is_refused_and_leaves_no_entry(spark: SparkSession, table: SparkTable):
    for statement in (
        f"create table t_made using chronolake options (table '{table.name}')",
        "create table t_made (id long) using `chronolake`",
        "create table t_made using CHRONOLAKE as select 1L id",
        "create or replace table t_made (id long) using chronolake",
    ):
        with pytest.raises(errors.InvalidOption, match=r"CREATE TABLE .* only in a catalog"):
            spark.sql(statement)
        with pytest.raises(PySparkException):
            # As in a driver without install; a list of columns Spark never shows to the data source.
            spark._jsparkSession.sql(statement.replace("(id long)", ""))
    with pytest.raises(PySparkException, match=r"write by df\.write.* and \.save\(\)"):
        spark.range(1).write.format("chronolake").saveAsTable("t_made")
    assert not spark.catalog.tableExists("t_made")
    assert spark.sql("select 'create table t using chronolake' as text").count() == 1
    spark._jsparkSession.sql("create table t_made (id long) using chronolake")
    try:
        with pytest.raises(PySparkException, match=r"no table is given.*drop it"):
            spark.table("t_made").collect()
    finally:
        spark.sql("drop table t_made")


def test_wrong_uses_get_advice(spark: SparkSession, table: SparkTable, reader: Callable[..., DataFrameReader]):
    frame = orders(spark, (1, "de", 1.0, None))
    writer = frame.write.format("chronolake").option("url", table._client.url)
    with pytest.raises(errors.InvalidOption, match="give a mode"):
        writer.save(table.name)
    with pytest.raises(errors.InvalidOption, match="leave partitionBy out"):
        writer.save(table.name, mode="append", partitionBy="country")
    with pytest.raises(errors.InvalidOption, match="as_of are for reads"):
        writer.save(table.name, mode="append", as_of="latest")
    with pytest.raises(errors.InvalidOption, match="partitions is for"):
        writer.save(table.name, mode="append", partitions="all")
    with pytest.raises(errors.InvalidOption, match="the mode overwrite replaces"):
        writer.save(table.name, mode="overwrite", operation="upsert")
    with pytest.raises(errors.InvalidOption, match="two tables are given"):
        reader().load("spark.other")
    with pytest.raises(errors.InvalidOption, match="one table"):
        reader().load([table.name])
    with pytest.raises(TableNotFound):
        spark.read.format("chronolake").option("url", table._client.url).load("spark.nothing")
    with pytest.raises(AnalysisException, match="did you mean 'as_of'"):
        loaded_by_spark(reader(as_off="latest"))
    assert list(table.metastore.instants()) == []


def test_secrets_do_not_show_in_plans(
    spark: SparkSession, table: SparkTable, reader: Callable[..., DataFrameReader]
):
    table.insert(orders(spark, (1, "de", 1.0, None)))
    secret = '{"secret_key": "wonderland"}'
    frame = loaded_by_spark(reader(storage_secrets=secret))
    given = f"table '{table.name}', url '{table._client.url}', storage_secrets '{secret}'"
    command = f"create temporary view v_secret using chronolake options ({given})"
    plan = spark.sql(f"explain extended {command}").head()[0]
    assert "wonderland" not in plan + str(frame._jdf.queryExecution().toString())


def test_what_pyspark_imports_to_find_the_format_is_light():
    program = (
        "import pyspark_chronolake, sys; print(pyspark_chronolake.DefaultSource.name(), "
        "[name for name in sys.modules if name.startswith('chronolake')])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "chronolake []\n"
