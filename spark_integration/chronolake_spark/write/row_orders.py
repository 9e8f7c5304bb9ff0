"""The columns that order the rows of one key, in values that Spark and Arrow order alike.

Spark finds the winner of a key that has rows for several partitions, and Arrow the winner of each file group.
Where the two orders differed, a row would be stored where another one belongs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, functions as sf, types as st

from chronolake.slices import columns
from chronolake_spark import errors
from chronolake_spark.driver import schema

_ALIKE: Final = (
    st.NumericType,
    st.StringType,
    st.CharType,
    st.VarcharType,
    st.BooleanType,
    st.BinaryType,
    st.DateType,
    st.TimestampType,
    st.TimestampNTZType,
    st.TimeType,
    st.DayTimeIntervalType,
)
"""Types whose values have one order, with null first: numbers apart from NaN."""
_DIRECTION: Final = re.compile(r" (ASC|DESC) NULLS (FIRST|LAST)'>\Z")


def names(count: int) -> list[str]:
    """The names of ``count`` order columns."""
    return [f"{columns.ORDER_PREFIX}{number}" for number in range(count)]


def refuse_directions(given: Iterable[Column]) -> None:
    """Raise ``SchemaMismatch`` for ``asc()`` and ``desc()``, which are no values that could be compared."""
    for column in given:
        if _DIRECTION.search(str(column)):
            raise errors.SchemaMismatch(
                f"{column} in the row order is a direction, not a value: rows are ordered by ascending values, "
                "so give the column itself, or an expression such as -col('n') for the opposite order"
            )


def comparable(rows: DataFrame, given: Sequence[str]) -> list[Column]:
    """The order columns for these columns of ``rows``, with names of their own.

    NaN is null, as in ordering values, and null comes first. Texts are compared by their bytes, and structs
    field by field. Raises ``SchemaMismatch`` for other nested types.
    """
    parts = [part for name in given for part in _parts(sf.col(name), rows.schema[name].dataType)]
    return [part.alias(name) for part, name in zip(parts, names(len(parts)), strict=True)]


def _parts(value: Column, type_: st.DataType) -> Iterator[Column]:
    if isinstance(type_, st.StructType):
        yield value.isNotNull()
        for field in type_.fields:
            yield from _parts(value.getField(field.name), field.dataType)
    elif isinstance(type_, st.FloatType | st.DoubleType):
        yield sf.when(~sf.isnan(value), value)
    elif isinstance(type_, st.StringType) and type_.collation != schema.BINARY_COLLATION:
        yield sf.collate(value, schema.BINARY_COLLATION)
    elif isinstance(type_, _ALIKE):
        yield value
    elif not isinstance(type_, st.NullType):
        raise errors.SchemaMismatch(
            f"a column of the row order has the type {type_.simpleString()}, which orders no rows: give "
            "numbers, texts, times, or structs of them"
        )
