"""The rows of a state of a table in Arrow: slices are read in parallel, and come in their order.

Needs ``chronolake[arrow]``. Memory is bounded: of each slice that is read at the same time, one table of rows
is there ahead of the caller, and of a slice with log files also those log files.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from chronolake.errors import ChronolakeError, HistoryCleaned
from chronolake.indexes.tables import BlockingTable
from chronolake.slices import arrow_types, columns, errors, merge, slice_reader, stored_slices
from chronolake.slices.base_files import TableFolder
from chronolake.slices.lazy_compute import pc
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import StoredSlice
from chronolake_model.files import ChangedFileGroup, Changes, FileSlice, Snapshot
from chronolake_model.filters import Filter, columns_of
from chronolake_model.names import listed
from chronolake_model.tables import SchemaField, Table
from chronolake_model.vocabulary import IndexType

BATCH_ROWS: Final = 131_072
_SLICES_AT_ONCE_MAX: Final = 8
"""Slices that are read at the same time: in object storage, and of local files by as many processors."""
_ANSWER_SECONDS: Final = 5.0
"""The wait for an answer of the server when a file is missing."""
UPSERT, DELETE = "upsert", "delete"


@dataclass(frozen=True, slots=True)
class CleanCheck:
    """Tells whether a clean has deleted files of a table as of ``time``, the earliest that is read."""

    table: BlockingTable
    time: str

    def error(self) -> HistoryCleaned | None:
        """The server's error for such a clean; None if there was none, or if the server does not answer.

        It is asked in a thread, because this one may be that of the client's event loop.
        """
        answer: Future[HistoryCleaned | None] = Future()
        threading.Thread(target=lambda: answer.set_result(self._asked()), daemon=True).start()
        try:
            return answer.result(_ANSWER_SECONDS)
        except TimeoutError:
            return None

    def _asked(self) -> HistoryCleaned | None:
        try:
            self.table.snapshot(self.time)
        except HistoryCleaned as exc:
            return exc
        except (ChronolakeError, RuntimeError, CancelledError):  # The client, or its event loop, was closed.
            return None
        return None


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads rows of a table with the columns that it has now, or those of ``names``, in this order.

    ``fields`` has the columns of each version of the schema that files were written with. Rows for which
    ``where`` is not true are left out. ``cleaned`` tells files that a clean deleted from lost ones.
    """

    table: Table
    fields: Mapping[int, Sequence[SchemaField]]
    storage_options: Mapping[str, str]
    names: tuple[str, ...]
    where: Filter | None = None
    batch_rows: int = BATCH_ROWS
    cleaned: CleanCheck | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._layout(self.names)

    def rows(self, slices: Iterable[StoredSlice], times: Iterable[str] | None = None) -> Iterator[pa.Table]:
        """The rows of slices; with ``times`` those that instants of these requested times wrote last."""
        needed = [*self.names, *sorted(columns_of(self.where))]
        wanted = None if times is None else pa.array(sorted(times), pa.string())
        reader = self._reader([*needed, *([] if wanted is None else [columns.COMMIT_TIME])])
        found = _in_order((reader.rows(stored) for stored in slices), self._slices_at_once())
        return map(functools.partial(self._matching, times=wanted), self._checked(found))

    def of_state(self, snapshot: Snapshot) -> StateRows:
        """The rows of a snapshot."""
        return StateRows(self, [stored_slices.of(slice_) for slice_ in snapshot.slices], snapshot.as_of)

    def changed_rows(self, changes: Changes) -> pa.Table:
        """The rows of ``changes``, as one table."""
        empty = _of_change(self.schema.empty_table(), UPSERT)
        return pa.concat_tables([empty, *self.changes(changes)])

    def changes(self, changes: Changes) -> Iterator[pa.Table]:
        """The records that changed, each once in its last state, with the column ``_change_type``.

        They are those of ``SparkTable.changes``. The keys of a file group, or those of all changed file groups
        if records may have moved between them, are held in memory.
        """
        after = [stored_slices.of(group.after) for group in changes.file_groups if group.after is not None]
        times = None if changes.restores else [instant.requested_time for instant in changes.instants]
        yield from map(functools.partial(_of_change, change=UPSERT), self.rows(after, times))
        deleted = self._checked(self._deleted(changes, after))
        yield from map(functools.partial(_of_change, change=DELETE), map(self._matching, deleted))

    def found(self, slices: Iterable[StoredSlice], keys: pa.Array) -> Iterator[pa.Table]:
        """The rows of slices with one of these record keys (texts), with all columns that files have."""
        reader = self._reader([*columns.META, *self.names]).only(keys)
        found = (rows for stored in slices for rows in reader.rows(stored))
        yield from (rows for rows in self._checked(found) if len(rows))

    def _checked(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        try:
            yield from tables
        except (errors.BaseFileDamaged, errors.LogFileDamaged) as damage:
            if self.cleaned is not None and (cleaned := self.cleaned.error()) is not None:
                raise cleaned from damage
            raise

    def _deleted(self, changes: Changes, after: Sequence[StoredSlice]) -> Iterator[pa.Table]:
        groups = [group for group in changes.file_groups if group.before is not None]
        if not groups:
            return
        place = [columns.RECORD_KEY]
        if self.table.index.type is not IndexType.RECORD:
            place.append(columns.PARTITION_PATH)
        reader = self._reader([*self.names, *sorted(columns_of(self.where)), *place])
        of_keys = self._reader(place)
        moved = _keys_of(of_keys, after, place) if stored_slices.may_have_moved(self.table, changes) else None
        for group in groups:
            yield from _deleted_of(reader, of_keys, group, place, moved)

    def _matching(self, rows: pa.Table, times: pa.Array | None = None) -> pa.Table:
        """The rows that count, in the columns to return."""
        if times is not None:
            rows = rows.filter(pc.is_in(rows[columns.COMMIT_TIME], value_set=times))
        if self.where is not None:
            from chronolake.slices import arrow_filters  # noqa: PLC0415  # slow, and most reads have no filter

            types = {field.name: field.type for field in self.table.schema}
            rows = arrow_filters.matching(rows, self.where, types)
        return rows.select(list(self.names))

    def _reader(self, names: Iterable[str]) -> SliceReader:
        whole = arrow_types.file_layout(self.table.schema)
        ordering = slice_reader.ordering_of(whole, self.table.merge_fields)
        folder = TableFolder.of(self.table.base_path, self.storage_options)
        return SliceReader(folder, self._layout(names), self.fields, ordering, batch_rows=self.batch_rows)

    def _layout(self, names: Iterable[str]) -> pa.Schema:
        layout = arrow_types.file_layout(self.table.schema)
        return pa.schema([layout.field(name) for name in dict.fromkeys(names)])

    def _slices_at_once(self) -> int:
        folder = TableFolder.of(self.table.base_path, self.storage_options)
        return min(os.cpu_count() or 1, _SLICES_AT_ONCE_MAX) if folder.is_local else _SLICES_AT_ONCE_MAX


def reader(
    table: Table,
    fields: Mapping[int, Sequence[SchemaField]],
    storage_options: Mapping[str, str],
    names: Sequence[str] | None,
    where: Filter | None,
    cleaned: CleanCheck | None = None,
) -> RowReader:
    """A reader of all columns, or of those named: of the table, or Hudi's five. Raises ``SchemaMismatch``."""
    own = [field.name for field in table.schema]
    chosen = own if names is None else listed(names)
    if not chosen:
        raise ValueError("name at least one column, or leave columns out to read all")
    known = {*own, *columns.META}
    if unknown := [name for name in chosen if name not in known]:
        raise errors.SchemaMismatch(
            f"{table.name} has no columns {', '.join(unknown)}; it has {', '.join(own)}", {"unknown": unknown}
        )
    if unknown := [name for name in sorted(columns_of(where)) if name not in own]:
        raise errors.SchemaMismatch(
            f"{table.name} has no columns {', '.join(unknown)} to filter by; it has {', '.join(own)}",
            {"unknown": unknown},
        )
    return RowReader(table, fields, storage_options, tuple(dict.fromkeys(chosen)), where, cleaned=cleaned)


def versions_of(slices: Iterable[FileSlice]) -> set[int]:
    """The versions of the schema that the files of slices were written with."""
    return stored_slices.schema_versions(slices)


@dataclass(frozen=True, slots=True)
class StateRows:
    """The rows of a state of a table. Each method reads them again."""

    reader: RowReader
    slices: Sequence[StoredSlice]
    as_of: str | None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.reader.schema

    def batches(self, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """The rows as record batches of this number of rows at most, read when they are needed."""
        reader = dataclasses.replace(self.reader, batch_rows=batch_rows or BATCH_ROWS)
        return reader_of(self.schema, reader.rows(self.slices), reader.batch_rows)

    def table(self) -> pa.Table:
        """All rows."""
        return pa.concat_tables([self.schema.empty_table(), *self.reader.rows(self.slices)])

    def without_client(self) -> StateRows:
        """The same rows for another process: a file that a clean deleted counts as lost."""
        return dataclasses.replace(self, reader=dataclasses.replace(self.reader, cleaned=None))

    def of_columns(self, names: Sequence[str]) -> StateRows:
        """The same rows with other columns."""
        return dataclasses.replace(self, reader=dataclasses.replace(self.reader, names=tuple(names)))


def reader_of(schema: pa.Schema, tables: Iterable[pa.Table], batch_rows: int) -> pa.RecordBatchReader:
    """A reader of tables with this schema."""

    def batches() -> Iterator[pa.RecordBatch]:
        for rows in tables:
            yield from rows.to_batches(max_chunksize=batch_rows)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _in_order(slices: Iterable[Iterator[pa.Table]], at_once: int) -> Iterator[pa.Table]:
    """The tables of all iterators, in order; of the first ``at_once`` ones the next table is made ahead.

    No thread waits for the caller, who may stop reading at any time.
    """
    threads = ThreadPoolExecutor(at_once, thread_name_prefix="chronolake-rows")
    waiting = iter(slices)
    running: deque[tuple[Iterator[pa.Table], Future[pa.Table | None]]] = deque()
    try:
        while True:
            while len(running) < at_once and (begun := next(waiting, None)) is not None:
                running.append((begun, threads.submit(next, begun, None)))
            if not running:
                return
            first, future = running.popleft()
            rows = future.result()
            del future
            if rows is not None:
                running.appendleft((first, threads.submit(next, first, None)))
                yield rows
            # No variable holds rows while the next ones are awaited.
            del rows
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _deleted_of(
    reader: SliceReader,
    of_keys: SliceReader,
    group: ChangedFileGroup,
    place: Sequence[str],
    moved: pa.Table | None,
) -> Iterator[pa.Table]:
    """The records of the slice before that no slice after has."""
    assert group.before is not None
    after = [] if group.after is None else [stored_slices.of(group.after)]
    keys = _keys_of(of_keys, after, [columns.RECORD_KEY])
    for rows in reader.rows(stored_slices.of(group.before)):
        deleted = merge.deleted_rows(rows, keys)
        if moved is not None and len(deleted):
            deleted = _without(deleted, moved, place)
        yield deleted


def _keys_of(reader: SliceReader, slices: Iterable[StoredSlice], place: Sequence[str]) -> pa.Table:
    empty = pa.schema([(name, pa.string()) for name in place]).empty_table()
    found = (rows.select(list(place)) for stored in slices for rows in reader.rows(stored))
    return pa.concat_tables([empty, *(rows.cast(empty.schema) for rows in found)])


def _without(rows: pa.Table, others: pa.Table, place: Sequence[str]) -> pa.Table:
    """The rows whose place no other row has."""
    numbers = pa.array(range(len(rows)))
    places = pa.table({**{name: rows[name].cast(pa.string()) for name in place}, "number": numbers})
    left = places.join(others, list(place), join_type="left anti")["number"]
    return rows.take(left.combine_chunks().sort())


def _of_change(rows: pa.Table, change: str) -> pa.Table:
    return rows.append_column(columns.CHANGE_TYPE, pa.repeat(pa.scalar(change), len(rows)))
