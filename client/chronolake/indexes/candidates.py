"""The file slices that may have the keys of rows, by their partitions and, with column stats, key ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from chronolake.indexes import partial_snapshots
from chronolake.indexes.tables import BlockingTable
from chronolake.slices import column_stats, columns
from chronolake_model.files import FileSlice
from chronolake_model.filters import TEXT_CHARACTERS_MAX, And, Compare, ComparisonOperator, Filter
from chronolake_model.tables import Table

_UNORDERED: Final = ("float", "double", "boolean", "binary")
"""Types of keys whose ranges are not used: NaN and -0.0 are ordered in several ways, others have no order."""
COUNT, LEAST, GREATEST, VALUES = "count", "least", "greatest", "values"
"""The columns of ranges: the last three have the number of the key field at their end."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The file slices that may have a key of the rows, each numbered by its place.

    ``rows`` is the number of rows. Those with new keys may go to any small file group that the table has as of
    the completion time ``fills_as_of``; without it, only to new ones. ``whole_partitions`` are those of which
    all slices are here.
    """

    slices: Sequence[FileSlice] = ()
    rows: int = 0
    fills_as_of: str | None = None
    whole_partitions: frozenset[str] = frozenset()


def find(ranges: pa.Table, table: BlockingTable, definition: Table, as_of: str) -> Candidates:
    """The candidates for rows with these ranges, which fit ``definition``, as of a completion time.

    ``ranges`` has by partition path the number of rows, and of each key field the least and the greatest value.
    """
    paths = frozenset(ranges[columns.PARTITION_PATH].to_pylist())
    filter_ = _filter(definition, ranges)
    return Candidates(
        partial_snapshots.of_partitions(table, as_of, paths, filter_),
        pc.sum(ranges[COUNT]).as_py() or 0,
        fills_as_of=as_of,
        whole_partitions=paths if filter_ is None else frozenset(),
    )


def _filter(table: Table, ranges: pa.Table) -> Filter | None:
    """A filter that all rows with one of the keys match; None if the ranges give no filter."""
    types = {field.name: field.type for field in table.schema}
    parts: list[Filter] = []
    for index, name in enumerate(table.record_key_fields):
        has_nulls = not ranges[f"{VALUES}{index}"].equals(ranges[COUNT])
        if not len(ranges) or has_nulls or types[name].startswith(_UNORDERED):
            continue
        try:
            least = column_stats.literal(pc.min(ranges[f"{LEAST}{index}"]).as_py())
            greatest = column_stats.literal(pc.max(ranges[f"{GREATEST}{index}"]).as_py())
        except (ValueError, OverflowError):  # a date or a time that Python does not have
            continue
        if least is UNSET or greatest is UNSET or _is_long(least) or _is_long(greatest):
            continue
        parts.append(Compare(name, ComparisonOperator.GREATER_OR_EQUAL, least))
        parts.append(Compare(name, ComparisonOperator.LESS_OR_EQUAL, greatest))
    return And(parts) if parts else None


def _is_long(literal: object) -> bool:
    return isinstance(literal, str) and len(literal) > TEXT_CHARACTERS_MAX
