"""Fixtures of the tests with a real Flink."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import chronolake
import flink_orders
from tests.fix_server import ServerProcess
from tests.flink.flink_jobs import FlinkJob, Jobs
from tools import make_flink_env


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests with Flink, unless they are asked for: ``make test-flink`` does."""
    if "flink" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("flink")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def flink() -> Path:
    """The folder with Flink's jars."""
    folder = Path(os.environ.get("FLINK_ENV", flink_orders.ENVIRONMENT))
    for jar in make_flink_env.JARS:
        assert (folder / jar).exists(), f"{folder / jar} is not there: run make test-flink, or set FLINK_ENV"
    return folder


@pytest.fixture(scope="session")
def classes(flink: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, and its job with tasks that can be killed."""
    folder = tmp_path_factory.mktemp("classes")
    sources = [*(flink_orders.HERE / "chronolake").glob("*.java"), Path(__file__).parent / "FaultyJob.java"]
    flink_orders.compile_java(flink, folder, sources)
    return folder


@pytest.fixture
def reaping(new_server: Callable[..., ServerProcess], dsn: str) -> ServerProcess:
    """A server that soon rolls back what belongs to nobody."""
    return new_server(dsn, "--reaper-seconds", "0.5")


@pytest.fixture
def client(reaping: ServerProcess) -> Iterator[chronolake.Client]:
    """A client of the server."""
    with chronolake.connect(reaping.url) as client:
        yield client


@pytest.fixture
def table(client: chronolake.Client, tmp_path: Path) -> chronolake.Table:
    """The table of the flink_orders."""
    return flink_orders.create_table(client, "shop.orders", tmp_path / "orders")


@pytest.fixture
def jobs(flink: Path, classes: Path, table: chronolake.Table, tmp_path: Path) -> Iterator[Jobs]:
    """Starts jobs that write the table; those that still run at the end of the test are killed."""
    started: list[FlinkJob] = []
    (tmp_path / "faults").mkdir()
    names = ("--table", table.name, "--stream", "job")
    folders = ("--faults", str(tmp_path / "faults"), "--checkpoints", (tmp_path / "checkpoints").as_uri())
    fixed = (*names, *folders)

    def start(server: str, *options: str) -> FlinkJob:
        arguments = [*fixed, "--server", server, *options]
        command = flink_orders.java_command(flink, classes, "chronolake.FaultyJob", arguments)
        job = FlinkJob(command, tmp_path / f"job-{len(started)}.log", tmp_path / "faults")
        started.append(job)
        return job

    yield start
    for job in started:
        job.kill()
