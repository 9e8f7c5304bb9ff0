"""The record index: in which file group the record of a key is, for the whole table. No Spark.

It is kept with the table's data, and follows every commit of any writer: what is missing up to a completion
time is read from the changes since. So it is right after any crash, and on data that was there before. An entry
may be of a record, or a file group, that does not exist any more: its user looks into the file group.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

import chronolake
from chronolake import storage
from chronolake.errors import HistoryCleaned
from chronolake_model.vocabulary import IndexType
from chronolake_spark import (
    arrow_types,
    index_entries,
    index_files,
    index_manifests,
    slice_reader,
    stored_slices,
)
from chronolake_spark.base_files import Folder
from chronolake_spark.index_entries import ChangedSlice
from chronolake_spark.index_files import IndexFile, Merged
from chronolake_spark.index_manifests import Manifest, StoredManifests
from chronolake_spark.slice_reader import SliceReader
from chronolake_storage.files import Files

RECORDS_HERE_MAX: Final = 1_000_000
"""The most records that one process takes in; Spark takes in more of them."""
_THREADS: Final = 4
_LOG = logging.getLogger("chronolake.spark")

Distributed: TypeAlias = Callable[[SliceReader, Sequence[ChangedSlice], int], list[IndexFile]]
"""Writes index files of so many shards with the entries of slices, as a job of many processes."""


@dataclass(frozen=True, slots=True)
class Found:
    """The entries of keys, and the completion time that they are as of."""

    entries: pa.Table
    as_of: str | None


@dataclass(frozen=True, slots=True)
class _Missing:
    """What the index lacks up to ``covered``: all of the table, or the changes since the last manifest."""

    changed: list[ChangedSlice]
    covered: str | None
    is_all: bool

    @property
    def records(self) -> int:
        return sum(slice_.records for slice_ in self.changed)


class RecordIndex:
    """The record index of a table. Processes may catch up at once."""

    def __init__(self, table: chronolake.Table, files: Files | None = None) -> None:
        definition = table.definition
        self._table = table
        self.folder = Folder.of(definition.base_path, table.storage_options)
        stored = files or storage.open_storage(definition.base_path, table.storage_options).files
        self._manifests = StoredManifests(stored, definition.table_id)

    @property
    def index_folder(self) -> str:
        """The folder of the index files, relative to the base path."""
        return self._manifests.index_folder

    def newest(self) -> Manifest | None:
        """The newest manifest; None if there is no index yet."""
        return self._manifests.newest()

    def catch_up(
        self, until: str | None = None, *, rebuild: bool = False, distributed: Distributed | None = None
    ) -> Manifest | None:
        """Take in what completed up to ``until``, by default up to now, and give the manifest.

        It covers exactly ``until``, if given. None if nothing has completed. With ``rebuild`` the index is made
        again. It is also made again where the history since its last manifest was cleaned.
        """
        before = self._manifests.newest(until)
        while True:
            missing = self._missing(None if rebuild else before, until)
            if missing.covered is None:
                return None
            if before is not None and before.covered == missing.covered and not rebuild:
                return before
            before = self._publish(before, missing, distributed)
            rebuild = False

    def find(self, manifest: Manifest, keys: pa.Array) -> pa.Table:
        """The entries of keys in the index. Raises ``RecordIndexDamaged``."""
        return index_files.find(self.folder, manifest.files, manifest.shards, keys)

    def find_now(self, keys: pa.Array) -> Found | None:
        """The entries of keys as of the last completion.

        What the index does not cover is read from the changed files. None if there is no index, or too much to
        read.
        """
        manifest = self._manifests.newest()
        if manifest is None:
            return None
        missing = self._missing(manifest, None)
        if missing.is_all or missing.records > RECORDS_HERE_MAX:
            return None
        reader = self._reader(missing.changed).only(keys.cast(pa.string()))
        later = index_entries.in_order(_entries(reader, missing.changed))
        is_left = pc.invert(pc.is_in(keys, value_set=later[index_files.KEY].cast(keys.type)))
        stored = self.find(manifest, keys.filter(is_left))
        return Found(pa.concat_tables([stored, later]), missing.covered)

    def _missing(self, before: Manifest | None, until: str | None) -> _Missing:
        if before is not None:
            if before.covered == until:
                return _Missing([], until, is_all=False)
            try:
                changes = self._table.changes(before.covered, until)
            except HistoryCleaned:
                pass  # It is made again.
            else:
                return _Missing(index_entries.of_changes(changes), changes.to, is_all=False)
        snapshot = self._table.snapshot(until)
        return _Missing(index_entries.of_snapshot(snapshot.slices), snapshot.as_of, is_all=True)

    def _publish(self, before: Manifest | None, missing: _Missing, distributed: Distributed | None) -> Manifest:
        assert missing.covered is not None
        self._table.claim_storage()
        stored = Merged([], 1) if before is None or missing.is_all else Merged(before.files, before.shards)
        after = self._taken_in(stored, missing, distributed)
        now = index_manifests.now()
        manifest = index_manifests.following(before, missing.covered, after.files, after.shards, now)
        while not self._manifests.publish(manifest):
            if (other := self._manifests.of_name(manifest.name)) is not None:
                # Another process took in the same changes, or the answer to this put was lost.
                known = {file.path for file in (*stored.files, *other.files)}
                self._remove([file.path for file in after.files if file.path not in known])
                return other
            # One that cannot be read, for example of another release, is never replaced.
            manifest = msgspec.structs.replace(manifest, generation=manifest.generation + 1)
        self._remove(self._manifests.deletable(manifest, now))
        return manifest

    def _remove(self, paths: Sequence[str]) -> None:
        if paths:
            self._table.remove_index_files(paths)

    def _taken_in(self, stored: Merged, missing: _Missing, distributed: Distributed | None) -> Merged:
        reader = self._reader(missing.changed)
        if distributed is None or missing.records <= RECORDS_HERE_MAX:
            later = index_entries.in_order(_entries(reader, missing.changed))
            return index_files.added(self.folder, self.index_folder, stored, later)
        if not stored.files:
            stored = Merged([], index_files.shards_for(missing.records))
        # Of a key's entries the later one counts, so the small files, which are older, come before.
        stored = index_files.merged(self.folder, self.index_folder, stored, index_files.ENTRIES.empty_table())
        written = distributed(reader, missing.changed, stored.shards)
        return Merged([*stored.files, *written], stored.shards)

    def _reader(self, changed: Iterable[ChangedSlice]) -> SliceReader:
        definition = self._table.definition
        used = {file.schema_version for slice_ in changed for file in _files(slice_)}
        unknown = used - {definition.schema_version}
        if any(version > definition.schema_version for version in unknown):
            definition = self._table.reload().definition
            unknown = used - {definition.schema_version}
        fields = {version: self._table.schema(version).fields for version in unknown}
        ordering = slice_reader.ordering_of(arrow_types.file_layout(definition.schema), definition.merge_field)
        fields[definition.schema_version] = definition.schema
        return SliceReader(self.folder, index_entries.LAYOUT, fields, ordering)


def follow(table: chronolake.Table, distributed: Distributed) -> None:
    """Take what was written into the index. After a failure, the next write or update of the index does it."""
    if table.definition.index.type is not IndexType.RECORD:
        return
    try:
        RecordIndex(table).catch_up(distributed=distributed)
    except (chronolake.ChronolakeError, OSError) as failure:  # OSError: of Arrow's storage
        _LOG.warning("%s: the record index was not updated after a write: %s", table.name, failure)


def _files(changed: ChangedSlice) -> Iterator[stored_slices.StoredFile]:
    if changed.slice.base is not None:
        yield changed.slice.base
    yield from changed.slice.logs


def _entries(reader: SliceReader, changed: Sequence[ChangedSlice]) -> Iterator[pa.Table]:
    read = functools.partial(index_entries.entries, reader)
    with ThreadPoolExecutor(_THREADS) as threads:
        for parts in threads.map(lambda slice_: list(read(slice_)), changed):
            yield from parts
