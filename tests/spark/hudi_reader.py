"""Tables as hudi-rs reads them, and as Chronolake reads them without a JVM, to compare both row for row."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import hudi
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

import chronolake
from chronolake import Action, Marker, MarkerKind
from chronolake.errors import NotPublished
from chronolake.slices import arrow_types, base_files, columns, slice_reader, stored_slices
from chronolake.slices.base_files import TableFolder
from chronolake.slices.slice_reader import ExecutorReader, SliceReader
from chronolake.slices.stored_slices import StoredSlice
from chronolake_model.file_names import base_file_name
from chronolake_model.files import FileGroupName, FileSlice, WriteStat
from chronolake_model.instants import Instant
from chronolake_spark import SparkTable
from chronolake_spark.read import evolution

_NUMBERS = itertools.count(1)


def publish_and_compare(table: chronolake.Table) -> None:
    """Publish a table up to the end of its log: then hudi-rs reads its rows. A paused publication is left."""
    if is_beyond_hudi_rs(table):
        return
    with contextlib.suppress(NotPublished):
        publication = table.publish()
        assert publication.is_visible
        assert_same_rows(rows_of_hudi(table), rows_of_slices(table, table.snapshot().slices))


def is_beyond_hudi_rs(table: chronolake.Table) -> bool:
    """Whether hudi-rs 0.5.0 panics on a column of the table."""
    return any("timestamp_ntz" in field.type for field in table.reload().definition.schema)


def rows_of_hudi(table: chronolake.Table, options: hudi.HudiReadOptions | None = None) -> pa.Table:
    """The rows that hudi-rs reads, with Hudi's five columns."""
    batches = hudi.HudiTable(table.definition.base_path).read(options)
    return pa.Table.from_batches(batches) if batches else layout_of(table).empty_table()


def rows_of(table: chronolake.Table, as_of: str | None = None) -> pa.Table:
    """The rows of a snapshot, with Hudi's five columns, as executors and the client read them."""
    snapshot = table.snapshot(as_of)
    rows = rows_of_slices(table, snapshot.slices)
    of_client = table.to_arrow(snapshot.as_of, columns=rows.schema.names)
    assert of_client.schema == rows.schema
    # As text, NaN is equal to NaN.
    assert repr(of_client.to_pylist()) == repr(rows.to_pylist())
    return rows


def rows_of_slices(table: chronolake.Table, slices: Sequence[FileSlice]) -> pa.Table:
    """The rows of file slices, with Hudi's five columns, as executors read them."""
    versions = evolution.versions(table, table.reload().definition, slices)
    layout = layout_of(table)
    ordering = slice_reader.ordering_of(layout, table.definition.merge_fields)
    folder = TableFolder.of(table.definition.base_path, table.storage_options)
    reader = ExecutorReader(SliceReader(folder, layout, versions.all_fields(), ordering))
    texts = [stored_slices.of(file_slice).to_json() for file_slice in slices]
    rows = pa.Table.from_batches(list(reader.rows_of(texts)), layout)
    for text in texts:
        assert_parts_are_whole(reader.slices, stored_slices.from_json(text))
    return rows


def assert_parts_are_whole(reader: SliceReader, stored: StoredSlice) -> None:
    """The slice is the records of the base file without the keys of the log files, and those of these keys."""
    if stored.base is None or not stored.logs:
        return
    keys = pa.concat_arrays([pa.array([], pa.string()), *reader.log_keys(stored)])
    base = [
        rows.filter(pc.invert(pc.is_in(rows[columns.RECORD_KEY], value_set=keys)))
        for rows in reader.rows(msgspec.structs.replace(stored, logs=[]))
    ]
    parts = [table.cast(reader.layout) for table in (*base, *reader.changed_rows(stored))]
    whole = [table.cast(reader.layout) for table in reader.rows(stored)]
    assert_same_rows(pa.concat_tables(parts), pa.concat_tables(whole))


def layout_of(table: chronolake.Table) -> pa.Schema:
    """The columns of the table's data files."""
    return arrow_types.file_layout(table.definition.schema)


def assert_same_rows(of_hudi: pa.Table, own: pa.Table) -> None:
    """Both have the same columns by name, and the same rows in any order."""
    assert set(of_hudi.column_names) == set(own.column_names)
    theirs, ours = in_order(of_hudi.select(own.column_names)).cast(own.schema), in_order(own)
    # NaN equals itself as a text only.
    assert theirs.equals(ours) or str(theirs.to_pylist()) == str(ours.to_pylist())


def in_order(rows: pa.Table) -> pa.Table:
    """The rows by record key and partition."""
    return rows.sort_by([("_hoodie_record_key", "ascending"), ("_hoodie_partition_path", "ascending")])


class PublishedTable(SparkTable):
    """A table that is published after each of its writes, and then read by hudi-rs."""

    @override
    def _write(self, *args: object, **options: object) -> Instant:
        instant = super()._write(*args, **options)  # type: ignore[arg-type]
        publish_and_compare(self.metastore)
        return instant

    @override
    def resize_buckets(self, buckets: int, **options: Any) -> Instant:
        instant = super().resize_buckets(buckets, **options)
        publish_and_compare(self.metastore)
        return instant

    @override
    def delete_partitions(self, *partitions: Any, **options: Any) -> Instant:
        instant = super().delete_partitions(*partitions, **options)
        publish_and_compare(self.metastore)
        return instant


def compact(
    table: chronolake.Table, groups: Sequence[FileGroupName], meanwhile: Callable[[], object] = lambda: None
) -> Instant:
    """Merge the log files of file groups into new base files; ``meanwhile`` is called once it is planned."""
    plan = table.plan(Action.COMPACTION, groups, writer="planner")
    snapshot = table.snapshot(plan.requested_time)
    slices = {FileGroupName(of.partition_path, of.file_id): of for of in snapshot.slices}
    rows_of = {group: rows_of_slices(table, [slices[group]]) for group in groups}
    table.publish()
    write = table.execute(plan.requested_time)
    meanwhile()
    folder = base_files.TableFolder.of(table.definition.base_path)
    stats = []
    for group, rows in rows_of.items():
        name = base_file_name(group.file_id, f"{next(_NUMBERS)}-9-9", plan.requested_time)
        marker = Marker(group.partition_path, name, MarkerKind.MERGE)
        write.mark(marker)
        size = base_files.write(folder, marker.path, rows.schema, [rows])
        stats.append(WriteStat(group.partition_path, group.file_id, name, size, len(rows), has_field_ids=True))
    write.complete(stats)
    return write.refresh()
