"""The OpenAPI document, where Litestar's own does not say what the API does."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import msgspec
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import OpenAPI, Operation, RequestBody

from chronolake_metastore.api.parameters import KEY_HEADER

Json = dict[str, Any]

_LIMITS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_KEY_USED: Final = {
    "description": "Under which key the command was carried out; the server makes one up when none is sent.",
    "schema": {"type": "string"},
}


@dataclass
class OptionalBody(Operation):
    """The operation of a handler whose body may be left out: an empty one is read as ``{}``."""

    def __post_init__(self) -> None:
        if isinstance(self.request_body, RequestBody):
            self.request_body.required = False


@dataclass
class Config(OpenAPIConfig):
    """Litestar's, whose document is ``Document``."""

    def to_openapi_schema(self) -> OpenAPI:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        """The document, as far as it does not follow from the handlers."""
        made = super().to_openapi_schema()
        return Document(**{one.name: getattr(made, one.name) for one in fields(made)})


@dataclass
class Document(OpenAPI):
    """The document, mended: limits of integers are integers, and commands tell their keys."""

    def to_schema(self) -> Json:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        """The document as JSON has it."""
        # Defaults are still values of ours here, which only some encoders of JSON know.
        document: Json = msgspec.to_builtins(super().to_schema())
        _make_integer_limits(document)
        for methods in document["paths"].values():
            for operation in methods.values():
                if any(one["name"] == KEY_HEADER for one in operation.get("parameters", ())):
                    for response in operation["responses"].values():
                        response.setdefault("headers", {})[KEY_HEADER] = _KEY_USED
        return document


def _make_integer_limits(value: object) -> None:
    """Litestar makes floats of all limits; strict readers refuse them for integers."""
    if isinstance(value, dict):
        if value.get("type") == "integer":
            value.update({name: int(value[name]) for name in _LIMITS if name in value})
        for below in value.values():
            _make_integer_limits(below)
    elif isinstance(value, list):
        for below in value:
            _make_integer_limits(below)
