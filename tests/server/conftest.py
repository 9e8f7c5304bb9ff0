"""Fixtures of the tests of the server: plain HTTP clients and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fix_s3 import S3
from tests.fix_server import ServerProcess
from tests.fix_stores import Store
from tests.server import database, deleting, rest, stored
from tests.server.checkpoints import StreamOfTable
from tests.server.operations import TABLE, Operation
from tests.server.refusals import ServedTable, check_problem, is_decision
from tests.server.rest import Table, marker, succeeded, write_stat
from tests.server.stored import StoredTable


@pytest.fixture
def http(server_url: str) -> Iterator[httpx.Client]:
    """A plain HTTP client of the test's server."""
    with rest.connect(server_url) as client:
        yield client


@pytest.fixture(scope="module")
def shared_servers(
    shared_dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two servers over one database, for the tests of a module that keep to tables of their own."""
    folder = tmp_path_factory.mktemp("servers")
    first, second = (ServerProcess(shared_dsn, folder / f"server-{number}.log") for number in (1, 2))
    try:
        yield first.start(), second.start()
    finally:
        first.stop()
        second.stop()


@pytest.fixture
def shared_http(shared_server: ServerProcess) -> Iterator[httpx.Client]:
    """A plain HTTP client of the module's server."""
    with rest.connect(shared_server.url) as client:
        yield client


@pytest.fixture
def table(shared_http: httpx.Client) -> Table:
    """A copy-on-write table of the test's own on the module's server."""
    return rest.make_table(shared_http)


@pytest.fixture
def stream(table: Table) -> StreamOfTable:
    """A stream of two tasks into the test's table."""
    stream = StreamOfTable(table)
    stream.open(tasks=2)
    return stream


@pytest.fixture
def clients(shared_servers: tuple[ServerProcess, ServerProcess]) -> Iterator[list[httpx.Client]]:
    """A client of each of two servers over one database."""
    first, second = (rest.connect(server.url) for server in shared_servers)
    with first, second:
        yield [first, second]


@pytest.fixture
def tables(clients: list[httpx.Client]) -> list[Table]:
    """One table, as each of the two servers serves it."""
    made = rest.make_table(clients[0])
    return [made, Table(clients[1], made.name)]


@pytest.fixture(scope="module")
def served(shared_server: ServerProcess) -> Iterator[ServedTable]:
    """The module's server, with a table whose timeline has an instant in each state."""
    with rest.connect(shared_server.url) as http, database.connected(shared_server.dsn) as connection:
        table = rest.make_table(http, TABLE)
        completed, rolled_back = table.begun(), table.begun()
        succeeded(table.complete(completed, write_stat(completed)))
        succeeded(table.roll_back(rolled_back))
        inflight = table.begun()
        assert table.marked(inflight, marker(inflight)) == ["created"]
        yield ServedTable(
            connection=connection,
            http=http,
            requested=table.begun(inflight=False),
            inflight=inflight,
            completed=completed,
            rolled_back=rolled_back,
        )


@pytest.fixture
def refuse(served: ServedTable) -> Iterator[Callable[..., None]]:
    """Asserts that a request is refused with a status and a code.

    At the end nothing has changed; each command that was decided against is recorded, and nothing else is.
    """
    refused = 0

    def check(tried: Operation, status: int, code: str, path: str | None = None, **request: Any) -> None:
        nonlocal refused
        problem = check_problem(tried, served.send(tried, path=path, **request))
        assert (problem.status, problem.code) == (status, code), (tried, path, request, problem)
        refused += is_decision(tried, problem)

    before, decided = served.timelines(), served.decided()
    yield check
    assert served.timelines() == before
    assert served.decided() == {name: rows + refused for name, rows in decided.items()}


@pytest.fixture(scope="module")
def storage_credentials() -> Iterator[None]:
    """The environment of servers that start from now on."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in stored.CREDENTIALS.items():
            environment.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def shared_deleting_server(
    storage_credentials: None,
    shared_dsn: str,
    tmp_path_factory: pytest.TempPathFactory,
    s3_gateway: object,
) -> Iterator[ServerProcess]:
    """One server that deletes, for the tests of a module that keep to tables of their own."""
    server = ServerProcess(shared_dsn, tmp_path_factory.mktemp("server") / "server.log", *deleting.DELETES)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def deleting_server(
    storage_credentials: None, new_server: deleting.NewServer, dsn: str, s3_gateway: object
) -> ServerProcess:
    """A server that deletes, in the S3 API too, over a database of the test's own."""
    return new_server(dsn, *deleting.DELETES)


@pytest.fixture
def stored_table(shared_deleting_server: ServerProcess, store: Store) -> Iterator[StoredTable]:
    """A table in each store, at a server that deletes."""
    with stored.table_at(shared_deleting_server.url, store) as table:
        yield table


@pytest.fixture
def local_store(tmp_path: Path) -> Store:
    """A local folder whose name is to be quoted."""
    return Store(f"{tmp_path.as_uri()}/a%20lake/orders", None)


@pytest.fixture
def s3_table(deleting_server: ServerProcess, s3: S3) -> Iterator[StoredTable]:
    """A table in S3, at the test's own server that deletes."""
    with stored.table_at(deleting_server.url, Store(s3.base_path, s3.options)) as table:
        yield table
