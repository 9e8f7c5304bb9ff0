"""Fixtures of the tests with tables that Hudi has written."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

import chronolake


@pytest.fixture
def client(shared_server_url: str) -> Iterator[chronolake.Client]:
    """A client of the module's server."""
    with chronolake.connect(shared_server_url, retry_seconds=10) as client:
        yield client


@pytest.fixture
def namespace(client: chronolake.Client) -> str:
    """A namespace of the test's own."""
    return client.create_namespace(f"ns_{uuid.uuid4().hex[:12]}").name
