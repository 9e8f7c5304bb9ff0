"""The application: Litestar, with the path of a request as it was sent, and with the fast path before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import cast

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

from chronolake_metastore.api import addresses
from chronolake_metastore.api.fast_path import FastPath


class Application(Litestar):
    """Litestar, which routes by the parts of the path as they were sent."""

    end_streams: Callable[[], None]
    """Ends the streams of events, which never end by themselves."""
    fast_path: FastPath | None = None

    async def __call__(  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        self,
        scope: Scope | LifeSpanScope,
        receive: Receive | LifeSpanReceive,
        send: Send | LifeSpanSend,
    ) -> None:
        """Serve one request."""
        if scope["type"] == ScopeType.HTTP:
            http = cast("HTTPScope", scope)
            http["path"] = addresses.decoded_path(http["raw_path"], http["path"])
            if self.fast_path is not None and (routed := self.fast_path.route(http)) is not None:
                await self.fast_path.serve(routed, http, cast("Receive", receive), cast("Send", send))
                return
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
