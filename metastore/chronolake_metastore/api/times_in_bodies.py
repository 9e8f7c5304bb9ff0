"""The times in a body: digits that are no time are refused in every body, before its handler."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec import inspect

from chronolake_metastore import errors
from chronolake_model import patterns
from chronolake_model.times import INSTANT_TIME_PATTERN, READ_TIME_PATTERN, parse_read_time, parse_time

_PARSERS: Final[dict[str | None, Callable[[str], object]]] = {
    patterns.of_decoder(INSTANT_TIME_PATTERN): parse_time,
    patterns.of_decoder(READ_TIME_PATTERN): parse_read_time,
}


class _Field(msgspec.Struct, frozen=True):
    """A field with a time, or with a struct or a list of structs that have fields with times."""

    name: str
    parse: Callable[[str], object] | None
    inner: tuple[_Field, ...]


def refuse_no_time(body: Any) -> None:
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
