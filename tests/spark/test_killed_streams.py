"""A streaming query whose driver is killed with -9, at named points: each batch is written exactly once."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from chronolake import State
from chronolake_spark import SparkTable
from tests.processes import wait_until
from tests.spark import dying_stream, hudi_reader
from tests.spark.dying_stream import POINTS, Job
from tests.spark.prices import orphans_of

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
KILLS = 20


@pytest.fixture
def job(new_table: NewTable, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Job:
    """A query that writes a table of the type that the test names."""
    table = new_table(dying_stream.empty(spark), "id", type=request.param, buckets=2)
    return Job(table._client.url, table.name, str(tmp_path / "checkpoints"), "in the data", 1)


@pytest.fixture
def table_of(spark: SparkSession, client: chronolake.Client) -> Callable[[Job], SparkTable]:
    """The table of a job."""
    return lambda job: chronolake_spark.table(spark, job.table, client=client)


def killed(job: Job, tmp_path: Path, repository: Path) -> None:
    log = tmp_path / "driver.log"
    assert dying_stream.run(job, log, repository) == -signal.SIGKILL, log.read_text()


def batches_of(table: SparkTable) -> list[int]:
    """The batches that have completed, in their order."""
    return [each.stream.checkpoint for each in table.metastore.instants(state=State.COMPLETED) if each.stream]


def continue_until(spark: SparkSession, job: Job, table: SparkTable, batches: int) -> None:
    """Let the query write on until this number of batches has completed."""
    query = dying_stream.start(spark, job)
    try:
        wait_until(lambda: not query.isActive or len(batches_of(table)) >= batches)
        assert query.exception() is None
    finally:
        query.stop()
    wait_until(lambda: not list(table.metastore.timeline.pending()))


def assert_each_once(table: SparkTable) -> None:
    batches = batches_of(table)
    assert batches == list(range(len(batches)))
    records = sorted((row.id, row.version) for row in table.read().collect())
    assert records == dying_stream.records_after(len(batches))
    assert orphans_of(table) == []
    hudi_reader.publish_and_compare(table.metastore)


@pytest.mark.parametrize("job", ["merge_on_read"], indirect=True)
def test_a_driver_killed_before_the_completion_of_a_batch(
    spark: SparkSession, job: Job, table_of: Callable[[Job], SparkTable], tmp_path: Path, repository: Path
) -> None:
    killed(msgspec.structs.replace(job, point="before the completion", calls=2), tmp_path, repository)
    table = table_of(job)
    assert batches_of(table) == [0]
    continue_until(spark, job, table, 3)
    assert_each_once(table)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "pending_max"),
    [("copy_on_write", 0), ("merge_on_read", 0), ("merge_on_read", 2)],
    indirect=["job"],
)
def test_a_driver_killed_again_and_again(
    spark: SparkSession,
    job: Job,
    pending_max: int,
    table_of: Callable[[Job], SparkTable],
    tmp_path: Path,
    repository: Path,
) -> None:
    table = table_of(job)
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chosen = random.Random(seed)
    for kill in range(KILLS):
        point = list(POINTS)[kill % len(POINTS)]
        calls, delay = chosen.randint(1, 3), chosen.uniform(0.0, 0.4)
        dying = msgspec.structs.replace(
            job, point=point, calls=calls, delay_seconds=delay, pending_max=pending_max
        )
        killed(dying, tmp_path, repository)
    continue_until(spark, job, table, len(batches_of(table)) + 2)
    assert_each_once(table)
