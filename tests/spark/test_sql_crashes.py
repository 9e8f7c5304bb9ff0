"""A MERGE with a killed executor or driver, or two attempts of a task: each row once, and no file left."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chronolake import State
from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.spark import statement_faults
from tests.spark.cluster import Cluster
from tests.spark.prices import IDS, SETTINGS, orphans_of, rows_of
from tests.spark.sql_driver import StatementDriver, Statements
from tests.spark.test_speculation import EAGER

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]

NEW = 40
_MERGE = (
    f"MERGE INTO lake.shop.prices t USING (SELECT id, 2 AS price FROM range(0, {len(IDS) + NEW}, 1, 4)) s "
    "ON t.id = s.id WHEN MATCHED AND s.id % 8 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET price = t.price + 1 "
    "WHEN NOT MATCHED THEN INSERT *"
)
# The rows of a task come by a shuffle, not by a broadcast: each task stages a file.
_SHUFFLED = {**SETTINGS, "spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"}


def _merged() -> list[tuple[int, int]]:
    return [(id, 2) for id in range(len(IDS) + NEW) if id % 8 or id >= len(IDS)]


def _assert_merged_once(prices: SparkTable) -> None:
    assert rows_of(prices) == _merged()
    assert orphans_of(prices) == []
    assert prices.metastore.check().findings == []
    states = [instant.state for instant in prices.metastore.instants(state=list(State))]
    assert set(states) <= {State.COMPLETED, State.ROLLED_BACK}


def _signs(tmp_path: Path) -> Path:
    signs = tmp_path / "signs"
    signs.mkdir()
    return signs


@pytest.mark.parametrize("point", ["staging"])
def test_an_executor_that_is_killed_in_a_merge(
    prices: SparkTable, reaping: ServerProcess, tmp_path: Path, repository: Path, point: str
) -> None:
    signs = _signs(tmp_path)
    with Cluster(tmp_path) as cluster:
        settings = {**_SHUFFLED, "spark.executor.memory": "512m"}
        fault = f"{point} kill_executor {signs}"
        statements = Statements(reaping.url, [_MERGE], fault, cluster.master, settings)
        with StatementDriver(statements, tmp_path / "driver.log", repository) as driver:
            wait_until(lambda: not driver.runs())

    assert (signs / "killed").exists()
    _assert_merged_once(prices)


@pytest.mark.parametrize("point", ["writing", "completing", "completed"])
def test_a_driver_that_is_killed_in_a_merge(
    prices: SparkTable,
    spark: SparkSession,
    reaping: ServerProcess,
    tmp_path: Path,
    repository: Path,
    point: str,
) -> None:
    signs = _signs(tmp_path)
    statements = Statements(reaping.url, [_MERGE], f"{point} stand_still {signs}", settings=_SHUFFLED)
    with StatementDriver(statements, tmp_path / "driver.log", repository) as driver:
        wait_until(lambda: driver.runs() and (signs / "reached").exists())
        driver.kill()

    if point == "completed":
        _assert_merged_once(prices)
        return
    [pending] = prices.metastore.instants(state=State.INFLIGHT)
    assert rows_of(prices) == [(id, 1) for id in IDS]
    prices.metastore.write(pending.requested_time).heartbeat(1)
    wait_until(lambda: prices.metastore.instant(pending.requested_time).state is State.ROLLED_BACK)

    again = Statements(reaping.url, [_MERGE], statement_faults.NONE, settings=_SHUFFLED)
    with StatementDriver(again, tmp_path / "again.log", repository) as driver:
        wait_until(lambda: not driver.runs())
    _assert_merged_once(prices)


def test_an_attempt_that_loses_and_finishes_late_in_a_merge(
    prices: SparkTable, reaping: ServerProcess, tmp_path: Path, repository: Path
) -> None:
    signs = _signs(tmp_path)
    loser = signs / "ended-0-0"
    with Cluster(tmp_path) as cluster:
        fault = f"writing {statement_faults.COME_LATE} {signs}"
        settings = {**_SHUFFLED, **EAGER}
        statements = Statements(reaping.url, [_MERGE], fault, cluster.master, settings, str(loser))
        with StatementDriver(statements, tmp_path / "driver.log", repository) as driver:
            wait_until(lambda: not driver.runs())

    assert {"late", "ended-0-0", "ended-0-1"} <= {sign.name for sign in signs.iterdir()}
    _assert_merged_once(prices)
