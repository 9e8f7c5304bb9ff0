"""Writes of SQL and of ``df.writeTo``: ``SparkTable`` writes the frame that Spark has analysed."""

from __future__ import annotations

import dataclasses
import functools
import operator
from typing import Final, Literal

import msgspec
from pyspark.sql import Column, DataFrame, functions as sf

from chronolake.indexes import partial_snapshots
from chronolake.writing.choices import Replaces
from chronolake_spark import errors, tables
from chronolake_spark.catalogs import frame_writes
from chronolake_spark.catalogs.context import CatalogContext
from chronolake_spark.catalogs.definitions import OfTable
from chronolake_spark.common import format_options
from chronolake_spark.common.format_options import FormatOptions, Use, WriteOperation
from chronolake_spark.driver import schema
from chronolake_spark.tables import SparkTable
from chronolake_spark.write import source_states

_INSTEAD: Final = (
    "To replace records use MERGE INTO with WHEN MATCHED, or INSERT INTO … WITH (operation = 'upsert')"
)


class PartitionValue(msgspec.Struct, frozen=True):
    """A partition column, and the SQL of its value."""

    column: str
    value: str


class WriteRequest(msgspec.Struct, frozen=True):
    """A request to write a frame, which Java calls ``frame``.

    ``computed_from`` are the states of the table that the frame reads, unless the query names them.
    ``partition`` is the one that an overwrite replaces; empty for the whole table. ``by_format``: by
    ``df.write.format("chronolake")``, which upserts unless the options say otherwise.
    """

    table: str
    frame: str
    mode: Literal["append", "overwrite", "merge"]
    write_options: dict[str, str]
    computed_from: list[str] = []
    partition: list[PartitionValue] = []
    by_format: bool = False


def state(context: CatalogContext, request: OfTable) -> str:
    """The completion time of the newest state of a table; ``NOTHING_YET`` before the first one."""
    table = context.table(request.table)
    return partial_snapshots.last_completion(table, "latest") or source_states.NOTHING_YET


def write(context: CatalogContext, request: WriteRequest) -> None:
    """Write the frame, as one instant. Raises ``InvalidOption``, and what the operation raises."""
    options = parsed(request)
    frame = context.frame(request.frame)
    table = SparkTable(context.spark, context.client, context.table(request.table))
    if request.mode == "merge":
        tables.upsert_of_statement(table, frame)
        return
    for computed_from in request.computed_from:
        frame = source_states.marked(frame, table.definition, computed_from)
    if request.partition:
        _overwrite_partition(table, frame, options, request.partition)
        return
    format_options.refuse_mode(request.mode, options)
    if request.mode == "overwrite" and not request.by_format:
        # Without the option, as the statement says, whatever the mode of the session is.
        options = dataclasses.replace(options, partitions=options.partitions or Replaces.TABLE)
    try:
        frame_writes.write(table, frame, options, request.mode)
    except errors.DuplicateKeys as error:
        if "operation" in options.given or request.mode == "overwrite" or request.by_format:
            raise
        raise errors.DuplicateKeys(str(error).replace("Use upsert, or duplicates='drop'", _INSTEAD)) from None


def parsed(request: WriteRequest) -> FormatOptions:
    """The options of a write. Without an operation SQL inserts: it fills columns with null."""
    options = format_options.parse({**request.write_options, "table": request.table}, Use.WRITE)
    format_options.refuse_read_options(options)
    format_options.refuse_stream_options(options)
    if request.by_format or "operation" in options.given:
        return options
    return dataclasses.replace(options, operation=WriteOperation.INSERT)


def _overwrite_partition(
    table: SparkTable, frame: DataFrame, options: FormatOptions, partition: list[PartitionValue]
) -> None:
    """Replace one partition, also by no rows. Raises ``InvalidOption`` for part of a partition."""
    if sorted(table.definition.partition_fields) != sorted(field.column for field in partition):
        raise errors.InvalidOption(
            f"an overwrite of {table.name} replaces the whole table, or the partition with given values of "
            f"{', '.join(table.definition.partition_fields) or 'no column'}: with the option partitions = "
            "'dynamic' it replaces the partitions that the rows have"
        )
    if frame.isEmpty():
        values = frame.sparkSession.range(1).select(
            *(sf.expr(field.value).alias(field.column) for field in partition)
        )
        [row] = values.collect()
        table.delete_partitions(row.asDict(), on_conflict=options.on_conflict)
        return
    same = (sf.col(schema.quoted(field.column)).eqNullSafe(sf.expr(field.value)) for field in partition)
    rows = frame.select(*_checked(frame, functools.reduce(operator.and_, same), table.name))
    frame_writes.write(table, rows, dataclasses.replace(options, partitions=Replaces.PARTITIONS), "overwrite")


def _checked(frame: DataFrame, is_inside: Column, name: str) -> list[Column]:
    """The columns of the frame; evaluating the first raises an error for a row outside the partition."""
    error = errors.InvalidOption(f"a row that is to overwrite a partition of {name} is of another partition")
    first, *others = (frame[schema.quoted(column)] for column in frame.columns)
    refused = sf.raise_error(sf.lit(errors.encoded(error)))
    return [sf.when(is_inside, first).otherwise(refused).alias(frame.columns[0]), *others]
