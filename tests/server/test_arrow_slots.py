"""A server sends few Arrow streams at a time. Clients that do not read, or that leave, soon hold no slot."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from chronolake_metastore.store.postgres.stream_slots import STREAMS_MAX
from chronolake_model.files import ARROW
from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.rest import Table, succeeded, write_stat
from tests.server.streams import LITTLE_ROOM

MANY_FILES = 120_000
PER_CLIENT = 4
ATTEMPTS = 15
ADDRESSES = ("127.0.0.1", "127.0.0.2")


@pytest.fixture(scope="module")
def server(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose requests wait two seconds for a slot."""
    log = tmp_path_factory.mktemp("server") / "server.log"
    server = ServerProcess(shared_dsn, log, "--answer-seconds", "4")
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def tables(server: ServerProcess) -> Iterator[tuple[Table, Table]]:
    with ExitStack() as stack:
        yield tables_of(server, stack)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def tables_of(server: ServerProcess, stack: ExitStack) -> tuple[Table, Table]:
    """A table whose snapshot fits into no buffer, and one without files."""
    http = stack.enter_context(rest.connect(server.url))
    large, small = rest.make_table(http, "shop.large"), rest.make_table(http, "shop.small")
    requested = large.begun()
    succeeded(large.complete(requested, write_stat(requested)))
    database.multiply_files(server.dsn, large.name, MANY_FILES)
    return large, small


def requested(server: ServerProcess, table: Table, address: str) -> socket.socket:
    """A connection that has requested a snapshot as Arrow, and has read none of it."""
    connection = socket.socket()
    for option in LITTLE_ROOM:
        connection.setsockopt(*option)
    connection.bind((address, 0))
    connection.settimeout(30)
    connection.connect(("127.0.0.1", server.port))
    path = f"/v1/tables/{table.name}/snapshot"
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {ARROW}\r\n\r\n".encode())
    return connection


def stall(server: ServerProcess, table: Table, address: str, stack: ExitStack) -> socket.socket:
    """Have a snapshot begin, of which no more is read than the first bytes."""
    connection = stack.enter_context(requested(server, table, address))
    assert connection.recv(12) == b"HTTP/1.1 200"
    return connection


def snapshot(server: ServerProcess, table: Table, address: str) -> httpx.Response:
    with httpx.Client(transport=httpx.HTTPTransport(local_address=address, verify=False), timeout=30) as http:
        return http.get(f"{server.url}/v1/tables/{table.name}/snapshot", headers={"Accept": ARROW})


def test_requests_that_waited_for_a_slot_in_vain_hold_none_later(
    server: ServerProcess, tables: tuple[Table, Table]
) -> None:
    large, small = tables
    with ExitStack() as connections:
        for address in ADDRESSES:
            for _ in range(PER_CLIENT):
                stall(server, large, address, connections)
        waiting = [requested(server, large, address) for address in ADDRESSES for _ in range(PER_CLIENT)]
        for connection in waiting[::2]:
            assert connection.recv(12).startswith(b"HTTP/1.1 ")
        for connection in waiting:
            connection.close()

    statuses = {snapshot(server, small, f"127.0.0.{3 + number}").status_code for number in range(2)}
    assert statuses == {200}


def test_clients_that_leave_before_their_turn_take_no_slot(
    server: ServerProcess, tables: tuple[Table, Table]
) -> None:
    large, small = tables
    with ExitStack() as connections:
        for address in ADDRESSES:
            for _ in range(PER_CLIENT):
                stall(server, large, address, connections)
        waiting = [requested(server, large, "127.0.0.3") for _ in range(STREAMS_MAX)]
        # By then the server has looked up the table for the waiting requests, too.
        for _ in range(STREAMS_MAX):
            succeeded(large.http.get(f"/v1/tables/{small.name}/snapshot"))
        for connection in waiting:
            connection.close()

    statuses = [snapshot(server, small, "127.0.0.3").status_code for _ in range(STREAMS_MAX)]
    assert statuses == [200] * STREAMS_MAX


def test_the_arrow_streams_of_an_address_and_of_a_server_are_bounded(
    server: ServerProcess, tables: tuple[Table, Table], stack: ExitStack
) -> None:
    large, small = tables
    for _ in range(PER_CLIENT):
        stall(server, large, ADDRESSES[0], stack)

    assert snapshot(server, small, ADDRESSES[1]).status_code == 200
    refused = snapshot(server, small, ADDRESSES[0])
    assert rest.refused(refused, 429, "too-many-streams")["context"] == {"streams_max": PER_CLIENT}
    assert refused.headers["Retry-After"] == "1"

    for _ in range(PER_CLIENT):
        stall(server, large, ADDRESSES[1], stack)
    assert rest.refused(snapshot(server, small, "127.0.0.3"), 503, "overloaded")["context"] == {
        "streams_max": STREAMS_MAX
    }


def test_a_client_that_takes_nothing_of_its_stream_is_cut_off(
    new_server: Callable[..., ServerProcess], dsn: str, stack: ExitStack
) -> None:
    flags = ("--answer-seconds", "4", "--follower-stall-seconds", "1")
    server = new_server(dsn, *flags, "--arrow-streams-per-client-max", str(STREAMS_MAX))
    large, small = tables_of(server, stack)
    stalled = [stall(server, large, ADDRESSES[0], stack) for _ in range(STREAMS_MAX)]

    answers = (snapshot(server, small, ADDRESSES[1]) for _ in range(ATTEMPTS))
    assert any(answer.status_code == 200 for answer in answers)
    # Streams that were not cut off yet continue now, and end as they should.
    assert not all(ends_whole(connection) for connection in stalled)


def ends_whole(connection: socket.socket) -> bool:
    """Whether the chunked body is complete, so that the client accepts the snapshot."""
    end = b""
    try:
        while part := connection.recv(65_536):
            end = (end + part)[-5:]
            if end == b"0\r\n\r\n":
                return True
    except ConnectionResetError:
        pass
    return False
