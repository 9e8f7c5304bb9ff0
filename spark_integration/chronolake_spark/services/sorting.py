"""The sort of more rows than memory holds: sorted runs on the local disk, which are merged.

The columns to sort by are added to the rows, and removed from the result. Rows that are equal in them keep
their order. Null comes first, and NaN after all numbers, as in Spark.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronolake.writing.task_rows import Spill

HELD_BYTES_MAX: Final = 64 * 2**20
"""Bytes of rows that a sort holds in memory, but for those of the step that it is at."""
_BATCHES_OF_RUN_MIN: Final = 4
_NUMBER: Final = "_chronolake_number"

SortColumns = Callable[[pa.Table], Sequence[pa.ChunkedArray]]
"""The columns to sort rows by."""


def in_order(
    tables: Iterable[pa.Table], sort_columns: SortColumns, held_bytes_max: int = HELD_BYTES_MAX
) -> Iterator[pa.Table]:
    """The rows of the tables, in the order of the columns."""
    with contextlib.closing(Spill()) as spill:
        runs: list[_Run] = []
        held: list[pa.Table] = []
        names: Sequence[str] = ()
        layout = pa.schema([])
        for rows in tables:
            layout = rows.schema
            keyed, names = _with_keys(rows, sort_columns(rows))
            for piece in _pieces(keyed, held_bytes_max // 2):
                if held and sum(table.nbytes for table in held) + piece.nbytes > held_bytes_max:
                    runs.append(_Run.of(_sorted(held, names), spill, held_bytes_max))
                    held = []
                held.append(piece)
        last = _sorted(held, names) if held else None
        if not runs:
            yield from () if last is None else [last.drop_columns(list(names))]
            return
        if last is not None:
            runs.append(_Run.of(last, spill, held_bytes_max))
        del last, held
        yield from (
            _with_dictionaries(rows.drop_columns(list(names)), layout) for rows in _merged(runs, spill, names)
        )


@dataclass(slots=True)
class _Run:
    """Sorted rows in batches of the spill, of which those from ``next_batch`` on were not read."""

    batches: list[int]
    rows_of_batch: int
    next_batch: int = 0

    @classmethod
    def of(cls, rows: pa.Table, spill: Spill, held_bytes_max: int) -> _Run:
        """A run of these rows, in batches of which a merge may hold one of each run."""
        # Runs of dictionaries would need one dictionary for all of them.
        plain = rows.cast(_without_dictionaries(rows.schema))
        bytes_of_batch = held_bytes_max // 64
        count = max(_BATCHES_OF_RUN_MIN, plain.nbytes // max(bytes_of_batch, 1))
        size = max(1, -(-len(plain) // count))
        batches = plain.combine_chunks().to_batches(max_chunksize=size)
        return cls([spill.add(batch) for batch in batches], size)

    @property
    def is_read(self) -> bool:
        """Whether all batches were read."""
        return self.next_batch == len(self.batches)

    def filled(self, head: pa.Table | None, spill: Spill) -> pa.Table:
        """The rows that were read, and more of them if they are less than those of a batch."""
        tables = [] if head is None else [head]
        while sum(map(len, tables)) < self.rows_of_batch and not self.is_read:
            tables.append(pa.Table.from_batches([spill.read(self.batches[self.next_batch])]))
            self.next_batch += 1
        return pa.concat_tables(tables)


def _merged(runs: Sequence[_Run], spill: Spill, names: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of sorted runs in order. It holds one to two batches of each run."""
    left: Sequence[pa.Table | None] = [None for _ in runs]
    while True:
        heads: list[pa.Table] = [run.filled(head, spill) for run, head in zip(runs, left, strict=True)]
        together = pa.concat_tables(heads)
        if not len(together):
            return
        # No row after the first of the last rows can be given: its run may have rows before it.
        ends = np.cumsum(list(map(len, heads)))
        lasts = [end - 1 for end, run in zip(ends, runs, strict=True) if not run.is_read]
        order = _order(together, names)
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        count = min(places[lasts]) + 1 if lasts else len(order)
        yield together.take(pa.array(order[:count]))
        # The rows that are given are the first ones of each run.
        given = [np.count_nonzero(part < count) for part in np.split(places, ends[:-1])]
        left = [head.slice(int(rows)) for head, rows in zip(heads, given, strict=True)]


def _sorted(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    rows = pa.concat_tables(tables).unify_dictionaries()
    return rows.take(pa.array(_order(rows, names)))


def _order(rows: pa.Table, names: Sequence[str]) -> np.typing.NDArray[np.uint64]:
    # Arrow's sort by several columns is not stable.
    keys = rows.select(list(names)).append_column(_NUMBER, pa.array(np.arange(len(rows))))
    sort_keys = [(name, "ascending", "at_start") for name in keys.column_names]
    order: np.typing.NDArray[np.uint64] = pc.sort_indices(keys, sort_keys=sort_keys).to_numpy()
    return order


def _with_keys(rows: pa.Table, keys: Sequence[pa.ChunkedArray]) -> tuple[pa.Table, Sequence[str]]:
    names = [f"_chronolake_sort_{number}" for number in range(len(keys))]
    for name, values in zip(names, keys, strict=True):
        rows = rows.append_column(name, values)
    return rows, names


def _pieces(rows: pa.Table, bytes_max: int) -> Iterator[pa.Table]:
    """The rows in parts of about these bytes at most."""
    size = max(1, len(rows) * bytes_max // max(rows.nbytes, 1))
    return (rows.slice(first, size) for first in range(0, len(rows), size))


def _with_dictionaries(rows: pa.Table, layout: pa.Schema) -> pa.Table:
    """The rows with dictionaries in the columns that have them in ``layout``."""
    for index, field in enumerate(layout):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(index, field, rows.column(index).dictionary_encode())
    return rows


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in schema
        ]
    )
