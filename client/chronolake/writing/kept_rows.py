"""The stored rows that a merge keeps, read from the base file a few columns at a time.

Rows that are not kept are dropped from these columns before the next ones are read. This bounds memory, and the
values are filtered while they are in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from chronolake.slices import layouts
from chronolake.slices.merge import Mask

_PORTION_BYTES: Final = 4 * 2**20
"""Columns are read together until they have this size without compression."""


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows of a base file whose schema is ``stored``, in the layout of the table.

    ``known`` has the columns that were read before, with all rows. ``kept`` says of each row whether it stays.
    """

    file: pq.ParquetFile
    stored: pa.Schema
    layout: pa.Schema
    known: pa.Table
    kept: Mask

    def tables(self, *, at_once: bool) -> Iterator[pa.Table]:
        """The kept rows of each row group. All columns are read ``at_once`` from storage with slow requests."""
        start = 0
        names = layouts.columns_of(self.stored, self.layout)
        others = [name for name in names if name not in self.known.column_names]
        for index in range(self.file.num_row_groups):
            group = self.file.metadata.row_group(index)
            kept = self.kept[start : start + group.num_rows]
            known = self.known.slice(start, group.num_rows)
            start += group.num_rows
            portions = [others] if at_once else _portions(group, others)
            yield layouts.in_layout(self._kept(index, known, kept, portions), self.stored, self.layout)

    def _kept(self, index: int, known: pa.Table, kept: Mask, portions: Sequence[Sequence[str]]) -> pa.Table:
        chosen = None if kept.all() else pa.array(kept)
        values = {name: _only(known[name], chosen) for name in known.column_names}
        for names in portions:
            portion = self.file.read_row_group(index, columns=list(names))
            values |= {name: _only(portion[name], chosen) for name in portion.column_names}
        return pa.table(values)


def _only(values: pa.ChunkedArray, chosen: pa.Array | None) -> pa.ChunkedArray:
    return values if chosen is None else values.filter(chosen)


def _portions(group: pq.RowGroupMetaData, names: Sequence[str]) -> list[list[str]]:
    """The columns in portions that are read one after the other, each of about ``_PORTION_BYTES``."""
    sizes = dict.fromkeys(names, 0)
    for number in range(group.num_columns if group.total_byte_size > _PORTION_BYTES else 0):
        column = group.column(number)
        name = column.path_in_schema.partition(".")[0]
        if name in sizes:
            sizes[name] += column.total_uncompressed_size
    portions: list[list[str]] = [[]]
    size = 0
    for name in names:
        portions[-1].append(name)
        size += sizes[name]
        if size >= _PORTION_BYTES:
            portions.append([])
            size = 0
    return [portion for portion in portions if portion]
