"""Bodies of requests: decoded once, straight into what the handler asks for."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException

from chronolake_metastore.api import duplicates, known_fields, media_types
from chronolake_metastore.api.openapi import OptionalBody
from chronolake_metastore.api.problems import InvalidRequest
from chronolake_model.times import Micros, ReadTime, parse_read_time, parse_time

# An escaped NUL: an odd number of backslashes before u0000. PostgreSQL cannot store it.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_HALF_PAIR = re.compile(rb'(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}"')


class StrictRequest(Request[Any, Any, Any]):
    """A request whose JSON is unambiguous: ``"1"`` is no number.

    Litestar's own decodes into dicts first and converts them leniently, takes twice the memory, and fails on
    text that is no UTF-8 and on deep nesting.
    """

    async def body(self) -> bytes:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        """The body as it was sent; ``{}`` where it was left out and may be.

        Raises ``InvalidRequest`` when it cannot be read to its end.
        """
        may_be_empty = issubclass(getattr(self.route_handler, "operation_class", object), OptionalBody)
        body = await self._sent()
        return b"{}" if may_be_empty and not body else body

    async def _sent(self) -> bytes:
        try:
            return await super().body()
        except InternalServerException as exc:
            # The only one there: the HTTP server could not read the body to its end.
            raise InvalidRequest("body: it breaks off, or its chunks are malformed") from exc

    async def json(self) -> Any:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        """The body as the handler's ``data``; raises ``InvalidRequest`` or ``UnsupportedMediaType``."""
        body = await self.body()
        if not body:
            raise InvalidRequest("the request needs a JSON body")
        if await self._sent():
            media_types.refuse_other(self.headers)
        wanted = self.route_handler.parsed_fn_signature.parameters["data"].annotation
        try:
            decoded = msgspec.json.decode(body, type=wanted)
            twice = duplicates.find(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise InvalidRequest(f"body: {_reason(exc, body)}{known_fields.advice(str(exc), wanted)}") from exc
        except RecursionError as exc:
            # msgspec looks through an object of unknown type for its tag, as deep as it goes.
            raise InvalidRequest("body: it is nested too deeply") from exc
        if twice is not None:
            raise InvalidRequest(f"body: an object has the field {twice[:100]!r} twice")
        return decoded


def _reason(error: Exception, body: bytes) -> str:
    # msgspec says of a body with half a surrogate pair near its end that it was truncated.
    is_said_truncated = isinstance(error, msgspec.DecodeError) and "truncated" in str(error)
    if is_said_truncated and _HALF_PAIR.search(body):
        return "a text has an unpaired surrogate, which is no character"
    return str(error)


def refuse_nul(document: bytes) -> None:
    """Raise ``InvalidRequest`` if a text of a JSON document has a character that PostgreSQL cannot store."""
    if b"\\u0000" in document and _NUL.search(document):
        raise InvalidRequest("a text contains the character U+0000, which cannot be stored")


def time_in_body(name: str, text: str) -> Micros:
    """The time that ``text`` names in a body; raises ``InvalidRequest``."""
    try:
        return parse_time(text)
    except ValueError as exc:
        raise InvalidRequest(f"body: {name}: {exc}") from exc


def refuse_no_time(name: str, text: str | None) -> None:
    """Raise ``InvalidRequest`` if a time in a body is not a time."""
    if text is not None:
        time_in_body(name, text)


def read_time_in_body(name: str, text: str | None) -> ReadTime | None:
    """The completion time that ``text`` names in a body, if there is one; raises ``InvalidRequest``."""
    try:
        return None if text is None else parse_read_time(text)
    except ValueError as exc:
        raise InvalidRequest(f"body: {name}: {exc}") from exc
