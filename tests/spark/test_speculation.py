"""Speculative execution: of two attempts of one task that both finish, one is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronolake_spark import SparkTable
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.spark import faults
from tests.spark.cluster import Cluster
from tests.spark.driver import Driver, Job
from tests.spark.prices import BUCKETS, IDS, SETTINGS, TASKS, orphans_of, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.locality.wait": "0",
    "spark.executor.memory": "512m",
    # The losing attempt ignores the request to stop.
    "spark.python.task.killTimeout": "300s",
}


def test_an_attempt_that_loses_and_finishes_late_is_not_seen(
    prices: SparkTable, reaping: ServerProcess, tmp_path: Path, repository: Path
) -> None:
    loser = "ended-0-0"
    with Cluster(tmp_path) as cluster:
        settings = {**SETTINGS, **EAGER, "spark.executorEnv.PYTHONPATH": str(repository)}
        job = Job(reaping.url, prices.name, len(IDS), "come_late", cluster.master, settings, loser)
        with Driver(job, tmp_path / "driver.log", repository) as driver:
            wait_until(lambda: not driver.runs())

    signs = faults.signals(prices.definition.base_path)
    assert sorted(sign.name for sign in signs.iterdir() if "-0-" in sign.name) == [loser, "ended-0-1"]
    assert (signs / "late").exists()
    instant = prices.metastore.timeline.completed().last()
    assert instant is not None
    assert instant.summary is not None
    assert instant.summary.files == BUCKETS
    assert len(list(prices.metastore.deletions(instant.requested_time))) == BUCKETS / TASKS
    assert rows_of(prices) == [(id, 2) for id in IDS]
    assert orphans_of(prices) == []
