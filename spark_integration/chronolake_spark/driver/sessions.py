"""A Spark session for one machine, with the settings that Chronolake needs."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from chronolake_spark.driver import java, spark_failures, spark_internals

_LOGGING = Path(__file__).with_name("log4j2.properties")
SETTINGS: Mapping[str, str] = {
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
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
    # By TCP, small messages to Python processes wait 40 ms for the acknowledgement of the one before.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "pyspark_chronolake.daemon",
    # A read names its files. With these options the driver lists them itself, and small ones share a task.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.files.openCostInBytes": "16384",
}
"""The settings of a local session."""


NAME: Final = "chronolake"
MASTER: Final = "local[*]"
MEMORY: Final = "2g"


def local(app_name: str, master: str, memory: str, settings: Mapping[str, str]) -> SparkSession:
    """A session on this machine, or the one that runs already, as ``chronolake_spark.session``."""
    if running := SparkSession.getActiveSession():
        return running
    if home := java.home():
        os.environ["JAVA_HOME"] = home
    # Otherwise workers run the `python3` of the path, which may have neither Arrow nor this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # PySpark logs each error of a query, stack and all, that it then raises.
    for name in spark_internals.QUERY_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName(app_name).master(master).config("spark.driver.memory", memory)
    for key, value in {**SETTINGS, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@contextlib.contextmanager
def borrowed(while_starting: Callable[[], contextlib.AbstractContextManager[object]]) -> Iterator[SparkSession]:
    """The session that runs already, or one that is started now and stopped at the end."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    with while_starting():
        spark = local(NAME, MASTER, MEMORY, {})
    try:
        yield spark
    finally:
        with contextlib.suppress(*spark_failures.JVM_GONE):
            spark.stop()
