"""Deletes by condition: the rows of a delete are the keys of the records for which the condition holds.

They are read from the snapshot that the write begins with. If another writer changes their file groups
meanwhile, the write conflicts: a record that no longer matches is not deleted.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession, functions as sf

import chronolake
from chronolake._filters import filter_of
from chronolake.errors import InvalidFilter
from chronolake.writing import key_refusals
from chronolake_model.files import Snapshot
from chronolake_model.partition_paths import DEFAULT_PARTITION
from chronolake_model.tables import Field, Table
from chronolake_spark import errors
from chronolake_spark.driver import schema, spark_failures
from chronolake_spark.read import filter_meanings, frames
from chronolake_spark.write import writes
from chronolake_spark.write.writes import Rows


def keys_of(
    spark: SparkSession, table: chronolake.Table, definition: Table, given: DataFrame | str | Column
) -> Rows:
    """The tagged keys of a frame, or what makes those of ``keys_where``."""
    if isinstance(given, DataFrame):
        return writes.tagged(given, definition, keys_only=True)
    return keys_where(spark, table, given)


def keys_where(spark: SparkSession, table: chronolake.Table, condition: str | Column) -> Rows:
    """A function that makes the tagged keys of the records for which ``condition`` holds.

    A text is SQL. For one that is also a filter of the metastore, with the same meaning, only files are read
    that can have such records; for any other, and for a Column, Spark's Parquet reader skips row groups. Raises
    ``SchemaMismatch`` for an expression that is no condition.
    """
    if not isinstance(condition, str | Column):
        raise TypeError(
            'delete takes a condition, as "price < 0", or a frame with the key columns, as '
            f"spark.createDataFrame([(1,), (2,)], 'id long'), not {type(condition).__name__}"
        )
    definition = table.definition
    _refuse_no_condition(spark, definition, condition)

    def keys(as_of: str) -> DataFrame:
        matching = _matching(spark, table, as_of, condition)
        names = [
            *definition.record_key_fields,
            *definition.partition_fields,
            *definition.ordering_fields,
        ]
        by_name = {field.name: field for field in definition.schema}
        stored_keys = matching.select(*(_place(by_name[name], definition) for name in dict.fromkeys(names)))
        return writes.tagged(stored_keys, definition, keys_only=True)

    return keys


def _place(field: Field, table: Table) -> Column:
    """The column of a stored record. Other writers may have written texts of null's partition there."""
    column = sf.col(schema.quoted(field.name))
    is_place_only = field.name in table.partition_fields and field.name not in table.record_key_fields
    if not is_place_only or not key_refusals.is_text(field):
        return column
    missing = sf.lit(None) if field.nullable else sf.lit("")
    return sf.when(column.isin("", DEFAULT_PARTITION), missing).otherwise(column).alias(field.name)


def _matching(spark: SparkSession, table: chronolake.Table, as_of: str, condition: str | Column) -> DataFrame:
    slices = _pruned(spark, table, as_of, condition) if isinstance(condition, str) else None
    stored = table.snapshot(as_of) if slices is None else slices
    return frames.snapshot(spark, table, stored, meta_columns=False).where(condition)


def _pruned(spark: SparkSession, table: chronolake.Table, as_of: str, condition: str) -> Snapshot | None:
    """The slices that may have a matching record; None if the condition is no filter of the same meaning."""
    fields = table.definition.schema
    try:
        filter_ = filter_of(condition, fields)
        slices = table.scan(filter_, as_of)
    except (ValueError, InvalidFilter):
        return None  # Spark knows more SQL than the metastore.
    return None if filter_meanings.has_another(spark, condition, filter_, fields) else slices


def _refuse_no_condition(spark: SparkSession, table: Table, condition: str | Column) -> None:
    column = sf.expr(condition) if isinstance(condition, str) else condition
    empty = spark.createDataFrame([], schema.struct_of(table.schema))
    try:
        with spark_failures.unlogged():
            schema.refuse_no_condition(empty, column, str(condition))
    except (AnalysisException, ParseException) as exc:
        raise errors.SchemaMismatch(
            f"the condition does not fit {table.name}: {spark_failures.first_line(exc)}"
        ) from exc
