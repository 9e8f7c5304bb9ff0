"""The reads of ``format("chronolake")`` by Python alone, where Spark has no Java part of Chronolake.

Spark plans the reader of a frame or a view once, at its first query, and keeps the plan: all queries show the
state of that time. The plan has no conditions of queries: Spark would use it also for queries with other
conditions, and two scans of one query would share one of their plans (docs/decisions/0045-spark-format.md).
Spark does not tell a Python data source which columns a query needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import chronolake
from chronolake import field_ids
from chronolake.slices import arrow_filters, arrow_types, columns, slice_reader, stored_slices
from chronolake.slices.base_files import TableFolder
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import StoredSlice
from chronolake_model import filter_text
from chronolake_model.files import FileSlice, Snapshot
from chronolake_model.filters import Filter
from chronolake_model.tables import SchemaField, Table
from chronolake_spark import errors
from chronolake_spark.common import format_options
from chronolake_spark.common.format_options import FormatOptions, QueryView
from chronolake_spark.driver import schema
from chronolake_spark.read import evolution, filter_meanings, slice_frames

_BATCH_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True)
class TableView:
    """A table's columns at the time when a frame or a view was made of it."""

    fields: Sequence[SchemaField]
    meta_columns: bool
    is_of_changes: bool = False

    @property
    def ddl(self) -> str:
        """The columns of the frame, as Spark DDL."""
        meta = [f"{name} string" for name in columns.META] if self.meta_columns else []
        own = [f"{schema.quoted(field.name)} {schema.ddl(field.type)}" for field in self.fields]
        return ", ".join([*meta, *own, *([f"{columns.CHANGE_TYPE} string"] if self.is_of_changes else [])])


def view_of(options: Mapping[str, str]) -> TableView:
    """The table that the options name. Raises ``InvalidOption``, ``TableNotFound``, ``ConnectionFailed``.

    Spark asks for the columns before it says whether it reads a stream.
    """
    # The begin of a stream may have other forms than that of a range.
    others = {name: text for name, text in options.items() if name.lower() != "from"}
    parsed = format_options.parse(others)
    is_of_changes = parsed.view is QueryView.CHANGES or len(others) < len(options)
    with _connected(parsed) as client:
        fields = client.table(parsed.table).definition.schema
    return TableView(fields, parsed.meta_columns, is_of_changes)


def reader(options: Mapping[str, str], view: TableView | None, struct: StructType) -> DataSourceReader:
    """The reader of a frame with the columns ``struct``; ``view`` is None if the user gave them."""
    parsed = format_options.parse(options)
    format_options.refuse_options_of_read_streams(parsed)
    _refuse_changes(parsed)
    return FormatReader(parsed, view, struct)


@dataclass(frozen=True)
class SlicesPartition(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    """Slices that one task reads, and how. ``filter`` names columns of ``layout``, of the types ``types``."""

    slices: Sequence[StoredSlice]
    base_path: str
    storage_options: Mapping[str, str]
    layout: pa.Schema
    fields: Mapping[int, Sequence[SchemaField]]
    ordering: Sequence[pa.Field]
    filter: Filter | None
    types: Mapping[str, str]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The records, filtered."""
        folder = TableFolder.of(self.base_path, self.storage_options)
        reader = SliceReader(folder, self.layout, self.fields, self.ordering)
        for slice_ in self.slices:
            for rows in reader.rows(slice_):
                matching = (
                    rows if self.filter is None else arrow_filters.matching(rows, self.filter, self.types)
                )
                yield from matching.to_batches(max_chunksize=_BATCH_ROWS)


class FormatReader(DataSourceReader):  # type: ignore[misc]  # pyspark is untyped here
    """Reads the slices of a snapshot in tasks."""

    def __init__(self, options: FormatOptions, view: TableView | None, struct: StructType) -> None:
        self._options = options
        self._view = view
        self._struct = struct

    def partitions(self) -> list[InputPartition]:
        """The tasks of all queries of the frame, with the slices as of now."""
        with _connected(self._options) as client:
            table = client.table(self._options.table)
            planned = table.definition
            fields = self._fields(planned)
            filter_, types = self._filter(fields)
            snapshot = _scan(table, self._options, filter_, _names_now(fields, planned))
            if table.reload().definition.schema_version != planned.schema_version:
                raise errors.SchemaMismatch(
                    f"the columns of {planned.name} changed while the query was planned: run it again"
                )
            layout = field_ids.with_field_ids(schema.arrow_of(self._struct), fields)
            slices = _slices_of(self._options, snapshot)
            written = evolution.versions(table, planned, slices)
            return [
                SlicesPartition(
                    slices=[stored_slices.of(slice_) for slice_ in portion],
                    base_path=planned.base_path,
                    storage_options=table.storage_options,
                    layout=layout,
                    fields=written.all_fields(),
                    ordering=ordering_in(planned, fields),
                    filter=filter_,
                    types=types,
                )
                # At least one, because Spark makes a task of its own out of none.
                for portion in slice_frames.portions(slices, lambda slice_: [slice_]) or [[]]
            ]

    def read(self, partition: SlicesPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task, on an executor."""
        return partition.batches()

    def _filter(self, fields: Sequence[SchemaField]) -> tuple[Filter | None, dict[str, str]]:
        types = {field.name: field.type for field in fields}
        text = self._options.filter
        if text is not None and filter_text.unlike_sql(text) is not None:
            # This process has no session that could compare the meanings.
            raise errors.AmbiguousFilter(filter_meanings.ambiguous(text, self._options.table), {"filter": text})
        return (None if text is None else filter_text.parse(text, types)), types

    def _fields(self, table: Table) -> list[SchemaField]:
        """The frame's own columns, with the ids and types that they had when it was made."""
        present = {field.field_id: field for field in table.schema}
        made_with = {field.name: field for field in (table.schema if self._view is None else self._view.fields)}
        own = [name for name in self._struct.names if name not in columns.META]
        fields = [made_with[name] for name in own if name in made_with]
        if len(fields) < len(own):
            unknown = [name for name in own if name not in made_with]
            raise errors.SchemaMismatch(
                f"{table.name} has no column {', '.join(unknown)}: leave .schema() out, or name columns of it"
            )
        changed = [
            field.name for field in fields if getattr(present.get(field.field_id), "type", None) != field.type
        ]
        if changed:
            raise errors.SchemaMismatch(
                f"the columns {', '.join(changed)} of {table.name} were dropped, or got another type, after "
                "this frame or view was made: make it again",
                {"columns": changed},
            )
        return fields


def _scan(
    table: chronolake.Table, options: FormatOptions, filter_: Filter | None, names: Mapping[str, str]
) -> Snapshot:
    """The slices that may have a matching record."""
    if filter_ is None:
        return table.snapshot(options.as_of)
    return table.scan(arrow_filters.renamed(filter_, names), options.as_of)


def _names_now(fields: Sequence[SchemaField], table: Table) -> dict[str, str]:
    """The present names of the columns: the server knows no others."""
    names = {field.field_id: field.name for field in table.schema}
    return {field.name: names[field.field_id] for field in fields}


def _refuse_changes(options: FormatOptions) -> None:
    if options.view is QueryView.CHANGES:
        raise errors.InvalidOption(
            f"Python alone reads no changes: use chronolake_spark.table(spark, {options.table!r}).changes("
            "from_, to), or give Spark the Java part by chronolake_spark.catalog(spark, 'lake')"
        )


def _connected(options: FormatOptions) -> chronolake.Client:
    return chronolake.connect(options.access, storage_options=options.storage_options)


def _slices_of(options: FormatOptions, snapshot: Snapshot) -> list[FileSlice]:
    if options.view is not QueryView.READ_OPTIMIZED:
        return snapshot.slices
    return stored_slices.base_only(snapshot.slices)


def ordering_in(table: Table, fields: Sequence[SchemaField]) -> list[pa.Field]:
    """The ordering fields, by their names in the frame if they are there."""
    present = {field.name: field for field in table.schema}
    in_frame = {field.field_id: field for field in fields}
    ordering = [present[name] for name in table.merge_fields]
    used = [in_frame.get(field.field_id, field) for field in ordering]
    layout = arrow_types.file_layout(used)
    return slice_reader.ordering_of(layout, [field.name for field in used])
