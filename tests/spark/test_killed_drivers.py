"""A driver that is killed leaves nothing but what its lease's end, and the next write, put right."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from chronolake import Instant, State
from tests.client.gateway import Gateway
from tests.fix_server import ServerProcess
from tests.spark import faults
from tests.spark.driver import Driver, Job
from tests.spark.faults import until
from tests.spark.test_attempts import BUCKETS, IDS, orphans_of, priced, rows_of

pytestmark = pytest.mark.spark

LOCAL = {"spark.sql.shuffle.partitions": "4"}


class Holding(Gateway):
    """A gateway that keeps the request of this number to such a path for ever, and sends on all others."""

    def __init__(self, target: str, path_end: str, number: int) -> None:
        super().__init__(target)
        self.holds = threading.Event()
        self._path_end = path_end
        self._left = number
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def send_on(  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> httpx.Response:
        if self._is_it(path):
            self.holds.set()
            self._ended.wait()
            return httpx.Response(502)
        return super().send_on(method, path, body, headers)

    def __exit__(self, *exc: object) -> None:  # type: ignore[explicit-override]
        self._ended.set()
        super().__exit__(None, None, None)

    def _is_it(self, path: str) -> bool:
        with self._lock:
            self._left -= path.endswith(self._path_end)
            return self._left == 0 and path.endswith(self._path_end)


@pytest.fixture
def reaping(new_server: Callable[..., ServerProcess], dsn: str) -> ServerProcess:
    """A server that rolls back at once what nobody renews."""
    return new_server(dsn, "--reaper-seconds", "0.1")


@pytest.fixture
def table(spark: SparkSession, reaping: ServerProcess, tmp_path: Path) -> Iterator[chronolake_spark.SparkTable]:
    """A table with one commit: each record has the price 1."""
    with chronolake.connect(reaping.url) as client:
        client.create_namespace("killed")
        chronolake_spark.create_table(
            client,
            "killed.t",
            priced(spark, 1).schema,
            base_path=str(tmp_path / "t"),
            record_key_fields=["id"],
            buckets=BUCKETS,
        )
        table = chronolake_spark.table(spark, "killed.t", client=client)
        table.insert(priced(spark, 1))
        yield table


def only(table: chronolake_spark.SparkTable, state: State) -> Instant:
    [instant] = table.metastore.instants(state=state)
    return instant


def end_lease(table: chronolake_spark.SparkTable, instant: Instant) -> None:
    """Nobody renews it any more: let it end in a second."""
    table.metastore.write(instant.requested_time).heartbeat(1)


def assert_healed(table: chronolake_spark.SparkTable, spark: SparkSession, given_up: Instant, dsn: str) -> None:
    """The next write of another driver finds the records as they were, and leaves the table whole."""
    assert rows_of(table) == [(id, 1) for id in IDS]
    table.upsert(priced(spark, 3).where("id < 32"))

    assert rows_of(table) == [(id, 3 if id < 32 else 1) for id in IDS]
    assert orphans_of(table) == []
    assert list(table.metastore.timeline.rollbacks().pending()) == []
    assert len(list(table.metastore.deletions(given_up.requested_time))) >= BUCKETS / 2
    verified = subprocess.run(
        [sys.executable, "-m", "chronolake_metastore", "verify", "--dsn", dsn],
        capture_output=True,
        text=True,
        check=False,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_driver_killed_during_the_write(
    table: chronolake_spark.SparkTable,
    spark: SparkSession,
    reaping: ServerProcess,
    tmp_path: Path,
    repository: Path,
) -> None:
    job = Job(reaping.url, table.name, len(IDS), "stand_still", settings=LOCAL)
    reached = faults.signals(table.definition.base_path) / "reached"
    with Driver(job, tmp_path / "driver.log", repository) as driver:
        until(lambda: driver.runs() and reached.exists())
        driver.kill()

    assert orphans_of(table) != []
    instant = only(table, State.INFLIGHT)
    end_lease(table, instant)
    until(lambda: table.metastore.instant(instant.requested_time).state is State.ROLLED_BACK)
    assert_healed(table, spark, instant, reaping.dsn)


def test_a_driver_killed_between_reconciliation_and_publication(
    table: chronolake_spark.SparkTable,
    spark: SparkSession,
    reaping: ServerProcess,
    tmp_path: Path,
    repository: Path,
) -> None:
    # The first is refused: files of attempts that were killed are left over.
    with Holding(reaping.url, "/complete", 2) as gateway:
        job = Job(gateway.url, table.name, len(IDS), "die_first", "local[2,4]", LOCAL)
        with Driver(job, tmp_path / "driver.log", repository) as driver:
            until(lambda: driver.runs() and gateway.holds.is_set())
            driver.kill()

    instant = only(table, State.INFLIGHT)
    assert len(list(table.metastore.deletions(instant.requested_time))) == BUCKETS
    end_lease(table, instant)
    until(lambda: table.metastore.instant(instant.requested_time).state is State.ROLLED_BACK)
    assert_healed(table, spark, instant, reaping.dsn)


def test_a_driver_killed_between_two_deletions_of_its_rollback(
    table: chronolake_spark.SparkTable,
    spark: SparkSession,
    reaping: ServerProcess,
    tmp_path: Path,
    repository: Path,
) -> None:
    with Holding(reaping.url, "/deletions", 2) as gateway:
        job = Job(gateway.url, table.name, len(IDS), "die_last", settings=LOCAL)
        with Driver(job, tmp_path / "driver.log", repository) as driver:
            until(lambda: driver.runs() and gateway.holds.is_set())
            driver.kill()

    instant = only(table, State.ROLLED_BACK)
    assert len(list(table.metastore.deletions(instant.requested_time))) == 1
    assert orphans_of(table) != []
    rollback = only(table, State.INFLIGHT)
    end_lease(table, rollback)
    until(lambda: table.metastore.instant(rollback.requested_time).state is State.REQUESTED)
    assert_healed(table, spark, instant, reaping.dsn)
