"""A log line for each answered request."""

from __future__ import annotations

import time

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from chronolake_metastore import telemetry
from chronolake_metastore.settings import RequestLog

_KEY = b"idempotency-key"

_log = telemetry.logger(__name__)


def logged(app: ASGIApp, level: RequestLog) -> ASGIApp:
    """``app``, whose requests are logged at ``level``; ``app`` itself when they are not."""
    match level:
        case RequestLog.OFF:
            return app
        case RequestLog.DEBUG:
            tell = _log.debug
        case RequestLog.INFO:
            tell = _log.info

    async def logging(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await app(scope, receive, send)
            return
        started = time.monotonic()
        answered: dict[str, object] = {}

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                key = next((value for name, value in message["headers"] if name.lower() == _KEY), None)
                answered["status"] = message["status"]
                answered["request_id"] = None if key is None else key.decode("latin-1")
            await send(message)

        try:
            await app(scope, receive, noting)
        finally:
            ms = round((time.monotonic() - started) * 1_000, 1)
            tell("request", method=scope["method"], path=scope["path"], ms=ms, **answered)

    return logging
