"""Revocation ends commands that wait, and streams, although their request was accepted before (T54, T55)."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import httpx
import pytest

from chronolake_metastore.api.identification import STREAM_CHECK_SECONDS
from chronolake_model.files import ARROW
from tests.processes import wait_until
from tests.server import access, database, rest
from tests.server.access import AccessServer
from tests.server.rest import refused, succeeded
from tests.server.streams import LITTLE_ROOM

BEGIN = {"action": "commit", "operation": "upsert", "writer": "w"}
MANY_FILES = 120_000


@pytest.fixture(scope="module")
def server(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccessServer]:
    with access.running(shared_dsn, tmp_path_factory.mktemp("access")) as server:
        succeeded(server.admin.post("/v1/namespaces", json={"name": "shop"}))
        yield server


@pytest.mark.parametrize("runs_again", [False, True])
@pytest.mark.parametrize(
    ("what", "status", "code"), [("role", 404, "table-not-found"), ("token", 401, "unauthenticated")]
)
def test_a_revocation_ends_commands_that_wait(
    server: AccessServer, what: str, status: int, code: str, runs_again: bool
) -> None:
    """One command waits within its transaction, which may run again, and another one in the queue."""
    name = f"{what}_again" if runs_again else what
    table = f"shop.{name}"
    succeeded(server.admin.post("/v1/tables", json=rest.table_body(table, base_path=f"/lake/{name}")))
    caller = server.caller(name, shop="writer")

    def begin() -> httpx.Response:
        return caller.http.post(f"/v1/tables/{table}/instants", json=BEGIN)

    with ThreadPoolExecutor() as threads:
        with database.clock_held(server.dsn, table):
            answers = [threads.submit(begin)]
            database.wait_for_waiting(server.dsn, 1)
            answers.append(threads.submit(begin))
            # Long enough for the second command to arrive.
            succeeded(caller.http.get(f"/v1/tables/{table}"))
            if what == "role":
                caller.revoke("shop")
            else:
                server.run("token", "revoke", name)
            if runs_again:
                database.sever(server.dsn)
                database.wait_for_waiting(server.dsn, 1)
        for answer in answers:
            refused(answer.result(), status, code)
    assert [event["type"] for event in database.events(server.dsn, table)] == ["TableCreated"]


@pytest.mark.slow
def test_an_arrow_stream_ends_when_its_token_is_revoked(server: AccessServer) -> None:
    succeeded(server.admin.post("/v1/tables", json=rest.table_body("shop.large")))
    writer, reader = server.caller("writer", shop="writer"), server.caller("reader", shop="reader")
    begun = succeeded(writer.http.post("/v1/tables/shop.large/instants", json=BEGIN))["requested_time"]
    done = {"write_stats": [rest.write_stat(begun)]}
    succeeded(writer.http.post(f"/v1/tables/shop.large/instants/{begun}/complete", json=done))
    database.multiply_files(server.dsn, "shop.large", MANY_FILES)

    with socket.socket() as connection:
        for option in LITTLE_ROOM:
            connection.setsockopt(*option)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", server.process.port))
        token = reader.http.headers["authorization"]
        head = f"GET /v1/tables/shop.large/snapshot HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n"
        connection.sendall(f"{head}Accept: {ARROW}\r\n\r\n".encode())
        assert connection.recv(12) == b"HTTP/1.1 200"
        server.run("token", "revoke", "reader")
        wait_until(lambda: reader.http.get("/v1/tables").status_code == HTTPStatus.UNAUTHORIZED)
        time.sleep(STREAM_CHECK_SECONDS)
        end = b""
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65_536):
                end = (end + part)[-5:]
        assert end != b"0\r\n\r\n"
    log = server.process.log()
    assert "a stream was cut off" in log
    assert "Traceback" not in log
