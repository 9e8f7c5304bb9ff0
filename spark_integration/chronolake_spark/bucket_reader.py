"""Which records a range of instants deleted: file group by file group, on executors, without Spark.

Runs where the bucket index holds: a record never leaves its file group, so no shuffle is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from chronolake_spark import base_files, columns, merge

GROUP_SCHEMA = "before_path string, before_size bigint, after_path string, after_size bigint"
"""One changed file group a row, in Spark's words; the paths are relative to the table's base path."""


def deleted_rows(
    groups: Iterable[pa.RecordBatch], base_path: str, file_schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of each group's slice before whose key its slice after no longer has, as they were before."""
    folder = base_files.Folder.of(base_path)
    for batch in groups:
        for group in batch.to_pylist():
            yield from _deleted_in(folder, group, file_schema)


def _deleted_in(
    folder: base_files.Folder, group: dict[str, Any], file_schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    after = _keys(folder, group["after_path"], group["after_size"])
    with base_files.opened(folder, group["before_path"], group["before_size"]) as file:
        for index in range(file.num_row_groups):
            before = file.read_row_group(index, columns=file_schema.names)
            yield from merge.deleted_rows(before, after).cast(file_schema).to_batches()


def _keys(folder: base_files.Folder, path: str | None, size_bytes: int) -> pa.Table:
    if path is None:
        return pa.table({columns.RECORD_KEY: pa.array([], pa.string())})
    with base_files.opened(folder, path, size_bytes) as file:
        return file.read(columns=[columns.RECORD_KEY])
