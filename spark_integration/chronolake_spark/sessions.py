"""A Spark session for one machine, with the settings that Chronolake's tables want."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from chronolake_spark import datasource, java

SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "8",
    # Times are stored in UTC; a session elsewhere shows them otherwise, and reads texts as other times.
    "spark.sql.session.timeZone": "UTC",
    # Spark's own INT96 becomes nanoseconds in Arrow, which Spark then refuses to read.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A read names its files. With these the driver looks them up itself, and small ones share a task.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.files.openCostInBytes": "16384",
}
"""What a local session is started with."""


def session(
    app_name: str = "chronolake",
    *,
    master: str = "local[*]",
    memory: str = "2g",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session on this machine, or the one that runs already.

    ``memory`` is the driver's, in Java's notation; ``settings`` go over ``SETTINGS``.
    Raises ``JavaNotFound``.
    """
    if home := java.home():
        os.environ["JAVA_HOME"] = home
    builder = SparkSession.builder.appName(app_name).master(master).config("spark.driver.memory", memory)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    datasource.register(spark)
    return spark
