"""The tasks of a batch of a stream: which slices each of them reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructType

import chronolake
from chronolake import field_ids
from chronolake.slices import arrow_types, columns, slice_reader, stored_slices
from chronolake_model.files import ChangedFileGroup, Changes, FileSlice
from chronolake_model.tables import SchemaField, Table
from chronolake_model.vocabulary import IndexType, TimeOrder
from chronolake_spark import errors
from chronolake_spark.read import evolution, slice_frames
from chronolake_spark.read.format_reader import TableView
from chronolake_spark.stream import plans
from chronolake_spark.stream.offsets import BEGINNING
from chronolake_spark.stream.task_reads import DeletesPartition, StreamedTable, UpsertsPartition


def of_snapshot(
    table: chronolake.Table, completed: str, struct: StructType, view: TableView | None
) -> list[InputPartition]:
    """The tasks of the first batch: all records as of its end."""
    slices = table.snapshot(completed).slices
    source = _source(table, slices, struct, view)
    return _upserts(source, slices, None)


def of_changes(
    table: chronolake.Table, began: str, completed: str, struct: StructType, view: TableView | None
) -> list[InputPartition]:
    """The tasks of a batch from one completion time to another. Raises ``HistoryCleaned``."""
    assert began != BEGINNING, "a stream begins with a snapshot"
    return of_range(table, table.changes(began, completed), struct, view)


def of_range(
    table: chronolake.Table, changes: Changes, struct: StructType, view: TableView | None
) -> list[InputPartition]:
    """The tasks that read changes."""
    if changes_no_record(table, changes):
        return []
    after = [group.after for group in changes.file_groups if group.after is not None]
    before = [group.before for group in changes.file_groups if group.before is not None]
    source = _source(table, [*before, *after], struct, view)
    times = None if changes.restores else [instant.requested_time for instant in changes.instants]
    return [*_upserts(source, after, times), *_deletes(source, table.definition, changes)]


def changes_no_record(table: chronolake.Table, changes: Changes) -> bool:
    """Whether all that completed are compactions and clusterings."""
    services = table.instants(
        operation=plans.SERVICES,
        order_by=TimeOrder.COMPLETION_TIME,
        completed_from=changes.from_,
        completed_to=changes.to,
    )
    # An instant that was undone since is on no timeline, and still among the changes.
    written = {instant.requested_time for instant in changes.instants}
    return not changes.restores and written <= {instant.requested_time for instant in services}


def fields_of(table: Table, struct: StructType, view: TableView | None) -> list[SchemaField]:
    """The table's columns that a stream shows. Raises ``SchemaMismatch`` if they changed since it began."""
    if view is not None and list(view.fields) != table.schema:
        raise errors.SchemaMismatch(
            f"the columns of {table.name} changed after this stream was made: stop the query, load the stream "
            "again, and start it with the same checkpoint folder. It goes on where it stopped, with the "
            "columns that the table has then",
            {"schema_version": table.schema_version},
        )
    present = {field.name: field for field in table.schema}
    own = [name for name in struct.names if name not in (*columns.META, columns.CHANGE_TYPE)]
    if unknown := [name for name in own if name not in present]:
        raise errors.SchemaMismatch(
            f"{table.name} has no column {', '.join(unknown)}: leave .schema() out, or name columns of it",
            {"unknown": unknown},
        )
    if columns.CHANGE_TYPE not in struct.names:
        raise errors.SchemaMismatch(
            f"name the column {columns.CHANGE_TYPE} too, a string: without it deletes look like other changes"
        )
    return [present[name] for name in own]


def _source(
    table: chronolake.Table, slices: Sequence[FileSlice], struct: StructType, view: TableView | None
) -> StreamedTable:
    # Fetched after the slices: so it knows every column that they may have.
    definition = table.reload().definition
    fields = fields_of(definition, struct, view)
    shown = to_arrow_schema(struct, timezone="UTC")
    read_columns = StructType([field for field in struct if field.name != columns.CHANGE_TYPE])
    for name in (columns.COMMIT_TIME, columns.RECORD_KEY):
        if name not in struct.names:
            read_columns.add(name, StringType())
    written = evolution.versions(table, definition, slices)
    return StreamedTable(
        base_path=definition.base_path,
        storage_options=table.storage_options,
        layout=field_ids.with_field_ids(to_arrow_schema(read_columns, timezone="UTC"), fields),
        shown=shown,
        fields=written.all_fields(),
        ordering=slice_reader.ordering_of(arrow_types.file_layout(definition.schema), definition.merge_fields),
    )


def _upserts(
    source: StreamedTable, slices: Sequence[FileSlice], times: Sequence[str] | None
) -> list[InputPartition]:
    return [
        UpsertsPartition(source, [stored_slices.of(slice_) for slice_ in portion], times)
        for portion in slice_frames.portions(slices, lambda slice_: [slice_])
    ]


def _deletes(source: StreamedTable, table: Table, changes: Changes) -> Iterator[InputPartition]:
    changed = [group for group in changes.file_groups if group.before is not None]
    if not changed:
        return
    if not stored_slices.may_have_moved(table, changes):
        yield from _deletes_of(source, changed, [])
        return
    after = [group.after for group in changes.file_groups if group.after is not None]
    if table.index.type is IndexType.RECORD:
        yield from _deletes_of(source, changed, after)
        return
    # A record stays in its partition.
    for path, groups in groupby(sorted(changed, key=_path), key=_path):
        yield from _deletes_of(source, list(groups), [slice_ for slice_ in after if _path(slice_) == path])


def _deletes_of(
    source: StreamedTable, changed: Sequence[ChangedFileGroup], after: Sequence[FileSlice]
) -> Iterator[InputPartition]:
    searched = [stored_slices.of(slice_) for slice_ in after]
    for portion in slice_frames.portions(changed, _sides):
        groups = [
            (stored_slices.of(group.before), group.after and stored_slices.of(group.after))
            for group in portion
            if group.before is not None
        ]
        yield DeletesPartition(source, groups, searched)


def _sides(group: ChangedFileGroup) -> list[FileSlice]:
    return [slice_ for slice_ in (group.before, group.after) if slice_ is not None]


def _path(group: ChangedFileGroup | FileSlice) -> str:
    return group.partition_path
