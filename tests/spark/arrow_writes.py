"""Writes to file groups that the test chooses, by the code of executors and without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import chronolake
from chronolake.slices import arrow_types, columns, stored_slices
from chronolake.slices.log_contents import LogFormat
from chronolake.slices.merge import Existing
from chronolake.writing import bucket_writer
from chronolake.writing.bucket_writer import TaskAttempt, WriteJob, WriteTaskResult
from chronolake.writing.stored_groups import GroupNumber
from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import FileSlice
from chronolake_model.instants import Instant
from chronolake_model.vocabulary import IndexType
from chronolake_storage.claims import Owner

_NUMBERS = itertools.count(1)
Row = dict[str, Any]


def row(key: object, *, group: int = 0, path: str = "", delete: bool = False, **values: Any) -> Row:
    """A row to upsert, or to delete; columns that it lacks are null."""
    control = {columns.RECORD_KEY: str(key), columns.PARTITION_PATH: path, columns.BUCKET: group}
    return {**control, columns.DELETE: delete, **values}


def upsert(table: chronolake.Table, *rows: Row, existing: Existing = Existing.MERGE) -> Instant:
    """One instant with these rows."""
    with table.begin() as write:
        for stat in write_rows(table, write, rows, existing).stats:
            write.add(stat)
    return write.instant


def write_rows(
    table: chronolake.Table,
    write: chronolake.Write,
    rows: Sequence[Row],
    existing: Existing = Existing.MERGE,
    kept_columns: Sequence[str] = (),
    slices: Sequence[FileSlice] | None = None,
) -> WriteTaskResult:
    """Write the files of an instant, from what the table has now, or from ``slices``."""
    definition = table.reload().definition
    layout = arrow_types.own_layout(definition.schema)
    slices = table.snapshot().slices if slices is None else slices
    stored = {group_of(slice_): stored_slices.of(slice_) for slice_ in slices}
    rows = sorted(rows, key=lambda row: (row[columns.PARTITION_PATH], row[columns.BUCKET]))
    groups = {GroupNumber(row[columns.PARTITION_PATH], row[columns.BUCKET]) for row in rows}
    job = WriteJob(
        base_path=definition.base_path,
        requested_time=write.requested_time,
        schema=layout,
        fields=definition.schema,
        required=(),
        ordering_fields=definition.merge_fields,
        existing=existing,
        stored=stored,
        versions={version.schema_version: version.fields for version in table.schemas()},
        kept_columns=kept_columns,
        log_format=LogFormat.of_table(definition),
        new_file_ids={group: _file_id(definition.index.type, group) for group in groups - stored.keys()},
        has_key_filters=definition.index.type is IndexType.BLOOM,
        looks_keys_up=definition.index.type is not IndexType.BUCKET,
        storage_options=table.storage_options,
        owner=Owner(definition.metastore_id, definition.table_id, definition.name),
    )
    control = [(columns.RECORD_KEY, pa.string()), (columns.PARTITION_PATH, pa.string())]
    control += [(columns.BUCKET, pa.int32()), (columns.DELETE, pa.bool_())]
    own = [field for field in layout if field.name not in kept_columns]
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema([*control, *own]))
    markers = table.markers_of(write.requested_time, writer=write.instant.writer)
    return bucket_writer.write([batch], job, TaskAttempt(0, f"{next(_NUMBERS)}-0-0"), markers)


def group_of(slice_: FileSlice) -> GroupNumber:
    """A number for a file group: that of ``write_rows``, if it gave the file id and it is less than 10."""
    return GroupNumber(slice_.partition_path, int(slice_.file_id[:8], 16) & 0x7FFFFFFF)


def _file_id(index: IndexType, group: GroupNumber) -> str:
    return bucket_file_id(group.bucket, 0 if index is IndexType.BUCKET else next(_NUMBERS))
