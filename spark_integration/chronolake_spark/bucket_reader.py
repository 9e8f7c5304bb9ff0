"""Reads of executors without Spark: file slices, and the records that a range of instants deleted.

With a bucket index, deleted records are found file group by file group: a record never leaves its file group,
so no shuffle is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from chronolake_spark import columns, merge, stored_slices
from chronolake_spark.slice_reader import SliceReader

SLICE_SCHEMA = "slice string"
"""One slice per row, as Spark DDL, in the text of ``StoredSlice.to_json``."""

GROUP_SCHEMA = "before string, after string"
"""One changed file group per row: its slices before and after; the one after may be null."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads slices that come as batches of rows."""

    slices: SliceReader

    def rows_of(
        self, slices: Iterable[pa.RecordBatch], times: Collection[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """All records of these slices; with ``times`` those whose last change these requested times made."""
        wanted = None if times is None else pa.array(sorted(times), pa.string())
        for batch in slices:
            for text in batch.column(0).to_pylist():
                for rows in self.slices.rows(stored_slices.from_json(text)):
                    yield from (rows if wanted is None else _of_times(rows, wanted)).to_batches()

    def deleted_rows(self, groups: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The records of each slice before whose key the slice after does not have: the deleted ones."""
        for batch in groups:
            for before, after in zip(*batch.to_pydict().values(), strict=True):
                keys = self._keys(after)
                for rows in self.slices.rows(stored_slices.from_json(before)):
                    yield from merge.deleted_rows(rows, keys).to_batches()

    def _keys(self, text: str | None) -> pa.Table:
        no_keys = pa.table({columns.RECORD_KEY: pa.array([], pa.string())})
        if text is None:
            return no_keys
        rows = self.slices.of_keys().rows(stored_slices.from_json(text))
        return pa.concat_tables([no_keys, *(keys.select([columns.RECORD_KEY]) for keys in rows)])


def _of_times(rows: pa.Table, times: pa.Array) -> pa.Table:
    return rows.filter(pc.is_in(rows[columns.COMMIT_TIME], value_set=times))
