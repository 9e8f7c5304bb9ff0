"""The route of an operation: ``chronolake_model.operations`` declares everything but the handler."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Final

from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import Operation
from litestar.types import AnyCallable

from chronolake_metastore.api import problems
from chronolake_metastore.api.openapi import OptionalBody
from chronolake_model import operations
from chronolake_model.operations.declaring import ApiOperation

PREFIX: Final = "/v1"
_OPERATION: Final = "operation"
_IN_PATH: Final = re.compile(r"\{(\w+)\}")
_KINDS_IN_PATH: Final = {"key": "path"}
"""Parameters of a path that are no single part of it. A key may have slashes."""


def route(
    operation: ApiOperation[Any, Any], *, media_type: str | None = None
) -> Callable[[AnyCallable], HTTPRouteHandler]:
    """The decorator of the handler of an operation."""
    path = _IN_PATH.sub(lambda name: f"{{{name[1]}:{_KINDS_IN_PATH.get(name[1], 'str')}}}", operation.path)
    return HTTPRouteHandler(
        path.removeprefix(PREFIX),
        http_method=operation.method,
        status_code=operation.status,
        summary=operation.summary,
        tags=[operation.tag],
        media_type=media_type,
        operation_class=OptionalBody if operation.body_may_be_left_out else Operation,
        responses=problems.of_operation(operation),
        opt={_OPERATION: operation},
    )


def operation_of(handler: HTTPRouteHandler) -> ApiOperation[Any, Any]:
    """The operation that a handler executes."""
    operation: ApiOperation[Any, Any] = handler.opt[_OPERATION]
    return operation


def handlers_of(modules: Iterable[ModuleType]) -> tuple[HTTPRouteHandler, ...]:
    """The handlers of all operations, which ``modules`` define, in the order of the operations."""
    handlers = {
        operation_of(handler): handler
        for module in modules
        for handler in vars(module).values()
        if isinstance(handler, HTTPRouteHandler)
    }
    return tuple(handlers[operation] for operation in operations.ALL)
