"""The stored rows that a merge keeps, read from the base file few columns at a time.

So only one column has the values that are left out in memory, and those that stay are copied from the cache of
the processor.
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
"""The size of columns, without compression, from which on they are read alone."""


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows of a base file whose schema is ``stored``, in the layout of the table.

    ``known`` has the columns of all rows that are read already, ``kept`` the rows that are kept.
    """

    file: pq.ParquetFile
    stored: pa.Schema
    layout: pa.Schema
    known: pa.Table
    kept: Mask

    def tables(self, *, at_once: bool) -> Iterator[pa.Table]:
        """The rows of each row group; all columns ``at_once`` where each request takes long."""
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
    """The columns in portions, each of which is as large as is worth a read of its own."""
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
