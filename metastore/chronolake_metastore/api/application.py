"""The application: Litestar, with the path of a request as it was sent, and with a fast path before it.

Litestar's own path routes, resolves dependencies, builds a model of the signature and renders a response, which
takes as long as all the rest of a small request. A request takes the fast path if its handler has no parameters
but parts of the path, a body and the caller. Other requests, and those with a query, take Litestar's path. Both
use the same routes, the same functions for headers and bodies, and the same handlers of errors.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote

import msgspec
from litestar import Litestar, Response
from litestar.enums import HttpMethod, ScopeType
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute
from litestar.types import (
    ASGIApp,
    HTTPScope,
    LifeSpanReceive,
    LifeSpanScope,
    LifeSpanSend,
    Message,
    Receive,
    Scope,
    Send,
)

from chronolake_metastore.api import callers, parameters, problems, requests
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.iceberg import refusals
from chronolake_metastore.domain.subjects import Subject
from chronolake_metastore.service.service import Service

_ENCODED_SLASH: Final = re.compile(rb"%2[fF]")
_KEYS: Final = b"/v1/outcomes/"
"""Below this, the rest of the path is one idempotency key, which may hold slashes in any place."""
_NOWHERE: Final = "/.."
"""A path that no route has."""
_TABLE_ID: Final = parameters.TABLE_ID_HEADER.lower()
_KEY: Final = parameters.KEY_HEADER.lower()
_ACTOR: Final = parameters.ACTOR_HEADER.lower()
_IN_PATH: Final = re.compile(r"\{(\w+):str\}")
_GIVEN: Final = frozenset({"data", "caller", "keyed_caller"})
"""Parameters of handlers beside those in the path."""
_WITH_OWN_HEADS: Final = f"{refusals.PREFIX}/"
"""Below this, handlers say which resources have a HEAD, as Iceberg's specification does."""
_USUAL_HOST: Final = re.compile(rb"[0-9A-Za-z.:\[\]-]*")
"""Litestar decides about other hosts."""


class Application(Litestar):
    """Litestar, which routes by the parts of the path as they were sent."""

    end_streams: Callable[[], None]
    """Ends the streams of events, which never end by themselves."""
    identify_callers: Callable[[ASGIApp], ASGIApp]
    """Has an application that wraps this one identify callers, as its settings say."""
    refuse_large_of: Callable[[Subject], Awaitable[None]]
    """Raises an error for a caller that may send no large body."""
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
            http["path"] = _decoded_path(http["raw_path"], http["path"])
            if self.fast_path is not None and (routed := self.fast_path.route(http)) is not None:
                await self.fast_path.serve(routed, http, cast("Receive", receive), cast("Send", send))
                return
            if http["method"] == HttpMethod.OPTIONS:
                send = self._allowing_all_methods(http, cast("Send", send))
            elif http["method"] == HttpMethod.HEAD and not http["path"].startswith(_WITH_OWN_HEADS):
                # A copy: the log of requests tells what was sent.
                scope = cast("HTTPScope", {**http, "method": HttpMethod.GET})
                send = _without_body(cast("Send", send))
        await super().__call__(scope, receive, send)

    def _allowing_all_methods(self, scope: HTTPScope, send: Send) -> Send:
        """Have ``OPTIONS`` tell all methods of a path: Litestar tells those of one handler."""

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start" and "path_template" in scope:
                allowed = problems.allowed(self._methods()[scope["path_template"]]).encode()
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


class _Operation(msgspec.Struct, frozen=True):
    """A handler whose requests take the fast path, with the facts of it that each request needs."""

    handler: HTTPRouteHandler
    path_template: str
    in_path: Mapping[str, int]
    """The parameters in the path, and which part of the path each is."""
    body_type: Any
    may_be_left_out: bool
    bytes_max: int | None
    names_table: bool
    executes_command: bool
    wants_caller: bool


class _Routed(msgspec.Struct, frozen=True):
    """The operation that a request asks for, and the parts of its path."""

    operation: _Operation
    parts: Sequence[str]


class FastPath:
    """The fast path through an application whose handlers ask the ``service``."""

    def __init__(self, app: Litestar, service: Service) -> None:
        self._app = app
        self._service = service
        self._routes = {_key(route): _operations(route) for route in app.routes if isinstance(route, HTTPRoute)}
        shapes = {(len(key), _parameter_places(key)) for key in self._routes}
        self._shapes = {
            length: sorted((places for of_length, places in shapes if of_length == length), key=len)
            for length, _ in shapes
        }

    def route(self, scope: HTTPScope) -> _Routed | None:
        """The operation that a request asks for, or none if it takes Litestar's path."""
        if scope["query_string"] or not _has_usual_host(scope):
            return None
        parts = scope["path"].split("/")
        # As Litestar does it, a path without parameters goes before a path with one.
        for places in self._shapes.get(len(parts), ()):
            key = parts.copy()
            for place in places:
                key[place] = ""
            if (operations := self._routes.get(tuple(key))) is not None:
                operation = operations.get(scope["method"])
                return None if operation is None else _Routed(operation, parts)
        return None

    async def serve(self, routed: _Routed, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        operation, parts = routed.operation, routed.parts
        scope["app"] = scope["litestar_app"] = self._app
        scope["route_handler"] = operation.handler
        scope["path_template"] = operation.path_template
        scope["path_params"] = {name: parts[place] for name, place in operation.in_path.items()}
        scope.setdefault("state", {})
        try:
            answer = await _answer(operation, self._service, scope, receive)
        except Exception as exc:
            request = requests.StrictRequest(scope, receive, send)
            refusal = problems.refused(request, exc).to_asgi_response(app=None, request=request)
            await refusal(scope, receive, send)
            return
        if isinstance(answer, Response) and isinstance(answer.content, bytes):
            await _send(answer, operation.handler.status_code, send)
        else:
            request = requests.StrictRequest(scope, receive, send)
            rendered = await operation.handler.to_response(app=self._app, data=answer, request=request)
            await rendered(scope, receive, send)


def takes_fast_path(handler: HTTPRouteHandler) -> bool:
    """Whether the handler has a body, and else only parameters that the fast path can give it."""
    names = handler.parsed_fn_signature.parameters.keys()
    in_path = {name for path in handler.paths for name in _IN_PATH.findall(path)}
    return "data" in names and not names - in_path - _GIVEN


def _key(route: HTTPRoute) -> tuple[str, ...]:
    """The parts of a route's path; a parameter is the empty text, which no part of a request's path is."""
    return tuple("" if part.startswith("{") else part for part in route.path_format.split("/"))


def _parameter_places(key: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(place for place, part in enumerate(key) if place and not part)


def _operations(route: HTTPRoute) -> dict[str, _Operation]:
    """The operations of a route by their methods."""
    return {
        method: _operation(handler, route)
        for handler in route.route_handlers
        if takes_fast_path(handler)
        for method in handler.http_methods
    }


def _operation(handler: HTTPRouteHandler, route: HTTPRoute) -> _Operation:
    names = handler.parsed_fn_signature.parameters
    return _Operation(
        handler,
        route.path_format,
        {part[1:-1]: place for place, part in enumerate(route.path_format.split("/")) if part.startswith("{")},
        requests.body_type(handler),
        requests.may_be_left_out(handler),
        handler.resolve_request_max_body_size(),
        names_table="table" in names,
        executes_command="keyed_caller" in names,
        wants_caller="caller" in names,
    )


async def _answer(operation: _Operation, service: Service, scope: HTTPScope, receive: Receive) -> Any:
    headers = _headers(scope)
    table_id = parameters.table_id(headers.get(_TABLE_ID), names_table=operation.names_table)
    sent = await requests.read(receive, headers.get("content-length"), operation.bytes_max)
    body = sent or (b"{}" if operation.may_be_left_out else b"")
    arguments: dict[str, Any] = dict(scope["path_params"])
    arguments["data"] = requests.decode(body, headers if sent else None, operation.body_type)
    if operation.executes_command:
        ctx = callers.of_command(service, scope, headers.get(_KEY), headers.get(_ACTOR), table_id)
        arguments["keyed_caller"] = Caller(ctx, service)
    elif operation.wants_caller:
        ctx = callers.of_request(service, scope, headers.get(_ACTOR), table_id)
        arguments["caller"] = Caller(ctx, service)
    return await operation.handler.fn(**arguments)


def _has_usual_host(scope: HTTPScope) -> bool:
    for name, value in scope["headers"]:
        if name == b"host":
            return _USUAL_HOST.fullmatch(value) is not None
    return True


async def _send(answer: Response[Any], status: int, send: Send) -> None:
    """Send an answer whose body is encoded already."""
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers.items()]
    headers.append((b"content-type", str(answer.media_type).encode()))
    headers.append((b"content-length", b"%d" % len(answer.content)))
    await send({"type": "http.response.start", "status": answer.status_code or status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content, "more_body": False})


def _without_body(send: Send) -> Send:
    """The answer to HEAD from that to GET: it ends before the body, also where that is a stream without end."""
    has_ended = False

    async def sending(message: Message) -> None:
        nonlocal has_ended
        if message["type"] != "http.response.body":
            await send(message)
        elif not has_ended:
            has_ended = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return sending


def _headers(scope: HTTPScope) -> dict[str, str]:
    """The headers by their names in lower case; of a header that is there twice, the first."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed([*scope["headers"]])}


def _decoded_path(raw: bytes, decoded: str) -> str:
    """The path to route by. An encoded slash stays encoded, which no name and no time may hold."""
    if not raw.startswith(b"/"):
        return _NOWHERE
    if raw != b"/" and (b"//" in raw or raw.endswith(b"/")) and not raw.startswith(_KEYS):
        # An empty part is a parameter that was left empty, and not the list that the path without it is.
        return _NOWHERE
    if _ENCODED_SLASH.search(raw) is None:
        return decoded
    return unquote(_ENCODED_SLASH.sub(b"%252F", raw).decode(errors="replace"))
