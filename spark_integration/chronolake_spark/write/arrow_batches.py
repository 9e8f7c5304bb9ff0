"""The hand-over of rows to Python in batches without a limit of their bytes, where no row is large.

At each row Spark compares the bytes of a batch with its limit, which takes as long as all the rest of the
conversion to Arrow (docs/decisions/0054). The limit on the number of rows bounds the memory as well, unless
rows are large. A write of large rows fails, and is done again with the limit. Frames that are computed by
functions in Python keep the limit, because it is that of these functions too. So do frames that are observed,
because an observation is that of the first attempt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from pyspark.sql import DataFrame, functions as sf
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType, VariantType

from chronolake_spark.driver import schema, spark_internals

ROW_BYTES_MAX: Final = 16_384
"""The bytes of the strings and binary values of a row that is not large."""
_BYTES_SETTING: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_RECORDS_SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_RECORDS_MAX: Final = 20_000
_NO_LIMIT: Final = 2**31 - 1
_KEEPS_LIMIT: Final = re.compile(r"In(Pandas|Arrow)|Python|CollectMetrics")
"""Nodes of a logical plan that run functions in Python, or observe rows."""
_MESSAGE: Final = "chronolake: a row is large, so batches need a limit of bytes"
_UNBOUNDED: Final = (ArrayType, MapType, StructType, VariantType)
_Result = TypeVar("_Result")
_tables_with_large_rows: set[str] = set()


class LargeRow(Exception):
    """A row is large. The write must be done again, with limited batches."""


def run(table_id: str, write: Callable[[bool], _Result]) -> _Result:
    """Call ``write``, which gets whether its batches are limited: again if a row is large, and from then on."""
    if table_id not in _tables_with_large_rows:
        try:
            return write(False)
        except LargeRow:
            _tables_with_large_rows.add(table_id)
    return write(True)


def is_large_row(failure: Exception) -> bool:
    """Whether Spark failed because ``guarded`` has found a large row."""
    return _MESSAGE in str(failure)


def can_be_unlimited(rows: DataFrame) -> bool:
    """Whether ``guarded`` knows how large the rows are, and their number in a batch is limited.

    And whether no function in Python computes them, and nothing observes them.
    """
    records = int(rows.sparkSession.conf.get(_RECORDS_SETTING) or 0)
    types = [field.dataType for field in rows.schema]
    if not 0 < records <= _RECORDS_MAX or any(isinstance(type_, _UNBOUNDED) for type_ in types):
        return False
    plan = spark_internals.analyzed(rows)
    calls_python = spark_internals.has_pattern(rows, plan, "PYTHON_UDF")
    return not calls_python and not _KEEPS_LIMIT.search(str(plan.toString()))


def guarded(rows: DataFrame) -> DataFrame:
    """``rows``, whose evaluation fails at a large one."""
    names = [field.name for field in rows.schema if _has_bytes(field.dataType)]
    if not names:
        return rows
    # In SQL, because PySpark takes half a millisecond for each operation on a column.
    lengths = " + ".join(f"coalesce(octet_length({schema.quoted(name)}), 0)" for name in names)
    last = schema.quoted(names[-1])
    value = f"if({lengths} > {ROW_BYTES_MAX}, raise_error('{_MESSAGE}'), {last})"
    return rows.withColumn(names[-1], sf.expr(value))


def save(rows: DataFrame, format_: str, options: Mapping[str, str], *, is_limited: bool) -> None:
    """Append the rows to a data source. A limit that the session sets stays."""
    context = rows.sparkSession.sparkContext
    before = context.getLocalProperty(_BYTES_SETTING)
    if not is_limited:
        # A property of this thread, not of the session, whose other queries keep the limit.
        context.setLocalProperty(_BYTES_SETTING, str(_NO_LIMIT))
    try:
        rows.write.format(format_).options(**options).mode("append").save()
    finally:
        context.setLocalProperty(_BYTES_SETTING, before)


def _has_bytes(type_: DataType) -> bool:
    return isinstance(type_, StringType | BinaryType)
