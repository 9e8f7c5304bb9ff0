"""The simulated engine over two real servers, which are killed; then the log is verified."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from chronolake_metastore.proof import verification
from chronolake_metastore.settings import Settings
from tests.fix_server import ServerProcess
from tests.history.conftest import serving
from tests.streams.engine import Engine, Faults
from tests.streams.over_rest import OverRest


@pytest.fixture(scope="module")
def servers(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServerProcess]]:
    with serving(shared_dsn, tmp_path_factory.mktemp("servers"), servers=2) as started:
        yield started


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 22))])
def test_each_record_is_visible_exactly_once_while_servers_are_killed(
    servers: list[ServerProcess], shared_dsn: str, seed: int
) -> None:
    coordinator = OverRest(servers, seed)
    engine = Engine(coordinator, seed, faults=Faults(task_killed=40, job_killed=80))
    engine.run(steps=150)
    assert not engine.orphans()
    coordinator.close()
    assert coordinator.kills
    assert asyncio.run(verification.verify(Settings(dsn=shared_dsn))).findings == []
