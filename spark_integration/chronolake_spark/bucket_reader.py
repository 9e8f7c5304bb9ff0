"""Reads of executors without Spark: base files, and the records that a range of instants deleted.

With a bucket index, deleted records are found file group by file group: a record never leaves its file group,
so no shuffle is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from chronolake_model.tables import SchemaField
from chronolake_spark import base_files, columns, layouts, merge

GROUP_SCHEMA = (
    "before_path string, before_size bigint, before_schema int, before_has_field_ids boolean, "
    "after_path string, after_size bigint"
)
"""One changed file group per row, as Spark DDL; the paths are relative to the table's base path.

``before_schema`` is the version of the schema with which the file before was written.
"""


FILE_SCHEMA = "path string, size long, has_field_ids boolean"
"""One base file per row; the path is relative to the table's base path."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads base files from a table's folder in a layout of the table.

    ``fields`` has the columns of each version of the schema that files were written with.
    """

    folder: base_files.Folder
    layout: pa.Schema
    fields: Mapping[int, Sequence[SchemaField]]

    def rows_of(self, files: Iterable[pa.RecordBatch], version: int) -> Iterator[pa.RecordBatch]:
        """All rows of these base files, which were written with one version of the schema."""
        for batch in files:
            for path, size_bytes, has_field_ids in zip(*batch.to_pydict().values(), strict=True):
                for rows in self._row_groups(path, size_bytes, version, has_field_ids=has_field_ids):
                    yield from rows.to_batches()

    def deleted_rows(self, groups: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of each slice before whose key the slice after does not have: the deleted ones."""
        for batch in groups:
            for group in batch.to_pylist():
                yield from self._deleted_in(group)

    def _deleted_in(self, group: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        after = self._keys(group["after_path"], group["after_size"])
        for before in self._row_groups(
            group["before_path"],
            group["before_size"],
            group["before_schema"],
            has_field_ids=group["before_has_field_ids"],
        ):
            yield from merge.deleted_rows(before, after).to_batches()

    def _row_groups(
        self, path: str, size_bytes: int, version: int, *, has_field_ids: bool
    ) -> Iterator[pa.Table]:
        with base_files.open_base_file(self.folder, path, size_bytes) as file:
            stored = layouts.stored_schema(file, None if has_field_ids else self.fields[version], path)
            names = layouts.columns_of(stored, self.layout)
            for index in range(file.num_row_groups):
                yield layouts.in_layout(file.read_row_group(index, columns=names), stored, self.layout)

    def _keys(self, path: str | None, size_bytes: int) -> pa.Table:
        if path is None:
            return pa.table({columns.RECORD_KEY: pa.array([], pa.string())})
        with base_files.open_base_file(self.folder, path, size_bytes) as file:
            return file.read(columns=[columns.RECORD_KEY])
