"""A column in the type of the table: each value as it is, or the write fails.

A cast that cuts (1.99 to 1) or wraps around would put wrong data into the table without a word, and what
Spark does with it depends on the session (``spark.sql.ansi.enabled``). So a value that does not come back from
the table's type as it was is refused.
"""

from __future__ import annotations

from pyspark.sql import Column, functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from chronolake_spark import errors

_COMPLEX = (ArrayType, MapType, StructType)


def cast(value: Column, name: str, target: DataType, source: DataType) -> Column:
    """``value``, of the type ``source``, as ``target``.

    Raises ``SchemaMismatch`` when nested types differ: Spark's own cast goes by position, and would swap
    fields. A value that ``target`` cannot hold fails the write with the same error.
    """
    if target.simpleString() == source.simpleString():
        return value.cast(target)
    if isinstance(target, _COMPLEX) or isinstance(source, _COMPLEX):
        raise _mismatch(name, target, source)
    held = value.try_cast(target)
    lost = held.isNull()
    if not isinstance(source, StringType) and not isinstance(target, StringType):
        lost = lost | (held.try_cast(source) != value)
    refused = sf.raise_error(sf.lit(errors.carried(_mismatch(name, target, source))))
    return sf.when(value.isNotNull() & sf.coalesce(lost, sf.lit(True)), refused).otherwise(held)


def _mismatch(name: str, target: DataType, source: DataType) -> errors.SchemaMismatch:
    given, wanted = source.simpleString(), target.simpleString()
    return errors.SchemaMismatch(
        f"the frame does not fit the table: its column {name} is {given}, and the table's is {wanted}, which "
        "does not hold every value of it; cast it as you mean it",
        {"column": name, "given": given, "wanted": wanted},
    )
