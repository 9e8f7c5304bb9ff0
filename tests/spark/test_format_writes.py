"""``df.write.format("chronolake")``: by the Java part, which takes frames as they are, and by Python alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering
from tests.spark.python_only import python_only

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]

NewTable = Callable[..., SparkTable]


def orders(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id long, country string, price double")


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.fixture
def table(spark: SparkSession, new_table: NewTable) -> SparkTable:
    return new_table(orders(spark), "id", partition_fields=["country"], buckets=2)


def test_nested_columns_are_written_by_the_names_of_their_fields(
    spark: SparkSession, new_table: NewTable
) -> None:
    types = (
        "id long, tags array<string>, m map<string, array<int>>, s struct<a: array<struct<b: long>>, c: date>"
    )
    rows = spark.createDataFrame(
        [(1, ["x", None], {"k": [1, None]}, ([(2,), None], None)), (2, *[None] * 3)], types
    )
    table = new_table(rows, "id")
    by_name = rows.selectExpr("m", "tags", "if(id = 1, named_struct('c', s.c, 'a', s.a), null) s", "id")
    by_name.write.format("chronolake").mode("append").save(table.name, url=table._client.url)
    assert table.read().orderBy("id").collect() == rows.collect()


def test_overwrites_replace_partitions_or_the_table(spark: SparkSession, table: SparkTable) -> None:
    def overwrite(frame: DataFrame, **options: str) -> list[tuple[Any, ...]]:
        given = {"table": table.name, "url": table._client.url, **options}
        frame.write.format("chronolake").mode("overwrite").options(**given).save()
        return rows_of(table.read())

    table.upsert(orders(spark, (1, "de", 1.0), (2, "fr", 2.0), (3, "fr", 3.0)))
    new = orders(spark, (4, "fr", 4.0))
    assert overwrite(new, partitions="dynamic") == [(1, "de", 1.0), (4, "fr", 4.0)]
    assert overwrite(new) == [(4, "fr", 4.0)]
    assert overwrite(new.where("id < 0")) == []


def test_an_overwrite_by_an_older_frame_of_the_table_is_refused(spark: SparkSession, table: SparkTable) -> None:
    given = {"table": table.name, "url": table._client.url}
    table.upsert(orders(spark, (1, "de", 1.0), (2, "fr", 2.0)))
    more = (
        spark.read.format("chronolake").options(**given).load().selectExpr("id", "country", "price + 1 price")
    )
    more.write.format("chronolake").options(**given).mode("overwrite").save()
    assert rows_of(table.read()) == [(1, "de", 2.0), (2, "fr", 3.0)]
    older = spark.read.format("chronolake").options(**given).load()
    older.collect()
    table.upsert(orders(spark, (3, "de", 3.0)))
    with pytest.raises(IllegalArgumentException, match="would be lost"):
        older.write.format("chronolake").options(**given).mode("overwrite").save()
    assert len(rows_of(table.read())) == 3


def test_a_frame_that_lacks_columns_is_refused_and_stores_no_null(
    spark: SparkSession, table: SparkTable
) -> None:
    table.upsert(orders(spark, (1, "de", 1.0)))
    given = {"table": table.name, "url": table._client.url}
    writer = orders(spark, (1, "de", None)).drop("price").write.format("chronolake").options(**given)
    for mode in ("append", "overwrite"):
        with pytest.raises(IllegalArgumentException, match="lack the columns price"):
            writer.mode(mode).save()
    with pytest.raises(IllegalArgumentException, match=r"'?id'? .*decimal"):
        orders(spark, (1, "de", 1.0)).selectExpr("id + 0.5 id", "country", "price").write.format(
            "chronolake"
        ).options(**given).mode("append").save()
    assert rows_of(table.read()) == [(1, "de", 1.0)]


def test_python_alone_refuses_each_write_with_what_to_call(spark: SparkSession, table: SparkTable) -> None:
    given = {"table": table.name, "url": table._client.url}
    options = f"table '{table.name}', url '{table._client.url}'"
    writer = orders(spark, (1, "de", 1.0)).write.format("chronolake").options(**given)
    writes: list[Callable[[], object]] = [
        writer.mode("append").save,
        lambda: writer.mode("overwrite").save(),
        lambda: spark.sql("INSERT INTO by_python VALUES (1, 'de', 1.0D)"),
        lambda: orders(spark, (1, "de", 1.0)).writeTo("by_python").append(),
    ]
    with python_only(spark):
        spark.sql(f"CREATE TEMPORARY VIEW by_python USING chronolake OPTIONS ({options})")
        for write in writes:
            with pytest.raises(PySparkException, match=r"chronolake_spark\.table\(.*\.upsert\(df\), or give"):
                write()
    assert list(table.metastore.instants()) == []
