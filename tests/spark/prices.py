"""A small table that tests of failures write: each record has a price, and each task two file groups.

Beside it are the rows and orphans of any table, and the runs of ``chronolake ingest``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as sf

import chronolake
from chronolake_spark import SparkTable

IDS = range(64)
SPARK_ENGINE = pytest.mark.parametrize(
    "engine", [pytest.param("spark", marks=pytest.mark.spark)], indirect=True
)
BOTH_ENGINES = pytest.mark.parametrize(
    "engine", ["arrow", pytest.param("spark", marks=pytest.mark.spark)], indirect=True
)
"""For one test of each kind: the others test Spark's engine in ``make test-long``."""
BUCKETS = 8
TASKS = 4
SETTINGS = {"spark.sql.shuffle.partitions": str(TASKS)}
Ingest = Callable[..., dict[str, Any]]
"""Runs ``chronolake ingest`` with options, and returns its result."""


def priced(spark: SparkSession, price: int) -> DataFrame:
    """All records, with one price."""
    return spark.range(len(IDS)).withColumn("price", sf.lit(price))


def rows_of(table: SparkTable | chronolake.Table) -> list[tuple[Any, ...]]:
    """The rows that a reader sees."""
    if isinstance(table, chronolake.Table):
        return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())
    return sorted(tuple(row) for row in table.read().collect())


def orphans_of(table: SparkTable) -> list[chronolake.Orphan]:
    """The orphans in storage."""
    return table.metastore.orphans().orphans
