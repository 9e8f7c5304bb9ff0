"""Requests that are malformed below JSON are refused; none makes the server fail, and none is carried out."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

import chronolake
from chronolake_model.problems import Problem
from tests.fix_server import ServerProcess
from tests.server.rest import new_key, refused, succeeded, table_body

TIMEOUT_SECONDS = 30.0
_HEAD = b"POST /v1/namespaces HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
_BODY = b'{"name":"never"}'

BROKEN_BODIES = {
    "a chunk size that is no number": _CHUNKED + b"zz\r\n" + _BODY,
    "a negative chunk size": _CHUNKED + b"-10\r\n" + _BODY,
    "a huge chunk size": _CHUNKED + b"f" * 20 + b"\r\n" + _BODY,
    "no chunk size": _CHUNKED + b"\r\n" + _BODY,
    "a second chunk without a size": _CHUNKED + b"10\r\n" + _BODY + b"\r\nzz\r\n",
    "a chunk that is longer than its size": _CHUNKED + b"2\r\n" + _BODY + b"\r\n0\r\n\r\n",
    "no body": _HEAD + b"\r\n",
}
CUT_OFF_BODIES = {
    "a chunk that breaks off": _CHUNKED + b"20\r\n" + _BODY,
    "no last chunk": _CHUNKED + b"10\r\n" + _BODY + b"\r\n",
    "a body that breaks off": _HEAD + b"Content-Length: 20\r\n\r\n" + _BODY,
}
ENCODED_BODIES = {
    "a body in gzip": b"Content-Encoding: gzip\r\nContent-Length: 16\r\n\r\n" + _BODY,
    "a transfer in gzip": b"Transfer-Encoding: gzip, chunked\r\n\r\n10\r\n" + _BODY + b"\r\n0\r\n\r\n",
}
UNREADABLE = {
    "two lengths": _HEAD + b"Content-Length: 16\r\nContent-Length: 2\r\n\r\n" + _BODY,
    "a length that is no number": _HEAD + b"Content-Length: x\r\n\r\n" + _BODY,
    "a negative length": _HEAD + b"Content-Length: -1\r\n\r\n" + _BODY,
    "a huge length": _HEAD + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n" + _BODY,
    "an encoding that does not end in chunks": _HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n" + _BODY,
    "a header on two lines": b"GET /v1/time HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "NUL in a header": b"GET /v1/time HTTP/1.1\r\nHost: x\r\nA: \0\r\n\r\n",
    "another version": b"GET /v1/time HTTP/9.1\r\nHost: x\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x00\x00\r\n\r\n",
    "a path that is no UTF-8": b"GET /v1/tables/\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    "a space in the path": b"GET /v1/ti me HTTP/1.1\r\nHost: x\r\n\r\n",
    "a very long path": b"GET /v1/tables/" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a very long query": b"GET /v1/tables?cursor=" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a very long header": b"GET /v1/time HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 1_000_000 + b"\r\n\r\n",
}
"""Requests that the HTTP server under the application refuses by itself."""
NOT_JSON_TYPES = (
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonp",
    "application/json; charset=utf-16",
    "text/html;application/json",
    ";",
    "",
)
TWICE = (
    '{"name":"never","name":"never"}',
    '{"name":"never","properties":{"a":"b:c","a":"d"}}',
    '{"name":"never","properties":{"a":"\\\\u003a","a":"\\u003A"}}',
    '{"name":"never","n\\u0061me":"never"}',
)


def exchange(server: ServerProcess, raw: bytes, *, is_all: bool = False) -> tuple[int, bytes]:
    """The status and the body of the answer to ``raw``; ``is_all`` closes the sending side after it."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), TIMEOUT_SECONDS) as connection:
        try:
            connection.sendall(raw)
            if is_all:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused before all of it was sent
        answer = b"".join(iter(lambda: _received(connection), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65_536)
    except ConnectionResetError:
        return b""


@pytest.fixture
def log(shared_server: ServerProcess, shared_http: httpx.Client) -> object:
    """Asserts that the test left no stack trace in the server's log, and nothing in the catalog."""
    yield
    assert "Traceback" not in shared_server.log()
    assert shared_http.get("/v1/namespaces/never").status_code == 404


@pytest.mark.parametrize("raw", BROKEN_BODIES.values(), ids=BROKEN_BODIES.keys())
def test_a_body_that_cannot_be_read_to_its_end_is_refused(
    shared_server: ServerProcess, log: object, raw: bytes
) -> None:
    status, body = exchange(shared_server, raw)

    problem = msgspec.json.decode(body, type=Problem)
    assert (status, problem.status, problem.code) == (400, 400, "invalid-request")


@pytest.mark.parametrize("raw", CUT_OFF_BODIES.values(), ids=CUT_OFF_BODIES.keys())
def test_a_body_that_is_cut_off_is_refused(shared_server: ServerProcess, log: object, raw: bytes) -> None:
    status, body = exchange(shared_server, raw, is_all=True)

    problem = msgspec.json.decode(body, type=Problem)
    assert (status, problem.status, problem.code) == (400, 400, "invalid-request")


@pytest.mark.parametrize("raw", ENCODED_BODIES.values(), ids=ENCODED_BODIES.keys())
def test_a_body_that_is_encoded_is_refused(shared_server: ServerProcess, log: object, raw: bytes) -> None:
    status, body = exchange(shared_server, _HEAD + raw)

    assert (status, msgspec.json.decode(body, type=Problem).code) == (415, "unsupported-media-type")


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_malformed_request_is_refused_by_the_http_server(
    shared_server: ServerProcess, log: object, raw: bytes
) -> None:
    status, body = exchange(shared_server, raw)

    assert status in (400, 414, 431)
    assert body == b""


def test_chunked_encoding_overrides_the_content_length(
    shared_server: ServerProcess, shared_http: httpx.Client
) -> None:
    name = new_key()
    body = msgspec.json.encode({"name": name})
    hidden = b"POST /v1/namespaces HTTP/1.1\r\nHost: x\r\n\r\n"
    framing = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (
        len(body),
        body,
    )

    status, answer = exchange(shared_server, _HEAD + framing + hidden)

    assert status == 201
    assert b"HTTP/1.1" not in answer  # the rest is no second request: the connection is closed
    assert succeeded(shared_http.get(f"/v1/namespaces/{name}"))["name"] == name


@pytest.mark.parametrize("media_type", NOT_JSON_TYPES, ids=repr)
def test_a_body_that_is_not_sent_as_json_is_refused(
    shared_http: httpx.Client, log: object, media_type: str
) -> None:
    response = shared_http.post("/v1/namespaces", content=_BODY, headers={"Content-Type": media_type})

    assert refused(response, 415, "unsupported-media-type")


def test_a_body_without_a_type_is_refused(shared_http: httpx.Client, log: object) -> None:
    assert refused(shared_http.post("/v1/namespaces", content=_BODY), 415, "unsupported-media-type")


@pytest.mark.parametrize("media_type", ["Application/JSON", 'application/json; charset="UTF-8"'])
def test_json_may_declare_the_charset_utf_8(shared_http: httpx.Client, media_type: str) -> None:
    body = msgspec.json.encode({"name": new_key()})

    response = shared_http.post("/v1/namespaces", content=body, headers={"Content-Type": media_type})

    assert response.status_code == 201


@pytest.mark.parametrize("body", TWICE)
def test_an_object_with_a_field_twice_is_refused(shared_http: httpx.Client, log: object, body: str) -> None:
    response = shared_http.post("/v1/namespaces", content=body, headers={"Content-Type": "application/json"})

    assert "twice" in refused(response, 400, "invalid-request")["detail"]


def test_colons_in_texts_do_not_count(shared_http: httpx.Client) -> None:
    properties = {"a": ":", "b::": "\\u003a", 'c"': 'd":"e'}
    body = {"name": new_key(), "properties": properties}

    assert succeeded(shared_http.post("/v1/namespaces", json=body))["properties"] == properties


NO_ADDRESSES = (
    "//",
    "//v1/tables",
    "/v1//tables",
    "/v1/tables/",
    "/v1/tables//instants",
    "/v1/tables/../tables",
    "/v1/tables/%2e%2e/tables",
    "/v1%2ftables",
    "/openapi.json/x",
    "/x",
)
SLASHED = (
    "orders%2finstants",
    "orders%2Finstants",
    "orders%252finstants",
    "orders/%2e%2e/orders",
    "orders;a=b",
)


@pytest.mark.parametrize("path", NO_ADDRESSES)
def test_an_empty_or_a_dotted_part_of_a_path_is_not_left_out(
    shared_server: ServerProcess, log: object, path: str
) -> None:
    raw = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    status, body = exchange(shared_server, raw)

    assert (status, msgspec.json.decode(body, type=Problem).code) == (404, "route-not-found")


@pytest.mark.parametrize("slashed", SLASHED)
def test_an_encoded_slash_does_not_part_a_path(
    shared_http: httpx.Client, shared_server: ServerProcess, log: object, slashed: str
) -> None:
    shared_http.post("/v1/namespaces", json={"name": "slashed"})
    shared_http.post("/v1/tables", json=table_body("slashed.orders"))
    raw = f"GET /v1/tables/slashed.{slashed} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()

    status, body = exchange(shared_server, raw)

    problem = msgspec.json.decode(body, type=Problem)
    assert (status, problem.code) in ((400, "invalid-parameter"), (404, "route-not-found"))
    assert problem.instance == f"/v1/tables/slashed.{slashed}"


def test_an_invalid_host_is_refused_at_every_path(shared_server: ServerProcess, log: object) -> None:
    for path in ("/v1/time", "/v1/nothing"):
        raw = f"GET {path} HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n".encode()
        status, body = exchange(shared_server, raw)

        assert (status, msgspec.json.decode(body, type=Problem).code) == (400, "invalid-request")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/tables", "GET, HEAD, OPTIONS, POST"),
        ("/v1/namespaces/a", "DELETE, GET, HEAD, OPTIONS"),
        ("/v1/tables/a.b/instants/20260101000000000/markers", "DELETE, GET, HEAD, OPTIONS, POST"),
        ("/v1/tables/a.b/instants/20260101000000000/complete", "OPTIONS, POST"),
        ("/v1/outcomes/a/b", "GET, HEAD, OPTIONS"),
        ("/", "GET, HEAD, OPTIONS"),
        ("/openapi.json", "GET, HEAD, OPTIONS"),
    ],
)
@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "PATCH", "TRACE", "QUERY"])
def test_a_refused_method_gets_the_allowed_methods(
    shared_http: httpx.Client, log: object, method: str, path: str, allowed: str
) -> None:
    response = shared_http.request(method, path)

    assert response.status_code == (204 if method == "OPTIONS" else 405)
    assert ", ".join(sorted(response.headers["allow"].split(", "))) == allowed


@pytest.mark.parametrize(
    "path",
    ["/", "/metrics", "/openapi.json", "/v1/tables", "/v1/time?a=b", "/v1/namespaces/nothing", "/iceberg/v1/a"],
)
def test_head_is_answered_like_get_without_the_body(shared_http: httpx.Client, log: object, path: str) -> None:
    got, headed = shared_http.get(path), shared_http.head(path)

    assert (headed.status_code, headed.content) == (got.status_code, b"")
    assert headed.headers["content-type"] == got.headers["content-type"]


def test_head_of_a_stream_without_end_ends(server: ServerProcess) -> None:
    raw = b"HEAD /v1/events/stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    figures = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    assert exchange(server, raw) == (200, b"")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while b"\nchronolake_followers 0.0\n" not in exchange(server, figures)[1]:
        assert time.monotonic() < deadline


def test_the_index_names_the_version_and_paths_that_answer(shared_http: httpx.Client) -> None:
    index = shared_http.get("/").json()

    assert (index["name"], index["version"]) == ("chronolake", chronolake.__version__)
    resources = {"api": "/time", "iceberg": "/v1/config"}
    paths = [path + resources.get(name, "") for name, path in index["paths"].items()]
    assert {shared_http.get(path).status_code for path in paths} == {200}
    assert len(paths) == 7
