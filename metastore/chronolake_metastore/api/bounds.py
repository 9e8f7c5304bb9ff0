"""The bounds on every request: its time, and the bytes of bodies that a server holds.

A body that comes too slowly is answered 408, a late answer is 503, and a body that does not fit is 503.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from chronolake_metastore import errors, telemetry
from chronolake_metastore.api import early_answers
from chronolake_metastore.api.identification import bounded_caller, subject_of
from chronolake_metastore.domain.subjects import Subject
from chronolake_model.problems import ProblemCode

ADVICE: Final = (
    "the server could not answer in time; send the request again with the same idempotency key: if the command "
    "was executed meanwhile, you get its first answer"
)

BODY_BYTES_PER_SECOND: Final = 64 * 1024
"""The least rate of a body, in addition to the answer time."""

_log = telemetry.logger(__name__)


def with_deadlines(app: ASGIApp, seconds: float) -> ASGIApp:
    """``app``, whose requests are answered 503 when no answer has begun ``seconds`` after their last byte.

    The handler continues, so a command may still be executed. Answers that have begun, such as streams, may
    take as long as they need. A request whose body is not complete after ``seconds``, and a second more for
    each ``BODY_BYTES_PER_SECOND`` that came, is answered 408: nothing of it was done.
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
    """One request and its answer, which either the handler begins or a deadline, the first of them."""

    def __init__(self, scope: HTTPScope, receive: Receive, send: Send, seconds: float) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._body_bytes = 0
        self._is_whole = not _has_body(scope)
        self._whole_at = self._start
        self._has_begun = False
        self._refusing: asyncio.Task[None] | None = None
        self._receiving: asyncio.Task[Any] | None = None
        self._interrupted: asyncio.Task[Any] | None = None
        self._timer = self._loop.call_at(self._start + seconds, self._check)

    async def receive(self) -> Any:
        """The next part of the request; after its last part the time of the answer runs.

        After a deadline has answered, the handler sees a disconnected client.
        """
        if self._refusing is not None:
            return {"type": "http.disconnect"}
        # As asyncio.timeout does it, without the two coroutines that it adds to each request.
        self._receiving = asyncio.current_task()
        try:
            message = await self._receive()
        except asyncio.CancelledError:
            if self._interrupted is None or self._interrupted.uncancel() > 0:
                raise
            return {"type": "http.disconnect"}
        finally:
            self._receiving = None
        if message["type"] == "http.request":
            self._body_bytes += len(message.get("body", b""))
            if not self._is_whole and not message.get("more_body"):
                # The timer that runs finds this time when it ends: another timer would cost each request more.
                self._is_whole = True
                self._whole_at = self._loop.time()
        return message

    async def send(self, message: Message) -> None:
        """Pass a part of the handler's answer on, unless a deadline has answered."""
        if self._refusing is not None:
            return
        self._has_begun = True
        self._timer.cancel()
        await self._send(message)

    async def close(self) -> None:
        """The handler has ended."""
        self._timer.cancel()
        if self._refusing is not None:
            await self._refusing

    def _check(self) -> None:
        """Refuse the request, unless more of it came meanwhile and gives it more time."""
        until = (
            self._whole_at + self._seconds
            if self._is_whole
            else self._start + self._seconds + self._body_bytes / BODY_BYTES_PER_SECOND
        )
        if until > self._loop.time():
            self._timer = self._loop.call_at(until, self._check)
        else:
            self._refuse(self._answer_late() if self._is_whole else self._answer_slow())

    def _refuse(self, answer: Coroutine[Any, Any, None]) -> None:
        if self._receiving is not None:
            self._interrupted = self._receiving
            self._interrupted.cancel()
        self._refusing = self._loop.create_task(answer)

    async def _answer_late(self) -> None:
        path = self._scope["path"]
        _log.warning("answered too late", method=self._scope["method"], path=path, seconds=self._seconds)
        context, header = {"seconds": self._seconds}, early_answers.RETRY_AFTER
        code = ProblemCode.DATABASE_UNAVAILABLE
        await early_answers.refuse(self._scope, self._send, code, ADVICE, header=header, context=context)

    async def _answer_slow(self) -> None:
        path, came = self._scope["path"], self._body_bytes
        _log.warning("a body came too slowly", method=self._scope["method"], path=path, body_bytes=came)
        detail = (
            f"{came} bytes of the body arrived in {self._loop.time() - self._start:.0f} s, so the request was "
            f"not executed; a body has {self._seconds:g} s, and one more second for each "
            f"{BODY_BYTES_PER_SECOND} bytes"
        )
        context, header = {"body_bytes": came}, (b"connection", b"close")
        code = ProblemCode.BODY_TOO_SLOW
        await early_answers.refuse(self._scope, self._send, code, detail, header=header, context=context)


def _has_body(scope: HTTPScope) -> bool:
    for name, length in scope["headers"]:
        if name == b"transfer-encoding" or (name == b"content-length" and length != b"0"):
            return True
    return False


SMALL_BYTES_MAX: Final = 1024 * 1024
"""A body with a stated length up to this counts as small. Large bodies cannot block small ones."""


def with_bounded_bodies(
    app: ASGIApp, bytes_max: int, refuse_large_of: Callable[[Subject], Awaitable[None]]
) -> ASGIApp:
    """``app``, which holds ``bytes_max`` of small bodies at a time, and as many of large ones.

    A body counts from its first byte until its request is answered: while it is read and decoded, and while its
    command waits in the queue. If the client says how long a body is, one that does not fit is refused unread.
    One caller holds half of either at most. A request beyond that is answered 503 (``overloaded``).
    ``refuse_large_of`` raises an error for a caller that may send no large ones.
    """
    small, large = Budget("small", bytes_max), Budget("large", bytes_max)

    async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await app(scope, receive, send)
            return
        length = _length_of(scope)
        budget = small if length is not None and length <= SMALL_BYTES_MAX else large
        body = _Body(budget, scope, length, receive, refuse_large_of)
        try:
            await app(scope, body.receive, send)
        finally:
            body.release()

    return admitted


class Budget:
    """Bytes that bodies of one kind hold, in all and by caller."""

    def __init__(self, name: str, bytes_max: int) -> None:
        self._name = name
        self._bytes_max = bytes_max
        self._held = 0
        self._held_by: Counter[str] = Counter()

    def refuse_beyond(self, caller: str, size_bytes: int) -> None:
        """Raise ``Overloaded`` unless ``size_bytes`` bytes of the caller fit."""
        if self._held_by[caller] + size_bytes > self._per_caller_max:
            raise errors.Overloaded(
                f"{self._name} requests of {caller} under way have {self._held_by[caller]} bytes already, "
                f"and one caller may have {self._per_caller_max}; send this one again later"
            )
        if self._held + size_bytes > self._bytes_max:
            raise errors.Overloaded(
                f"{self._name} requests under way have {self._held} bytes already, of {self._bytes_max}; send "
                "this one again later"
            )

    def reserve(self, caller: str, size_bytes: int) -> None:
        """Hold ``size_bytes`` bytes; raises ``Overloaded``."""
        self.refuse_beyond(caller, size_bytes)
        self._held += size_bytes
        self._held_by[caller] += size_bytes

    def release(self, caller: str, held: int) -> None:
        """Return the bytes ``held`` for ``caller``."""
        self._held -= held
        self._held_by[caller] -= held
        if not self._held_by[caller]:
            del self._held_by[caller]

    @property
    def _per_caller_max(self) -> int:
        return self._bytes_max // 2


class _Body:
    """The body of one request, as it comes."""

    def __init__(
        self,
        budget: Budget,
        scope: HTTPScope,
        length: int | None,
        receive: Receive,
        refuse_large_of: Callable[[Subject], Awaitable[None]],
    ) -> None:
        self._budget = budget
        self._scope = scope
        self._caller = bounded_caller(scope)
        self._length = length
        self._receive = receive
        self._refuse_large_of = refuse_large_of
        self._is_large = False
        self._held = 0
        self._has_begun = False

    async def receive(self) -> Any:
        """The next part of the request; raises ``Overloaded``, before the first part if possible.

        A large body is refused so, too, if the caller may send none.
        """
        if not self._has_begun and self._length is not None:
            self._budget.refuse_beyond(self._caller, self._length)
            await self._admit(self._length, has_more=True)
        self._has_begun = True
        message = await self._receive()
        if message["type"] == "http.request" and (part := len(message.get("body", b""))):
            self._budget.reserve(self._caller, part)
            self._held += part
            await self._admit(self._held, has_more=bool(message.get("more_body")))
        return message

    async def _admit(self, size_bytes: int, *, has_more: bool) -> None:
        if size_bytes <= SMALL_BYTES_MAX or self._is_large:
            return
        self._is_large = True
        try:
            await self._refuse_large_of(subject_of(self._scope))
        except errors.Forbidden:
            # A client that is still sending would lose the answer with the connection.
            while has_more:
                message = await self._receive()
                has_more = message["type"] == "http.request" and bool(message.get("more_body"))
            raise

    def release(self) -> None:
        """The request is answered."""
        if self._held:
            self._budget.release(self._caller, self._held)
            self._held = 0


def _length_of(scope: HTTPScope) -> int | None:
    """The length that the client says; none for a body in chunks."""
    for name, length in scope["headers"]:
        if name == b"content-length":
            return int(length) if length.isdigit() else None
        if name == b"transfer-encoding":
            return None
    return 0
