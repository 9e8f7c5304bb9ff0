"""Lossless casts of columns to the types of the table: a value that would change fails the write.

A cast that truncates (1.99 to 1) or wraps around would silently store wrong data, and its result depends on
the session (``spark.sql.ansi.enabled``). So a value that changes in the table's type is refused. Spark's cast
of strings rounds ``1.555``, drops the time of a date and turns ``yes`` into true, so strings are converted by
the rules of CSV files instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StringType, StructType

from chronolake_spark import csv_types, errors, schema

_VALUE_CHARS_MAX = 200
_COMPLEX = (ArrayType, MapType, StructType)


def cast(value: Column, name: str, target: DataType, source: DataType) -> Column:
    """``value``, of the type ``source``, as ``target``.

    Raises ``SchemaMismatch`` when nested types differ: Spark's own cast goes by position, and would swap
    fields. A value that ``target`` cannot hold fails the write with the same error.

    Strings may be written as in CSV files of a stated type: a time without a zone is in UTC, and a float or a
    double is the nearest to the number.
    """
    if isinstance(source, NullType) or target.simpleString() == source.simpleString():
        return value.cast(target)
    if isinstance(target, _COMPLEX) or isinstance(source, _COMPLEX):
        raise _mismatch(name, target, source)
    if isinstance(source, StringType) and csv_types.arrow_type(target.simpleString()) is not None:
        return _from_strings(value, name, target)
    cast_value = value.try_cast(target)
    is_lost = cast_value.isNull()
    if not isinstance(source, StringType) and not isinstance(target, StringType):
        is_lost = is_lost | (cast_value.try_cast(source) != value)
    failure = sf.raise_error(sf.lit(errors.encoded(_mismatch(name, target, source))))
    return sf.when(value.isNotNull() & sf.coalesce(is_lost, sf.lit(True)), failure).otherwise(cast_value)


def _from_strings(value: Column, name: str, target: DataType) -> Column:
    type_ = target.simpleString()

    def convert(strings: pa.Array) -> pa.Array:
        strings = strings.cast(pa.string())
        try:
            return csv_types.convert(strings, type_, stated=True)
        except csv_types.ValueMismatch as mismatch:
            string = strings[mismatch.index].as_py()[:_VALUE_CHARS_MAX]
            refusal = errors.SchemaMismatch(
                f"column {name}: the string {string!r} does not fit {type_}; correct it, or cast the column "
                "explicitly",
                {"column": name, "value": string, "wanted": type_},
            )
            raise RuntimeError(errors.encoded(refusal)) from mismatch

    # Type hints are strings in this module, and Spark cannot derive the kind of the function from them.
    convert.__annotations__ = {"strings": pa.Array, "return": pa.Array}
    return sf.arrow_udf(convert, target)(value)


def _mismatch(name: str, target: DataType, source: DataType) -> errors.SchemaMismatch:
    frame_type, table_type = source.simpleString(), target.simpleString()
    new_fields = _new_fields(schema.plain(name), target, source)
    changes = ", ".join(f"AddColumn({path!r}, {type_!r})" for path, type_ in new_fields)
    advice = "cast the column explicitly"
    if changes:
        advice = f"add its nested fields first, by table.metastore.change_schema([{changes}]), or {advice}"
    return errors.SchemaMismatch(
        f"the frame does not fit the table: its column {name} is {frame_type}, and the table's is "
        f"{table_type}, which cannot hold every value of it; {advice}",
        {"column": name, "given": frame_type, "wanted": table_type},
    )


def _new_fields(path: str, target: DataType, source: DataType) -> Iterator[tuple[str, str]]:
    """The paths and types of the nested fields that only ``source`` has."""
    match target, source:
        case StructType(), StructType():
            own = {field.name: field.dataType for field in target}
            for field in source:
                inner = f"{path}.{schema.plain(field.name)}"
                if field.name not in own:
                    yield inner, field.dataType.simpleString()
                else:
                    yield from _new_fields(inner, own[field.name], field.dataType)
        case ArrayType(), ArrayType():
            yield from _new_fields(f"{path}.element", target.elementType, source.elementType)
        case MapType(), MapType():
            yield from _new_fields(f"{path}.value", target.valueType, source.valueType)
        case _:
            return
