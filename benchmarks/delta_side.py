"""The part of ``benchmarks.delta`` that runs Delta Lake, in the PySpark of ``make check-jar``.

``python delta_side.py <folder> <rows>`` answers steps as ``peer_steps`` says.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import peer_steps  # type: ignore[import-not-found]  # beside this file, in the folder of the script
import spark_rows  # type: ignore[import-not-found]
from pyspark.sql import SparkSession

PACKAGE = "io.delta:delta-spark_4.1_2.13:4.4.0"


class Delta:
    """A session with Delta Lake, and a table in a folder."""

    def __init__(self, folder: str, rows: int) -> None:
        builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
        settings = {
            "spark.jars.packages": PACKAGE,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.shuffle.partitions": "8",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(Path(folder) / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        self._spark = builder.getOrCreate()
        self._path = str(Path(folder) / "table")
        self._rows = rows
        self._next = 0

    def step(self, name: str) -> float:
        """Execute a step, and give its seconds. Steps build on earlier ones."""
        table = f"delta.`{self._path}`"
        frame = spark_rows.rows(self._spark, 0, self._rows)
        self._next += 1
        job: dict[str, Callable[[], object]] = {
            "insert": lambda: frame.write.format("delta").mode("overwrite").save(self._path),
            "merge": lambda: spark_rows.merge(self._spark, table, self._rows),
            "delete": lambda: self._spark.sql(f"DELETE FROM {table} WHERE id = {self._next}"),
            "read": lambda: self._spark.table(table).write.format("noop").mode("overwrite").save(),
        }
        began = time.perf_counter()
        job[name]()
        return time.perf_counter() - began


if __name__ == "__main__":
    peer_steps.answer(lambda: Delta(sys.argv[1], int(sys.argv[2])).step)
