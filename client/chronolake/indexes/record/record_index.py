"""The record index: in which file group the record of a key is, for the whole table.

It is kept with the table's data, and follows every commit of any writer: the changes up to a completion time
that it lacks are read from the table. So it is correct after any crash, and for data that existed before it. An
entry may be of a record, or a file group, that does not exist any more: its user reads the file group.
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

from chronolake import storage
from chronolake.errors import ChronolakeError, HistoryCleaned
from chronolake.indexes.record import entries as index_entries, entry_files, manifests
from chronolake.indexes.record.entries import ChangedSlice
from chronolake.indexes.record.entry_files import IndexFile, Merged
from chronolake.indexes.record.manifests import Manifest, StoredManifests
from chronolake.indexes.tables import BlockingTable
from chronolake.slices import arrow_types, errors, slice_reader
from chronolake.slices.base_files import TableFolder
from chronolake.slices.slice_reader import SliceReader
from chronolake_model.vocabulary import Direction, IndexType, TimeOrder
from chronolake_storage.files import Files

RECORDS_HERE_MAX: Final = 1_000_000
"""The most records that one process takes in; Spark takes in more of them."""
_THREADS: Final = 4
_ROUNDS_MAX: Final = 1_000
"""How many times changes are taken in by one call: an answer has those of 100,000 instants at most."""
_NAMES_MAX: Final = 100
"""How many names of manifests are tried, where each is taken by one that cannot be used."""
_LOG = logging.getLogger("chronolake.writing")

Distributed: TypeAlias = Callable[[SliceReader, Sequence[ChangedSlice], int], list[IndexFile]]
"""Writes index files with the entries of slices in the given number of shards, as a job of many processes."""


@dataclass(frozen=True, slots=True)
class Found:
    """The entries of keys, and the completion time that they are as of."""

    entries: pa.Table
    as_of: str | None


@dataclass(frozen=True, slots=True)
class _Missing:
    """Changes that the index lacks up to ``covered``: all of the table, or those since the last manifest."""

    changed: list[ChangedSlice]
    covered: str | None
    is_all: bool

    @property
    def records(self) -> int:
        return sum(slice_.records for slice_ in self.changed)


class RecordIndex:
    """The record index of a table. Processes may catch up at once."""

    def __init__(self, table: BlockingTable, files: Files | None = None) -> None:
        definition = table.definition
        self._table = table
        self.folder = TableFolder.of(definition.base_path, table.storage_options)
        stored = files or storage.open_storage(definition.base_path, table.storage_options).files
        self._manifests = StoredManifests(stored, definition.table_id)

    @property
    def index_folder(self) -> str:
        """The folder of the index files, relative to the base path."""
        return self._manifests.index_folder

    def newest(self, until: str | None = None) -> Manifest | None:
        """The newest manifest, of those that cover no more than ``until``; None if there is none that fits.

        One that covers a completion which the table's log does not have never fits.
        """
        return self._newest(until)[0]

    def catch_up(
        self, until: str | None = None, *, rebuild: bool = False, distributed: Distributed | None = None
    ) -> Manifest | None:
        """Take in what completed up to ``until``, by default up to now, and give the manifest.

        It covers exactly ``until``, if given. None if nothing has completed. With ``rebuild`` the index is made
        again. It is also made again where no manifest fits, or the history since it was cleaned.
        """
        before, generation = self._newest(until)
        for _ in range(_ROUNDS_MAX):
            missing = self._missing(None if rebuild else before, until)
            if missing.covered is None:
                return None
            if before is not None and before.covered == missing.covered and not rebuild:
                return before
            if before is not None and not missing.is_all:
                generation = before.generation
            before = self._publish(before, missing, generation, distributed)
            rebuild = False
        if until is None:
            return before  # Others write all the time.
        raise errors.RecordIndexDamaged(
            f"the record index does not reach {until}, after {_ROUNDS_MAX} rounds of changes; make it again: "
            "table.update_index(rebuild=True)",
            {"path": self.index_folder},
        )

    def find(self, manifest: Manifest, keys: pa.Array) -> pa.Table:
        """The entries of keys in the index. Raises ``RecordIndexDamaged``."""
        return entry_files.find(self.folder, manifest.files, manifest.shards, keys)

    def find_now(self, keys: pa.Array) -> Found | None:
        """The entries of keys as of the last completion.

        Changes that the index does not cover are read from the changed files. None if there is no index, or if
        it lacks too many records.
        """
        manifest = self.newest()
        if manifest is None:
            return None
        missing = self._missing(manifest, None)
        if missing.is_all or missing.records > RECORDS_HERE_MAX:
            return None
        reader = self._reader(missing.changed).only(keys.cast(pa.string()))
        later = index_entries.in_order(_entries(reader, missing.changed))
        is_left = pc.invert(pc.is_in(keys, value_set=later[entry_files.KEY].cast(keys.type)))
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

    def _newest(self, until: str | None) -> tuple[Manifest | None, int]:
        """As ``newest``, with the generation of an index that is made again."""
        manifest, generation = self._manifests.newest(until)
        if manifest is not None and manifest.instant != self._instant_of(manifest.covered):
            manifest = None
        return manifest, generation

    def _publish(
        self, before: Manifest | None, missing: _Missing, generation: int, distributed: Distributed | None
    ) -> Manifest:
        assert missing.covered is not None
        self._table.claim_storage()
        stored = Merged([], 1) if before is None or missing.is_all else Merged(before.files, before.shards)
        after = self._taken_in(stored, missing, distributed)
        now = manifests.now()
        manifest = Manifest(
            manifests.FORMAT_VERSION,
            self._table.definition.table_id,
            generation,
            missing.covered,
            self._instant_of(missing.covered),
            after.shards,
            after.files,
            manifests.retired_after(before, after.files, now),
        )
        for _ in range(_NAMES_MAX):
            if self._manifests.publish(manifest):
                self._remove(self._manifests.deletable(manifest, now))
                return manifest
            other = self._manifests.of_name(manifest.name)
            if other is not None and other.instant == manifest.instant:
                # Another process took in the same changes, or the answer to this put was lost.
                known = {file.path for file in (*stored.files, *other.files)}
                self._remove([file.path for file in after.files if file.path not in known])
                return other
            # One that does not fit, for example of another release, is never replaced.
            manifest = msgspec.structs.replace(manifest, generation=manifest.generation + 1)
        raise errors.RecordIndexDamaged(
            f"{_NAMES_MAX} manifests in a row, up to {manifest.name}, exist and cannot be read: see what is in "
            f"the folder {self.index_folder}, or delete it, then call table.update_index(rebuild=True)",
            {"path": manifest.name},
        )

    def _instant_of(self, completion_time: str) -> str | None:
        """The requested time of the instant that completed at this time."""
        before = self._table.instants(
            completed_to=completion_time,
            order_by=TimeOrder.COMPLETION_TIME,
            direction=Direction.DESCENDING,
            limit=1,
        )
        return next(
            (instant.requested_time for instant in before if instant.completion_time == completion_time), None
        )

    def _remove(self, paths: Sequence[str]) -> None:
        if paths:
            self._table.remove_index_files(paths)

    def _taken_in(self, stored: Merged, missing: _Missing, distributed: Distributed | None) -> Merged:
        reader = self._reader(missing.changed)
        if distributed is None or missing.records <= RECORDS_HERE_MAX:
            later = index_entries.in_order(_entries(reader, missing.changed))
            return entry_files.added(self.folder, self.index_folder, stored, later)
        if not stored.files:
            stored = Merged([], entry_files.shards_for(missing.records))
        # Of a key's entries the later one counts, so the small files, which are older, come before.
        stored = entry_files.merged(self.folder, self.index_folder, stored, entry_files.ENTRIES.empty_table())
        written = distributed(reader, missing.changed, stored.shards)
        return Merged([*stored.files, *written], stored.shards)

    def _reader(self, changed: Iterable[ChangedSlice]) -> SliceReader:
        definition = self._table.definition
        used = {file.schema_version for slice_ in changed for file in slice_.slice.files}
        unknown = used - {definition.schema_version}
        if any(version > definition.schema_version for version in unknown):
            definition = self._table.reload().definition
            unknown = used - {definition.schema_version}
        fields = {version: self._table.schema(version).fields for version in unknown}
        ordering = slice_reader.ordering_of(arrow_types.file_layout(definition.schema), definition.merge_fields)
        fields[definition.schema_version] = definition.schema
        return SliceReader(self.folder, index_entries.LAYOUT, fields, ordering)


def follow(table: BlockingTable, distributed: Distributed | None = None) -> None:
    """Take a write into the index. After a failure, the next write or update of the index does it."""
    if table.definition.index.type is not IndexType.RECORD:
        return
    try:
        RecordIndex(table).catch_up(distributed=distributed)
    except (ChronolakeError, OSError, pa.ArrowException) as failure:  # OSError: of Arrow's storage
        _LOG.warning("%s: the record index was not updated after a write: %s", table.definition.name, failure)


def _entries(reader: SliceReader, changed: Sequence[ChangedSlice]) -> Iterator[pa.Table]:
    read = functools.partial(index_entries.entries, reader)
    with ThreadPoolExecutor(_THREADS) as threads:
        for parts in threads.map(lambda slice_: list(read(slice_)), changed):
            yield from parts
