"""Bodies of requests: plain JSON, decoded straight into what the handler asks for.

Objects with a member twice are refused, because readers of JSON disagree about which of the two counts; so are
digits that are no time.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
from litestar import Request
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.handlers import HTTPRouteHandler
from litestar.types import Receive
from msgspec import inspect

from chronolake_metastore import errors
from chronolake_metastore.api import known_fields
from chronolake_metastore.api.openapi import OptionalBody
from chronolake_model import decoding
from chronolake_model.names import decoder_pattern
from chronolake_model.problems import ProblemCode
from chronolake_model.times import (
    INSTANT_TIME_PATTERN,
    READ_TIME_PATTERN,
    Micros,
    ReadTime,
    parse_read_time,
    parse_time,
)

_JSON: Final = "application/json"
_UTF_8: Final = ("utf-8", "utf8")
_ENCODINGS: Final = {"content-encoding": "identity", "transfer-encoding": "chunked"}
"""Headers that may say that a body is encoded, and what they may say."""
_HALF_PAIR = re.compile(rb'(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}"')
_SEARCHED_BYTES_MAX: Final = 1024 * 1024
"""Bodies up to this size are searched for repeated members, which takes several times their memory."""
_PARSERS: Final[dict[str | None, Callable[[str], object]]] = {
    decoder_pattern(INSTANT_TIME_PATTERN): parse_time,
    decoder_pattern(READ_TIME_PATTERN): parse_read_time,
}


class UnsupportedMediaType(errors.TimelineError):
    """The body has a media type that the server does not accept."""

    code = ProblemCode.UNSUPPORTED_MEDIA_TYPE


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
        _refuse_media_type(headers)
    try:
        decoded = decoding.decode(body, wanted)
        twice = _find_repeated(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise errors.InvalidRequest(
            f"body: {_reason(exc, body)}{known_fields.advice(str(exc), wanted)}"
        ) from exc
    except RecursionError as exc:
        # msgspec looks through an object of unknown type for its tag, as deep as it goes.
        raise errors.InvalidRequest("body: it is nested too deeply") from exc
    if twice is not None:
        raise errors.InvalidRequest(f"body: an object has the field {twice[:100]!r} twice")
    _refuse_no_time(decoded)
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


def _find_repeated(body: bytes) -> str | None:
    """A name that an object of this valid JSON document has twice; none, too, when the document is longer.

    Every member has one colon outside of strings. A decoder drops all but the last member of a name, so the
    document that is decoded and encoded again has fewer colons if a name was there twice, and as many if not.
    """
    if len(body) > _SEARCHED_BYTES_MAX:
        return None
    # An escaped colon is a plain one when it is encoded again.
    is_countable = b"\\u003" not in body
    if is_countable and msgspec.json.encode(msgspec.json.decode(body)).count(b":") == body.count(b":"):
        return None
    return _search_repeated(body)


class _DuplicateKey(Exception):
    """The name that is there twice."""


def _search_repeated(body: bytes) -> str | None:
    try:
        json.loads(body, object_pairs_hook=_members, parse_int=str, parse_float=str)
    except _DuplicateKey as duplicate:
        return str(duplicate)
    return None


def _members(pairs: list[tuple[str, Any]]) -> None:
    names = set()
    for name, _ in pairs:
        if name in names:
            raise _DuplicateKey(name)
        names.add(name)


def _refuse_media_type(headers: Mapping[str, str]) -> None:
    """Raise ``UnsupportedMediaType`` unless the headers, in lower case, say that the body is plain JSON.

    Strict on purpose: a browser sends ``text/plain``, and bodies without a type, to any server without asking
    it first, so that any page could send commands to a server that listens on loopback.
    """
    if headers.get("content-type") == _JSON and not headers.keys() & _ENCODINGS.keys():
        return
    media_type, *parameters = (part.strip().lower() for part in headers.get("content-type", "").split(";"))
    if media_type != _JSON:
        raise UnsupportedMediaType(f"send the body with Content-Type: {_JSON}, not {media_type[:100]!r}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "charset" and value.strip('"') not in _UTF_8:
            raise UnsupportedMediaType(f"send the body in UTF-8, not {value[:100]!r}")
    for name, plain in _ENCODINGS.items():
        if (encoding := headers.get(name, plain).lower()) != plain:
            raise UnsupportedMediaType(f"send the body without encoding, not with {name}: {encoding[:100]!r}")


class _Field(msgspec.Struct, frozen=True):
    """A field with a time, or with a struct or a list of structs that have fields with times."""

    name: str
    parse: Callable[[str], object] | None
    inner: tuple[_Field, ...]


def _refuse_no_time(body: Any) -> None:
    """Raise ``InvalidRequest`` if a field of the decoded ``body`` that holds a time holds none."""
    form: Any = type(body)
    for name, text, parse in _times_of(body, _fields_of(form), ""):
        try:
            parse(text)
        except ValueError as exc:
            raise errors.InvalidRequest(f"body: {name}: {exc}") from exc


def _times_of(
    value: Any, fields: tuple[_Field, ...], before: str
) -> Iterator[tuple[str, str, Callable[[str], object]]]:
    for field in fields:
        held = getattr(value, field.name)
        name = before + field.name
        if isinstance(held, str) and field.parse is not None:
            yield name, held, field.parse
        elif isinstance(held, list):
            for index, item in enumerate(held):
                yield from _times_of(item, field.inner, f"{name}[{index}].")
        elif isinstance(held, msgspec.Struct):
            yield from _times_of(held, field.inner, f"{name}.")


@functools.cache
def _fields_of(form: Any) -> tuple[_Field, ...]:
    is_struct = isinstance(form, type) and issubclass(form, msgspec.Struct)
    return _fields(inspect.type_info(form), frozenset()) if is_struct else ()


def _fields(info: inspect.Type, outer: frozenset[type]) -> tuple[_Field, ...]:
    """The fields with times of a struct, of the items of a list, or of the members of a union."""
    match info:
        case inspect.Metadata():
            return _fields(info.type, outer)
        case inspect.StructType(cls=cls) if cls not in outer:
            found = [
                _Field(field.name, _parser(field.type), _fields(field.type, outer | {cls}))
                for field in info.fields
            ]
            return tuple(field for field in found if field.parse is not None or field.inner)
        case inspect.ListType():
            return _fields(info.item_type, outer)
        case inspect.UnionType():
            return tuple(field for member in info.types for field in _fields(member, outer))
        case _:
            return ()


def _parser(info: inspect.Type) -> Callable[[str], object] | None:
    """The parser of a field that holds a time, or none."""
    match info:
        case inspect.Metadata():
            return _parser(info.type)
        case inspect.StrType():
            return _PARSERS.get(info.pattern)
        case inspect.UnionType():
            return next((parser for member in info.types if (parser := _parser(member))), None)
        case _:
            return None
