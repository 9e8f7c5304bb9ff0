"""Texts that are a filter and SQL at once: one that SQL gives another meaning is not taken as a filter.

Spark decides. It plans the text as SQL, and the filter that the text says, over rows of the table's columns,
and compares the plans (docs/decisions/0066-texts.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from chronolake._filters import filter_of
from chronolake_model import filter_text
from chronolake_model.filters import Filter
from chronolake_model.tables import Field, Table
from chronolake_spark import errors
from chronolake_spark.driver import schema, spark_failures, spark_internals
from chronolake_spark.read import filters
from chronolake_spark.read.filters import FilterOrText


def parse(spark: SparkSession, given: FilterOrText, table: Table) -> Filter:
    """The filter of an expression or a text.

    Raises ``ValueError`` for an invalid text, ``TypeError``, and ``AmbiguousFilter`` for a text that means
    other rows in SQL. A text that is no SQL is taken: ``where`` refuses it.
    """
    filter_ = filter_of(given, table.schema)
    if isinstance(given, str) and has_another(spark, given, filter_, table.schema):
        raise errors.AmbiguousFilter(ambiguous(given, table.name), {"filter": given})
    return filter_


def ambiguous(text: str, table: str) -> str:
    """The message of ``AmbiguousFilter``."""
    reason = filter_text.unlike_sql(text) or "SQL compares these values in another type, or by other rules"
    return (
        f"the filter {text} of {table} means other rows in Spark's SQL, so it would not read what where reads: "
        f"{reason}. Give the filter as an expression, as chronolake.col('name') == 'value', or use where"
    )


def has_another(spark: SparkSession, text: str, filter_: Filter, fields: Sequence[Field]) -> bool:
    """Whether the text is SQL, and selects other rows than the filter that it also is."""
    rows = _rows(spark, fields)
    try:
        with spark_failures.unlogged():
            as_sql = rows.where(text)
            as_filter = rows.where(filters.condition(filter_, fields))
    except (AnalysisException, ParseException):
        return False
    except (KeyError, ValueError, ArithmeticError):
        # The filter does not fit the columns: the server refuses it.
        return False
    if spark_internals.analyzed(as_sql).sameResult(spark_internals.analyzed(as_filter)):
        return False
    try:
        return not spark_internals.optimized(as_sql).sameResult(spark_internals.optimized(as_filter))
    except PySparkException:
        # Spark computes constants when it plans: a text that does not fit its column fails there, as in where.
        return True


def _rows(spark: SparkSession, fields: Sequence[Field]) -> DataFrame:
    """A frame that Spark does not know to be empty: it would take all conditions on it for the same."""
    return spark.range(1).mapInArrow(_nothing, schema.struct_of(fields))


def _nothing(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(())
