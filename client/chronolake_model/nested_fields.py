"""Nested fields of columns, their ids and paths: struct fields, elements of arrays, keys and values of maps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, assert_never

from chronolake_model.column_types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse,
)
from chronolake_model.tables import Field, NestedField, SchemaField

ELEMENT: Final = "element"
KEY: Final = "key"
VALUE: Final = "value"

_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_NEEDS_QUOTES: Final = re.compile(r"[.`]")


def parts(data_type: DataType) -> Sequence[StructField]:
    """The types within a type, one level deep, with their names; none within a primitive type."""
    match data_type:
        case StructType(fields):
            return fields
        case ArrayType(element):
            return (StructField(ELEMENT, element),)
        case MapType(key, value):
            return (StructField(KEY, key), StructField(VALUE, value))
        case PrimitiveType() | DecimalType():
            return ()
        case _:
            assert_never(data_type)


def numbered(data_type: DataType, last_field_id: int) -> tuple[list[NestedField], int]:
    """The nested fields of a new column, and the greatest field id with theirs.

    They are numbered from the one after ``last_field_id``, a field before the fields within it.
    """
    nested = []
    for part in parts(data_type):
        field_id = last_field_id + 1
        within, last_field_id = numbered(part.type, field_id)
        nested.append(NestedField(part.name, field_id, within))
    return nested, last_field_id


def numbered_columns(columns: Sequence[Field]) -> tuple[list[SchemaField], int]:
    """The columns of a new table, and the greatest field id: columns are numbered first, then nested fields.

    Raises ``ValueError`` for what is no type.
    """
    fields = []
    last = len(columns)
    for field_id, column in enumerate(columns, start=1):
        nested, last = numbered(parse(column.type), last)
        fields.append(SchemaField(column.name, column.type, column.nullable, field_id=field_id, nested=nested))
    return fields, last


def count(data_type: DataType) -> int:
    """The number of nested fields, at any depth."""
    return sum(1 + count(part.type) for part in parts(data_type))


def field_ids(nested: Iterable[NestedField]) -> Iterator[int]:
    """The ids of nested fields, at any depth, each before those within it."""
    for field in nested:
        yield field.field_id
        yield from field_ids(field.nested)


def split(path: str) -> list[str]:
    """The names in a path like ``address.city`` or ``tags.element``.

    A name with a dot or a backtick is quoted with backticks, and a backtick in it is doubled. Raises
    ``ValueError`` for what is no path.
    """
    names = []
    at = 0
    while (match := _PART.match(path, at)) is not None:
        quoted, plain = match.groups()
        names.append(plain if quoted is None else quoted.replace("``", "`"))
        at = match.end()
        if at == len(path):
            return names
        if path[at] != ".":
            break
        at += 1
    raise ValueError(
        f"{path[:100]!r} is no path of a column or nested field; write names with dots in between, and a name "
        "with a dot or a backtick in backticks"
    )


def join(names: Iterable[str]) -> str:
    """The path of these names, which ``split`` takes apart again."""
    return ".".join(_quoted(name) if _NEEDS_QUOTES.search(name) else name for name in names)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
