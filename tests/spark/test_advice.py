"""First attempts of users that do not exist or would lose records: each is refused with advice."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession, functions
from typing_extensions import override

from chronolake_model.partition_paths import DEFAULT_PARTITION
from chronolake_spark import SparkTable, errors
from chronolake_spark.catalogs import registering

pytestmark = pytest.mark.spark
BY_JAVA = pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK")

NewTable = Callable[..., SparkTable]


def orders(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id long, country string, price double")


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.fixture(scope="module")
def table(spark: SparkSession, new_table: NewTable) -> SparkTable:
    return new_table(orders(spark), "id", partition_fields=["country"], buckets=1)


def test_null_and_the_empty_string_of_a_partition_are_not_mixed(
    spark: SparkSession, new_table: NewTable, table: SparkTable
) -> None:
    table.overwrite(orders(spark, (1, None, 1.0)), "all")
    empty = orders(spark, (1, "", 9.0))
    writes: list[Callable[[], object]] = [
        lambda: table.upsert(empty),
        lambda: table.insert(empty),
        lambda: table.overwrite(empty, "dynamic"),
        lambda: table.delete(empty),
        lambda: table.delete_partitions({"country": ""}),
    ]
    for write in writes:
        with pytest.raises(errors.InvalidPartitionValue, match=r"nullif\(country, ''\)"):
            write()
    assert rows_of(table.read()) == [(1, None, 1.0)]
    reserved = orders(spark, (1, DEFAULT_PARTITION, 9.0))
    writes = [
        lambda: table.upsert(reserved),
        lambda: table.delete(reserved),
        lambda: table.delete_partitions({"country": DEFAULT_PARTITION}),
    ]
    for write in writes:
        with pytest.raises(errors.InvalidPartitionValue, match=f"the text '{DEFAULT_PARTITION}'"):
            write()
    assert rows_of(table.read()) == [(1, None, 1.0)]
    table.delete("country is null")
    assert rows_of(table.read()) == []

    strict = spark.createDataFrame([], "id long, country string not null, price double")
    never_null = new_table(strict, "id", partition_fields=["country"])
    never_null.upsert(empty)
    with pytest.raises(errors.InvalidPartitionValue, match="partition is that of null"):
        never_null.upsert(reserved)
    never_null.delete_partitions({"country": ""})
    assert rows_of(never_null.read()) == []


def test_values_that_are_too_long_for_storage_are_refused_with_their_length(
    spark: SparkSession, new_table: NewTable, table: SparkTable
) -> None:
    fits, escaped = "ü" * 123 + "x", "/" * 83
    rows = [(1, fits, 1.0), (2, escaped[:82], 1.0)]
    table.overwrite(orders(spark, *rows), "all")
    assert rows_of(table.read()) == rows
    for value, size in ((fits + "y", 256), (escaped, 257), ("x" * 2_000, 2_008)):
        long = orders(spark, (3, value, 1.0))
        with pytest.raises(errors.InvalidPartitionValue, match=rf"'country'.* {size} bytes.* 255") as caught:
            table.upsert(long)
        assert caught.value.problem is not None
        assert caught.value.problem.context == {"column": "country", "bytes_max": 255}
    assert rows_of(table.read()) == rows

    letters = [f"x{number}" for number in range(4)]
    wide = spark.range(1).selectExpr("id", *(f"repeat('{name}', 120) `{name}`" for name in letters))
    deep = new_table(wide, "id", partition_fields=letters)
    with pytest.raises(errors.InvalidPartitionValue, match=r"\(x0, x1, x2, x3\).* 975 bytes"):
        deep.upsert(wide)
    assert list(deep.metastore.orphans().orphans) == []


def test_a_schema_as_text_needs_a_session() -> None:
    arguments = "None, 's.t', 'k long', base_path='/t', record_key_fields=['k']"
    program = f"import chronolake_spark; chronolake_spark.create_table({arguments})"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "start a session before" in ended.stderr.splitlines()[-1]


def test_names_that_must_be_quoted_are_so_in_advice(spark: SparkSession, new_table: NewTable) -> None:
    frame = spark.createDataFrame([(1, "", 1)], "id long, `the ``land` string, n int")
    odd = new_table(frame, "id", partition_fields=["the `land"])
    with pytest.raises(errors.InvalidPartitionValue, match=r"nullif\(`the ``land`, ''\)") as caught:
        odd.upsert(frame)
    example = str(caught.value).partition("as by ")[2].partition(", or make")[0]
    odd.upsert(frame.withColumn("the `land", functions.expr(example)))
    assert rows_of(odd.read()) == [(1, None, 1)]


def test_a_frame_with_meta_columns_is_refused_and_not_added_to_the_table(
    spark: SparkSession, table: SparkTable
) -> None:
    table.overwrite(orders(spark, (1, "de", 1.0)), "all")
    stored = table.read(meta_columns=True)
    with pytest.raises(errors.SchemaMismatch, match=r"df\.drop\('_hoodie_commit_time', "):
        table.upsert(stored, merge_schema=True)
    with pytest.raises(errors.SchemaMismatch, match=r"df\.drop\('_hoodie_commit_time', ") as caught:
        table.upsert(stored)
    drop = str(caught.value).partition("as with df")[2].partition(", or rename")[0]
    table.upsert(eval(f"frame{drop}", {"frame": stored}).withColumn("price", functions.lit(2.0)))
    assert rows_of(table.read()) == [(1, "de", 2.0)]


@BY_JAVA
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_commits": "0"}, "max_commits is a whole number from 1"),
        ({"filter": "price > 1"}, r"no option filter: filter the frame of the stream with \.where"),
        ({"view": "snapshot"}, "has no view snapshot"),
        ({"as_of": "latest"}, "no option as_of: a stream reads changes: begin with the option from"),
        ({"to": "latest"}, "no option to"),
    ],
)
def test_a_wrong_option_of_a_stream_is_refused_before_its_query_starts(
    spark: SparkSession, options: dict[str, str], message: str
) -> None:
    reader = spark.readStream.format("chronolake").option("url", "http://127.0.0.1:9")
    with pytest.raises(IllegalArgumentException, match=message):
        reader.load("shop.orders", **options)


@BY_JAVA
def test_new_columns_are_added_by_the_format_too(spark: SparkSession, new_table: NewTable) -> None:
    table = new_table(orders(spark), "id")
    wider = orders(spark, (1, "de", 1.0)).selectExpr("*", "'n' note")
    writer = wider.write.format("chronolake").options(table=table.name, url=table._client.url)
    with pytest.raises(IllegalArgumentException, match="merge_schema=True"):
        writer.save(mode="append")
    writer.save(mode="append", merge_schema="true")
    assert rows_of(table.read()) == [(1, "de", 1.0, "n")]
    with pytest.raises(IllegalArgumentException, match="no option merge_schema"):
        writer.save(mode="append", merge_schema="true", operation="delete")


def test_an_error_of_ours_is_not_logged_by_pyspark_before(spark: SparkSession, table: SparkTable) -> None:
    records: list[logging.LogRecord] = []

    class Handler(logging.Handler):
        @override
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("DataFrame", "SQL")]
    handler = Handler()
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.ERROR)
    try:
        with pytest.raises(errors.SchemaMismatch, match="prize"):
            table.delete("prize > 1")
        assert records == []
        with pytest.raises(Exception, match="prize"):
            spark.range(1).where("prize > 1")
        assert len(records) == 1
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)


def test_a_new_thread_writes_a_frame_that_another_one_made(spark: SparkSession, table: SparkTable) -> None:
    table.overwrite(orders(spark), "all")
    frame = orders(spark, (5, "de", 5.0))
    failures: list[BaseException] = []

    def write() -> None:
        try:
            table.upsert(frame)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert failures == []
    assert rows_of(table.read()) == [(5, "de", 5.0)]
