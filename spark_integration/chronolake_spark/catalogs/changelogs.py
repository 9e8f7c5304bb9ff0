"""``CHANGES FROM`` of SQL: the net changes of a range, with the record before and after each update.

A task reads file groups before and after the range. Where a record may have come into another file group, as by
a clustering, the groups of a partition are one pool, and all groups of the table if keys are unique in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StringType, StructType, TimestampType

from chronolake import field_ids
from chronolake.slices import arrow_types, columns, slice_reader, stored_slices
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import StoredSlice
from chronolake_model.files import ChangedFileGroup, Changes
from chronolake_model.tables import SchemaField, Table
from chronolake_model.times import Bound, Micros, Tick, format_time, parse_time, to_datetime
from chronolake_model.vocabulary import IndexType
from chronolake_spark import errors
from chronolake_spark.catalogs import definitions, scans
from chronolake_spark.catalogs.context import CatalogContext
from chronolake_spark.driver import schema
from chronolake_spark.read import evolution
from chronolake_spark.stream import tasks
from chronolake_spark.stream.task_reads import StreamedTable

_BATCH_ROWS: Final = 65_536
_VERSION, _TIMESTAMP = "_commit_version", "_commit_timestamp"
_INSERT, _DELETE, _BEFORE, _AFTER = "insert", "delete", "update_preimage", "update_postimage"
_READ: Final = (columns.COMMIT_TIME, columns.COMMIT_SEQNO, columns.RECORD_KEY)
BEGINNING: Final = "0"
"""The version before the first commit."""
_MILLISECOND_DIGITS: Final = 17


class ChangesRequest(msgspec.Struct, frozen=True):
    """A request for the changes between two versions, or two times in microseconds since 1970."""

    table: str
    from_inclusive: bool
    to_inclusive: bool
    from_version: str | None = None
    to_version: str | None = None
    from_micros: int | None = None
    to_micros: int | None = None


class ChangesPlan(msgspec.Struct, frozen=True):
    """The columns of the changes, as Spark's JSON, and their partitions as the text of an option."""

    schema: str
    slices: str


def plan(context: CatalogContext, request: ChangesRequest) -> ChangesPlan:
    """The partitions of a range. Raises ``HistoryCleaned``, and ``ValueError`` for what is no version."""
    table = context.table(request.table)
    for version in (request.from_version, request.to_version):
        if version in list(Bound):
            raise errors.InvalidOption(
                f"a range of changes has completion times, not {version!r}: FROM VERSION '0' is the beginning, "
                "and without TO it ends with the newest state"
            )
    is_first = request.from_version in (None, BEGINNING) and request.from_micros is None
    began = None if is_first else definitions.state(table, request.from_version, request.from_micros)
    ended = definitions.state(table, request.to_version, request.to_micros)
    changes = table.changes(
        began if began is None or not request.from_inclusive else _earlier(began),
        ended if ended is None or request.to_inclusive else _earlier(ended),
    )
    definition = table.reload().definition
    shown = schema.struct_of(definition.schema)
    shown.add(columns.CHANGE_TYPE, StringType(), False)
    shown.add(_VERSION, StringType(), False)
    shown.add(_TIMESTAMP, TimestampType(), False)
    if tasks.changes_no_record(table, changes):
        return ChangesPlan(shown.json(), scans.text_of([]))
    slices = [side for group in changes.file_groups for side in (group.before, group.after) if side is not None]
    written = evolution.versions(table, definition, slices)
    source = StreamedTable(
        base_path=definition.base_path,
        storage_options=table.storage_options,
        layout=_layout(shown, definition.schema),
        shown=schema.arrow_of(shown),
        fields=written.all_fields(),
        ordering=slice_reader.ordering_of(arrow_types.file_layout(definition.schema), definition.merge_fields),
    )
    completed = {instant.requested_time: instant.completion_time for instant in changes.instants}
    partitions = [
        ChangesPartition(source, pool, completed, changes.to or "", is_whole=bool(changes.restores))
        for pool in _pools(definition, changes)
    ]
    return ChangesPlan(shown.json(), scans.text_of(partitions))


def _earlier(digits: str) -> str:
    """The time one tick earlier: a range begins after its first time."""
    tick = Tick.MILLISECOND if len(digits) == _MILLISECOND_DIGITS else Tick.MICROSECOND
    return format_time(Micros(parse_time(digits) - tick.micros), tick)


def _layout(shown: StructType, fields: Sequence[SchemaField]) -> pa.Schema:
    own = StructType([field for field in shown if field.name in {known.name for known in fields}])
    for name in _READ:
        own.add(name, StringType())
    return field_ids.with_field_ids(schema.arrow_of(own), fields)


Pool = Sequence[tuple[StoredSlice | None, StoredSlice | None]]
"""File groups before and after the range, between which records may have moved."""


def _pools(table: Table, changes: Changes) -> Iterator[Pool]:
    groups = [(_stored(group), group.partition_path) for group in changes.file_groups]
    if not stored_slices.may_have_moved(table, changes):
        yield from ([sides] for sides, _ in groups)
    elif table.index.type is IndexType.RECORD:
        yield [sides for sides, _ in groups]
    else:
        for _, found in groupby(sorted(groups, key=lambda group: group[1]), key=lambda group: group[1]):
            yield [sides for sides, _ in found]


def _stored(group: ChangedFileGroup) -> tuple[StoredSlice | None, StoredSlice | None]:
    return (
        None if group.before is None else stored_slices.of(group.before),
        None if group.after is None else stored_slices.of(group.after),
    )


@dataclass(frozen=True)
class ChangesPartition(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    """A pool of file groups, and the completion times of the range's instants by their requested times.

    If it ``is_whole``, a restore brought records back that no instant of the range wrote: all records are
    compared. ``ended`` is the end of the range.
    """

    source: StreamedTable
    pool: Pool
    completed: Mapping[str, str]
    ended: str
    is_whole: bool

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes: inserts and updates with the version that made them, deletes with the range's end."""
        reader = self.source.reader()
        before = _keys(reader, (slice_ for slice_, _ in self.pool))
        written_before = self._stamps(reader) if self.is_whole else None
        changed: list[pa.Table] = []
        for _, slice_ in self.pool:
            for rows in () if slice_ is None else reader.rows(slice_):
                upserted = self._written(rows, written_before)
                changed.append(upserted.select([columns.RECORD_KEY, columns.COMMIT_TIME]))
                was_there = pc.is_in(upserted[columns.RECORD_KEY], value_set=before)
                versions = self._versions(upserted[columns.COMMIT_TIME])
                types = pc.if_else(was_there, _AFTER, _INSERT)
                yield from self._shown(upserted, types, versions)
        yield from self._before(reader, changed)

    def _before(self, reader: SliceReader, changed: Sequence[pa.Table]) -> Iterator[pa.RecordBatch]:
        """The records before the range that it updated or deleted, as they were."""
        texts = pa.schema([(columns.RECORD_KEY, pa.string()), (columns.COMMIT_TIME, pa.string())])
        updated = pa.concat_tables([texts.empty_table(), *(part.cast(texts) for part in changed)])
        present = _keys(reader, (slice_ for _, slice_ in self.pool))
        for slice_, _ in self.pool:
            for rows in () if slice_ is None else reader.rows(slice_):
                keys = rows[columns.RECORD_KEY]
                place = pc.index_in(keys, value_set=updated[columns.RECORD_KEY].combine_chunks())
                is_updated = pc.is_valid(place)
                is_deleted = pc.invert(pc.is_in(keys, value_set=present))
                times = updated[columns.COMMIT_TIME].take(place)
                versions = pc.if_else(is_updated, self._versions(times), self.ended)
                types = pc.if_else(is_updated, _BEFORE, _DELETE)
                chosen = pc.or_(is_updated, is_deleted)
                yield from self._shown(rows.filter(chosen), types.filter(chosen), versions.filter(chosen))

    def _written(self, rows: pa.Table, written_before: pa.Array | None) -> pa.Table:
        """The records that the range wrote."""
        if written_before is not None:
            return rows.filter(pc.invert(pc.is_in(_stamp(rows), value_set=written_before)))
        times = pa.array(list(self.completed), pa.string())
        return rows.filter(pc.is_in(rows[columns.COMMIT_TIME], value_set=times))

    def _stamps(self, reader: SliceReader) -> pa.Array:
        found = [_stamp(rows) for slice_, _ in self.pool if slice_ is not None for rows in reader.rows(slice_)]
        chunks = [chunk for stamps in found for chunk in stamps.chunks]
        return pa.concat_arrays([pa.array([], pa.string()), *chunks])

    def _versions(self, times: pa.ChunkedArray) -> pa.ChunkedArray:
        """The completion times of instants; the range's end for those that it did not complete."""
        known = pa.array(list(self.completed), pa.string())
        completed = pa.array(list(self.completed.values()), pa.string())
        return pc.fill_null(completed.take(pc.index_in(times, value_set=known)), self.ended)

    def _shown(
        self, rows: pa.Table, types: pa.ChunkedArray, versions: pa.ChunkedArray
    ) -> Iterator[pa.RecordBatch]:
        moments = [to_datetime(parse_time(version)) for version in versions.to_pylist()]
        made = {
            columns.CHANGE_TYPE: types,
            _VERSION: versions,
            _TIMESTAMP: pa.array(moments, pa.timestamp("us", tz="UTC")),
        }
        shown = [made[name] if name in made else rows[name] for name in self.source.shown.names]
        yield from pa.table(shown, schema=self.source.shown).to_batches(max_chunksize=_BATCH_ROWS)


def _stamp(rows: pa.Table) -> pa.ChunkedArray:
    """A text that differs between any two states of records."""
    return pc.binary_join_element_wise(*(rows[name].cast(pa.string()) for name in _READ), "\0")


def _keys(reader: SliceReader, slices: Iterable[StoredSlice | None]) -> pa.Array:
    chunks = [
        chunk.cast(pa.string())
        for slice_ in slices
        if slice_ is not None
        for rows in reader.of_keys().rows(slice_)
        for chunk in rows[columns.RECORD_KEY].chunks
    ]
    return pa.concat_arrays([pa.array([], pa.string()), *chunks])
