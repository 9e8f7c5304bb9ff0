"""Changes of a table that a record index must take in.

Only records that an instant of the range wrote count: the index has the entries of the other records already.
A file group that is new in the range is taken in whole, because a clustering keeps the commit times of the
records that it moves. After a restore, all groups that it concerned are taken in whole, because records came
back that were written before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronolake import field_ids
from chronolake.indexes.record import entry_files
from chronolake.slices import columns, log_merge, stored_slices
from chronolake.slices.log_merge import LatestChanges
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import StoredSlice
from chronolake_model import decoding
from chronolake_model.files import Changes, FileSlice

TIME = "time"
ENTRIES = entry_files.ENTRIES.append(pa.field(TIME, pa.string()))
"""Entries, with the requested time of the instant that wrote the record last."""
LAYOUT = field_ids.by_names(
    pa.schema([(columns.COMMIT_TIME, pa.string()), (columns.RECORD_KEY, pa.string())]), []
)
"""The columns of data files that entries are made of."""
_BEFORE_ALL = " "
"""The beginning of the time of a delete: it sorts before the digits of all times."""


class ChangedSlice(msgspec.Struct, frozen=True, array_like=True):
    """A slice with records and deletes to take in: those of the instants ``times``, or all if it is None.

    If it ``is_whole``, its records count whatever their time, but no older delete: the record may be elsewhere
    since. Without ``reads_base``, the base file is as it was before.
    """

    slice: StoredSlice
    times: list[str] | None
    is_whole: bool
    reads_base: bool
    records: int
    """About how many records are read."""

    def to_json(self) -> str:
        """The text of the slice."""
        return msgspec.json.encode(self).decode()


def from_json(text: str) -> ChangedSlice:
    """The slice in a text of ``ChangedSlice.to_json``."""
    return decoding.decode(text, ChangedSlice)


def of_snapshot(slices: Iterable[FileSlice]) -> list[ChangedSlice]:
    """All of a snapshot."""
    return [_whole(slice_, None) for slice_ in slices]


def of_changes(changes: Changes) -> list[ChangedSlice]:
    """The slices that changed, as they are at the end of the range."""
    times = [instant.requested_time for instant in changes.instants]
    since = changes.from_ or ""
    changed = []
    for group in changes.file_groups:
        if group.after is None:
            continue
        if group.before is None or changes.restores:
            changed.append(_whole(group.after, times))
            continue
        base = group.after.base_file
        # A compaction in the range has put records of the range into the base file.
        reads_base = base is not None and base.completion_time > since
        if reads_base or any(log.completion_time > since for log in group.after.log_files):
            records = _records(group.after, reads_base=reads_base)
            slice_ = stored_slices.of(group.after)
            changed.append(ChangedSlice(slice_, times, False, reads_base, records))
    return changed


def entries(reader: SliceReader, changed: ChangedSlice) -> Iterator[pa.Table]:
    """The entries of the records of a slice; ``reader`` has the layout ``LAYOUT``."""
    logs = reader.changes(changed.slice) if changed.slice.logs else None
    for rows in _rows(reader, changed, logs):
        of_range = rows if changed.is_whole else _of_range(rows, columns.COMMIT_TIME, changed)
        yield _entries(of_range, changed.slice)
    if logs is not None:
        yield _deleted(_of_range(logs.deleted_keys, log_merge.TIME, changed), changed.slice)


def _of_range(rows: pa.Table, column: str, changed: ChangedSlice) -> pa.Table:
    if changed.times is None:
        return rows
    return rows.filter(pc.is_in(rows[column], value_set=pa.array(changed.times, pa.string())))


def _deleted(deletes: pa.Table, slice_: StoredSlice) -> pa.Table:
    """Entries of deleted keys, older than those of all records: such a key goes to the same file group again.

    Otherwise the delete would not be compared with an older record that comes later, and a late append to the
    log of that group could bring back a record that is elsewhere by then.
    """
    times = pc.binary_join_element_wise(_BEFORE_ALL, deletes[log_merge.TIME].cast(pa.string()), "")
    return _entries(pa.table({columns.RECORD_KEY: deletes[log_merge.KEY], columns.COMMIT_TIME: times}), slice_)


def in_order(parts: Iterable[pa.Table]) -> pa.Table:
    """One entry per key, ordered by key. Of two records of one key, the one that was written last counts."""
    together = pa.concat_tables([ENTRIES.empty_table(), *parts])
    return entry_files.latest([together.sort_by(TIME)])


def _rows(reader: SliceReader, changed: ChangedSlice, logs: LatestChanges | None) -> Iterator[pa.Table]:
    if logs is None:
        yield from reader.rows(changed.slice)
    elif changed.reads_base:
        yield from reader.merged(changed.slice, logs)
    else:
        yield log_merge.records_left(logs, np.zeros(len(logs.versions), dtype=np.bool_))


def _entries(rows: pa.Table, slice_: StoredSlice) -> pa.Table:
    count = len(rows)
    arrays = [
        rows[columns.RECORD_KEY].cast(pa.string()),
        pa.repeat(pa.scalar(slice_.partition_path, pa.string()), count),
        pa.repeat(pa.scalar(slice_.file_id, pa.string()), count),
        rows[columns.COMMIT_TIME].cast(pa.string()),
    ]
    return pa.table(arrays, schema=ENTRIES)


def _whole(slice_: FileSlice, times: list[str] | None) -> ChangedSlice:
    return ChangedSlice(stored_slices.of(slice_), times, True, True, _records(slice_, reads_base=True))


def _records(slice_: FileSlice, *, reads_base: bool) -> int:
    files = stored_slices.files_of(slice_) if reads_base else slice_.log_files
    return sum(file.records for file in files)
