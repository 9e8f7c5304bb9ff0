"""A small table that tests of failures write: each record has a price, and each task two file groups."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession, functions as sf

import chronolake
from chronolake_spark import SparkTable

IDS = range(64)
BUCKETS = 8
TASKS = 4
SETTINGS = {"spark.sql.shuffle.partitions": str(TASKS)}


def priced(spark: SparkSession, price: int) -> DataFrame:
    """All records, with one price."""
    return spark.range(len(IDS)).withColumn("price", sf.lit(price))


def rows_of(table: SparkTable) -> list[tuple[int, int]]:
    """The rows that a reader sees."""
    return sorted((row.id, row.price) for row in table.read().collect())


def orphans_of(table: SparkTable) -> list[chronolake.Orphan]:
    """The orphans in storage."""
    return table.metastore.orphans().orphans
