"""The fast path of a command through HTTP: read its body, decode it, call its handler, send the answer.

Litestar's own path resolves dependencies, builds a model of the signature and renders a response, which takes
as long as all the rest of a small request. A request takes the fast path if its handler has no parameters
but parts of the path, a body and the caller. Other requests, and those with a query, take
Litestar's path. Both use the same functions for headers and bodies, and the same handlers of errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
from litestar import Response
from litestar.enums import ScopeType
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from chronolake_metastore.api import callers, parameters, requests
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.service.service import Service

_TABLE_ID: Final = parameters.TABLE_ID_HEADER.lower()
_KEY: Final = parameters.KEY_HEADER.lower()
_ACTOR: Final = parameters.ACTOR_HEADER.lower()
_IN_PATH: Final = re.compile(r"\{(\w+):str\}")
_GIVEN: Final = frozenset({"data", "caller", "keyed_caller"})
"""Parameters of handlers beside those in the path."""


class _Operation(msgspec.Struct, frozen=True):
    """A handler whose requests take the fast path, with the facts of it that each request needs."""

    handler: HTTPRouteHandler
    body_type: Any
    may_be_left_out: bool
    bytes_max: int | None
    names_table: bool
    executes_command: bool
    wants_caller: bool


def fast_path(service: Service) -> Callable[[ASGIApp], ASGIApp]:
    """A middleware whose handlers ask the ``service``."""
    return lambda app: _fast_path(app, service)


def _fast_path(app: ASGIApp, service: Service) -> ASGIApp:
    """``app``, which is Litestar's path to one handler, is called if the fast path is closed."""
    operation: _Operation | None = None
    is_known = False

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal operation, is_known
        if not is_known:
            operation, is_known = _operation_of(scope), True
        if operation is None or scope["query_string"]:
            await app(scope, receive, send)
        else:
            await _serve(operation, service, scope, receive, send)  # type: ignore[arg-type]  # it has a handler of HTTP

    return routed


def takes_fast_path(handler: HTTPRouteHandler) -> bool:
    """Whether the handler has a body, and else only parameters that the fast path can give it."""
    names = handler.parsed_fn_signature.parameters.keys()
    in_path = {name for path in handler.paths for name in _IN_PATH.findall(path)}
    return "data" in names and not names - in_path - _GIVEN


def _operation_of(scope: Scope) -> _Operation | None:
    """The operation of the handler of ``scope``, or none if its requests take Litestar's path."""
    handler = scope["route_handler"]
    if (
        scope["type"] != ScopeType.HTTP
        or not isinstance(handler, HTTPRouteHandler)
        or not takes_fast_path(handler)
    ):
        return None
    names = handler.parsed_fn_signature.parameters
    return _Operation(
        handler,
        requests.body_type(handler),
        requests.may_be_left_out(handler),
        handler.resolve_request_max_body_size(),
        names_table="table" in names,
        executes_command="keyed_caller" in names,
        wants_caller="caller" in names,
    )


async def _serve(
    operation: _Operation, service: Service, scope: HTTPScope, receive: Receive, send: Send
) -> None:
    headers = _headers(scope)
    table_id = parameters.table_id(headers.get(_TABLE_ID), names_table=operation.names_table)
    sent = await requests.read(receive, headers.get("content-length"), operation.bytes_max)
    body = sent or (b"{}" if operation.may_be_left_out else b"")
    arguments: dict[str, Any] = dict(scope["path_params"])
    arguments["data"] = requests.decode(body, headers if sent else None, operation.body_type)
    if operation.executes_command:
        ctx = callers.of_command(scope, headers.get(_KEY), headers.get(_ACTOR), table_id)
        arguments["keyed_caller"] = Caller(ctx, service)
    elif operation.wants_caller:
        ctx = callers.of_request(scope, headers.get(_ACTOR), table_id)
        arguments["caller"] = Caller(ctx, service)
    answer = await operation.handler.fn(**arguments)
    if isinstance(answer, Response) and isinstance(answer.content, bytes):
        await _send(answer, operation.handler.status_code, send)
    else:
        request = requests.StrictRequest(scope, receive, send)
        rendered = await operation.handler.to_response(app=scope["litestar_app"], data=answer, request=request)
        await rendered(scope, receive, send)


async def _send(answer: Response[Any], status: int, send: Send) -> None:
    """Send an answer whose body is encoded already."""
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers.items()]
    headers.append((b"content-type", str(answer.media_type).encode()))
    headers.append((b"content-length", b"%d" % len(answer.content)))
    await send({"type": "http.response.start", "status": answer.status_code or status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content, "more_body": False})


def _headers(scope: HTTPScope) -> dict[str, str]:
    """The headers by their names in lower case; of a header that is there twice, the first."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed([*scope["headers"]])}
