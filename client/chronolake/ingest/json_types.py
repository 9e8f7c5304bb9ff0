"""Types of JSON columns, from the shape of their values."""

from __future__ import annotations

from typing import Final

from chronolake.ingest.csv_files import ReadOptions
from chronolake.ingest.json_records import JsonType
from chronolake.ingest.json_shape import Shape
from chronolake.writing import csv_types
from chronolake_model import column_types
from chronolake_model.column_types import (
    ArrayType,
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
)
from chronolake_model.schemas import DECIMAL_PRECISION_MAX
from chronolake_model.tables import Field

_INT64_DIGITS: Final = 18
"""Maximum number of digits of a decimal that has eight bytes."""
_FLOATS: Final = ("float", "double")
_STRING: Final = PrimitiveType(csv_types.STRING)


def fields_of(shape: Shape, reading: ReadOptions) -> list[Field]:
    """The columns of records of ``shape``, in the order of their names.

    A column of strings in the table is one here too, and holds numbers as they are written. So is one of ``-0``
    for a column of floats, because integers and decimals have no negative zero. Decimal columns have room for
    larger numbers than the files have.
    """
    return [_column(name, shape.fields[name], reading) for name in sorted(shape.fields)]


def _column(name: str, shape: Shape, reading: ReadOptions) -> Field:
    known = reading.column(name)
    wanted = None if known is None else known.type
    is_text = wanted == csv_types.STRING or (wanted in _FLOATS and shape.has_negative_zero)
    if is_text and shape.kind not in {JsonType.ARRAY, JsonType.OBJECT}:
        return Field(name, csv_types.STRING)
    type_ = _type(shape, all_strings=reading.default is not None)
    if isinstance(type_, DecimalType):
        precision = _INT64_DIGITS if type_.precision <= _INT64_DIGITS else DECIMAL_PRECISION_MAX
        type_ = DecimalType(precision, type_.scale)
    return Field(name, column_types.spell(type_))


def _type(shape: Shape, *, all_strings: bool) -> DataType:
    match shape.kind:
        case JsonType.OBJECT:
            names = sorted(shape.fields)
            parts = [StructField(name, _type(shape.fields[name], all_strings=all_strings)) for name in names]
            return StructType(tuple(parts))
        case JsonType.ARRAY if shape.items is not None:
            return ArrayType(_type(shape.items, all_strings=all_strings))
        case JsonType.NUMBER if not all_strings:
            return _number(shape)
        case JsonType.BOOLEAN if not all_strings:
            return PrimitiveType("boolean")
        case _:
            return _STRING


def _number(shape: Shape) -> DataType:
    if not shape.has_decimals:
        return PrimitiveType("bigint")
    if shape.needs_double:
        return PrimitiveType("double")
    whole_digits, scale = shape.decimal_digits
    return DecimalType(whole_digits + scale, scale)
