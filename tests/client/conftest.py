"""Clients, tables, a command line and a troubled network for the tests of the client: of a real server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chronolake
from chronolake.cli import main
from tests.client import rows
from tests.client.gateway import Gateway
from tests.client.stored import Stored
from tests.fix_stores import Store

SCHEMA = [chronolake.Field("id", "bigint", nullable=False), chronolake.Field("name", "string")]


Cli = Callable[..., "Ran"]


class Ran:
    """One run of the command line."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


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
def table(client: chronolake.Client, namespace: str, tmp_path: Path) -> chronolake.Table:
    return client.create_table(
        f"{namespace}.orders", base_path=tmp_path.as_uri(), schema=SCHEMA, record_key_fields=["id"]
    )


@pytest.fixture
def clicks(client: chronolake.Client, table: chronolake.Table) -> chronolake.Table:
    """A merge-on-read table beside the other."""
    definition = table.definition
    return client.create_table(
        f"{table.name}_clicks",
        base_path=f"file:///lake/{table.name}/clicks",
        schema=definition.schema,
        record_key_fields=["id"],
        ordering_field="id",
        type=chronolake.TableType.MERGE_ON_READ,
    )


@pytest.fixture
def gateway(server_url: str) -> Iterator[Gateway]:
    """A gateway in front of the server that injects the requested faults."""
    with Gateway(server_url) as gateway:
        yield gateway


@pytest.fixture
def troubled(gateway: Gateway, table: chronolake.Table) -> Iterator[chronolake.Table]:
    """The table, seen through the gateway."""
    with chronolake.connect(gateway.url, retry_seconds=20) as client:
        yield client.table(table.name)
        gateway.faults.clear()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command line; the server is the one that the command line names."""
    monkeypatch.delenv("CHRONOLAKE_URL", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("chronolake.cli.context.RETRY_SECONDS", 0.0)

    def run(*args: str) -> Ran:
        code = main.run(args)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


@pytest.fixture
def cli(run: Cli, server_url: str) -> Cli:
    """Runs a command line against the server."""
    return lambda *args: run("--url", server_url, *args)


@pytest.fixture
def stored(server_url: str, namespace: str, store: Store) -> Iterator[Stored]:
    with chronolake.connect(server_url, retry_seconds=10, storage_options=store.options) as client:
        table = client.create_table(
            f"{namespace}.stored",
            base_path=store.base_path,
            schema=SCHEMA,
            record_key_fields=["id"],
            partition_fields=["name"],
        )
        yield Stored(table, store)


@pytest.fixture(scope="module")
def new_rows(shared_server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[rows.NewTable]:
    """Makes tables whose rows are really there."""
    yield from rows.new_table(shared_server_url, tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def orders(new_rows: rows.NewTable) -> chronolake.Table:
    """Four rows, of which two have changed in log files."""
    table = new_rows()
    rows.write(table, (1, 10, "a", 1), (2, 20, "b", 1), (3, None, "c", 1), (4, 40, "d", 1))
    rows.write(table, (1, 11, "a", 2), (4, 39, "late", 0))
    return table
