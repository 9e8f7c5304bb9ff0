"""Reads of executors: file slices, and the records that a range of instants deleted.

With a bucket index, deleted records are found file group by file group: a record never leaves its file group,
so no shuffle is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from chronolake_spark.common import columns
from chronolake_spark.read.slices import merge, stored_slices
from chronolake_spark.read.slices.slice_reader import SliceReader

_BATCH_ROWS: Final = 65_536
"""The rows of a batch for the JVM, which holds it whole."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads slices that are given by the texts of ``StoredSlice.to_json``."""

    slices: SliceReader

    def rows_of(self, slices: Iterable[str], times: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All records of these slices; with ``times`` those whose last change these requested times made."""
        wanted = None if times is None else pa.array(sorted(times), pa.string())
        for text in slices:
            for rows in self.slices.rows(stored_slices.from_json(text)):
                chosen = rows if wanted is None else _of_times(rows, wanted)
                yield from chosen.to_batches(max_chunksize=_BATCH_ROWS)

    def deleted_rows(self, groups: Iterable[tuple[str, str | None]]) -> Iterator[pa.RecordBatch]:
        """The deleted records of changed file groups.

        A group has its slices before and after; one that is replaced has none after. A record is deleted if
        the slice after does not have its key.
        """
        for before, after in groups:
            keys = self._keys(after)
            for rows in self.slices.rows(stored_slices.from_json(before)):
                yield from merge.deleted_rows(rows, keys).to_batches(max_chunksize=_BATCH_ROWS)

    def log_deletes(self, slices: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """The keys whose last change in the log files of a slice is a delete with an ordering value.

        The columns are the record key, the partition path and the ordering field of the layout.
        """
        for text in slices:
            stored = stored_slices.from_json(text)
            deletes = self.slices.log_deletes(stored)
            paths = pa.repeat(pa.scalar(stored.partition_path), len(deletes))
            rows = deletes.add_column(1, columns.PARTITION_PATH, paths)
            yield from rows.cast(self.slices.layout).to_batches(max_chunksize=_BATCH_ROWS)

    def _keys(self, text: str | None) -> pa.Table:
        no_keys = pa.table({columns.RECORD_KEY: pa.array([], pa.string())})
        if text is None:
            return no_keys
        rows = self.slices.of_keys().rows(stored_slices.from_json(text))
        return pa.concat_tables([no_keys, *(keys.select([columns.RECORD_KEY]) for keys in rows)])


def _of_times(rows: pa.Table, times: pa.Array) -> pa.Table:
    return rows.filter(pc.is_in(rows[columns.COMMIT_TIME], value_set=times))
