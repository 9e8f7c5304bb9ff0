"""The file slices that may have the keys of rows, by their partitions and, with column stats, key ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET
from pyspark.sql import DataFrame, functions as sf

import chronolake
from chronolake_model.files import FileSlice, Snapshot
from chronolake_model.filters import TEXT_CHARACTERS_MAX, And, Compare, ComparisonOperator, Filter
from chronolake_model.scans import PARTITIONS_MAX
from chronolake_model.tables import Table
from chronolake_spark import column_stats, columns, schema
from chronolake_spark.evolution import Versions

_UNORDERED: Final = ("float", "double", "boolean", "binary")
"""Types of keys whose ranges are not used: NaN and -0.0 are ordered in several ways, others have no order."""
_COUNT, _LEAST, _GREATEST, _VALUES = "count", "least", "greatest", "values"


@dataclass(frozen=True, slots=True)
class Candidates:
    """The file slices of the partitions of rows, each numbered by its place. ``written`` reads them.

    ``numbers`` are those of the slices that may have a key of the rows. ``rows`` is the number of rows.
    """

    written: Versions
    slices: Sequence[FileSlice]
    numbers: Sequence[int] = ()
    rows: int = 0


def find(
    rows: DataFrame | pa.Table, table: chronolake.Table, written: Versions, snapshot: Snapshot
) -> Candidates:
    """The candidates for tagged rows among the slices of a snapshot."""
    if not snapshot.slices:
        return Candidates(written, [])
    ranges = _ranges_of(rows, written.table) if isinstance(rows, pa.Table) else _ranges(rows, written.table)
    paths = set(ranges[columns.PARTITION_PATH].to_pylist())
    slices = [slice_ for slice_ in snapshot.slices if slice_.partition_path in paths]
    numbers: Sequence[int] = range(len(slices))
    filter_ = _filter(written.table, ranges)
    if slices and filter_ is not None:
        wanted = sorted(paths) if len(paths) <= PARTITIONS_MAX else None
        in_range = set(map(_name, table.scan(filter_, snapshot.as_of, wanted).slices))
        numbers = [number for number, slice_ in enumerate(slices) if _name(slice_) in in_range]
    return Candidates(written, slices, numbers, pc.sum(ranges[_COUNT]).as_py() or 0)


def _name(slice_: FileSlice) -> tuple[str, str]:
    return slice_.partition_path, slice_.file_id


def _ranges(rows: DataFrame, table: Table) -> pa.Table:
    """By partition the number of rows, and of each key field the least and the greatest value."""
    measures = [sf.count(sf.lit(1)).alias(_COUNT)]
    for index, name in enumerate(table.record_key_fields):
        column = sf.col(schema.quoted(name))
        measures += [
            sf.min(column).alias(f"{_LEAST}{index}"),
            sf.max(column).alias(f"{_GREATEST}{index}"),
            sf.count(column).alias(f"{_VALUES}{index}"),
        ]
    return rows.groupBy(columns.PARTITION_PATH).agg(*measures).toArrow()


def _ranges_of(rows: pa.Table, table: Table) -> pa.Table:
    """As ``_ranges``, of rows in memory."""
    measures = {_COUNT: (columns.PARTITION_PATH, "count")}
    for index, name in enumerate(table.record_key_fields):
        measures |= {
            f"{_LEAST}{index}": (name, "min"),
            f"{_GREATEST}{index}": (name, "max"),
            f"{_VALUES}{index}": (name, "count"),
        }
    ranges = rows.group_by(columns.PARTITION_PATH).aggregate(list(measures.values()))
    return ranges.rename_columns([columns.PARTITION_PATH, *measures])


def _filter(table: Table, ranges: pa.Table) -> Filter | None:
    """What all rows with one of the keys match; None if nothing is known."""
    types = {field.name: field.type for field in table.schema}
    parts: list[Filter] = []
    for index, name in enumerate(table.record_key_fields):
        has_nulls = not ranges[f"{_VALUES}{index}"].equals(ranges[_COUNT])
        if not len(ranges) or has_nulls or types[name].startswith(_UNORDERED):
            continue
        try:
            least = column_stats.literal(pc.min(ranges[f"{_LEAST}{index}"]).as_py())
            greatest = column_stats.literal(pc.max(ranges[f"{_GREATEST}{index}"]).as_py())
        except (ValueError, OverflowError):  # a date or a time that Python does not have
            continue
        if least is UNSET or greatest is UNSET or _is_long(least) or _is_long(greatest):
            continue
        parts.append(Compare(name, ComparisonOperator.GREATER_OR_EQUAL, least))
        parts.append(Compare(name, ComparisonOperator.LESS_OR_EQUAL, greatest))
    return And(parts) if parts else None


def _is_long(literal: object) -> bool:
    return isinstance(literal, str) and len(literal) > TEXT_CHARACTERS_MAX
