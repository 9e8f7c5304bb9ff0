"""The number of tasks of a write."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, functions as sf

from chronolake.slices import columns
from chronolake_spark.write import shuffles

pytestmark = pytest.mark.spark
FILE_GROUPS = 8


def shuffled(rows: DataFrame) -> DataFrame:
    placed = rows.select(
        sf.lit("").alias(columns.PARTITION_PATH), sf.col("id").cast("int").alias(columns.BUCKET)
    )
    return shuffles.by_number(placed, FILE_GROUPS, ())


def tasks_of(rows: DataFrame) -> int:
    tasks: int = shuffled(rows).rdd.getNumPartitions()
    return tasks


def has_shuffle(rows: DataFrame) -> bool:
    return "Exchange" in str(shuffled(rows)._jdf.queryExecution().executedPlan().toString())


@pytest.fixture(autouse=True)
def real_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffles, "SMALL_BYTES", 2**20)


def test_few_rows_go_to_one_task(spark: SparkSession) -> None:
    assert tasks_of(spark.range(100)) == 1


def test_many_rows_go_to_several_tasks(spark: SparkSession) -> None:
    assert tasks_of(spark.range(1_000_000)) > 1


def test_few_rows_that_may_become_many_go_to_several_tasks(spark: SparkSession) -> None:
    exploded = spark.range(2).select(sf.explode(sf.sequence(sf.lit(0), sf.lit(1_000_000))).alias("id"))
    by_python = spark.range(2).mapInArrow(lambda batches: batches, "id long")
    assert tasks_of(exploded) > 1
    assert tasks_of(by_python) > 1


def test_few_rows_in_memory_are_not_shuffled(spark: SparkSession) -> None:
    many = spark.range(1_000_000).where("id = 7").cache()
    assert many.count() == 1
    assert not has_shuffle(spark.range(100))
    assert not has_shuffle(spark.createDataFrame(pa.table({"id": [1]})))
    assert not has_shuffle(many)
    many.unpersist()


def test_few_rows_that_one_task_may_be_too_few_for_are_shuffled(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    spark.range(100).write.parquet(path)
    stored = spark.read.parquet(path)
    stored.createOrReplaceTempView("stored")
    for rows in (stored, spark.range(100).where("id in (select id from stored)")):
        assert has_shuffle(rows)
        assert tasks_of(rows) == 1
    spark.catalog.dropTempView("stored")
