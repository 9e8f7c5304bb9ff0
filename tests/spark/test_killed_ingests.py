"""A killed ingest: the same command, run again, loads the missing files, and each row is there once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import chronolake
import chronolake_spark
from chronolake import State
from chronolake.cli import main as command_line
from tests import processes
from tests.client.gateway import Holding
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.spark.prices import orphans_of
from tests.spark.test_killed_drivers import end_lease

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = (sys.executable, "-c", "from chronolake.cli.main import main; main()")
NAME = "killed.t"


@pytest.fixture
def command(tmp_path: Path) -> Callable[[str], list[str]]:
    """An ingest of two files at the server of a URL; the later file corrects a row of the earlier."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("id,n\n" + "".join(f"{id},1\n" for id in range(100)))
    (folder / "2.csv").write_text("id,n\n" + "".join(f"{id},2\n" for id in range(99, 200)))
    source = ["--source", str(folder), "--key", "id", "--one-commit-per-file"]
    where = ["--table", NAME, "--base-path", str(tmp_path / "table")]
    return lambda url: ["ingest", "--url", url, *where, *source]


def kill_at(gateway: Holding, command: list[str], log: Path) -> None:
    """Run the command, and kill it with all that it has started once the gateway holds its request."""
    with log.open("wb") as out, subprocess.Popen([*PROGRAM, *command], stdout=out, stderr=out) as ingesting:
        try:
            wait_until(lambda: gateway.holds.is_set() or ingesting.poll() is not None)
            assert ingesting.poll() is None, log.read_text()
        finally:
            processes.kill(ingesting)


@pytest.mark.parametrize("commit", [1, 2], ids=["in the first commit", "in a later commit"])
def test_after_a_kill_the_same_command_loads_each_row_once(
    reaping: ServerProcess,
    spark: SparkSession,
    command: Callable[[str], list[str]],
    tmp_path: Path,
    commit: int,
) -> None:
    with Holding(reaping.url, "/complete", commit) as gateway:
        kill_at(gateway, command(gateway.url), tmp_path / "ingest.log")

    assert command_line.run(command(reaping.url)) == 0

    with chronolake.connect(reaping.url) as client:
        table = chronolake_spark.table(spark, NAME, client=client)
        expected = [(id, 1 if id < 99 else 2) for id in range(200)]
        assert sorted(tuple(row) for row in table.read().collect()) == expected
        assert len(list(table.metastore.instants(state=State.COMPLETED))) == 2
        [killed] = table.metastore.instants(state=State.INFLIGHT)
        end_lease(table, killed)
        wait_until(lambda: table.metastore.instant(killed.requested_time).state is State.ROLLED_BACK)
        table.metastore.finish_rollbacks()
        assert orphans_of(table) == []
        assert sorted(tuple(row) for row in table.read().collect()) == expected
