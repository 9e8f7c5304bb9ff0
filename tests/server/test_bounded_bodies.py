"""The bytes of request bodies in flight are bounded, in all and per client; a larger body is not read."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.server import rest
from tests.server.rest import succeeded

BYTES_MAX = 8 * 1024 * 1024
SHARE = BYTES_MAX // 2


@pytest.fixture
def small(new_server: Callable[..., ServerProcess], dsn: str) -> ServerProcess:
    return new_server(dsn, "--bodies-bytes-max", str(BYTES_MAX))


@contextmanager
def sending(server: ServerProcess, length: int, body: bytes = b"") -> Iterator[socket.socket]:
    """A request to make a namespace that says to be so long, and has sent this much."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        head = "POST /v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + body)
        yield connection


def fits(server: ServerProcess, length: int) -> bool:
    """Whether a body of this length is not refused before its first byte. The body itself is not sent."""
    with sending(server, length) as connection:
        connection.settimeout(0.5)
        try:
            return not receive_answer(connection).startswith("HTTP/1.1 503")
        except TimeoutError:
            return True


def receive_answer(connection: socket.socket) -> str:
    """The part of the answer that arrives at once."""
    return connection.recv(65_536).decode()


def test_a_body_that_does_not_fit_is_refused_before_it_is_sent(small: ServerProcess) -> None:
    with sending(small, SHARE + 1) as connection:
        answer = receive_answer(connection)

    assert answer.startswith("HTTP/1.1 503")
    assert "overloaded" in answer
    assert "retry-after: 1" in answer.lower()


def test_a_client_that_sends_large_bodies_slowly_does_not_keep_small_ones_out(small: ServerProcess) -> None:
    with sending(small, SHARE, b" " * (SHARE - 10)), rest.connect(small.url) as http:
        # The server may still be reading the first body out of the buffers of the connection.
        wait_until(lambda: not fits(small, 2_000_000))
        succeeded(http.post("/v1/namespaces", json={"name": "small"}))


def test_bytes_are_released_when_requests_are_answered(small: ServerProcess) -> None:
    large = b'{"name": "large"}' + b" " * (SHARE - 100)
    with rest.connect(small.url) as http:
        codes = [_post(http, large) for _ in range(3)]

    assert codes == [201, 409, 409]


def test_a_body_that_stalls_is_refused_and_gives_its_bytes_back(
    new_server: Callable[..., ServerProcess], dsn: str
) -> None:
    server = new_server(dsn, "--bodies-bytes-max", str(BYTES_MAX), "--answer-seconds", "1")
    with rest.connect(server.url) as http, sending(server, SHARE - 10, b"{") as connection:
        answer = receive_answer(connection)
        ended = connection.recv(1)
        whole = _post(http, b'{"name": "large"}' + b" " * (SHARE - 100))

    assert answer.startswith("HTTP/1.1 408")
    assert "body-too-slow" in answer
    assert ended == b""
    assert whole == 201


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_arrives_steadily_may_take_longer_than_the_answer_time(
    new_server: Callable[..., ServerProcess], dsn: str, chunked: bool
) -> None:
    server = new_server(dsn, "--answer-seconds", "2")
    parts = [b" " * 256 * 1024 for _ in range(8)] + [b'{"name": "slow"}']

    def come() -> Iterator[bytes]:
        for part in parts:
            time.sleep(0.4)
            yield part

    with rest.connect(server.url) as http:
        length = {} if chunked else {"Content-Length": str(sum(map(len, parts)))}
        headers = {"Content-Type": "application/json", **length}
        succeeded(http.post("/v1/namespaces", content=come(), headers=headers))


def _post(http: httpx.Client, body: bytes) -> int:
    return http.post("/v1/namespaces", content=body, headers={"Content-Type": "application/json"}).status_code
