"""Connections of followers, and those that send no request, leave room for other clients."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import httpx

from benchmarks.follower_load import allow_files
from tests.fix_server import ServerProcess

CONNECTIONS = 1_100
"""More than the backlog of the server."""


def test_a_thousand_connections_without_a_request_keep_no_other_client_out(
    shared_server: ServerProcess,
) -> None:
    allow_files(CONNECTIONS)
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", shared_server.port))
            stack.enter_context(connection).sendall(b"GET /v1/namespaces HTTP/1.1\r\nHost: x\r\n")

        assert httpx.get(f"{shared_server.url}/health", timeout=10).status_code == 200
