"""Log compactions: the latest change of each key in several log files, for one log file in their place.

Merged with the base file and with later log files, it gives what the log files gave. Records keep their commit
times. A delete keeps its ordering value, because the base file, or a write that completes later, may have a
record with a larger one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from chronolake.slices import columns, log_contents, log_merge
from chronolake.slices.log_contents import CompactedContents
from chronolake.slices.log_merge import LatestChanges
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import StoredSlice
from chronolake_hudi.log_blocks import DeletedRecord
from chronolake_model.tables import Table
from chronolake_spark import errors


def contents_of(reader: SliceReader, stored: StoredSlice, table: Table) -> CompactedContents | None:
    """The contents of the log file that takes the place of those of a slice; None if none can.

    No block holds both a delete without ordering value, which deletes larger records of the base file too, and
    a record of the same key that was written afterwards. Nor does a block hold deletes whose ordering values
    are decimals or binary, which only other engines write, as records with a flag.
    """
    contents = reader.log_contents(stored)
    changes = log_merge.latest_changes(contents, reader.ordering_fields)
    if changes.has_versions_after_bare_deletes:
        return None
    try:
        deleted = _deleted(changes, stored.partition_path, table)
    except errors.LogFileUnsupported:
        return None
    return CompactedContents(sorted(contents.instants), list(_records(changes)), deleted)


def _deleted(changes: LatestChanges, partition_path: str, table: Table) -> list[DeletedRecord]:
    deletes = changes.deletes
    by_name = {field.name: field for field in table.schema}
    fields = [by_name[name] for name in table.merge_fields]
    keys = deletes.select([log_merge.KEY]).rename_columns([columns.RECORD_KEY])
    bare = [DeletedRecord(key, partition_path) for key in changes.bare_deletes.to_pylist()]
    return [*log_contents.deleted_records(keys, partition_path, fields, deletes.columns[1:]), *bare]


def _records(changes: LatestChanges) -> Iterator[tuple[pa.Table, bool]]:
    """The records that count, by the columns that they have, and whether those are not all."""
    nothing = np.zeros(len(changes.versions), dtype=np.bool_)
    rows = changes.versions[log_merge.ROW].to_numpy()
    records = log_merge.records_left(changes, nothing)
    chosen = rows[rows >= 0]
    names = [name for name in records.column_names if name in changes.lacking]
    patterns = np.column_stack([changes.lacking[name][chosen] for name in names]) if names else None
    if patterns is None:
        yield from [(records, False)] if len(records) else []
        return
    for pattern in np.unique(patterns, axis=0):
        of_pattern = records.filter(pa.array((patterns == pattern).all(axis=1)))
        lacking = [name for name, is_lacking in zip(names, pattern, strict=True) if is_lacking]
        yield _without(of_pattern, lacking), bool(lacking)


def _without(records: pa.Table, lacking: Sequence[str]) -> pa.Table:
    return records.drop_columns(list(lacking)) if lacking else records
