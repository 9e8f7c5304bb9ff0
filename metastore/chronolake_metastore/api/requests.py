"""Bodies of requests: decoded once, straight into what the handler asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Request
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.handlers import HTTPRouteHandler
from litestar.types import Receive

from chronolake_metastore import errors
from chronolake_metastore.api import duplicates, known_fields, media_types, times_in_bodies
from chronolake_metastore.api.openapi import OptionalBody
from chronolake_model import decoding
from chronolake_model.times import Micros, ReadTime, parse_read_time, parse_time

_HALF_PAIR = re.compile(rb'(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}"')


class StrictRequest(Request[Any, Any, Any]):
    """A request whose JSON is unambiguous: ``"1"`` is no number.

    Litestar's own decodes into dicts first and converts them leniently, takes twice the memory, and fails on
    text that is no UTF-8 and on deep nesting.
    """

    _sent: bytes | None = None

    async def body(self) -> bytes:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        """The body as it was sent; ``{}`` where it was left out and may be. Raises as ``read`` does."""
        if self._sent is None:
            bytes_max = self.route_handler.resolve_request_max_body_size()
            self._sent = await read(self.receive, self.headers.get("content-length"), bytes_max)
        return self._sent or (b"{}" if may_be_left_out(self.route_handler) else b"")

    async def json(self) -> Any:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        """The body as the handler's ``data``; raises as ``decode`` does."""
        body = await self.body()
        return decode(body, self.headers if self._sent else None, body_type(self.route_handler))


def may_be_left_out(handler: HTTPRouteHandler) -> bool:
    """Whether requests to the handler need no body."""
    return issubclass(getattr(handler, "operation_class", object), OptionalBody)


def body_type(handler: HTTPRouteHandler) -> Any:
    """The type of the handler's ``data``."""
    return handler.parsed_fn_signature.parameters["data"].annotation


async def read(receive: Receive, announced: str | None, bytes_max: int | None) -> bytes:
    """The body of a request, whose header announces its length, or none.

    Raises ``RequestEntityTooLarge`` if it is longer than ``bytes_max``, and ``InvalidRequest`` if it cannot be
    read to its end.
    """
    if bytes_max is not None and announced is not None and announced.isdecimal() and int(announced) > bytes_max:
        raise RequestEntityTooLarge
    parts: list[bytes] = []
    size_bytes = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise errors.InvalidRequest("body: it breaks off, or its chunks are malformed")
        if part := message.get("body", b""):
            parts.append(part)
            size_bytes += len(part)
            if bytes_max is not None and size_bytes > bytes_max:
                raise RequestEntityTooLarge
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def decode(body: bytes, headers: Mapping[str, str] | None, wanted: Any) -> Any:
    """The body as a ``wanted``; raises ``InvalidRequest``, or ``UnsupportedMediaType``.

    ``headers``, with names in lower case, are those of the body; none if it was left out.
    """
    if not body:
        raise errors.InvalidRequest("the request needs a JSON body")
    if headers is not None:
        media_types.refuse_other(headers)
    try:
        decoded = decoding.decode(body, wanted)
        twice = duplicates.find(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise errors.InvalidRequest(
            f"body: {_reason(exc, body)}{known_fields.advice(str(exc), wanted)}"
        ) from exc
    except RecursionError as exc:
        # msgspec looks through an object of unknown type for its tag, as deep as it goes.
        raise errors.InvalidRequest("body: it is nested too deeply") from exc
    if twice is not None:
        raise errors.InvalidRequest(f"body: an object has the field {twice[:100]!r} twice")
    times_in_bodies.refuse_no_time(decoded)
    return decoded


def _reason(error: Exception, body: bytes) -> str:
    # msgspec says of a body with half a surrogate pair near its end that it was truncated.
    is_said_truncated = isinstance(error, msgspec.DecodeError) and "truncated" in str(error)
    if is_said_truncated and _HALF_PAIR.search(body):
        return "a text has an unpaired surrogate, which is no character"
    return str(error)


def time_in_body(name: str, text: str) -> Micros:
    """The time that ``text`` names in a body; raises ``InvalidRequest``."""
    try:
        return parse_time(text)
    except ValueError as exc:
        raise errors.InvalidRequest(f"body: {name}: {exc}") from exc


def read_time_in_body(name: str, text: str | None) -> ReadTime | None:
    """The completion time that ``text`` names in a body, if there is one; raises ``InvalidRequest``."""
    try:
        return None if text is None else parse_read_time(text)
    except ValueError as exc:
        raise errors.InvalidRequest(f"body: {name}: {exc}") from exc
