"""A call of the REST API: a request and the type of its answer. No I/O.

Names and times become parts of paths, so they are checked here: ``ValueError`` for one that no server can have.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, overload

import msgspec

from chronolake_model.names import NAME_PATTERN, decoder_pattern, split_table_name
from chronolake_model.operations.declaring import ApiOperation
from chronolake_model.streams import STREAM_NAME_PATTERN
from chronolake_model.times import Moment, digits_of, parse_time, requested_digits_of

LIMIT_MAX = 1_000
"""The largest page of instants, tables or namespaces that a server gives."""

FILES_LIMIT_MAX = 10_000
"""The largest page of file slices or file groups."""

BodyT = TypeVar("BodyT")
AnswerT = TypeVar("AnswerT")
Listed = TypeVar("Listed", bound=msgspec.Struct)
Query: TypeAlias = tuple[tuple[str, str], ...]
_OF_TABLE: Final = re.compile(r"/v1/tables/[^/]+")
_IN_PATH: Final = re.compile(r"\{(\w+)\}")
_NAMESPACE: Final = re.compile(NAME_PATTERN, re.ASCII)
_STREAM: Final = re.compile(decoder_pattern(STREAM_NAME_PATTERN))
_KEY: Final = re.compile(r"(?=.{1,255}\Z)[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


class CursorPage(Protocol):
    """A page of a list."""

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page; None on the last."""


class Call(msgspec.Struct, Generic[AnswerT], frozen=True):
    """One request and the type of its answer; ``NoneType`` when the answer has no body."""

    method: str
    path: str
    answer: type[AnswerT]
    query: Query = ()
    body: bytes | None = None
    is_command: bool = False
    """Whether it carries an idempotency key."""

    def with_query(self, **parameters: str) -> Call[AnswerT]:
        """The same call with these query parameters, instead of others with these names."""
        others = tuple(pair for pair in self.query if pair[0] not in parameters)
        return msgspec.structs.replace(self, query=(*others, *parameters.items()))

    def of_table(self, name: str) -> Call[AnswerT]:
        """The same call of a table with this name."""
        path = _OF_TABLE.sub(f"/v1/tables/{_table(name)}", self.path, count=1)
        others = msgspec.structs.replace(self, path=path)
        return others.with_query(table=name) if any(key == "table" for key, _ in self.query) else others

    def page_at(self, cursor: str) -> Call[AnswerT]:
        """The same list, from ``cursor`` on."""
        if self.body is None:
            return self.with_query(cursor=cursor)
        body = msgspec.json.encode({**msgspec.json.decode(self.body), "cursor": cursor})
        return msgspec.structs.replace(self, body=body)


@overload
def call(operation: ApiOperation[None, AnswerT], *in_path: str | int, query: Query = ()) -> Call[AnswerT]: ...
@overload
def call(
    operation: ApiOperation[BodyT, AnswerT], *in_path: str | int, body: BodyT, query: Query = ()
) -> Call[AnswerT]: ...
def call(
    operation: ApiOperation[Any, AnswerT], *in_path: str | int, body: object = None, query: Query = ()
) -> Call[AnswerT]:
    """A call of ``operation``, with the parameters of its path in their order.

    Raises ``ValueError`` for a parameter that no server can have.
    """
    names = _IN_PATH.findall(operation.path)
    path = operation.path
    for name, value in zip(names, in_path, strict=True):
        path = path.replace(f"{{{name}}}", _CHECKED.get(name, str)(str(value)))
    encoded = None if body is None else msgspec.json.encode(body)
    return Call(operation.method, path, operation.answer, query, encoded, operation.is_command)


def merge_pages(pages: Sequence[Listed], entries: str) -> Listed:
    """One answer of all its pages, whose ``entries`` are what the pages list."""
    listed = [entry for page in pages for entry in getattr(page, entries)]
    return msgspec.structs.replace(pages[0], **{entries: listed}, next_cursor=None)


def digits(moment: Moment | None) -> str | None:
    """A completion time as a query parameter."""
    return None if moment is None else digits_of(moment)


def requested_digits(moment: Moment | None) -> str | None:
    """A requested time as a query parameter."""
    return None if moment is None else requested_digits_of(moment)


def query(**parameters: Any) -> Query:
    """The parameters that are given; a tuple is repeated under its name."""
    return tuple(pair for name, value in parameters.items() for pair in _pairs(name, value))


def _pairs(name: str, value: object) -> Iterable[tuple[str, str]]:
    if value is None:
        return ()
    if isinstance(value, tuple):
        return tuple((name, str(element)) for element in value)
    return ((name, str(value)),)


def _table(name: str) -> str:
    split_table_name(name)
    return name


def _namespace(name: str) -> str:
    if not _NAMESPACE.fullmatch(name):
        raise ValueError(f"a namespace's name is letters, digits, _ and -, 128 at most, not {name!r}")
    return name


def _time(requested_time: str) -> str:
    parse_time(requested_time)
    return requested_time


def _stream(name: str) -> str:
    if not _STREAM.fullmatch(name):
        raise ValueError(
            "a stream is named by 1 to 255 letters, digits and _ . : @ = ~ -, a letter or digit first; not "
            f"{name[:100]!r}"
        )
    return name


def _key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(f"an idempotency key is 1 to 255 printable ASCII characters, not {key!r}")
    # Dots too: proxies resolve "." and ".." in a path.
    return urllib.parse.quote(key, safe="").replace(".", "%2E")


_CHECKED: Final[Mapping[str, Callable[[str], str]]] = {
    "table": _table,
    "namespace": _namespace,
    "requested_time": _time,
    "stream": _stream,
    "key": _key,
}
"""The text of a parameter of a path, by its name."""
