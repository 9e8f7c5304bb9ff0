"""The OpenAPI document, corrected where Litestar's own differs from the API."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import msgspec
from litestar import Request, Router
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import OpenAPI, Operation, RequestBody

from chronolake_metastore.api import schemas_of_bodies
from chronolake_metastore.api.parameters import KEY_HEADER, TABLE_ID_HEADER
from chronolake_metastore.api.parameters_in_openapi import describe
from chronolake_model import operations
from chronolake_model.files import ARROW

Json = dict[str, Any]

_TABLE_ID: Final[Json] = {
    "name": TABLE_ID_HEADER,
    "in": "header",
    "required": False,
    "description": "The `table_id` that the table must have. If the name is another table's by now, the answer "
    "is `table-not-found`, and `renamed_to` in its context is the present name of the table with this id.",
    "schema": {"type": "string"},
}
_KEY_USED: Final = {
    "description": "The key under which the command was executed. The server makes one if there is none.",
    "schema": {"type": "string"},
}
_RETRY_AFTER: Final = {
    "description": "The number of seconds after which to send the request again.",
    "schema": {"type": "integer", "minimum": 1},
    "required": True,
}
_ADDRESS_TOO_LONG: Final = {"description": "The address is longer than 65,534 bytes. The answer has no body."}
_EVENTS: Final[Json] = {
    "type": "string",
    "description": "Server-sent events: `id` is the cursor, `event` the type, `data` a `LoggedEvent` as JSON.",
}
_BINARY: Final[Json] = {"schema": {"type": "string", "format": "binary"}}
_EVENT_STREAM: Final = "text/event-stream"
_NOTHING_MADE: Final = {
    operations.timeline.PLAN_CLEAN.path: "The clean that is pending; null if there is nothing to clean.",
    operations.timeline.CREATE_SAVEPOINT.path: "The savepoint that already pins the instant.",
    operations.access.GRANT_ROLE.path: "The role that the subject has there now; it had one before.",
    operations.services.PLAN_SERVICES.path: "Nothing is planned; `held` says why.",
}
"""Commands that answer 200 when they make nothing, and why."""


@dataclass
class OptionalBody(Operation):
    """The operation of a handler whose body may be left out: an empty one is read as ``{}``."""

    def __post_init__(self) -> None:
        if isinstance(self.request_body, RequestBody):
            self.request_body.required = False


def operation_id(handler: HTTPRouteHandler, method: object, path: object) -> str:
    """The name of a handler, as generators of clients take it for the name of a method: ``beginInstant``."""
    first, *words = handler.handler_name.split("_")
    return first + "".join(word.title() for word in words)


def router() -> Router:
    """Where the document is; below it is nothing, which Litestar would say in HTML."""

    def refuse_below(request: Request[Any, Any, Any]) -> None:
        if request.path_params:
            raise NotFoundException()

    return Router("/openapi.json", route_handlers=[], before_request=refuse_below, include_in_schema=False)


@dataclass
class Config(OpenAPIConfig):
    """Litestar's, whose document is ``Document``."""

    def to_openapi_schema(self) -> OpenAPI:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        """The document, as far as it does not follow from the handlers."""
        made = super().to_openapi_schema()
        return Document(**{field.name: getattr(made, field.name) for field in fields(made)})


@dataclass
class Document(OpenAPI):
    """The document, corrected where Litestar's differs from the API."""

    def to_schema(self) -> Json:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        """The document as JSON has it."""
        # Defaults are still values of ours here, which only some encoders of JSON know.
        document: Json = msgspec.to_builtins(super().to_schema())
        components = document["components"]["schemas"]
        document["components"]["schemas"] = schemas_of_bodies.exact(components)
        for path, methods in document["paths"].items():
            for operation in methods.values():
                _complete_operation(path, operation)
        return document


def _complete_operation(path: str, operation: Json) -> None:
    parameters = operation.setdefault("parameters", [])
    if any(parameter["name"] == "table" for parameter in parameters):
        parameters.append(dict(_TABLE_ID))
    for parameter in operation.get("parameters", ()):
        describe(parameter)
    responses = operation["responses"]
    responses.get("204", {}).pop("content", None)
    _add_other_answers(path, responses)
    _allow_several_kinds(responses)
    responses["414"] = dict(_ADDRESS_TOO_LONG)
    takes_key = any(parameter["name"] == KEY_HEADER for parameter in operation.get("parameters", ()))
    for status, response in responses.items():
        headers = response.setdefault("headers", {})
        if takes_key and status != "414":
            headers[KEY_HEADER] = _KEY_USED
        if status == "503":
            headers["Retry-After"] = _RETRY_AFTER
        if not headers:
            del response["headers"]


def _allow_several_kinds(responses: Json) -> None:
    """Say ``anyOf`` of an answer of several kinds: Java takes every kind for a match, and refuses ``oneOf``."""
    for response in responses.values():
        for media in response.get("content", {}).values():
            if "oneOf" in media["schema"]:
                media["schema"] = {"anyOf": media["schema"]["oneOf"]}


def _add_other_answers(path: str, responses: Json) -> None:
    if path in _NOTHING_MADE and "201" in responses:
        responses["200"] = responses["201"] | {"description": _NOTHING_MADE[path], "headers": {}}
    whole = responses.get("200", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if {} in whole.get("oneOf", ()):
        # How Litestar describes a stream beside a page.
        [page] = [schema for schema in whole["oneOf"] if schema]
        responses["200"]["content"] = {"application/json": {"schema": page}, ARROW: _BINARY}
    if path == operations.files.GET_PUBLISHED.path:
        responses["200"]["content"] = {ARROW: _BINARY}
    if path == operations.catalog.FOLLOW_EVENTS.path:
        responses["200"]["content"] = {_EVENT_STREAM: {"schema": _EVENTS}}
