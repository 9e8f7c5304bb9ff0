"""A call of the REST API: a request and the type of its answer. No I/O.

Names and times become parts of paths, so they are checked here: ``ValueError`` for one that no server can have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from chronolake_model.names import split_table_name
from chronolake_model.times import Moment, digits_of, parse_time, requested_digits_of

LIMIT_MAX = 1_000
"""The largest page of instants, tables or namespaces that a server gives."""

FILES_LIMIT_MAX = 10_000
"""The largest page of file slices or file groups."""

Answer = TypeVar("Answer")
Listed = TypeVar("Listed", bound=msgspec.Struct)
_OF_TABLE = re.compile(r"/v1/tables/[^/]+")
_Query = tuple[tuple[str, str], ...]


class Page(Protocol):
    """A page of a list."""

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page; None on the last."""


class Call(msgspec.Struct, Generic[Answer], frozen=True):
    """One request and the type of its answer; ``NoneType`` when the answer has no body."""

    method: str
    path: str
    answer: type[Answer]
    query: _Query = ()
    body: bytes | None = None
    is_query: bool = False
    """Whether it needs no idempotency key, though it is no GET: it changes nothing, or may be repeated."""

    @property
    def is_command(self) -> bool:
        """Whether it changes something, and so carries an idempotency key."""
        return self.method != "GET" and not self.is_query

    def with_query(self, **parameters: str) -> Call[Answer]:
        """The same call with these query parameters, instead of others with these names."""
        others = tuple(pair for pair in self.query if pair[0] not in parameters)
        return msgspec.structs.replace(self, query=(*others, *parameters.items()))

    def of_table(self, name: str) -> Call[Answer]:
        """The same call of a table with this name."""
        path = _OF_TABLE.sub(table_path(name), self.path, count=1)
        others = msgspec.structs.replace(self, path=path)
        return others.with_query(table=name) if any(key == "table" for key, _ in self.query) else others

    def page_at(self, cursor: str) -> Call[Answer]:
        """The same list, from ``cursor`` on."""
        if self.body is None:
            return self.with_query(cursor=cursor)
        body = msgspec.json.encode({**msgspec.json.decode(self.body), "cursor": cursor})
        return msgspec.structs.replace(self, body=body)


def merge_pages(pages: Sequence[Listed], entries: str) -> Listed:
    """One answer of all its pages, whose ``entries`` are what the pages list."""
    listed = [entry for page in pages for entry in getattr(page, entries)]
    return msgspec.structs.replace(pages[0], **{entries: listed}, next_cursor=None)


def post(
    path: str, answer: type[Answer], body: msgspec.Struct | None = None, *, is_query: bool = False
) -> Call[Answer]:
    """A POST with a JSON body."""
    encoded = None if body is None else msgspec.json.encode(body)
    return Call("POST", path, answer, body=encoded, is_query=is_query)


def table_path(name: str) -> str:
    """The path of a table. Raises ``ValueError`` unless ``name`` is ``namespace.table``."""
    split_table_name(name)
    return f"/v1/tables/{name}"


def instant_path(name: str, requested_time: str) -> str:
    """The path of an instant. Raises ``ValueError`` for a name or a time that no table has."""
    parse_time(requested_time)
    return f"{table_path(name)}/instants/{requested_time}"


def digits(moment: Moment | None) -> str | None:
    """A completion time as a query parameter."""
    return None if moment is None else digits_of(moment)


def requested_digits(moment: Moment | None) -> str | None:
    """A requested time as a query parameter."""
    return None if moment is None else requested_digits_of(moment)


def query(**parameters: Any) -> _Query:
    """The parameters that are given; a tuple is repeated under its name."""
    return tuple(pair for name, value in parameters.items() for pair in _pairs(name, value))


def _pairs(name: str, value: object) -> Iterable[tuple[str, str]]:
    if value is None:
        return ()
    if isinstance(value, tuple):
        return tuple((name, str(element)) for element in value)
    return ((name, str(value)),)
