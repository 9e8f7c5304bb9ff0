"""The table of operations: the handlers are those of the table, and take and give what it declares."""

from __future__ import annotations

import types
import typing

import pytest
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from chronolake_metastore import app
from chronolake_metastore.api import routes
from chronolake_model import operations

HANDLERS = pytest.mark.parametrize("handler", app.V1, ids=lambda handler: routes.operation_of(handler).summary)


def parameters(handler: HTTPRouteHandler) -> dict[str, object]:
    return {name: field.annotation for name, field in handler.parsed_fn_signature.parameters.items()}


def answers(handler: HTTPRouteHandler) -> set[object]:
    """The types of answers of a handler, without its wrapper for headers and without streams."""
    given = handler.parsed_fn_signature.return_type.annotation
    if typing.get_origin(given) is Response:
        [given] = typing.get_args(given)
    members = typing.get_args(given) if isinstance(given, types.UnionType) else (given,)
    return set(members) - {Stream}


@HANDLERS
def test_a_handler_takes_the_body_of_its_operation(handler: HTTPRouteHandler) -> None:
    assert parameters(handler).get("data", type(None)) == routes.operation_of(handler).body


@HANDLERS
def test_a_handler_of_a_command_has_its_key(handler: HTTPRouteHandler) -> None:
    operation = routes.operation_of(handler)
    assert not operation.is_command or "keyed_caller" in parameters(handler)


@HANDLERS
def test_a_handler_gives_the_answer_of_its_operation(handler: HTTPRouteHandler) -> None:
    given = answers(handler)
    # An answer that is always a stream has no type of its own.
    assert not given or routes.operation_of(handler).answer in given


def test_no_two_operations_have_one_method_and_path() -> None:
    places = {(operation.method, operation.path) for operation in operations.ALL}
    assert len(places) == len(operations.ALL)
