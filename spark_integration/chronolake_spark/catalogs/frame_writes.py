"""Writes of frames as their options say: each operation is a method of ``SparkTable``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame

from chronolake.writing.choices import Replaces
from chronolake_spark import errors
from chronolake_spark.common.format_options import FormatOptions, WriteOperation
from chronolake_spark.tables import SparkTable
from chronolake_spark.write.instant_options import InstantOptions


def write(table: SparkTable, frame: DataFrame, options: FormatOptions, mode: str) -> None:
    """Write the frame into a table: ``overwrite``, or the operation of the options."""
    run = _overwrite if mode.lower() == "overwrite" else _WRITES[options.operation]
    run(table, frame, options)


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
