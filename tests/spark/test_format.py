"""``format("chronolake")``: frames by the Java part, and by Python alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as sf
from pyspark.sql.readwriter import DataFrameReader

from chronolake_model.schemas import AddColumn, DropColumn
from chronolake_model.vocabulary import Operation
from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering
from tests.spark.python_only import python_only

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]

NewTable = Callable[..., SparkTable]


def orders(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id long, country string, price double, day date").selectExpr(
        "id", "country", "price", "day"
    )


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def loaded_by_python(reader: DataFrameReader) -> DataFrame:
    """The frame of a session without the Java part."""
    with python_only(reader._spark):
        return reader.load()


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
) -> None:
    save((1, "de", 1.0, None), (2, "fr", 2.0, None), operation="insert")
    save(operation="bulk_insert")
    [first] = table.metastore.instants(operation=Operation.INSERT)
    save((2, "fr", 2.5, None), (3, "it", 3.0, None))
    save((1, "de", None, None), operation="delete", on_conflict="retry")

    now = [(2, "fr", 2.5, None), (3, "it", 3.0, None)]
    assert rows_of(reader().load()) == now
    assert rows_of(reader(as_of=first.completion_time).load().select("id", "price")) == [(1, 1.0), (2, 2.0)]
    assert rows_of(reader(as_of="latest").load()) == now
    assert rows_of(reader(filter="price > 2.6").load().select("id")) == [(3,)]
    changes = reader(**{"from": first.completion_time}).load().select("id", "_change_type")
    assert rows_of(changes) == [(1, "delete"), (2, "upsert"), (3, "upsert")]
    matching = reader(**{"from": first.completion_time, "filter": "price < 2"}).load()
    assert rows_of(matching.select("id", "_change_type")) == [(1, "delete")]
    assert "ReadSchema: struct<id:bigint>" in plan_of(reader().load().select("id"))
    url = table._client.url
    shown = spark.read.load(table.name, format="Chronolake", meta_columns=True, url=url)
    assert rows_of(shown.select("_hoodie_partition_path", "id")) == [("country=fr", 2), ("country=it", 3)]
    assert len(shown.columns) == 9
    with pytest.raises(IllegalArgumentException, match="user specified schema"):
        reader().schema("id long").load()
    spark.sql(f"CREATE TEMPORARY VIEW of_format USING chronolake OPTIONS (table '{table.name}', url '{url}')")
    assert rows_of(spark.table("of_format")) == now
    for write in ("INSERT INTO of_format SELECT 9L, 'x', 1D, null", "DELETE FROM of_format WHERE id = 2"):
        with pytest.raises(AnalysisException, match="does not support"):
            spark.sql(write)


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


def test_python_alone_reads_what_frames_read(
    spark: SparkSession, table: SparkTable, reader: Callable[..., DataFrameReader]
) -> None:
    table.insert(orders(spark, (1, "de", float("nan"), None), (2, "fr", 2.0, None)))
    later = orders(spark, (3, None, -1.0, None), (4, "de", None, None), (5, "it", 1e300, None))
    table.upsert(later.withColumn("day", sf.expr("date'2026-01-01' + cast(id as int)")))
    for text in FILTERS:
        expected = rows_of(table.read(filter=text).select("id"))
        assert rows_of(loaded_by_python(reader(filter=text)).select("id")) == expected, text
        assert rows_of(reader(filter=text).load().select("id")) == expected, text
    frame = loaded_by_python(reader())
    assert rows_of(frame.where("id = 2").select("id")) == [(2,)]
    # Spark keeps the plan of the first query: it must not have the condition of that one.
    assert rows_of(frame.select("id")) == [(1,), (2,), (3,), (4,), (5,)]
    joined = frame.where("id > 3").alias("a").join(frame.where("id < 5").alias("b"), "id").select("id")
    assert rows_of(joined) == [(4,)]
    assert loaded_by_python(reader(meta_columns="true")).columns[:2] == [
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
    ]
    assert rows_of(loaded_by_python(reader().schema("price double")).where("price = 2")) == [(2.0,)]


def test_slices_with_log_files_are_merged_and_the_read_optimized_view_leaves_them_out(
    spark: SparkSession, new_table: NewTable
) -> None:
    table = new_table(orders(spark), "id", type="merge_on_read", ordering_field="price", buckets=2)
    table.insert(orders(spark, (1, "de", 1.0, None), (2, "fr", 2.0, None)))
    table.upsert(orders(spark, (1, "it", 3.0, None), (2, "it", 1.0, None)))
    reader = spark.read.format("chronolake").options(table=table.name, url=table._client.url)
    for load in (DataFrameReader.load, loaded_by_python):
        assert rows_of(load(reader).select("id", "country")) == [(1, "it"), (2, "fr")]
    reader.option("view", "read_optimized")
    for load in (DataFrameReader.load, loaded_by_python):
        assert rows_of(load(reader).select("id", "country")) == [(1, "de"), (2, "fr")]


def test_a_frame_outlives_a_change_of_columns_until_one_of_its_own_is_gone(
    spark: SparkSession, table: SparkTable, reader: Callable[..., DataFrameReader]
) -> None:
    table.insert(orders(spark, (1, "de", 1.0, None)))
    first, second, third = (loaded_by_python(reader()) for _ in range(3))
    table.metastore.change_schema([AddColumn("note", "string")])
    table.upsert(spark.sql("select 2L id, 'fr' country, 2D price, null day, 'n' note"))
    assert rows_of(first.select("id", "price").where("price >= 1")) == [(1, 1.0), (2, 2.0)]
    table.metastore.change_schema([DropColumn("day")])
    with pytest.raises(PySparkException, match=r"columns day of .* were dropped.*make it again"):
        second.collect()
    table._client.drop_table(table.name)
    with pytest.raises(PySparkException, match="TableNotFound"):
        third.collect()


def test_create_table_is_refused_and_leaves_no_entry(
    spark: SparkSession, table: SparkTable, reader: Callable[..., DataFrameReader]
) -> None:
    writes: list[Callable[[], object]] = [
        lambda: spark.sql(f"create table t_made using chronolake options (table '{table.name}')"),
        lambda: spark.sql("create table t_made (id long) using `chronolake`"),
        lambda: spark.sql("create table t_made using CHRONOLAKE as select 1L id"),
        lambda: spark.sql("create or replace table t_made (id long) using chronolake"),
        lambda: spark.range(1).write.format("chronolake").saveAsTable("t_made"),
        lambda: spark.readStream.format("rate").load().writeStream.format("chronolake").toTable("t_made"),
    ]
    for write in writes:
        with pytest.raises(IllegalArgumentException, match=r"only in a catalog of Chronolake"):
            write()
    assert not spark.catalog.tableExists("t_made")
    reader().load()  # A session has the catalog ``chronolake_format`` from its first read on.
    with pytest.raises(IllegalArgumentException, match=r"lake\.shop\.orders"):
        spark.table("chronolake_format.shop.orders")
    with python_only(spark):
        # A list of columns Spark never shows to a data source in Python.
        spark.sql("create table t_made (id long) using chronolake")
    try:
        with python_only(spark), pytest.raises(PySparkException, match=r"no table is given.*drop it"):
            spark.table("t_made").collect()
    finally:
        spark.sql("drop table t_made")


def test_wrong_uses_get_advice(
    spark: SparkSession, table: SparkTable, reader: Callable[..., DataFrameReader]
) -> None:
    frame = orders(spark, (1, "de", 1.0, None))
    uses: list[tuple[Callable[[], object], str]] = [
        (lambda: writer().save(table.name), "give a mode"),
        (lambda: writer().mode("ignore").save(table.name), "give a mode"),
        (lambda: writer().save(table.name, mode="append", partitionBy="price"), "do not match the existing"),
        (lambda: writer().save(table.name, mode="append", as_of="latest"), "as_of are for reads"),
        (lambda: writer().save(table.name, mode="append", partitions="all"), "partitions is for"),
        (lambda: writer().save(table.name, mode="append", stream="s"), "the options stream are for"),
        (
            lambda: writer().save(table.name, mode="overwrite", operation="upsert"),
            "the mode overwrite replaces",
        ),
        (lambda: reader().load("spark.other"), "two tables are given"),
        (lambda: reader().load([table.name, "spark.other"]), "a frame is of one table"),
        (lambda: spark.read.format("chronolake").load(), "no table is given"),
        (lambda: reader(as_off="latest").load(), "did you mean 'as_of'"),
        (lambda: reader(max_files="1").load(), "are for readStream"),
        (lambda: reader(filter="prize > 1").load().collect(), "prize"),
    ]

    def writer() -> Any:
        return frame.write.format("chronolake").option("url", table._client.url)

    for use, advice in uses:
        with pytest.raises(IllegalArgumentException, match=advice):
            use()
    with pytest.raises(IllegalArgumentException, match="no table") as missing:
        spark.read.format("chronolake").option("url", table._client.url).load("spark.nothing")
    assert missing.value.getCondition() == "table-not-found"
    with pytest.raises(AnalysisException, match="did you mean 'as_of'"):
        loaded_by_python(reader(as_off="latest"))
    assert list(table.metastore.instants()) == []


def test_secrets_do_not_show_in_plans(
    spark: SparkSession, table: SparkTable, reader: Callable[..., DataFrameReader]
) -> None:
    table.insert(orders(spark, (1, "de", 1.0, None)))
    secret = '{"secret_key": "wonderland"}'
    frames = [reader(storage_secrets=secret).load(), loaded_by_python(reader(storage_secrets=secret))]
    given = f"table '{table.name}', url '{table._client.url}', storage_secrets '{secret}'"
    command = f"create temporary view v_secret using chronolake options ({given})"
    plan = spark.sql(f"explain extended {command}").head()[0]
    assert "wonderland" not in plan + "".join(str(frame._jdf.queryExecution().toString()) for frame in frames)


def test_what_pyspark_imports_to_find_the_format_is_light() -> None:
    program = (
        "import pyspark_chronolake, sys; print(pyspark_chronolake.DefaultSource.name(), "
        "[name for name in sys.modules if name.startswith('chronolake')])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "chronolake []\n"
