"""Clients, tables and a troubled network for the tests of the client. The server is always a real one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

import chronolake
from tests.client.gateway import Gateway

SCHEMA = [chronolake.Field("id", "bigint", nullable=False), chronolake.Field("name", "string")]


@pytest.fixture
def server_url(shared_server_url: str) -> str:
    """One server for a module: these tests keep to namespaces of their own."""
    return shared_server_url


@pytest.fixture
def client(server_url: str) -> Iterator[chronolake.Client]:
    with chronolake.connect(server_url, retry_seconds=10) as client:
        yield client


@pytest.fixture
def namespace(client: chronolake.Client) -> str:
    """A namespace of this test's own: the server outlives the test."""
    return client.create_namespace(f"ns_{uuid.uuid4().hex[:12]}").name


@pytest.fixture
def table(client: chronolake.Client, namespace: str) -> chronolake.Table:
    return client.create_table(
        f"{namespace}.orders", base_path="file:///lake/orders", schema=SCHEMA, record_key_fields=["id"]
    )


@pytest.fixture
def gateway(server_url: str) -> Iterator[Gateway]:
    """A gateway before the server that fails as it is told to."""
    with Gateway(server_url) as gateway:
        yield gateway


@pytest.fixture
def troubled(gateway: Gateway, table: chronolake.Table) -> Iterator[chronolake.Table]:
    """The table, seen through the gateway."""
    with chronolake.connect(gateway.url, retry_seconds=20) as client:
        yield client.table(table.name)
        gateway.faults.clear()
