"""Bounds for callers: by subject for known ones, by the address of their connection for strangers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from typing_extensions import override

import chronolake
from chronolake_metastore import errors
from chronolake_metastore.api import identification
from chronolake_metastore.api.bounds import SMALL_BYTES_MAX, with_bounded_bodies
from chronolake_metastore.domain import tokens
from chronolake_metastore.domain.subjects import ADMIN, Reason, Subject
from chronolake_metastore.identification import rates
from chronolake_metastore.identification.identifier import UNKNOWN_PER_SECOND, Identifier
from chronolake_metastore.identification.rates import BoundedRate
from chronolake_metastore.identification.tokens import TokenVerifier
from chronolake_metastore.metrics import Metrics
from tests.server import access
from tests.server.access import AccessServer
from tests.server.rest import refused, succeeded

KNOWN = "clk_known"


@pytest.fixture(scope="module")
def server(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccessServer]:
    flags = ("--requests-per-second", "1", "--followers-per-client-max", "1")
    with access.running(shared_dsn, tmp_path_factory.mktemp("access"), *flags) as server:
        yield server


# Rates


def test_a_quiet_caller_may_send_the_requests_of_ten_seconds_at_once() -> None:
    now = 0.0
    rate = BoundedRate(2.0, lambda: now)

    def sent() -> int:
        number = 0
        while not rate.seconds_until_free("a"):
            rate.count("a")
            number += 1
        return number

    assert sent() == 20
    assert rate.seconds_until_free("a") == 0.5
    assert rate.seconds_until_free("b") == 0.0
    now = 1.0
    assert sent() == 2
    now = 1_000.0
    assert sent() == 20


def test_the_callers_that_a_rate_remembers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "CALLERS_MAX", 2)
    rate = BoundedRate(0.01, lambda: 0.0)
    for caller in ("a", "b", "a", "c"):
        rate.count(caller)
    assert [bool(rate.seconds_until_free(caller)) for caller in "abc"] == [True, False, True]


class Source(TokenVerifier):
    """Tokens of which one is known; the others cost a read each."""

    def __init__(self) -> None:
        self.reads = 0

    @override
    async def identify(self, text: str) -> Subject:
        if text == KNOWN:
            return Subject("token:known")
        self.reads += 1
        await asyncio.sleep(0)
        raise errors.Unauthenticated(Reason.UNKNOWN_TOKEN)

    @override
    def remembers(self, text: str) -> bool:
        return text == KNOWN


def test_an_address_with_many_unknown_tokens_costs_no_more_reads() -> None:
    source = Source()
    identifier = Identifier(tokens=source)

    async def ask(token: str, address: str | None) -> type[Exception] | None:
        try:
            await identifier.identify(token, address)
        except errors.TimelineError as exc:
            return type(exc)
        return None

    async def run() -> None:
        await asyncio.gather(*(ask("clk_unknown", "a") for _ in range(1_000)))
        assert await ask("clk_unknown", "a") is errors.RateLimited
        assert source.reads < 2 * UNKNOWN_PER_SECOND * rates.SECONDS
        assert await ask("clk_unknown", "b") is errors.Unauthenticated
        assert await ask(KNOWN, "a") is None
        # The caller of a stream is asked for again without an address: a revoked token must end it.
        assert await ask("clk_unknown", None) is errors.Unauthenticated

    asyncio.run(run())


@pytest.mark.parametrize("header", [b"x-forwarded-for", b"forwarded", b"x-real-ip"])
def test_a_request_beyond_the_rate_of_its_subject_is_answered_before_its_body_is_read(header: bytes) -> None:
    answered = send_twice(Subject("token:a"), header)
    assert [status for status, _ in answered] == [200, 429]
    assert answered[1][1][b"retry-after"] == b"100"
    assert [status for status, _ in send_twice(ADMIN, header)] == [200, 200]


class Known(Identifier):
    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.subject = subject

    @override
    def known(self, token: str) -> None:
        return None

    @override
    async def identify(self, token: str, address: str | None = None) -> Subject:
        return self.subject


def send_twice(subject: Subject, header: bytes) -> list[tuple[int, dict[bytes, bytes]]]:
    """The answers to two requests at a rate of one in a hundred seconds, from two addresses."""
    starts: list[Any] = []

    async def ok(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            starts.append((message["status"], dict(message["headers"])))

    app = identification.with_callers(ok, Known(subject), Metrics(), 0.01)
    for address in ("127.0.0.1", "127.0.0.2"):
        headers = [(b"authorization", b"Bearer x"), (header, address.encode()), (b"content-length", b"9")]
        scope: Any = {
            "type": "http",
            "method": "POST",
            "path": "/v1/tables",
            "raw_path": b"/v1/tables",
            "state": {},
        }
        asyncio.run(app({**scope, "headers": headers, "client": (address, 1)}, receive, send))  # type: ignore[arg-type]
    return starts


async def _awaited(answering: Awaitable[None]) -> None:
    await answering


def test_a_client_waits_for_its_rate_and_goes_on(server: AccessServer) -> None:
    caller = server.caller("fast")
    answers = (caller.http.get("/v1/tables") for _ in itertools.count())
    answer = next(answer for answer in answers if answer.status_code != 200)
    assert refused(answer, 429, "rate-limited")["context"] == {"of": "subject", "retry_after_seconds": 1}
    assert answer.headers["Retry-After"] == "1"

    token = caller.http.headers["authorization"].removeprefix("Bearer ")
    with chronolake.connect(server.process.url, token=token) as client:
        assert list(client.tables()) == []
    for _ in range(30):
        succeeded(server.admin.get("/v1/tables"))


def test_an_address_that_floods_a_server_with_tokens_keeps_no_known_caller_out(server: AccessServer) -> None:
    caller = server.caller("known")
    succeeded(caller.http.get("/v1/tables"))
    stranger = server.client(None)
    answers = (
        stranger.get(
            "/v1/tables",
            headers={
                "authorization": f"Bearer {tokens.text_of(tokens.new_id(b'%7d' % number), b'x' * 32)}",
                "x-forwarded-for": f"10.0.0.{number}",
            },
        )
        for number in range(5_000)
    )
    answer = next(answer for answer in answers if answer.status_code != 401)
    assert refused(answer, 429, "rate-limited")["context"]["of"] == "address"
    succeeded(caller.http.get("/v1/tables"))
    assert 'chronolake_rate_limited_total{of="address"}' in server.admin.get("/metrics").text


# Other bounds


def test_streams_are_bounded_by_subject_and_not_by_address(server: AccessServer) -> None:
    first, second = server.caller("first", **{"*": "reader"}), server.caller("second", **{"*": "reader"})

    def stream(caller: access.Caller, address: str) -> httpx.Response:
        transport = httpx.HTTPTransport(local_address=address, verify=False)
        http = httpx.Client(base_url=server.process.url, headers=caller.http.headers, transport=transport)
        return stack.enter_context(stack.enter_context(http).stream("GET", "/v1/events/stream"))

    with ExitStack() as stack:
        assert stream(first, "127.0.0.1").status_code == 200
        assert stream(second, "127.0.0.1").status_code == 200
        too_many = stream(first, "127.0.0.2")
        too_many.read()
        refused(too_many, 429, "too-many-streams")


def test_bodies_are_bounded_by_subject_and_not_by_address() -> None:
    async def run() -> list[str]:
        results = []
        reading = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            reading.set()
            await asyncio.Event().wait()

        async def receive() -> Any:
            return {"type": "http.request", "body": b"x" * 50, "more_body": True}

        async def refuse_large_of(_: Subject) -> None:
            """Refuse nobody: no body is large here."""

        bounded = with_bounded_bodies(app, 100, refuse_large_of)
        requests = []
        for subject, address in (("a", "1"), ("b", "1"), ("a", "2")):
            scope: Any = {"type": "http", "headers": [(b"content-length", b"50")], "client": (address, 1)}
            reading.clear()
            request = asyncio.ensure_future(
                bounded({**scope, "user": Subject(f"token:{subject}")}, receive, app)  # type: ignore[arg-type]
            )
            held = asyncio.ensure_future(reading.wait())
            await asyncio.wait((request, held), return_when=asyncio.FIRST_COMPLETED)
            results.append("refused" if request.done() else "held")
            requests += [request, held]
        for task in requests:
            task.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        return results

    assert asyncio.run(run()) == ["held", "held", "refused"]


def test_a_caller_without_a_role_sends_no_large_body(server: AccessServer) -> None:
    stranger = server.caller("roleless")
    reader = server.caller("reader", other="reader")
    large = b'{"checks": [' + b" " * SMALL_BYTES_MAX + b"]}"
    json_type = {"content-type": "application/json"}

    def ask(caller: access.Caller, body: bytes | Iterator[bytes]) -> httpx.Response:
        return caller.http.post("/v1/can-i", content=body, headers=json_type)

    for body in (large, iter([large])):
        assert "has no role" in refused(ask(stranger, body), 403, "forbidden")["detail"]
    refused(ask(stranger, large[-1_000:]), 400, "invalid-request")
    for body in (large, iter([large])):
        refused(ask(reader, body), 400, "invalid-request")
