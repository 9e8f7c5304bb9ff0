"""Decisions of the transport without a server: pauses, addresses, and the reading of answers."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace

import httpx
import pytest
from hypothesis import given, strategies as st

import chronolake
from chronolake import _http, calls, errors
from chronolake_model import operations
from chronolake_model.backoff import Backoff

JITTER = st.floats(0.5, 1.0)
LAKE = _http.Endpoint("http://lake.example", 1, None)


@given(tries=st.integers(0, 10_000), jitter=JITTER)
def test_a_pause_is_bounded(tries: int, jitter: float) -> None:
    assert 0 < Backoff(0.1, 5.0).pause_seconds(tries, jitter) <= 5.0


@given(tries=st.integers(0, 20), jitter=JITTER)
def test_pauses_never_shrink_from_try_to_try(tries: int, jitter: float) -> None:
    backoff = Backoff(0.1, 5.0)

    assert backoff.pause_seconds(tries, jitter) <= backoff.pause_seconds(tries + 1, jitter)


@given(retry_after=st.integers(0, 60))
def test_a_pause_is_never_shorter_than_retry_after(retry_after: int) -> None:
    failure = _http.error_of(response(503, b"busy", {"Retry-After": str(retry_after)}))
    assert isinstance(failure, errors.ServerUnavailable)

    pause = _http.Retries(LAKE, 1_000).pause_after(failure)

    assert pause is not None
    assert retry_after < pause <= retry_after + 0.1


def test_without_time_to_retry_the_first_failure_is_the_last() -> None:
    assert _http.Retries(LAKE, 0).pause_after(errors.ConnectionFailed("no")) is None


def test_a_server_that_never_answered_is_given_little_time_and_then_much() -> None:
    new = _http.Endpoint("http://never-asked.example", 1, None)
    given_by_caller = _http.Endpoint("http://never-asked.example", 1, 30)
    before = new.patience_seconds

    new.answered()

    assert (before, new.patience_seconds) == (5, 60)
    assert given_by_caller.patience_seconds == 30


def test_a_failure_has_advice_until_the_server_has_answered() -> None:
    server = _http.Endpoint("http://answers-once.example", 1, None)

    first = failure_of(server, httpx.ConnectError("Connection refused"))
    server.answered()
    later = failure_of(server, httpx.ConnectError("Connection refused"))

    assert "chronolake-metastore serve" in str(first)
    assert str(later) == "no answer from http://answers-once.example: Connection refused"
    assert not first.is_final


def test_the_last_failure_says_for_how_long_it_was_retried_and_a_warning_came_before(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((0.0, 1.0, 2.0, 3.0, 58.0))
    monkeypatch.setattr(_http, "time", SimpleNamespace(monotonic=lambda: next(times)))
    retries = _http.Retries(_http.Endpoint("http://gone.example", 1, 58))
    failure = errors.ConnectionFailed("no answer")
    pauses = [retries.pause_after(failure) for _ in range(4)]

    assert (pauses[0] is None, pauses[-1]) == (False, None)
    assert str(failure) == "no answer (retried for 58 s; retry_seconds of the client sets how long)"
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_an_unknown_host_is_not_tried_again_unless_the_caller_gave_a_time() -> None:
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    hasty = _http.Endpoint("http://unknown.example", 1, None)
    patient = _http.Endpoint("http://unknown.example", 1, 60)

    assert failure_of(hasty, httpx.ConnectError("unknown"), unknown).is_final
    assert not failure_of(patient, httpx.ConnectError("unknown"), unknown).is_final
    assert _http.Retries(hasty).pause_after(failure_of(hasty, httpx.ConnectError("unknown"), unknown)) is None


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_tls_to_a_port_without_it_is_not_tried_again() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with chronolake.connect_async(f"https://127.0.0.1:{port}", retry_seconds=60) as client:
            with pytest.raises(errors.ConnectionFailed, match="give its URL as http://") as refused:
                await client.time()

    assert refused.value.is_final


@pytest.mark.parametrize("url", ["127.0.0.1:7077", "ftp://host", "http://", "nonsense"])
def test_an_invalid_url_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(ValueError, match="http://host:port"):
        _http.endpoint_of(url, 1, 1)


def test_the_url_is_the_argument_or_the_environment_or_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHRONOLAKE_URL", raising=False)
    assert _http.endpoint_of(None, 1, 1).url == "http://127.0.0.1:7077"
    monkeypatch.setenv("CHRONOLAKE_URL", "https://lake.example/base/")
    assert _http.endpoint_of(None, 1, 1).url == "https://lake.example/base"
    assert _http.endpoint_of("http://other:1", 1, 1).url == "http://other:1"


@pytest.mark.parametrize(
    ("url", "is_encrypted"),
    [("https://h", True), ("HTTPS://h", True), ("http://h", False), ("HTTP://h", False)],
)
def test_certificates_are_checked_where_there_are_any(url: str, is_encrypted: bool) -> None:
    assert _http.endpoint_of(url, 1, 1).trusted is is_encrypted


def test_fields_that_only_a_newer_server_knows_are_ignored() -> None:
    answer = response(200, b'{"earliest": "a", "latest": "b", "uncertainty_us": 3}')

    assert _http.answer_of(calls.call(operations.catalog.GET_TIME), answer).latest == "b"


def test_a_page_of_another_server_is_an_error_that_shows_the_page() -> None:
    with pytest.raises(errors.ServerError, match="Welcome to nginx") as caught:
        _http.answer_of(calls.call(operations.catalog.GET_TIME), response(200, b"<h1>Welcome to nginx</h1>"))

    assert caught.value.code == errors.UNEXPECTED_ANSWER


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_gateway_that_cannot_reach_the_server_is_the_server_unavailable(status: int) -> None:
    with pytest.raises(errors.ServerUnavailable) as caught:
        _http.answer_of(
            calls.call(operations.catalog.GET_TIME), response(status, b"<html>", {"Retry-After": "7"})
        )

    assert caught.value.retry_after_seconds == 7


def test_a_404_that_is_no_problem_document_is_not_taken_for_a_missing_table() -> None:
    with pytest.raises(errors.ServerError, match="is it a Chronolake server"):
        _http.answer_of(calls.call(operations.catalog.GET_TABLE, "shop.orders"), response(404, b"not found"))


def response(status: int, content: bytes, headers: dict[str, str] | None = None) -> httpx.Response:
    request = httpx.Request("GET", "http://127.0.0.1:7077/v1/time")
    return httpx.Response(status, headers=headers, content=content, request=request)


def test_unknown_fields_of_a_newer_server_are_ignored() -> None:
    known = chronolake.SchemaField("id", "bigint", field_id=1)
    content = (
        b'{"name": "a.b", "table_id": "x", "metastore_id": "m", "base_path": "p", "type": "copy_on_write",'
        b' "record_key_fields": [],'
        b' "partition_fields": [], "ordering_field": null, "tick": "1ms", "properties": {}, "colour": "red",'
        b' "created_at": "2026-01-01T00:00:00Z", "index": {"type": "bucket", "buckets": 4, "salt": 1},'
        b' "schema": [{"name": "id", "type": "bigint", "nullable": true, "field_id": 1, "comment": "the"}],'
        b' "schema_version": 1}'
    )

    definition = _http.answer_of(calls.call(operations.catalog.GET_TABLE, "a.b"), response(200, content))

    assert definition.schema == [known]
    assert definition.index == chronolake.BucketIndex(buckets=4)


def failure_of(
    server: _http.Endpoint, exc: httpx.TransportError, cause: OSError | None = None
) -> errors.ConnectionFailed:
    with pytest.raises(errors.ConnectionFailed) as failed, _http.connection_failures(server):
        raise exc from cause
    return failed.value


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_token_for_this_machine_is_not_sent_to_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requested.append((await reader.readline()).decode().split()[1])
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        monkeypatch.setenv("HTTP_PROXY", url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        async with chronolake.connect_async(url, token="x" * 40, retry_seconds=0) as client:
            with pytest.raises(errors.ChronolakeError):
                await client.time()

    # A client asks a proxy for a whole URL, and a server for a path.
    assert requested == ["/v1/time"]
