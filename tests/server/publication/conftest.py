"""Fixtures of the tests of publication: tables with real files at a server that publishes nothing by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import chronolake
from tests.fix_server import ServerProcess
from tests.published import PUBLISHES, PublishedTable


@pytest.fixture(scope="module")
def client(shared_server: ServerProcess) -> Iterator[chronolake.Client]:
    """A client of the module's server."""
    with chronolake.connect(shared_server.url) as client:
        yield client


@pytest.fixture
def table(client: chronolake.Client, tmp_path: Path) -> PublishedTable:
    """A copy-on-write table."""
    return PublishedTable(client, tmp_path / "lake")


@pytest.fixture
def publishing_server(new_server: Callable[..., ServerProcess], dsn: str) -> ServerProcess:
    """A server of its own, which publishes by itself."""
    return new_server(dsn, *PUBLISHES)


@pytest.fixture
def publishing_client(publishing_server: ServerProcess) -> Iterator[chronolake.Client]:
    """Its client."""
    with chronolake.connect(publishing_server.url) as client:
        yield client


@pytest.fixture
def following_table(publishing_client: chronolake.Client, tmp_path: Path) -> PublishedTable:
    """A copy-on-write table that this server publishes."""
    return PublishedTable(publishing_client, tmp_path / "lake")
