"""The rows of the Spark benchmarks. It imports nothing of ours: Hudi's environment runs it too."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession, functions as sf


def rows(spark: SparkSession, first: int, last: int, step: int = 1, version: int = 0) -> DataFrame:
    """Records with a long key, a timestamp, three doubles and a string; other values for each version."""
    key = sf.col("id")
    number = sf.xxhash64(key, sf.lit(version))
    seconds = sf.pmod(number, sf.lit(100_000_000))
    doubles = [(sf.hash(key, sf.lit(version + n)) / 1_000_003).alias(f"d{n}") for n in (1, 2, 3)]
    text = sf.concat(sf.lit("text-"), sf.pmod(number, sf.lit(1_000_000)).cast("string"))
    columns = [key, sf.timestamp_seconds(seconds).alias("ts"), *doubles, text.alias("s")]
    return spark.range(first, last, step, 4).select(*columns)


def updates(spark: SparkSession, count: int) -> DataFrame:
    """New values for each tenth of a number of keys, and a hundredth as many new keys."""
    changed = rows(spark, 0, count, step=10, version=1)
    return changed.unionByName(rows(spark, count, count + count // 100, version=1))


def merge(spark: SparkSession, table: str, count: int) -> None:
    """The same as an upsert of ``updates``, by SQL."""
    updates(spark, count).createOrReplaceTempView("updates")
    spark.sql(
        f"MERGE INTO {table} t USING updates s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
