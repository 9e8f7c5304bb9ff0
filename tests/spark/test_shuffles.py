"""The number of tasks of a write."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as sf

from chronolake_spark import columns, shuffles

pytestmark = pytest.mark.spark
FILE_GROUPS = 8


def tasks_of(rows: DataFrame) -> int:
    placed = rows.select(
        sf.lit("").alias(columns.PARTITION_PATH), sf.col("id").cast("int").alias(columns.BUCKET)
    )
    tasks: int = shuffles.by_number(placed, FILE_GROUPS, ()).rdd.getNumPartitions()
    return tasks


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
