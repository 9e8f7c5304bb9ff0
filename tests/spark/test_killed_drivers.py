"""A killed driver leaves only files that the end of its lease, and the next write, clean up."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chronolake import Instant, State
from chronolake_spark import SparkTable
from tests.fix_server import ServerProcess
from tests.forked_program import run
from tests.processes import wait_until
from tests.spark import faults
from tests.spark.driver import Driver, Job
from tests.spark.prices import IDS, SETTINGS, orphans_of, priced, rows_of

pytestmark = pytest.mark.spark


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
