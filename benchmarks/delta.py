"""SQL with Chronolake beside Delta Lake 4.4, with the same rows, in turns.

``make bench-delta`` runs Delta in PySpark 4.1.1, for which it is built; Spark fetches its jars from Maven.
``ROWS=5000000`` is the size of the tables, ``ROUNDS=3`` how often each step is measured after a first round.
``CHECK=1`` exits 1 unless Chronolake is ahead in every row.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from benchmarks import lakes, peers, reporting, running, spark_rows
from benchmarks.reporting import Row
from chronolake_model.publication import PUBLISH_PROPERTY
from tools import check_jar

ROWS = int(os.environ.get("ROWS", "5000000"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
STEPS: Final = ("insert", "read", "merge", "delete")
_PYSPARK: Final = check_jar.PYSPARKS / "4.1.1"
_NAME: Final = "lake.bench.rows"


class OwnSide:
    """The same steps with Chronolake: a copy-on-write table with buckets, as Delta's table has eight files."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._next = 0

    def step(self, name: str) -> float:
        """The seconds of a step."""
        if name == "insert":
            self._create()
        self._next += 1
        frame = spark_rows.rows(self._spark, 0, ROWS)
        job: dict[str, Callable[[], object]] = {
            "insert": lambda: frame.writeTo(_NAME).append(),
            "merge": lambda: spark_rows.merge(self._spark, _NAME, ROWS),
            "delete": lambda: self._spark.sql(f"DELETE FROM {_NAME} WHERE id = {self._next}"),
            "read": lambda: self._spark.table(_NAME).write.format("noop").mode("overwrite").save(),
        }
        began = time.perf_counter()
        job[name]()
        return time.perf_counter() - began

    def _create(self) -> None:
        self._spark.sql(f"DROP TABLE IF EXISTS {_NAME}")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._spark.sql(
            f"CREATE TABLE {_NAME} (id BIGINT, ts TIMESTAMP, d1 DOUBLE, d2 DOUBLE, d3 DOUBLE, s STRING) "
            f"LOCATION '{self._folder}' TBLPROPERTIES (record_key = 'id', buckets = '8', "
            f"reuse_base_path = 'true', '{PUBLISH_PROPERTY}' = 'false')"
        )


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and Delta is ahead in a row."""
    if not _PYSPARK.exists():
        raise SystemExit(f"{_PYSPARK} is not there: run make check-jar")
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    reporting.finish(_measure(running.postgres()), f"{ROWS:,} rows, local[2], {ROUNDS} rounds, {load}")


def _measure(dsn: str) -> Iterator[Row]:
    folder = Path(lakes.local().root)
    spark = chronolake_spark.session("bench", master="local[2]", memory="4g")
    peer = peers.Peer(
        "Delta", sys.executable, "delta_side.py", [folder / "delta", ROWS], {"PYTHONPATH": str(_PYSPARK)}
    )
    with running.server(dsn), chronolake.connect(running.URL) as client, peer as delta:
        client.create_namespace("bench")
        chronolake_spark.catalog(spark, "lake", running.URL)
        own = OwnSide(spark, folder / "own")
        yield from peers.compared(own.step, delta, STEPS, ROUNDS)
    spark.stop()


if __name__ == "__main__":
    main()
