"""Reads of executors without Spark: base files, and the records that a range of instants deleted.

With a bucket index, deleted records are found file group by file group: a record never leaves its file group,
so no shuffle is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from chronolake_spark import base_files, columns, merge

GROUP_SCHEMA = "before_path string, before_size bigint, before_schema int, after_path string, after_size bigint"
"""One changed file group per row, as Spark DDL; the paths are relative to the table's base path.

``before_schema`` is the version of the schema with which the file before was written.
"""


FILE_SCHEMA = "path string, size long"
"""One base file per row; the path is relative to the table's base path."""


def rows_of(
    files: Iterable[pa.RecordBatch], folder: base_files.Folder, file_schema: pa.Schema, names: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """All rows of these base files; ``names`` has the name of each column in them."""
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
    """The deleted rows of each file group: rows of the slice before whose key the slice after does not have.

    ``names`` has for each version of the schema the names of the columns in its files.
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
