"""Fixtures of the tests of publication: tables with real files at a server that publishes nothing by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import chronolake
from tests.fix_server import ServerProcess
from tests.published import PublishedTable


@pytest.fixture(scope="module")
def client(shared_server: ServerProcess) -> Iterator[chronolake.Client]:
    """A client of the module's server."""
    with chronolake.connect(shared_server.url) as client:
        yield client


@pytest.fixture
def table(client: chronolake.Client, tmp_path: Path) -> PublishedTable:
    """A copy-on-write table."""
    return PublishedTable(client, tmp_path / "lake")
