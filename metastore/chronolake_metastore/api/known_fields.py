"""Advice for a body that msgspec refused: the fields of an object, or the words of an enum."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final

from msgspec import inspect

_REFUSED: Final = re.compile(
    r"(?P<what>Object contains unknown field|Invalid enum value) .*?(?: - at `\$(?P<path>.*)`)?\Z", re.DOTALL
)
_STEP: Final = re.compile(r"\.(?P<field>\w+)|\[[^\]]*\]")


def advice(message: str, wanted: object) -> str:
    """The fields or words that ``wanted``, the body's type, allows at the place that msgspec's message names.

    Empty if the message is of another kind.
    """
    refused = _REFUSED.match(message)
    if refused is None:
        return ""
    path = _STEP.finditer(refused["path"] or "")
    types = _at(_plain(_inspected(wanted)), [step["field"] for step in path])
    if refused["what"] == "Invalid enum value":
        words = [
            str(word.value) for type_ in types if isinstance(type_, inspect.EnumType) for word in type_.cls
        ]
        return f"; it is one of {', '.join(words)}" if words else ""
    structs = [type_ for type_ in types if isinstance(type_, inspect.StructType)]
    fields = dict.fromkeys(field.encode_name for struct in structs for field in struct.fields)
    others = [getattr(struct.cls, "other_fields", "") for struct in structs]
    known = [f"the fields are {', '.join(fields)}"] if fields else []
    return "".join(f"; {text}" for text in [*known, *others] if text)


@functools.cache
def _inspected(wanted: object) -> inspect.Type:
    return inspect.type_info(wanted)


def _at(types: Iterator[inspect.Type], path: list[str | None]) -> list[inspect.Type]:
    """The types at the end of a path; a step without a field is the item of a list or the value of a map."""
    reached = list(types)
    for field_name in path:
        reached = [inner for type_ in reached for inner in _within(type_, field_name)]
    return reached


def _within(type_: inspect.Type, field_name: str | None) -> Iterator[inspect.Type]:
    match type_:
        case inspect.StructType():
            for field in type_.fields:
                if field.encode_name == field_name:
                    yield from _plain(field.type)
        case inspect.CollectionType() if field_name is None:
            yield from _plain(type_.item_type)
        case inspect.DictType() if field_name is None:
            yield from _plain(type_.value_type)
        case _:
            pass


def _plain(type_: inspect.Type) -> Iterator[inspect.Type]:
    """The types of a union one by one, without their metadata."""
    match type_:
        case inspect.Metadata():
            yield from _plain(type_.type)
        case inspect.UnionType():
            for member in type_.types:
                yield from _plain(member)
        case _:
            yield type_
