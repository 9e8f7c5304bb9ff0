"""The identification of callers, before one byte of a request's body is read (RFC 6750)."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Final

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from chronolake_metastore import errors, telemetry
from chronolake_metastore.api import early_answers, parameters, problems
from chronolake_metastore.domain.subjects import ANONYMOUS, Reason, Subject, bounded_name
from chronolake_metastore.identification import rates
from chronolake_metastore.identification.identifier import Identifier
from chronolake_metastore.identification.rates import BoundedRate
from chronolake_metastore.metrics import Metrics
from chronolake_model.problems import ProblemCode

CHALLENGE: Final = 'Bearer realm="chronolake"'
OPEN_PATHS: Final = frozenset({b"/health", b"/ready", b"/docs", b"/openapi.json"})
"""These, exactly, need no caller for GET and HEAD."""
_CHALLENGED: Final = (b"www-authenticate", CHALLENGE.encode())
STREAM_CHECK_SECONDS: Final = 2.0
"""How old the identification of the caller of a stream may be when a part of it is sent."""

_log = telemetry.logger(__name__)


def with_callers(
    app: ASGIApp, identifier: Identifier | None, metrics: Metrics, requests_per_second: float = 0.0
) -> ASGIApp:
    """``app``, whose requests have a known caller. Without an ``identifier`` it is ``app`` itself.

    A request without one is answered 401, the same for every reason, and one of a subject beyond its rate 429;
    nothing of its body is read. A stream whose caller is no longer known is cut off.
    """
    if identifier is None:
        return app
    requests = BoundedRate(requests_per_second) if requests_per_second else None

    async def identified(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or _is_open(scope):
            await app(scope, receive, send)
            return
        try:
            token = _token_of(scope)
            subject = identifier.known(token) or await identifier.identify(token, _address_of(scope))
            if requests is not None and not subject.is_unlimited:
                _count(requests, subject)
        except (errors.Unauthenticated, errors.Unavailable) as exc:
            if isinstance(exc, errors.Unauthenticated):
                metrics.unauthenticated.labels(exc.reason).inc()
                _log.debug("a caller is unknown", reason=exc.reason, method=scope["method"], path=scope["path"])
            elif isinstance(exc, errors.RateLimited):
                metrics.rate_limited.labels(exc.context["of"]).inc()
            await _refuse(scope, exc, send)
            return
        except Exception as exc:
            # The handlers of errors are those of the application, which has not been called.
            path = parameters.path_as_sent(scope)
            _log.error("request failed", method=scope["method"], path=path, exc_info=exc)
            await early_answers.refuse(scope, send, ProblemCode.INTERNAL_ERROR, problems.BUG)
            return
        scope["user"] = subject
        await app(scope, receive, _WatchedStream(identifier, token, send).send)

    return identified


def subject_of(scope: Scope) -> Subject:
    """The caller of a request; ``ANONYMOUS`` if it was not identified."""
    subject: Subject = scope.get("user") or ANONYMOUS
    return subject


def bounded_caller(scope: Scope) -> str:
    """The caller of a request as bounds count it (``subjects.bounded_name``)."""
    return bounded_name(subject_of(scope), _address_of(scope))


def _address_of(scope: Scope) -> str:
    client = scope.get("client")
    return "unknown" if client is None else client[0]


class CallerLost(ConnectionError):
    """The caller of a stream is no longer known. To its handler it looks like a client that has left."""


class _WatchedStream:
    """The answer to one request. Its caller is identified again while parts of it are sent."""

    def __init__(self, identifier: Identifier, token: str, send: Send) -> None:
        self._identifier = identifier
        self._token = token
        self._send = send
        self._identified_at = time.monotonic()

    def send(self, message: Message) -> Awaitable[None]:
        """Send a part; raises ``CallerLost``."""
        # Only bodies have more.
        if message.get("more_body") and time.monotonic() - self._identified_at >= STREAM_CHECK_SECONDS:
            return self._send_to_identified(message)
        # Without a coroutine of its own, which each part of each answer would pay for.
        return self._send(message)

    async def _send_to_identified(self, message: Message) -> None:
        await self._identify()
        await self._send(message)

    async def _identify(self) -> None:
        try:
            await self._identifier.identify(self._token)
        except errors.Unauthenticated as exc:
            _log.info("a stream was cut off, because its caller is no longer known", reason=exc.reason)
            raise CallerLost from exc
        except errors.Unavailable:
            # Without the database there is nothing new to send either.
            pass
        self._identified_at = time.monotonic()


def _is_open(scope: HTTPScope) -> bool:
    return scope["raw_path"] in OPEN_PATHS and scope["method"] in ("GET", "HEAD")


def _token_of(scope: HTTPScope) -> str:
    """The bearer token of a request; raises ``Unauthenticated``."""
    sent = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            if sent is not None:
                # Two headers: a proxy and the server could read different ones.
                raise errors.Unauthenticated(Reason.NOT_BEARER)
            sent = value
    if sent is None:
        raise errors.Unauthenticated(Reason.NO_TOKEN)
    scheme, _, token = sent.strip().partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token or not token.isascii() or b" " in token:
        raise errors.Unauthenticated(Reason.NOT_BEARER)
    return token.decode()


def _count(requests: BoundedRate, subject: Subject) -> None:
    """Count a request of a subject; raises ``RateLimited``."""
    if seconds := requests.seconds_until_free(subject.name):
        raise rates.rate_limited("subject", f"{subject.name} sends more requests than it may", seconds)
    requests.count(subject.name)


async def _refuse(scope: HTTPScope, exc: errors.TimelineError, send: Send) -> None:
    match exc:
        case errors.Unauthenticated():
            header = _CHALLENGED
        case errors.RateLimited():
            header = (b"retry-after", b"%d" % exc.context["retry_after_seconds"])
        case _:
            header = early_answers.RETRY_AFTER
    await early_answers.refuse(scope, send, exc.code, exc.detail, header=header, context=exc.context)
