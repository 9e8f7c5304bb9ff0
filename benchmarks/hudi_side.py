"""The part of ``benchmarks.hudi`` that runs Hudi's Spark bundle, in the environment of ``make test-hudi``.

``python hudi_side.py <bundle.jar> <folder> <rows>`` answers steps as ``peer_steps`` says.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import peer_steps  # type: ignore[import-not-found]  # beside this file, in the folder of the script
import spark_rows  # type: ignore[import-not-found]
from pyspark.sql import DataFrame, SparkSession

BUCKETS = "8"
COMMON = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}
BUCKET_INDEX = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": BUCKETS}
RECORD_INDEX = {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"}
AT_ONCE = "hoodie.compact.inline.max.delta.commits=1"
SAME_SIZE = "hoodie.clustering.plan.strategy.target.file.max.bytes=125829120"
"""The size of Chronolake's files."""


class Hudi:
    """A session with Hudi, and tables in a folder."""

    def __init__(self, jar: str, folder: str, rows: int) -> None:
        builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
        settings = {
            "spark.jars": jar,
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
            "spark.sql.shuffle.partitions": "8",
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")
        self._folder = Path(folder)
        self._rows = rows

    def step(self, name: str) -> float:
        """Execute a step, ``operation type index``, and give its seconds. Steps build on earlier ones."""
        operation, type_, index = name.split()
        path = str(self._folder / f"{type_}-{index}")
        options = {
            **COMMON,
            **(RECORD_INDEX if index == "record" else BUCKET_INDEX),
            "hoodie.table.name": f"{type_}_{index}",
            "hoodie.datasource.write.table.type": type_.upper(),
        }
        job: dict[str, Callable[[], object]] = {
            "bulk_insert": lambda: self._write(path, options, "bulk_insert", self._all(), "overwrite"),
            "insert": lambda: self._write(path, options, "insert", self._all(), "overwrite"),
            "upsert": lambda: self._write(path, options, "upsert", spark_rows.updates(self._spark, self._rows)),
            "merge": lambda: self._merge(path, options),
            "one_row": lambda: self._write(path, options, "upsert", spark_rows.rows(self._spark, 0, 1)),
            "read": lambda: _drain(self._spark.read.format("hudi").load(path)),
            "compact": lambda: self._call("run_compaction", path, AT_ONCE, op="scheduleAndExecute"),
            "cluster": lambda: self._call(
                "run_clustering", path, SAME_SIZE, order="ts", op="scheduleAndExecute"
            ),
            "lookup": lambda: self._spark.read.format("hudi").load(path).where("id = 4711").collect(),
        }
        began = time.perf_counter()
        job[operation]()
        return time.perf_counter() - began

    def _all(self) -> DataFrame:
        return spark_rows.rows(self._spark, 0, self._rows)

    def _call(self, procedure: str, path: str, options: str, **arguments: str) -> None:
        stated = ", ".join(f"{name} => '{value}'" for name, value in arguments.items())
        call = f"call {procedure}(path => '{path}', {stated}, options => '{options}')"
        rows = self._spark.sql(call).collect()
        assert rows, f"{procedure} has done nothing"

    def _merge(self, path: str, options: dict[str, str]) -> None:
        # A statement has no options: it takes those of the session.
        for name in BUCKET_INDEX:
            self._spark.conf.set(name, options[name])
        table = options["hoodie.table.name"]
        self._spark.sql(f"CREATE TABLE IF NOT EXISTS {table} USING hudi LOCATION '{path}'")
        spark_rows.merge(self._spark, table, self._rows)

    def _write(
        self, path: str, options: dict[str, str], operation: str, frame: DataFrame, mode: str = "append"
    ) -> None:
        if mode == "overwrite":
            shutil.rmtree(path, ignore_errors=True)
        writer = frame.write.format("hudi").options(**options)
        writer.option("hoodie.datasource.write.operation", operation).mode("append").save(path)


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    peer_steps.answer(lambda: Hudi(sys.argv[1], sys.argv[2], int(sys.argv[3])).step)
