"""A killed driver leaves only files that the end of its lease, and the next write, clean up."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

from chronolake import Instant, State
from chronolake_spark import SparkTable
from tests.client.gateway import Gateway
from tests.command_line import run
from tests.fix_server import ServerProcess
from tests.spark import faults
from tests.spark.driver import Driver, Job
from tests.spark.prices import BUCKETS, IDS, SETTINGS, orphans_of, priced, rows_of
from tests.waiting import wait_until

pytestmark = pytest.mark.spark


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


def only(prices: SparkTable, state: State) -> Instant:
    [instant] = prices.metastore.instants(state=state)
    return instant


def end_lease(prices: SparkTable, instant: Instant) -> None:
    """Its lease is not renewed any more: let it end in a second."""
    prices.metastore.write(instant.requested_time).heartbeat(1)


def assert_healed(prices: SparkTable, spark: SparkSession, given_up: Instant, dsn: str) -> None:
    """The next write of another driver finds the records as they were, and leaves the table whole."""
    assert rows_of(prices) == [(id, 1) for id in IDS]
    prices.upsert(priced(spark, 3).where("id < 32"))

    assert rows_of(prices) == [(id, 3 if id < 32 else 1) for id in IDS]
    assert orphans_of(prices) == []
    assert list(prices.metastore.timeline.rollbacks().pending()) == []
    assert list(prices.metastore.deletions(given_up.requested_time)) != []
    verified = run("verify", "--dsn", dsn)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_driver_killed_during_the_write(
    prices: SparkTable,
    spark: SparkSession,
    reaping: ServerProcess,
    tmp_path: Path,
    repository: Path,
) -> None:
    job = Job(reaping.url, prices.name, len(IDS), "stand_still", settings=SETTINGS)
    reached = faults.signals(prices.definition.base_path) / "reached"
    with Driver(job, tmp_path / "driver.log", repository) as driver:
        wait_until(lambda: driver.runs() and reached.exists())
        driver.kill()

    assert orphans_of(prices) != []
    instant = only(prices, State.INFLIGHT)
    end_lease(prices, instant)
    wait_until(lambda: prices.metastore.instant(instant.requested_time).state is State.ROLLED_BACK)
    assert_healed(prices, spark, instant, reaping.dsn)


@pytest.mark.slow
def test_a_driver_killed_between_reconciliation_and_publication(
    prices: SparkTable,
    spark: SparkSession,
    reaping: ServerProcess,
    tmp_path: Path,
    repository: Path,
) -> None:
    # The first is refused: files of attempts that were killed are left over.
    with Holding(reaping.url, "/complete", 2) as gateway:
        job = Job(gateway.url, prices.name, len(IDS), "die_first", "local[2,4]", SETTINGS)
        with Driver(job, tmp_path / "driver.log", repository) as driver:
            wait_until(lambda: driver.runs() and gateway.holds.is_set())
            driver.kill()

    instant = only(prices, State.INFLIGHT)
    assert len(list(prices.metastore.deletions(instant.requested_time))) == BUCKETS
    end_lease(prices, instant)
    wait_until(lambda: prices.metastore.instant(instant.requested_time).state is State.ROLLED_BACK)
    assert_healed(prices, spark, instant, reaping.dsn)


@pytest.mark.slow
def test_a_driver_killed_between_two_deletions_of_its_rollback(
    prices: SparkTable,
    spark: SparkSession,
    reaping: ServerProcess,
    tmp_path: Path,
    repository: Path,
) -> None:
    with Holding(reaping.url, "/deletions", 2) as gateway:
        job = Job(gateway.url, prices.name, len(IDS), "die_last", settings=SETTINGS)
        with Driver(job, tmp_path / "driver.log", repository) as driver:
            wait_until(lambda: driver.runs() and gateway.holds.is_set())
            driver.kill()

    instant = only(prices, State.ROLLED_BACK)
    assert len(list(prices.metastore.deletions(instant.requested_time))) == 1
    assert orphans_of(prices) != []
    rollback = only(prices, State.INFLIGHT)
    end_lease(prices, rollback)
    wait_until(lambda: prices.metastore.instant(rollback.requested_time).state is State.REQUESTED)
    assert_healed(prices, spark, instant, reaping.dsn)
