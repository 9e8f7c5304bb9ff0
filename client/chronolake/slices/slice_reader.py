"""Reads file slices on executors: the base file row group by row group, merged with the log files.

It holds in memory a row group of the base file, and the records of the slice's log files, in the columns that
are read. With a bucket index, the records that a range of instants deleted are found file group by file group:
a record never leaves its file group, so no shuffle is needed.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chronolake import field_ids
from chronolake.slices import (
    base_files,
    columns,
    errors,
    key_search,
    layouts,
    log_merge,
    merge,
    stored_slices,
)
from chronolake.slices.key_search import KeySet
from chronolake.slices.lazy_compute import pc
from chronolake.slices.log_merge import LatestChanges, LogContents
from chronolake.slices.stored_slices import SliceFile, StoredSlice
from chronolake_model.tables import SchemaField

_BATCH_ROWS: Final = 65_536
"""The rows of a batch for the JVM, which holds it whole."""


@dataclass(frozen=True, slots=True)
class SliceReader:
    """Reads slices from a table's folder, in a layout of the table.

    ``fields`` has the columns of each version of the schema that files were written with, ``ordering`` the
    ordering fields of the table with their field ids. With ``keys`` only records with one of these
    record keys are read. With ``batch_rows`` the records of a slice without log files come in tables of at most
    this number of rows, and otherwise in those of its row groups.
    """

    folder: base_files.TableFolder
    layout: pa.Schema
    fields: Mapping[int, Sequence[SchemaField]]
    ordering: Sequence[pa.Field]
    keys: KeySet | None = None
    batch_rows: int | None = None

    @property
    def ordering_fields(self) -> list[str]:
        """The names of the ordering fields."""
        return [str(field.name) for field in self.ordering]

    def of_keys(self) -> SliceReader:
        """The same reader for record keys and ordering values only."""
        return dataclasses.replace(self, layout=_with_columns(pa.schema([]), self.ordering, columns.RECORD_KEY))

    def only(self, keys: pa.Array | KeySet) -> SliceReader:
        """The same reader for the records with one of these record keys (texts)."""
        return dataclasses.replace(self, keys=keys if isinstance(keys, KeySet) else KeySet(keys))

    def base_keys(self, stored: StoredSlice) -> list[pa.Array]:
        """The record keys of the base file."""
        layout = _with_columns(pa.schema([]), (), columns.RECORD_KEY)
        return _texts(rows[columns.RECORD_KEY] for rows in self._base_rows(stored.base, layout))

    def log_keys(self, stored: StoredSlice) -> list[pa.Array]:
        """The record keys in the log files, also those of deletes; some more than once."""
        if not stored.logs:
            return []
        contents = self._log_contents(stored, pa.schema([]))
        return _texts([contents.records[columns.RECORD_KEY], contents.deletes[log_merge.KEY]])

    def log_deletes(self, stored: StoredSlice) -> pa.Table:
        """The keys whose last change in the log files is a delete with an ordering value, and that value.

        The table has an ordering field.
        """
        deletes = self.of_keys().changes(stored).deletes
        return deletes.rename_columns([columns.RECORD_KEY, *self.ordering_fields])

    def footer(self, file: SliceFile) -> Mapping[bytes, bytes] | None:
        """The metadata in the footer of a base file."""
        with base_files.open_base_file(self.folder, file.path, file.size_bytes) as parquet:
            metadata: Mapping[bytes, bytes] | None = parquet.metadata.metadata
            return metadata

    def rows(self, stored: StoredSlice) -> Iterator[pa.Table]:
        """The records of a slice."""
        if not stored.logs:
            yield from self._base_rows(stored.base, self.layout, self.batch_rows)
            return
        yield from self.merged(stored, self.changes(stored))

    def changes(self, stored: StoredSlice) -> LatestChanges:
        """The changes by the log files of a slice, in the columns that a merge needs."""
        return log_merge.latest_changes(self.log_contents(stored), self.ordering_fields)

    def log_contents(self, stored: StoredSlice) -> LogContents:
        """The contents of the log files of a slice, in the columns that a merge needs."""
        return self._log_contents(stored, self.layout)

    def changed_rows(self, stored: StoredSlice) -> Iterator[pa.Table]:
        """The records of a slice whose keys are in its log files."""
        changes = self.changes(stored)
        if changes.lacking or self._has_winners(stored.base, changes):
            keys = changes.versions[log_merge.KEY].combine_chunks().cast(pa.string())
            yield from self.only(keys).merged(stored, changes)
            return
        stays = np.zeros(len(changes.versions), dtype=np.bool_)
        yield log_merge.records_left(changes, stays).select(self.layout.names)

    def merged(self, stored: StoredSlice, changes: LatestChanges) -> Iterator[pa.Table]:
        """The records of a slice with these changes."""
        stays = np.zeros(len(changes.versions), dtype=np.bool_)
        layout = _with_columns(self.layout, self.ordering, columns.RECORD_KEY)
        for rows in self._base_rows(stored.base, layout):
            kept, kept_keys = log_merge.surviving(rows, changes)
            filled, filled_keys = log_merge.filled(rows, changes, kept)
            stays |= kept_keys | filled_keys
            tables = [filled.select(self.layout.names), merge.only(rows.select(self.layout.names), kept)]
            # No variable holds rows while the caller writes them, or while the next row group is read.
            del rows, filled
            while tables:
                yield tables.pop()
        yield log_merge.records_left(changes, stays).select(self.layout.names)

    def _has_winners(self, base: SliceFile | None, changes: LatestChanges) -> bool:
        """Whether a record of the base file wins against the log files. Without ordering fields none does."""
        if not self.ordering:
            return False
        layout = self.of_keys().layout
        return any(log_merge.surviving(rows, changes)[1].any() for rows in self._base_rows(base, layout))

    def _log_contents(self, stored: StoredSlice, layout: pa.Schema) -> LogContents:
        layout = _with_columns(layout, self.ordering, columns.RECORD_KEY, columns.COMMIT_TIME)
        from chronolake.slices import log_contents  # noqa: PLC0415  # slow, and many slices have no log files

        files = [(file, self.fields[file.schema_version]) for file in stored.logs]
        contents = log_contents.read(self.folder, files, layout, self.ordering_fields)
        return contents if self.keys is None else contents.only(self.keys.keys)

    def _base_rows(
        self, file: SliceFile | None, layout: pa.Schema, batch_rows: int | None = None
    ) -> Iterator[pa.Table]:
        if file is None:
            return
        with base_files.open_base_file(
            self.folder, file.path, file.size_bytes, has_dictionaries=True
        ) as parquet:
            fields = None if file.has_field_ids else self.fields[file.schema_version]
            stored = layouts.stored_schema(parquet, fields, file.path)
            names = layouts.columns_of(stored, layout)
            # A loop would hold the rows of one row group while the next one is read.
            yield from map(
                lambda rows: layouts.in_layout(rows, stored, layout),
                self._row_groups(parquet, names, batch_rows),
            )

    def _row_groups(
        self, parquet: pq.ParquetFile, names: Sequence[str], batch_rows: int | None
    ) -> Iterator[pa.Table]:
        if self.keys is not None:
            yield from key_search.rows(parquet, names, self.keys)
            return
        if batch_rows is not None and names:
            batches = parquet.iter_batches(batch_rows, columns=names)
            yield from map(lambda batch: pa.Table.from_batches([batch]), batches)
            return
        for index in range(parquet.num_row_groups):
            yield parquet.read_row_group(index, columns=names)


def _texts(keys: Iterable[pa.ChunkedArray]) -> list[pa.Array]:
    return [chunk.cast(pa.string()) for array in keys for chunk in array.chunks]


def ordering_of(layout: pa.Schema, ordering_fields: Sequence[str]) -> list[pa.Field]:
    """The ordering fields in a table's layout."""
    return [layout.field(name) for name in ordering_fields]


@dataclass(frozen=True, slots=True)
class ExecutorReader:
    """Reads slices that are given by the texts of ``StoredSlice.to_json``."""

    slices: SliceReader

    def rows_of(self, slices: Iterable[str], times: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All records of these slices; with ``times`` those whose last change these requested times made."""
        return _batches(map(self.slices.rows, map(stored_slices.from_json, slices)), times)

    def changed_rows_of(
        self, slices: Iterable[str], times: Collection[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The records of these slices whose keys are in their log files; ``times`` as for ``rows_of``."""
        return _batches(map(self.slices.changed_rows, map(stored_slices.from_json, slices)), times)

    def log_keys(self, slices: Iterable[str], layout: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The record keys in the log files of slices, some more than once, and their partition paths.

        ``layout`` has these two columns; of type int64, a key is the number that is its text.
        """
        for text in slices:
            stored = stored_slices.from_json(text)
            for keys in self.slices.log_keys(stored):
                paths = pa.repeat(pa.scalar(stored.partition_path), len(keys))
                typed = keys if pa.types.is_string(layout.types[0]) else _numbers(keys, stored)
                yield pa.record_batch([typed, paths], schema=layout)

    def deleted_rows(self, groups: Iterable[tuple[str, str | None]]) -> Iterator[pa.RecordBatch]:
        """The deleted records of changed file groups.

        A group has its slices before and after; one that is replaced has none after. A record is deleted if
        the slice after does not have its key.
        """
        for before, after in groups:
            keys = self._keys(after)
            for rows in self.slices.rows(stored_slices.from_json(before)):
                yield from merge.deleted_rows(rows, keys).to_batches(max_chunksize=_BATCH_ROWS)

    def log_deletes(self, slices: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """The keys whose last change in the log files of a slice is a delete with an ordering value.

        The columns are the record key, the partition path and the ordering field of the layout.
        """
        for text in slices:
            stored = stored_slices.from_json(text)
            deletes = self.slices.log_deletes(stored)
            paths = pa.repeat(pa.scalar(stored.partition_path), len(deletes))
            rows = deletes.add_column(1, columns.PARTITION_PATH, paths)
            yield from rows.cast(self.slices.layout).to_batches(max_chunksize=_BATCH_ROWS)

    def _keys(self, text: str | None) -> pa.Table:
        no_keys = pa.table({columns.RECORD_KEY: pa.array([], pa.string())})
        if text is None:
            return no_keys
        rows = self.slices.of_keys().rows(stored_slices.from_json(text))
        return pa.concat_tables([no_keys, *(keys.select([columns.RECORD_KEY]) for keys in rows)])


def _with_columns(layout: pa.Schema, ordering: Sequence[pa.Field], *meta_columns: str) -> pa.Schema:
    """The layout with the columns by which versions of a record are compared."""
    meta = field_ids.by_names(pa.schema([pa.field(name, pa.string()) for name in meta_columns]), [])
    return pa.schema([*layout, *(field for field in (*meta, *ordering) if field.name not in layout.names)])


def _numbers(keys: pa.Array, stored: StoredSlice) -> pa.Array:
    """The numbers whose texts the keys are."""
    with contextlib.suppress(pa.ArrowInvalid):
        numbers = keys.cast(pa.int64())
        if pc.all(pc.equal(numbers.cast(pa.string()), keys), min_count=0).as_py():
            return numbers
    wrong = next(key for key in keys.to_pylist() if not _is_integer(key))
    raise errors.LogFileDamaged(
        f"a log file of the file group {stored.file_id} has the record key {wrong!r}, which is not the text of "
        "a bigint: its writer does not follow docs/writing.md#record-keys; write the record again",
        {"file_id": stored.file_id, "record_key": wrong},
    )


def _is_integer(text: str) -> bool:
    try:
        number = int(text)
    except ValueError:
        return False
    return str(number) == text and -(2**63) <= number < 2**63


def _batches(slices: Iterable[Iterable[pa.Table]], times: Collection[str] | None) -> Iterator[pa.RecordBatch]:
    """The rows as batches for the JVM; with ``times`` those whose last change these requested times made."""
    wanted = None if times is None else pa.array(sorted(times), pa.string())
    for tables in slices:
        for rows in tables:
            chosen = rows if wanted is None else _of_times(rows, wanted)
            yield from chosen.to_batches(max_chunksize=_BATCH_ROWS)


def _of_times(rows: pa.Table, times: pa.Array) -> pa.Table:
    return rows.filter(pc.is_in(rows[columns.COMMIT_TIME], value_set=times))
