"""Reads by the tasks of a stream: the records that a batch upserted, and those that it deleted.

A task reads whole file slices, as the reads of changes do (``bucket_reader``), and needs no shuffle: where a
deleted record may have come back in another file group, the task looks for its key there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from chronolake.slices import columns
from chronolake.slices.base_files import TableFolder
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import StoredSlice
from chronolake_model.tables import SchemaField

_BATCH_ROWS: Final = 65_536
_UPSERT: Final = "upsert"
_DELETE: Final = "delete"


@dataclass(frozen=True, slots=True)
class StreamedTable:
    """The table of a stream, or of changes in SQL, for tasks.

    Frames have the columns ``shown``, with the type of change.
    ``layout`` has the columns of the table, and Hudi's, that a task reads.
    """

    base_path: str
    storage_options: Mapping[str, str]
    layout: pa.Schema
    shown: pa.Schema
    fields: Mapping[int, Sequence[SchemaField]]
    ordering: Sequence[pa.Field]

    def reader(self) -> SliceReader:
        """The reader of the table's slices."""
        folder = TableFolder.of(self.base_path, self.storage_options)
        return SliceReader(folder, self.layout, self.fields, self.ordering)

    def batches(self, rows: pa.Table, change: str) -> Iterator[pa.RecordBatch]:
        """Rows of the layout as batches of the frame."""
        change_types = pa.repeat(pa.scalar(change, pa.string()), len(rows))
        named = rows.append_column(columns.CHANGE_TYPE, change_types)
        frame = pa.table([named[name] for name in self.shown.names], schema=self.shown)
        yield from frame.to_batches(max_chunksize=_BATCH_ROWS)


@dataclass(frozen=True)
class UpsertsPartition(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    """Slices as of the end of a batch, and the instants whose records count; None: all records do."""

    source: StreamedTable
    slices: Sequence[StoredSlice]
    times: Sequence[str] | None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The records that the instants wrote last."""
        wanted = None if self.times is None else pa.array(self.times, pa.string())
        reader = self.source.reader()
        for slice_ in self.slices:
            for rows in reader.rows(slice_):
                chosen = (
                    rows
                    if wanted is None
                    else rows.filter(pc.is_in(rows[columns.COMMIT_TIME], value_set=wanted))
                )
                yield from self.source.batches(chosen, _UPSERT)


@dataclass(frozen=True)
class DeletesPartition(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    """File groups before and after a batch, and the slices after it that may have records which left them.

    ``groups`` and ``searched`` are of one partition path, unless keys are unique in the whole table.
    """

    source: StreamedTable
    groups: Sequence[tuple[StoredSlice, StoredSlice | None]]
    searched: Sequence[StoredSlice]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The records that were there before the batch and are not after it, as they were."""
        reader = self.source.reader()
        gone = [_without(_keys(reader, before), _keys(reader, after)) for before, after in self.groups]
        if any(map(len, gone)):
            for slice_ in self.searched:
                present = _keys(reader, slice_)
                gone = [_without(keys, present) for keys in gone]
        for (before, _), keys in zip(self.groups, gone, strict=True):
            if len(keys):
                for rows in reader.only(keys).rows(before):
                    deleted = rows.filter(pc.is_in(rows[columns.RECORD_KEY], value_set=keys))
                    yield from self.source.batches(deleted, _DELETE)


def _keys(reader: SliceReader, slice_: StoredSlice | None) -> pa.Array:
    """The record keys of the slice's records; none without a slice."""
    if slice_ is None:
        return pa.array([], pa.string())
    portions = reader.of_keys().rows(slice_)
    chunks = [chunk.cast(pa.string()) for rows in portions for chunk in rows[columns.RECORD_KEY].chunks]
    return pa.concat_arrays([pa.array([], pa.string()), *chunks])


def _without(keys: pa.Array, others: pa.Array) -> pa.Array:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others)))
