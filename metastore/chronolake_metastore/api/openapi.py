"""The OpenAPI document, where Litestar's own does not say what the API does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from litestar.openapi.spec import Operation, RequestBody

Json = dict[str, Any]


@dataclass
class OptionalBody(Operation):
    """The operation of a handler whose body may be left out: an empty one is read as ``{}``."""

    def __post_init__(self) -> None:
        if isinstance(self.request_body, RequestBody):
            self.request_body.required = False
