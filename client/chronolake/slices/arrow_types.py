"""Column types of a table in Arrow, as data files have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, assert_never

import pyarrow as pa

from chronolake import field_ids
from chronolake_model import column_types
from chronolake_model.column_types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from chronolake_model.meta_columns import META
from chronolake_model.schemas import DECIMAL_PRECISION_MAX
from chronolake_model.tables import SchemaField

_PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def file_layout(fields: Iterable[SchemaField]) -> pa.Schema:
    """The layout of data files with these columns: Hudi's five come before them. With field ids."""
    fields = list(fields)
    meta = [pa.field(name, pa.string()) for name in META]
    return field_ids.with_field_ids(pa.schema([*meta, *_fields_of(fields)]), fields)


def own_layout(fields: Iterable[SchemaField]) -> pa.Schema:
    """The layout of these columns alone, all nullable, also within columns. With field ids."""
    fields = list(fields)
    return field_ids.with_field_ids(pa.schema(_fields_of(fields)), fields)


def of(data_type: DataType) -> pa.DataType:
    """The Arrow type of a column type."""
    match data_type:
        case PrimitiveType(name):
            return _PRIMITIVES[name]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element):
            return pa.list_(of(element))
        case MapType(key, value):
            return pa.map_(of(key), of(value))
        case StructType(fields):
            return pa.struct([pa.field(field.name, of(field.type)) for field in fields])
        case _:
            assert_never(data_type)


def column_type(data_type: pa.DataType) -> DataType:
    """The column type that holds all values of an Arrow type, as rows of it are written.

    Raises ``ValueError`` if there is none.
    """
    if pa.types.is_dictionary(data_type):
        return column_type(data_type.value_type)
    if pa.types.is_nested(data_type):
        return _nested_column_type(data_type)
    if pa.types.is_decimal(data_type) and data_type.precision <= DECIMAL_PRECISION_MAX and data_type.scale >= 0:
        return DecimalType(data_type.precision, data_type.scale)
    if pa.types.is_uint64(data_type):
        return DecimalType(20, 0)
    for name, is_one in _HELD_BY.items():
        if any(test(data_type) for test in is_one):
            return PrimitiveType(name)
    raise _unknown(data_type)


def _nested_column_type(data_type: pa.DataType) -> DataType:
    if pa.types.is_struct(data_type):
        return StructType(tuple(StructField(field.name, column_type(field.type)) for field in data_type))
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return ArrayType(column_type(data_type.value_type))
    if pa.types.is_map(data_type):
        return MapType(column_type(data_type.key_type), column_type(data_type.item_type))
    raise _unknown(data_type)


def _unknown(data_type: pa.DataType) -> ValueError:
    return ValueError(f"no column type holds the values of Arrow's {data_type}")


def _is_time_with_zone(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(data_type) and data_type.tz is not None)


_HELD_BY: Final[Mapping[str, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "boolean": (pa.types.is_boolean,),
    "tinyint": (pa.types.is_int8,),
    "smallint": (pa.types.is_int16, pa.types.is_uint8),
    "int": (pa.types.is_int32, pa.types.is_uint16),
    "bigint": (pa.types.is_int64, pa.types.is_uint32),
    "float": (pa.types.is_float32,),
    "double": (pa.types.is_float64,),
    "string": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "binary": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
    "date": (pa.types.is_date,),
    "timestamp": (_is_time_with_zone,),
    "timestamp_ntz": (pa.types.is_timestamp,),
}
"""The kinds of Arrow types whose values a column type holds, the first that fits."""


def is_list(data_type: pa.DataType) -> bool:
    """Whether values are lists, of 32 or 64 bit offsets or of one length."""
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(data_type) for test in tests)


def without_small_integers(schema: pa.Schema) -> pa.Schema:
    """The same columns, with int for tinyint and smallint, also within columns. Field ids stay."""
    return pa.schema([_replaced(field, _without_small_integers) for field in schema])


def with_numbers_for_times(schema: pa.Schema) -> pa.Schema:
    """The same columns, with days for dates and microseconds for timestamps, also within columns.

    Python has no dates and times outside of the years 1 to 9999.
    """
    return pa.schema([_replaced(field, _numbers_for_times) for field in schema])


def _fields_of(fields: Iterable[SchemaField]) -> list[pa.Field]:
    return [pa.field(field.name, of(column_types.parse(field.type))) for field in fields]


def _replaced(field: pa.Field, replace: Callable[[pa.DataType], pa.DataType]) -> pa.Field:
    """The field with other types for its simple values."""
    data_type = field.type
    if pa.types.is_struct(data_type):
        return field.with_type(pa.struct([_replaced(part, replace) for part in data_type]))
    if is_list(data_type):
        element = _replaced(data_type.value_field, replace)
        if pa.types.is_large_list(data_type):
            return field.with_type(pa.large_list(element))
        size = data_type.list_size if pa.types.is_fixed_size_list(data_type) else -1
        return field.with_type(pa.list_(element, size))
    if pa.types.is_map(data_type):
        key, item = (_replaced(part, replace) for part in (data_type.key_field, data_type.item_field))
        return field.with_type(pa.map_(key, item))
    return field.with_type(replace(data_type))


def _without_small_integers(data_type: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_int8(data_type) or pa.types.is_int16(data_type) else data_type


def _numbers_for_times(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(data_type):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(data_type) else data_type
