"""Conversions between Spark's schemas and the fields of a table's definition."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from chronolake.slices import columns
from chronolake.writing import column_names
from chronolake_model.tables import Field
from chronolake_spark import errors
from chronolake_spark.driver import spark_internals

_IN_UTC: Final = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
_ATOMIC = (
    spark_types.BooleanType,
    spark_types.ByteType,
    spark_types.ShortType,
    spark_types.IntegerType,
    spark_types.LongType,
    spark_types.FloatType,
    spark_types.DoubleType,
    spark_types.DecimalType,
    spark_types.StringType,
    spark_types.BinaryType,
    spark_types.DateType,
    spark_types.TimestampType,
    spark_types.TimestampNTZType,
)
quoted, plain = column_names.quoted, column_names.plain
BINARY_COLLATION: Final = "UTF8_BINARY"
"""The collation of a string without one: the only one that tables know."""
# A quoted name, or the type: not a field of a struct that is called so (``timestamp:``).
_NAME_OR_TIMESTAMP = re.compile(r"`(?:[^`]|``)*`|\btimestamp\b(?!\s*:)", re.IGNORECASE)


def fields_of(schema: StructType) -> list[Field]:
    """The fields of a table for frames of ``schema``.

    Raises ``SchemaMismatch`` for a type that data files do not hold and for a reserved name.
    """
    column_names.refuse_reserved("the schema", schema.names)
    return [Field(field.name, text_of(field.dataType, field.name), field.nullable) for field in schema]


def struct_of(fields: Iterable[Field]) -> StructType:
    """The schema of frames read from a table: all columns nullable, as Spark reads files. Needs a session."""
    return StructType.fromDDL(", ".join(f"{quoted(field.name)} {ddl(field.type)}" for field in fields))


@functools.cache
def type_of(text: str) -> DataType:
    """The type of a column of a table. Needs a session, which takes a millisecond the first time."""
    return StructType.fromDDL(f"value {ddl(text)}")[0].dataType


def text_of(type_: DataType, column: str) -> str:
    """The type as a table has it. Raises ``SchemaMismatch`` for one that data files do not hold."""
    match type_:
        case spark_types.StringType():
            if type_.collation == BINARY_COLLATION:
                return "string"
        case spark_types.ArrayType():
            return f"array<{text_of(type_.elementType, column)}>"
        case spark_types.MapType():
            return f"map<{text_of(type_.keyType, column)},{text_of(type_.valueType, column)}>"
        case StructType():
            inner = ",".join(f"{plain(field.name)}:{text_of(field.dataType, column)}" for field in type_)
            return f"struct<{inner}>"
        case _ if isinstance(type_, _ATOMIC):
            return str(type_.simpleString())
        case _:
            pass
    raise errors.SchemaMismatch(
        f"the column {column!r} has the type {type_.simpleString()}, which data files cannot store; cast it to "
        "another type",
        {"columns": [column]},
    )


def arrow_of(struct: StructType) -> pa.Schema:
    """The schema in Arrow, with timestamps in UTC. PySpark 4.1 has no other ones, and no argument for it."""
    return to_arrow_schema(struct, **_IN_UTC)


def file_struct_of(fields: Iterable[Field]) -> StructType:
    """The schema of data files with these columns: Hudi's five come before them."""
    meta = [StructField(name, spark_types.StringType()) for name in columns.META]
    return StructType([*meta, *struct_of(fields)])


def selected(frame: DataFrame, names: Iterable[str]) -> DataFrame:
    """The columns of ``frame`` with these names.

    Given as texts: PySpark looks up the caller for each Column, which takes half a millisecond. And not as SQL,
    where ``spark.sql.parser.quotedRegexColumnNames`` makes a pattern of a name.
    """
    return frame.select(*map(quoted, names))


def with_expressions(frame: DataFrame, expressions: Sequence[str | Column]) -> DataFrame:
    """``frame.select``, where a text is SQL: faster than a Column, for the reason given in ``selected``."""
    spark = frame.sparkSession
    own = (
        spark_internals.expression(spark, given) if isinstance(given, str) else given for given in expressions
    )
    return frame.select(*own)


def ddl(text: str) -> str:
    """A table's type as SQL that means the same in each session: there ``timestamp`` depends on a setting."""
    return _NAME_OR_TIMESTAMP.sub(lambda match: match[0] if match[0][0] == "`" else "timestamp_ltz", text)


def null_of(field: Field) -> str:
    """An SQL expression for a column without values."""
    return f"cast(null as {ddl(field.type)}) as {quoted(field.name)}"


def refuse_no_frame(rows: DataFrame) -> None:
    """Raise ``TypeError`` for rows that are no DataFrame of Spark."""
    if not isinstance(rows, DataFrame):
        raise TypeError(
            "rows are written as a DataFrame, as spark.createDataFrame([(1, 'x')], 'id long, name string'), "
            f"not {type(rows).__name__}"
        )


def refuse_no_condition(frame: DataFrame, condition: Column, name: str) -> None:
    """Raise ``SchemaMismatch`` if ``condition`` (``name`` in the message) is no boolean of ``frame``."""
    given = frame.select(condition).schema[0].dataType
    if not isinstance(given, spark_types.BooleanType):
        raise errors.SchemaMismatch(
            f"{name} is a {given.simpleString()}, not a condition; compare it with a value",
            {"given": given.simpleString()},
        )
