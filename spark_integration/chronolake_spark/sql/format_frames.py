"""``format("chronolake")`` in a driver that imported this package: reads and writes go through ``SparkTable``.

So reads use Spark's own Parquet reader, which reads only the columns and row groups that a query needs, and
writes bring each file group to one task. A Python data source can do neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

import chronolake
from chronolake.writing.choices import Replaces
from chronolake_spark import errors, tables
from chronolake_spark.common import format_options
from chronolake_spark.common.format_options import FormatOptions, QueryView, Use, WriteOperation
from chronolake_spark.driver import schema
from chronolake_spark.tables import SparkTable
from chronolake_spark.write.instant_options import InstantOptions


def load(spark: SparkSession, options: Mapping[str, str], columns: list[str] | None) -> DataFrame:
    """The frame that the options of a read describe, with these columns, or all.

    Raises ``InvalidOption``, and what ``SparkTable.read`` and ``SparkTable.changes`` raise.
    """
    parsed = format_options.parse(options, Use.READ)
    format_options.refuse_options_of_read_streams(parsed)
    with _connected(parsed) as client:
        table = tables.table(spark, parsed.table, client=client)
        if parsed.view is not QueryView.CHANGES:
            as_of, meta_columns, filter_ = parsed.as_of, parsed.meta_columns, parsed.filter
            return table.read(as_of, meta_columns, filter=filter_, view=parsed.view, columns=columns)
        frame = table.changes(parsed.from_, parsed.to, parsed.meta_columns, filter=parsed.filter)
    return frame if columns is None else frame.select(*map(schema.quoted, columns))


def save(frame: DataFrame, options: Mapping[str, str], mode: str) -> None:
    """Write the frame as the options say. Raises ``InvalidOption``, and what the operation raises."""
    parsed = format_options.parse(options, Use.WRITE)
    format_options.refuse_mode(mode, parsed)
    format_options.refuse_read_options(parsed)
    format_options.refuse_stream_options(parsed)
    with _connected(parsed) as client:
        write(tables.table(frame.sparkSession, parsed.table, client=client), frame, parsed, mode)


def write(table: SparkTable, frame: DataFrame, options: FormatOptions, mode: str) -> None:
    """Write the frame into a table: ``overwrite``, or the operation of the options."""
    run = _overwrite if mode.lower() == "overwrite" else _WRITES[options.operation]
    run(table, frame, options)


def _connected(options: FormatOptions) -> chronolake.Client:
    return chronolake.connect(options.access, storage_options=options.storage_options or None)


def _upsert(table: SparkTable, frame: DataFrame, options: FormatOptions) -> None:
    table.upsert(frame, options.delete_when, row_order=options.row_order, **_merging(options))


def _insert(table: SparkTable, frame: DataFrame, options: FormatOptions) -> None:
    _refuse("delete_when", options)
    table.insert(frame, options.duplicates or "fail", row_order=options.row_order, **_merging(options))


def _bulk_insert(table: SparkTable, frame: DataFrame, options: FormatOptions) -> None:
    _refuse("delete_when", options)
    _refuse("row_order", options)
    table.bulk_insert(frame, **_merging(options))


def _delete(table: SparkTable, frame: DataFrame, options: FormatOptions) -> None:
    _refuse("delete_when", options)
    _refuse("row_order", options)
    _refuse("merge_schema", options)
    table.delete(frame, **_settings(options))


def _overwrite(table: SparkTable, frame: DataFrame, options: FormatOptions) -> None:
    _refuse("delete_when", options)
    partitions = options.partitions
    if partitions is None:
        conf = frame.sparkSession.conf.get("spark.sql.sources.partitionOverwriteMode") or ""
        partitions = Replaces.PARTITIONS if conf.lower() == "dynamic" else Replaces.TABLE
    table.overwrite(frame, partitions.value, row_order=options.row_order, **_merging(options))


def _settings(options: FormatOptions) -> InstantOptions:
    return {"markers": options.markers, "services": options.services, "on_conflict": options.on_conflict}


def _merging(options: FormatOptions) -> dict[str, Any]:
    return {**_settings(options), "merge_schema": options.merge_schema}


def _refuse(name: str, options: FormatOptions) -> None:
    if name in options.given:
        raise errors.InvalidOption(f"this write has no option {name}", {"option": name})


_WRITES: Final[Mapping[WriteOperation, Callable[..., None]]] = {
    WriteOperation.UPSERT: _upsert,
    WriteOperation.INSERT: _insert,
    WriteOperation.BULK_INSERT: _bulk_insert,
    WriteOperation.DELETE: _delete,
}
