"""The rows of merge-on-read tables as executors read them, without Spark."""

from __future__ import annotations

import pyarrow as pa

import chronolake
from chronolake_model.files import FileSlice
from chronolake_spark.common import arrow_types
from chronolake_spark.read.slices import slice_reader, stored_slices
from chronolake_spark.read.slices.base_files import TableFolder
from chronolake_spark.read.slices.slice_reader import SliceReader
from tests.hudi.stored_tables import COLUMNS, Rows


def rows_by_slices(table: chronolake.Table, as_of: str | None = None) -> Rows:
    """The rows of a snapshot, by id."""
    return rows_of(table, table.snapshot(as_of).slices)


def rows_of(table: chronolake.Table, slices: list[FileSlice]) -> Rows:
    """The rows of file slices, by id."""
    definition = table.definition
    layout = arrow_types.file_layout(definition.schema)
    ordering = slice_reader.ordering_of(layout, definition.merge_fields)
    reader = SliceReader(
        TableFolder.of(definition.base_path, table.storage_options), layout, {1: definition.schema}, ordering
    )
    read = [rows for slice_ in slices for rows in reader.rows(stored_slices.of(slice_))]
    records = pa.concat_tables(read).select(COLUMNS).to_pylist() if read else []
    return sorted(([record[name] for name in COLUMNS] for record in records), key=lambda row: row[1])
