"""The files that a read or a write will touch, on both table types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from chronolake_model.vocabulary import TableType
from chronolake_spark import SparkTable
from chronolake_spark.explain.explanations import Explanation

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]


def orders(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id long, country string, price double")


def counts(parts: list[Any]) -> dict[str, int]:
    return {part.what: part.groups.count for part in parts}


def shape(explanation: Explanation) -> tuple[int, int, int]:
    touched = explanation.touched
    return touched.count, touched.base_files.count, touched.log_files.count


@pytest.fixture(scope="module")
def make(spark: SparkSession, new_table: NewTable) -> Callable[[TableType], SparkTable]:
    def make(type_: TableType) -> SparkTable:
        table = new_table(orders(spark), "id", partition_fields=["country"], buckets=1, type=type_)
        table.insert(orders(spark, (1, "de", 1.0), (2, "fr", 2.0), (3, "it", 30.0)))
        table.upsert(orders(spark, (2, "fr", 2.5)))
        return table

    return make


def test_a_copy_on_write_table_explains_what_it_reads_and_rewrites(
    spark: SparkSession, make: Callable[[TableType], SparkTable]
) -> None:
    table = make(TableType.COPY_ON_WRITE)
    read = table.explain(filter="country != 'it' and price < 2.2", columns=["id"])
    assert (read.operation, read.columns, shape(read)) == ("read", ["id"], (1, 1, 0))
    assert counts(read.parts) == {"read by Spark's own Parquet reader": 1}
    assert counts(read.pruned) == {"by their partition": 1, "by the column statistics of their files": 1}
    assert read.as_of == table.metastore.snapshot().as_of
    [path] = read.touched.base_files.paths
    text = str(read)
    assert f"read {table.name} (copy_on_write, index: bucket, buckets per partition: 1;" in text
    assert path in text
    assert "1 partition (country=de), 1 base file of " in text

    upsert = table.explain("upsert", orders(spark, (2, "fr", 3.0), (9, "se", 9.0)))
    assert (shape(upsert), upsert.new_groups) == ((1, 1, 0), 1)
    assert counts(upsert.pruned) == {"because no row of the frame belongs there": 2}
    assert "with each write that changes one of these file groups" in str(upsert)
    overwrite = table.explain("overwrite", orders(spark, (7, "de", 3.0)), partitions="all")
    assert (shape(overwrite), counts(overwrite.parts), overwrite.new_groups) == ((3, 3, 0), {"replaced": 3}, 1)
    assert shape(table.explain("overwrite", orders(spark, (7, "de", 3.0)))) == (1, 1, 0)
    assert shape(table.explain("delete", filter="price > 10")) == (1, 1, 0)


def test_a_merge_on_read_table_explains_what_it_merges_and_appends(
    spark: SparkSession, make: Callable[[TableType], SparkTable]
) -> None:
    table = make(TableType.MERGE_ON_READ)
    read = table.explain()
    assert shape(read) == (3, 3, 1)
    assert counts(read.parts) == {
        "read by Spark's own Parquet reader": 2,
        "merged by Arrow in the executors, because of the log files": 1,
    }
    assert shape(table.explain(view="read_optimized")) == (3, 3, 0)
    rows = orders(spark, (2, "fr", 3.0))
    upsert, insert = table.explain("upsert", rows), table.explain("insert", rows)
    assert counts(upsert.parts) == {"get a log file, and are not read": 1}
    assert str(upsert.conflicts).startswith("none: log files are appended")
    assert counts(insert.parts) == {"get a log file, after their keys are read": 1}
    assert str(insert.conflicts).endswith("because it depends on what it read")
    assert str(table.explain("delete", rows.select("id", "country")).conflicts).startswith("none")
    assert "because it depends" in str(table.explain("delete", filter="price > 10"))
