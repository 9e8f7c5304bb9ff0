"""Fixtures of the tests with tables that Hudi has written."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

import chronolake
from tests.hudi.hudi_spark import HudiSpark


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests with Hudi's Spark bundle, unless they are asked for: ``make test-hudi`` does."""
    if "hudi_spark" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("hudi_spark")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def hudi_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiSpark]:
    """Hudi's Spark bundle: one session for all tests."""
    with HudiSpark(tmp_path_factory.mktemp("hudi") / "spark.log") as session:
        yield session


@pytest.fixture
def client(shared_server_url: str) -> Iterator[chronolake.Client]:
    """A client of the module's server."""
    with chronolake.connect(shared_server_url, retry_seconds=10) as client:
        yield client


@pytest.fixture
def namespace(client: chronolake.Client) -> str:
    """A namespace of the test's own."""
    return client.create_namespace(f"ns_{uuid.uuid4().hex[:12]}").name
