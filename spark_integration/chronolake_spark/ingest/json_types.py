"""Types of JSON columns: those that Spark infers, but for strings.

Spark makes decimals of strings that look like numbers, so that ``"1.1"`` and ``"1.10"`` become one value.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from chronolake.writing import csv_types
from chronolake_model.schemas import DECIMAL_PRECISION_MAX
from chronolake_spark.ingest.csv_files import ReadOptions
from chronolake_spark.ingest.files.json_records import JsonType
from chronolake_spark.ingest.files.json_shape import Shape

_INT64_DIGITS: Final = 18
"""Maximum number of digits of a decimal that has eight bytes."""


def struct_of(shape: Shape, reading: ReadOptions) -> StructType:
    """The columns of records of ``shape``, in the order of their names.

    A column of strings in the table is one here too, and holds numbers as they are written. Decimal columns
    have room for larger numbers than the files have.
    """
    return StructType([_column(name, shape.fields[name], reading) for name in sorted(shape.fields)])


def _column(name: str, shape: Shape, reading: ReadOptions) -> StructField:
    known = reading.column(name)
    is_text = known is not None and known.type == csv_types.STRING
    is_complex = shape.kind in {JsonType.ARRAY, JsonType.OBJECT}
    if is_text and not is_complex:
        return StructField(name, StringType())
    type_ = _type(shape, all_strings=reading.default is not None)
    if isinstance(type_, DecimalType):
        precision = _INT64_DIGITS if type_.precision <= _INT64_DIGITS else DECIMAL_PRECISION_MAX
        type_ = DecimalType(precision, type_.scale)
    return StructField(name, type_)


def _type(shape: Shape, *, all_strings: bool) -> DataType:
    match shape.kind:
        case JsonType.OBJECT:
            names = sorted(shape.fields)
            return StructType(
                [StructField(name, _type(shape.fields[name], all_strings=all_strings)) for name in names]
            )
        case JsonType.ARRAY if shape.items is not None:
            return ArrayType(_type(shape.items, all_strings=all_strings))
        case JsonType.NUMBER if not all_strings:
            return _number(shape)
        case JsonType.BOOLEAN if not all_strings:
            return BooleanType()
        case _:
            return StringType()


def _number(shape: Shape) -> DataType:
    if not shape.has_decimals:
        return LongType()
    if shape.needs_double:
        return DoubleType()
    whole_digits, scale = shape.decimal_digits
    return DecimalType(whole_digits + scale, scale)
