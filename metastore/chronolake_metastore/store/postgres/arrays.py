"""Columns of many rows as parameters: each list is sent as one binary array, of the type that its SQL names.

psycopg looks through a list for its type and writes it as text, quotes and all: that took a fifth of the
server's time. It also finds no type in a list of nulls, so that one statement was prepared again for every set
of columns that happened to be empty. Here ``%(name)s::bigint[]`` says what ``name`` is. Arrays of types that
are not listed below are left to psycopg.
"""

from __future__ import annotations

import functools
import itertools
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import adapt, pq
from psycopg.adapt import AdaptersMap, Buffer

_DECLARED: Final = re.compile(r"%\((\w+)\)s::(\w+)\[\]")
_NULL: Final = b"\xff\xff\xff\xff"
_EMPTY: Final = struct.Struct("!iiI")
_HEAD: Final = struct.Struct("!iiIii")
_LENGTH: Final = struct.Struct("!i").pack
_NUMBERS: Final = {"smallint": (2, "ih"), "integer": (4, "ii"), "bigint": (8, "iq"), "boolean": (1, "i?")}
"""Types of numbers: the length of an element in bytes, and the format of that length and the element."""
_UUID_LENGTH: Final = _LENGTH(16)


class _Array(bytes):
    """An array as it goes over the wire; its class tells its type."""

    element_oid: int


class _ArrayDumper(adapt.Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: bytes) -> Buffer:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        return obj


def _bytes(value: bytes) -> bytes:
    return _LENGTH(len(value)) + value


def _number(type_name: str) -> Callable[[Any], bytes]:
    length, form = _NUMBERS[type_name]
    return functools.partial(struct.Struct(f"!{form}").pack, length)


_ELEMENTS: Final[dict[str, Callable[[Any], bytes]]] = {
    **{type_name: _number(type_name) for type_name in _NUMBERS},
    "text": lambda value: _bytes(value.encode()),
    "bytea": _bytes,
    "uuid": lambda value: _UUID_LENGTH + value.bytes,
}
"""The wire format of an element of a type, after its length."""

_ADAPTERS: Final = AdaptersMap(psycopg.adapters)


class _UuidLoader(adapt.Loader):
    """Gives one object for equal ids: ids are keys of dicts, and equal objects are compared in Python."""

    format = pq.Format.TEXT

    def load(self, data: Buffer) -> UUID:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        return _uuid(bytes(data))


@functools.lru_cache(maxsize=10_000)
def _uuid(text: bytes) -> UUID:
    return UUID(text.decode())


_ADAPTERS.register_loader("uuid", _UuidLoader)


def _class_of(type_name: str) -> type[_Array]:
    info = psycopg.adapters.types[type_name]
    array = type(f"_{type_name}_array", (_Array,), {"element_oid": info.oid})
    _ADAPTERS.register_dumper(array, type("_Dumper", (_ArrayDumper,), {"oid": info.array_oid}))
    return array


_CLASSES: Final = {name: _class_of(name) for name in _ELEMENTS}


def context() -> AdaptersMap:
    """The adapters that a connection needs for the results of ``bind``. Its client encoding must be UTF-8."""
    return AdaptersMap(_ADAPTERS)


def bind(sql: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The ``parameters`` of ``sql``, with a list wherever ``sql`` declares an array made into one."""
    declared = _declared(sql)
    if not declared:
        return parameters
    bound = dict(parameters)
    for name, type_name in declared:
        bound[name] = _encode(type_name, bound[name])
    return bound


@functools.lru_cache(maxsize=256)
def _declared(sql: str) -> tuple[tuple[str, str], ...]:
    return tuple({(name, type_name) for name, type_name in _DECLARED.findall(sql) if type_name in _ELEMENTS})


def _encode(type_name: str, values: Sequence[Any]) -> bytes:
    array = _CLASSES[type_name]
    if not values:
        return array(_EMPTY.pack(0, 0, array.element_oid))
    # The second number would say whether there are nulls; PostgreSQL looks for itself.
    head = _HEAD.pack(1, 0, array.element_oid, len(values), 1)
    return array(b"".join([head, *_elements(type_name, values)]))


def _elements(type_name: str, values: Sequence[Any]) -> Iterable[bytes]:
    element = _ELEMENTS[type_name]
    # Most columns of a group have one value in all rows, or are null.
    if values[0] == values[-1] and values.count(values[0]) == len(values):
        return [_NULL if values[0] is None else element(values[0])] * len(values)
    if type_name in _NUMBERS and None not in values:
        return [_packed(type_name, values)]
    if type_name == "bytea" and None not in values and len(set(map(len, values))) == 1:
        # Hashes: by one call for all.
        length = _LENGTH(len(values[0]))
        return [length, length.join(values)]
    if type_name == "text" and None not in values:
        texts = [value.encode() for value in values]
        return itertools.chain.from_iterable(zip(map(_LENGTH, map(len, texts)), texts, strict=True))
    return [_NULL if value is None else element(value) for value in values]


def _packed(type_name: str, values: Sequence[Any]) -> bytes:
    """Numbers without nulls, by one call for all."""
    length, form = _NUMBERS[type_name]
    elements = itertools.chain.from_iterable(zip(itertools.repeat(length), values))
    return struct.pack(f"!{form * len(values)}", *elements)
