"""The address of a request: each part of the path is decoded by itself, so that parts stay parts.

A server that decodes the whole path first takes ``orders%2Finstants`` for two parts, and routes it elsewhere.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import quote, unquote

from litestar import Litestar
from litestar.enums import HttpMethod, ScopeType
from litestar.routes import HTTPRoute
from litestar.types import (
    HTTPScope,
    LifeSpanReceive,
    LifeSpanScope,
    LifeSpanSend,
    Message,
    Receive,
    Scope,
    Send,
)

_ENCODED_SLASH: Final = re.compile(rb"%2[fF]")
_KEYS: Final = b"/v1/outcomes/"
"""Below this, the rest of the path is one idempotency key, which may hold slashes in any place."""
_NOWHERE: Final = "/.."
"""A path that no route has."""
_SAFE: Final = "/%:@!$&'()*+,;=~-._"


class Application(Litestar):
    """Litestar, which routes by the parts of the path as they were sent."""

    end_streams: Callable[[], None]
    """Ends the streams of events, which never end by themselves."""

    async def __call__(  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        self,
        scope: Scope | LifeSpanScope,
        receive: Receive | LifeSpanReceive,
        send: Send | LifeSpanSend,
    ) -> None:
        """Serve one request."""
        if scope["type"] == ScopeType.HTTP:
            http = cast("HTTPScope", scope)
            http["path"] = _path(http["raw_path"], http["path"])
            if http["method"] == HttpMethod.OPTIONS:
                send = self._allowing_all_methods(http, cast("Send", send))
        await super().__call__(scope, receive, send)

    def _allowing_all_methods(self, scope: HTTPScope, send: Send) -> Send:
        """Have ``OPTIONS`` tell all methods of a path: Litestar tells those of one handler."""

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start" and "path_template" in scope:
                allowed = ", ".join(sorted(self._methods()[scope["path_template"]])).encode()
                headers = [pair for pair in message["headers"] if pair[0].lower() != b"allow"]
                message["headers"] = [*headers, (b"allow", allowed)]
            await send(message)

        return telling

    def _methods(self) -> dict[str, set[str]]:
        """The methods that each path takes, by its template."""
        methods: dict[str, set[str]] = defaultdict(set)
        for route in self.routes:
            if isinstance(route, HTTPRoute):
                methods[route.path_format] |= route.methods
        return methods


def sent(scope: Scope) -> str:
    """The path as it was sent, percent-encoded, so that it is always a valid reference to a URI."""
    return quote(scope["raw_path"], safe=_SAFE)


def _path(raw: bytes, decoded: str) -> str:
    """The path to route by. An encoded slash stays encoded, which no name and no time may hold."""
    if not raw.startswith(b"/"):
        return _NOWHERE
    if (b"//" in raw or raw.endswith(b"/")) and not raw.startswith(_KEYS):
        # An empty part is a parameter that was left empty, and not the list that the path without it is.
        return _NOWHERE
    if _ENCODED_SLASH.search(raw) is None:
        return decoded
    return unquote(_ENCODED_SLASH.sub(b"%252F", raw).decode(errors="replace"))
