"""Chronolake on Spark beside Hudi 1.2.0, with the same rows, in turns.

``make bench-hudi`` needs the environment of ``make test-hudi``, or ``HUDI_PYTHON`` and ``HUDI_JAR``. Hudi runs
in the older PySpark that it needs. ``ROWS=5000000`` is the size of the tables, ``ROUNDS=2`` how often each step
is measured after a first one. ``CASES=merge_on_read,simple`` runs the tables of such a type or index alone.
``CHECK=1`` exits 1 unless Chronolake is ahead in every row.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

import chronolake
import chronolake_spark
from benchmarks import lakes, peers, reporting, running, spark_rows
from benchmarks.peers import Peer
from benchmarks.reporting import Row
from chronolake_model.publication import PUBLISH_PROPERTY
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark import SparkTable
from tools import make_hudi_env

ROWS = int(os.environ.get("ROWS", "5000000"))
ROUNDS = int(os.environ.get("ROUNDS", "2"))
CASES = set(filter(None, os.environ.get("CASES", "").split(",")))
BUCKETS = 8
_ROOT: Final = Path(__file__).parents[1]
_ENVIRONMENT: Final = _ROOT / ".hudi-env"
STEPS: Final = (
    "bulk_insert copy_on_write bucket",
    "insert copy_on_write bucket",
    "upsert copy_on_write bucket",
    "merge copy_on_write bucket",
    "one_row copy_on_write bucket",
    "read copy_on_write bucket",
    "insert merge_on_read bucket",
    "upsert merge_on_read bucket",
    "one_row merge_on_read bucket",
    "read merge_on_read bucket",
    "compact merge_on_read bucket",
    "insert copy_on_write record",
    "upsert copy_on_write record",
    "lookup copy_on_write record",
    "bulk_insert copy_on_write simple",
    "cluster copy_on_write simple",
)
"""Operation, table type and index; each works on the table that the steps before have left."""
CHOSEN: Final = [step for step in STEPS if not CASES or CASES & set(step.split())]


def hudi_side(folder: Path) -> Peer:
    """The process of ``hudi_side.py``."""
    python = os.environ.get("HUDI_PYTHON", str(_ENVIRONMENT / "bin/python"))
    jar = os.environ.get("HUDI_JAR", str(_ENVIRONMENT / make_hudi_env.BUNDLE_JAR))
    for path in (python, jar):
        if not Path(path).exists():
            raise SystemExit(f"{path} is not there: run make test-hudi, or set HUDI_PYTHON and HUDI_JAR")
    folder.mkdir()
    return Peer("Hudi", python, "hudi_side.py", [jar, folder, ROWS], {})


class OwnSide:
    """The same steps with Chronolake."""

    def __init__(self, spark: SparkSession, client: chronolake.Client, folder: Path) -> None:
        self._spark = spark
        self._client = client
        self._folder = folder
        self._tables: dict[str, SparkTable] = {}

    def step(self, name: str) -> float:
        """The seconds of a step."""
        operation, type_, index = name.split()
        place = f"{type_}_{index}"
        if operation in ("bulk_insert", "insert"):
            self._create(place, TableType(type_), IndexType(index))
        table = self._tables[place]
        job: dict[str, Callable[[], object]] = {
            "bulk_insert": lambda: table.bulk_insert(self._all()),
            "insert": lambda: table.insert(self._all()),
            "upsert": lambda: table.upsert(spark_rows.updates(self._spark, ROWS)),
            "merge": lambda: spark_rows.merge(self._spark, f"lake.{table.name}", ROWS),
            "one_row": lambda: table.upsert(spark_rows.rows(self._spark, 0, 1)),
            "read": lambda: table.read().write.format("noop").mode("overwrite").save(),
            "lookup": lambda: table.lookup([4711]).collect(),
            "compact": table.compact,
            "cluster": lambda: table.cluster(["ts"]),
        }
        began = time.perf_counter()
        job[operation]()
        return time.perf_counter() - began

    def _all(self) -> DataFrame:
        return spark_rows.rows(self._spark, 0, ROWS)

    def _create(self, place: str, type_: TableType, index: IndexType) -> None:
        name = f"bench.{place}"
        if place in self._tables:
            self._client.drop_table(name)
            shutil.rmtree(self._folder / place)
        chronolake_spark.create_table(
            self._client,
            name,
            self._all().schema,
            base_path=str(self._folder / place),
            record_key_fields=["id"],
            buckets=BUCKETS if index is IndexType.BUCKET else None,
            index=index,
            type=type_,
            properties={PUBLISH_PROPERTY: "false"},
            reuse_base_path=True,
        )
        self._tables[place] = chronolake_spark.table(self._spark, name, client=self._client)


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and Hudi is ahead in a row."""
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    reporting.finish(_measure(running.postgres()), f"{ROWS:,} rows, local[2], {ROUNDS} rounds, {load}")


def _measure(dsn: str) -> Iterator[Row]:
    folder = Path(lakes.local().root)
    spark = chronolake_spark.session("bench", master="local[2]", memory="4g")
    with running.server(dsn), chronolake.connect(running.URL) as client, hudi_side(folder / "hudi") as hudi:
        client.create_namespace("bench")
        chronolake_spark.catalog(spark, "lake", running.URL)
        yield from peers.compared(OwnSide(spark, client, folder).step, hudi, CHOSEN, ROUNDS)
    spark.stop()


if __name__ == "__main__":
    main()
