"""Lossless casts of columns to the types of the table: a value that would change fails the write.

A cast that truncates (1.99 to 1) or wraps around would silently store wrong data, and its result depends on
the session (``spark.sql.ansi.enabled``). So a value that changes in the table's type is refused. Spark's cast
of strings rounds ``1.555``, drops the time of a date and turns ``yes`` into true, so strings are converted by
the rules of CSV files instead. Spark's cast of structs goes by position and would swap fields, so they are cast
field by field, by name. Values of another kind are refused: Spark's cast of a number to a timestamp takes
seconds, whatever the unit of the number.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    IntegerType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from chronolake.writing import conversions, csv_types
from chronolake_spark import errors
from chronolake_spark.driver import schema
from chronolake_spark.write import nested_types

_COMPLEX = (ArrayType, MapType, StructType)
_TIMES = (DateType, TimestampType, TimestampNTZType)


def cast(value: Column, name: str, target: DataType, source: DataType) -> Column:
    """``value``, of the type ``source``, as ``target``.

    Raises ``SchemaMismatch`` for structs that do not have the same fields, in any order, and for types of other
    kinds: numbers are cast to numbers, times to times, all but binary to strings, and strings to all. A value
    that ``target`` cannot hold fails the write with the same error, and so does an int of another kind.

    Strings may be written as in CSV files of a stated type: a time without a zone is in UTC, and a float or a
    double is the nearest to the number.
    """
    if isinstance(source, NullType) or target.simpleString() == source.simpleString():
        return value.cast(target)
    if isinstance(target, _COMPLEX) or isinstance(source, _COMPLEX):
        _refuse_other_fields(name, target, source)
        return _nested(value, name, target, source)
    if isinstance(source, StringType) and csv_types.arrow_type(target.simpleString()) is not None:
        return _from_strings(value, name, target)
    if (other_kind := _other_kind(name, target, source)) is not None:
        if not isinstance(source, IntegerType):
            raise other_kind
        # Spark reads a column of Parquet that has no type, and only nulls, as int: nulls are accepted.
        failure = sf.raise_error(sf.lit(errors.encoded(other_kind)))
        return sf.when(value.isNotNull(), failure).otherwise(sf.lit(None).cast(target))
    cast_value = value.try_cast(target)
    is_lost = cast_value.isNull()
    if not isinstance(source, StringType) and not isinstance(target, StringType):
        is_lost = is_lost | (cast_value.try_cast(source) != value)
    failure = sf.raise_error(sf.lit(errors.encoded(_mismatch(name, target, source))))
    return sf.when(value.isNotNull() & sf.coalesce(is_lost, sf.lit(True)), failure).otherwise(cast_value)


def _nested(value: Column, name: str, target: DataType, source: DataType) -> Column:
    match target, source:
        case StructType(), StructType():
            given = nested_types.by_name(source)
            parts = []
            for field in target:
                own = given[field.name.lower()]
                part = _part(value.getField(own.name), f"{name}.{field.name}", field.dataType, own.dataType)
                parts.append(part.alias(field.name))
            return sf.when(value.isNotNull(), sf.struct(*parts))
        case ArrayType(), ArrayType():
            element, given_element = target.elementType, source.elementType
            return sf.transform(value, lambda item: _part(item, f"{name}.element", element, given_element))
        case MapType(), MapType() if target.keyType.simpleString() == source.keyType.simpleString():
            of_value, given_value = target.valueType, source.valueType
            return sf.transform_values(
                value, lambda _, item: _part(item, f"{name}.value", of_value, given_value)
            )
        case _:
            raise _mismatch(name, target, source)


def _part(value: Column, name: str, target: DataType, source: DataType) -> Column:
    if isinstance(source, StringType) and not isinstance(target, StringType):
        # Spark runs no function in Python on the items of arrays and maps.
        raise _mismatch(name, target, source)
    return cast(value, name, target, source)


def _other_kind(name: str, target: DataType, source: DataType) -> errors.SchemaMismatch | None:
    """The error of a value whose type is of another kind than the table's; None if it can be cast."""
    match source, target:
        case (StringType(), _) | (NumericType(), NumericType()):
            return None
        case BinaryType(), StringType():
            advice = "convert it yourself, as with decode(…, 'UTF-8')"
        case _, StringType():
            return None
        case NumericType(), _ if isinstance(target, _TIMES):
            advice = "convert it yourself, with its unit: timestamp_seconds, timestamp_millis, timestamp_micros"
        case _, NumericType() if isinstance(source, _TIMES):
            advice = "convert it yourself, with its unit: unix_seconds, unix_millis, unix_micros"
        case NumericType(), BooleanType():
            advice = "compare it with a value, as in n = 1"
        case _ if isinstance(source, _TIMES) and isinstance(target, _TIMES):
            return None
        case _:
            advice = "cast it yourself"
    return errors.SchemaMismatch(
        f"the rows do not fit the table: their column {name} is {source.simpleString()}, which is not "
        f"converted to the table's {target.simpleString()}; {advice}",
        {"column": name, "given": source.simpleString(), "wanted": target.simpleString()},
    )


def _refuse_other_fields(name: str, target: DataType, source: DataType) -> None:
    path = schema.plain(name)
    unknown = list(nested_types.fields_beyond(path, target, source))
    missing = [inner for inner, _ in nested_types.fields_beyond(path, source, target)]
    parts = []
    if missing:
        parts.append(
            f"lacks the nested fields {', '.join(missing)} (add them, for example as null: col('s').withField("
            "'name', lit(None)), and within arrays and maps with transform and transform_values)"
        )
    if unknown:
        additions = ", ".join(
            f"AddColumn({inner!r}, {schema.text_of(type_, name)!r})" for inner, type_ in unknown
        )
        parts.append(
            f"has nested fields that the table does not: {', '.join(inner for inner, _ in unknown)} (drop "
            "them, or write with merge_schema=True to add them to the table, or add them by "
            f"table.metastore.change_schema([{additions}]))"
        )
    if parts:
        raise errors.SchemaMismatch(
            f"the rows do not fit the table: their column {name} {' and '.join(parts)}",
            {"column": name, "missing": missing, "unknown": [inner for inner, _ in unknown]},
        )


def _from_strings(value: Column, name: str, target: DataType) -> Column:
    type_ = target.simpleString()

    def convert(strings: pa.Array) -> pa.Array:
        strings = strings.cast(pa.string())
        try:
            return csv_types.convert(strings, type_, stated=True)
        except csv_types.ValueMismatch as mismatch:
            refusal = conversions.unfit_string(name, strings[mismatch.index].as_py(), type_)
            raise RuntimeError(errors.encoded(refusal)) from mismatch

    # Type hints are strings in this module, and Spark cannot derive the kind of the function from them.
    convert.__annotations__ = {"strings": pa.Array, "return": pa.Array}
    return sf.arrow_udf(convert, target)(value)


def _mismatch(name: str, target: DataType, source: DataType) -> errors.SchemaMismatch:
    frame_type, table_type = source.simpleString(), target.simpleString()
    return errors.SchemaMismatch(
        f"the rows do not fit the table: their column {name} is {frame_type}, and the table's is "
        f"{table_type}, which cannot hold every value of it; cast the column explicitly",
        {"column": name, "given": frame_type, "wanted": table_type},
    )
