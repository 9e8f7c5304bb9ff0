"""The bound on every answer: when it is not begun in time, the server answers 503 instead."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from chronolake_metastore import telemetry
from chronolake_metastore.api import problems
from chronolake_metastore.api.parameters import KEY_HEADER
from chronolake_model.problems import MEDIA_TYPE, ProblemCode, problem

ADVICE: Final = (
    "the server could not answer in time; send the request again, with the same idempotency key: a command "
    "that was carried out meanwhile gets its first answer then"
)

_log = telemetry.logger(__name__)


def answered_in_time(app: ASGIApp, seconds: float) -> ASGIApp:
    """``app``, whose requests are answered 503 when no answer has begun so long after their last byte.

    What the request asked for goes on: a command may be carried out all the same. Answers that have begun,
    such as streams, may take as long as they need.
    """

    async def bounded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, seconds)
        try:
            await app(scope, exchange.receive, exchange.send)
        finally:
            await exchange.close()

    return bounded


class _Exchange:
    """One request and its answer, of which whoever comes first begins it: the handler or the deadline."""

    def __init__(self, scope: HTTPScope, receive: Receive, send: Send, seconds: float) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._seconds = seconds
        self._has_begun = False
        self._refusing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._receiving: asyncio.Timeout | None = None
        if not _has_body(scope):
            self._set_timer()

    async def receive(self) -> Any:
        """The next part of the request; behind its last part the time runs.

        When the deadline has answered, the client is gone as far as the handler is concerned.
        """
        if self._refusing is not None:
            return {"type": "http.disconnect"}
        try:
            async with asyncio.timeout(None) as self._receiving:
                message = await self._receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        finally:
            self._receiving = None
        if self._timer is None and message["type"] == "http.request" and not message.get("more_body"):
            self._set_timer()
        return message

    async def send(self, message: Message) -> None:
        """Pass a part of the handler's answer on, unless the deadline has answered."""
        if self._refusing is not None:
            return
        self._has_begun = True
        self._end_timer()
        await self._send(message)

    async def close(self) -> None:
        """The handler has ended."""
        self._end_timer()
        if self._refusing is not None:
            await self._refusing

    def _set_timer(self) -> None:
        if not self._has_begun:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._refuse)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _refuse(self) -> None:
        if self._receiving is not None:
            self._receiving.reschedule(asyncio.get_running_loop().time())
        self._refusing = asyncio.get_running_loop().create_task(self._answer())

    async def _answer(self) -> None:
        path = self._scope["path"]
        _log.warning("answered too late", method=self._scope["method"], path=path, seconds=self._seconds)
        key = problems.noted_key(self._scope)
        code = ProblemCode.DATABASE_UNAVAILABLE
        document = problem(code, ADVICE, path, {"seconds": self._seconds}, idempotency_key=key)
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"retry-after", problems.RETRY_AFTER_SECONDS.encode()),
            *([] if key is None else [(KEY_HEADER.lower().encode(), key.encode())]),
        ]
        await self._send({"type": "http.response.start", "status": code.status, "headers": headers})
        await self._send(
            {"type": "http.response.body", "body": msgspec.json.encode(document), "more_body": False}
        )


def _has_body(scope: HTTPScope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and length != b"0")
        for name, length in scope["headers"]
    )
