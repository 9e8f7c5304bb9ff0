"""What executors read without Spark: base files, and which records a range of instants deleted.

The latter goes file group by file group where the bucket index holds: a record never leaves its file group, so
no shuffle is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from chronolake_spark import base_files, columns, merge

GROUP_SCHEMA = "before_path string, before_size bigint, before_schema int, after_path string, after_size bigint"
"""One changed file group a row, in Spark's words; the paths are relative to the table's base path.

``before_schema`` is the version of the schema which the file before was written with.
"""


FILE_SCHEMA = "path string, size long"
"""One base file a row; the path is relative to the table's base path."""


def rows_of(
    files: Iterable[pa.RecordBatch], folder: base_files.Folder, file_schema: pa.Schema, names: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """All rows of these base files; ``names`` is what they call each column."""
    for batch in files:
        for path, size_bytes in zip(*batch.to_pydict().values(), strict=True):
            with base_files.open_base_file(folder, path, size_bytes) as file:
                for index in range(file.num_row_groups):
                    stored = file.read_row_group(index, columns=list(names.values()))
                    yield from base_files.in_layout(stored, file_schema, names).to_batches()


def deleted_rows(
    groups: Iterable[pa.RecordBatch],
    folder: base_files.Folder,
    file_schema: pa.Schema,
    names: Mapping[int, Mapping[str, str]],
) -> Iterator[pa.RecordBatch]:
    """The rows of each group's slice before whose key its slice after no longer has, as they were before.

    ``names`` says for each version of the schema what its files call each column.
    """
    for batch in groups:
        for group in batch.to_pylist():
            yield from _deleted_in(folder, group, file_schema, names[group["before_schema"]])


def _deleted_in(
    folder: base_files.Folder, group: dict[str, Any], file_schema: pa.Schema, names: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    after = _keys(folder, group["after_path"], group["after_size"])
    with base_files.open_base_file(folder, group["before_path"], group["before_size"]) as file:
        for index in range(file.num_row_groups):
            stored = file.read_row_group(index, columns=list(names.values()))
            before = base_files.in_layout(stored, file_schema, names)
            yield from merge.deleted_rows(before, after).to_batches()


def _keys(folder: base_files.Folder, path: str | None, size_bytes: int) -> pa.Table:
    if path is None:
        return pa.table({columns.RECORD_KEY: pa.array([], pa.string())})
    with base_files.open_base_file(folder, path, size_bytes) as file:
        return file.read(columns=[columns.RECORD_KEY])
