"""Python workers are killed in each job of writes that look keys up; Spark repeats the tasks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from chronolake import Instant
from chronolake_spark import SparkTable, errors
from tests.spark import hudi_reader
from tests.spark.prices import orphans_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NewTable = Callable[..., SparkTable]
ROUNDS = 4
TRIES_MAX = 20
SHARE = 3
LOOK_SECONDS = 0.02


class Killer:
    """Kills a worker that runs in two of three jobs, and counts."""

    def __init__(self, spark: SparkSession) -> None:
        self.killed = 0
        self._tracker = spark.sparkContext.statusTracker()
        self._jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)
        self._ended = threading.Event()
        self._known: set[int] = set()

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            for job in set(self._tracker.getActiveJobsIds()) - self._known:
                # Not in each one: a write whose committer is killed fails.
                if job % SHARE == 0 or self._kill():
                    self._known.add(job)

    def _kill(self) -> bool:
        """Kill a worker, if there is any."""
        for process in self._jvm.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                # The parent of the workers has the same command line.
                if process.parent() != self._jvm and "pyspark.daemon" in " ".join(process.cmdline()):
                    process.kill()
                    self.killed += 1
                    return True
        return False


def prices(spark: SparkSession, first: int, count: int, price: int) -> DataFrame:
    """Records that move to other partitions with their prices."""
    rows = spark.range(first, first + count, numPartitions=2)
    return rows.selectExpr("id", f"(id + {price}) % 3 as shop", f"{price} as price")


def repeated(write: Callable[..., Instant], rows: object) -> None:
    """Write again after a failure: Spark repeats killed tasks, but no killed committer."""
    for _ in range(TRIES_MAX):
        with contextlib.suppress(errors.SparkJobFailed, PySparkException):
            write(rows)
            return
    pytest.fail("no write went through")


@pytest.mark.parametrize("type_", ["copy_on_write", "merge_on_read"])
@pytest.mark.parametrize("index", ["record", "bloom"])
def test_killed_workers_double_and_lose_no_record(
    spark: SparkSession, new_table: NewTable, index: str, type_: str
) -> None:
    definition: dict[str, Any] = {"index": index, "type": type_}
    if index == "record":
        definition["partition_fields"] = ["shop"]
    table = new_table(prices(spark, 0, 0, 0), "id", **definition)
    table.insert(prices(spark, 0, 4_000, 0))
    killer = Killer(spark)
    with killer.at_work():
        for number in range(1, ROUNDS):
            repeated(table.upsert, prices(spark, 1_000 * number, 5_000, number))
        repeated(table.delete, "id % 5 = 1")

    assert killer.killed > 0
    expected = {id: id // 1_000 for id in range(8_000)} | {
        id: ROUNDS - 1 for id in range(1_000 * (ROUNDS - 1), 1_000 * (ROUNDS - 1) + 5_000)
    }
    newest = {id: min(price, ROUNDS - 1) for id, price in expected.items()}
    stored = sorted(map(tuple, table.read().collect()))
    assert stored == [(id, (id + price) % 3, price) for id, price in newest.items() if id % 5 != 1]
    assert orphans_of(table) == []
    assert table.metastore.check().findings == []
    hudi_reader.publish_and_compare(table.metastore)
