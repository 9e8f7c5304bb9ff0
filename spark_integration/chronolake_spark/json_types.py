"""Types of JSON columns: what Spark infers, corrected where it would change values.

Spark makes decimals of strings that look like numbers, so that ``"1.1"`` and ``"1.10"`` become one value.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import ArrayType, DataType, DecimalType, StringType, StructField, StructType

from chronolake_spark import csv_types
from chronolake_spark.csv_files import Reading
from chronolake_spark.json_files import STRING, Shape

_INT64_DIGITS: Final = 18
_DIGITS_MAX: Final = 38
"""What a decimal of eight bytes holds, and what the largest does."""


def with_strings(inferred: StructType, shape: Shape, reading: Reading) -> StructType:
    """``inferred`` with strings where the values are strings, or where the table has strings.

    A column of the table's strings holds its numbers as they are written.
    """
    struct = _kept(inferred, shape)
    assert isinstance(struct, StructType), "records are objects"
    return StructType([_as_stored(field, reading) for field in struct])


def roomy(field: StructField) -> StructField:
    """A decimal column with room for larger numbers than these files have."""
    type_ = field.dataType
    if not isinstance(type_, DecimalType):
        return field
    precision = _INT64_DIGITS if type_.precision <= _INT64_DIGITS else _DIGITS_MAX
    return StructField(field.name, DecimalType(precision, type_.scale))


def _kept(type_: DataType, shape: Shape) -> DataType:
    if shape.kind == STRING:
        return StringType()
    if isinstance(type_, ArrayType) and shape.items is not None:
        return ArrayType(_kept(type_.elementType, shape.items), type_.containsNull)
    if isinstance(type_, StructType):
        fields = [(field, shape.fields[field.name]) for field in type_]
        return StructType(
            [StructField(field.name, _kept(field.dataType, of), field.nullable) for field, of in fields]
        )
    return type_


def _as_stored(field: StructField, reading: Reading) -> StructField:
    known = reading.column(field.name)
    is_text = known is not None and known.type == csv_types.STRING
    if not is_text or isinstance(field.dataType, ArrayType | StructType):
        return field
    return StructField(field.name, StringType())
