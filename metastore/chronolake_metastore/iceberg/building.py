"""Makes the manifests of a state of a table, from those of a neighbouring state where there is one."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Final, Protocol

import msgspec

from chronolake_metastore.iceberg import bounds, chunks, manifests, partitions, schemas
from chronolake_metastore.iceberg.chunks import Chunk, ChunkTotals, GroupRange, SnapshotIndex
from chronolake_metastore.iceberg.manifests import IcebergManifest, ManifestEntry
from chronolake_metastore.iceberg.partitions import PartitionValue, Spec
from chronolake_metastore.queries.iceberg import TableStates
from chronolake_metastore.store.files import FIRST, GroupKey
from chronolake_metastore.store.iceberg import BaseFileOfStates, ServedState
from chronolake_model.file_names import relative_path
from chronolake_model.times import Micros
from chronolake_model.vocabulary import TableType

ROWS: Final = 10_000
"""The most files that are read at once."""
_STATS: Final = 200_000
"""About how many statistics of columns are read at once."""
_ROWS_MIN: Final = 1_000
CHANGED_MAX: Final = 2_000
"""With more changed file groups than this, all chunks are made anew."""
WRITTEN_AT_ONCE: Final = 64


class Facts(Protocol):
    """The facts of one table, see ``queries.iceberg``."""

    async def changed(self, between: tuple[Micros, Micros], limit: int) -> list[GroupKey]:
        """The first file groups that changed in a range."""

    async def files(
        self, state: ServedState, parent: ServedState | None, ranges: Sequence[GroupRange], limit: int
    ) -> list[BaseFileOfStates]:
        """The first files in ranges of file groups."""


class Unwritten:
    """Files that are made and not written yet, in the order in which they may appear: by their stages.

    ``create`` writes files, stage by stage.
    """

    def __init__(self, create: Callable[[Sequence[Sequence[tuple[str, bytes]]]], Awaitable[None]]) -> None:
        self._create = create
        self._stages: tuple[list[tuple[str, bytes]], ...] = ([], [], [])

    def manifest(self, name: str, content: bytes) -> None:
        """Add a manifest."""
        self._stages[0].append((name, content))

    def manifest_list(self, name: str, content: bytes) -> None:
        """Add a manifest list."""
        self._stages[1].append((name, content))

    def metadata(self, name: str, content: bytes) -> None:
        """Add the metadata of the table."""
        self._stages[2].append((name, content))

    async def flush(self, files_min: int = 1) -> None:
        """Write the files, if there are ``files_min`` at least."""
        if sum(map(len, self._stages)) < files_min:
            return
        await self._create(self._stages)
        for stage in self._stages:
            stage.clear()


class Encoding(msgspec.Struct, frozen=True):
    """How the files of one table are encoded."""

    spec: Spec
    location: str
    types: dict[int, str]
    has_logs: bool
    headers: dict[int, dict[str, str]]
    """The header of a manifest, by the id of its spec."""


def encoding_of(found: TableStates, spec: Spec, location: str) -> Encoding:
    """The encoding of a table.

    Headers have the first schema, in which each partition field is: so a column that is added changes none.
    """
    definition = found.table.definition
    schema = schemas.document(found.schemas[0])
    text = msgspec.json.encode(schema).decode()
    headers = {
        document["spec-id"]: {
            "schema": text,
            "schema-id": str(schema["schema-id"]),
            "partition-spec": msgspec.json.encode(document["fields"]).decode(),
            "partition-spec-id": str(document["spec-id"]),
        }
        for document in spec.documents()
    }
    has_logs = definition.type is TableType.MERGE_ON_READ
    return Encoding(spec, location, schemas.primitives(definition.schema), has_logs, headers)


class SnapshotBuilder:
    """Makes the manifests of one snapshot; for ``parent`` see ``SnapshotIndex``."""

    def __init__(
        self,
        encoding: Encoding,
        facts: Facts,
        unwritten: Unwritten,
        state: ServedState,
        parent: ServedState | None,
    ) -> None:
        self._encoding = encoding
        self._facts = facts
        self._unwritten = unwritten
        self._state = state
        self._parent = parent
        self._values: dict[str, tuple[PartitionValue, ...] | None] = {}
        self._changes: list[IcebergManifest] = []
        self._added, self._removed = ChunkTotals(), ChunkTotals()
        self._without_ids: set[int] = set()
        self._rows = min(ROWS, max(_ROWS_MIN, _STATS // max(len(encoding.types), 1)))
        self._of_neighbour: dict[str, IcebergManifest] = {}
        """Its manifests without changes, by their names without the snapshot."""

    async def build(self, neighbour: SnapshotIndex | None) -> SnapshotIndex:
        """Make the manifests, and return the index of the snapshot."""
        made = None if neighbour is None else await self._from_neighbour(neighbour)
        if made is None:
            made = await self._anew()
        self._without_ids.update(version for chunk in made for version in chunk.without_ids)
        return SnapshotIndex(
            self._state,
            self._parent,
            made,
            self._changes,
            self._added,
            self._removed,
            sorted(self._without_ids),
        )

    async def _from_neighbour(self, neighbour: SnapshotIndex) -> list[Chunk] | None:
        """The chunks, those without a change as they are; None if too much has changed."""
        old = neighbour.chunks
        if not old or neighbour.parent is None or self._parent is None:
            return None
        involved = (self._state, self._parent, neighbour.state, neighbour.parent)
        between = min(state.time for state in involved), max(state.completion_time for state in involved)
        groups = await self._facts.changed(between, CHANGED_MAX + 1)
        if len(groups) > CHANGED_MAX:
            return None
        self._of_neighbour = {
            manifest.path.partition("-")[2]: manifest for chunk in old for manifest in chunk.manifests
        }
        positions = chunks.changed(old, groups)
        ranges = [chunks.range_of(old, found) for found in positions]
        files = await self._facts.files(self._state, self._parent, ranges, self._rows) if ranges else []
        if len(files) == self._rows:
            return None
        made = await asyncio.to_thread(self._rebuilt, old, positions, ranges, files)
        return None if _is_fragmented(made) else made

    def _rebuilt(
        self,
        old: Sequence[Chunk],
        positions: Sequence[range],
        ranges: Sequence[GroupRange],
        files: Sequence[BaseFileOfStates],
    ) -> list[Chunk]:
        made: list[Chunk] = []
        kept_from = at = 0
        for position, (_, last) in zip(positions, ranges, strict=True):
            made += old[kept_from : position.start]
            kept_from = position.stop
            begin = at
            while at < len(files) and (last is None or files[at].group <= last):
                at += 1
            made += self._chunks(files[begin:at])
        return [*made, *old[kept_from:]]

    async def _anew(self) -> list[Chunk]:
        """All chunks. Files are read page by page, and a chunk that a page cuts is read again."""
        self._changes, self._added, self._removed = [], ChunkTotals(), ChunkTotals()
        self._without_ids.clear()
        made: list[Chunk] = []
        after = FIRST
        while True:
            files = await self._facts.files(self._state, self._parent, [(after, None)], self._rows)
            is_last = len(files) < self._rows
            if not is_last:
                files = _whole_chunks(files)
                after = files[-1].group
            made += await asyncio.to_thread(self._chunks, files)
            await self._unwritten.flush(WRITTEN_AT_ONCE)
            if is_last:
                return made

    def _chunks(self, files: Sequence[BaseFileOfStates]) -> list[Chunk]:
        """The chunks of a range of file groups; what the state has changed in it is written too."""
        by_name = _once_each(files)
        unchanged = [file for file in by_name if file.in_parent and file.in_state]
        changes = [file for file in by_name if file.in_parent is not file.in_state]
        for begin in range(0, len(changes), chunks.CHANGES_MAX):
            self._add_changes(changes[begin : begin + chunks.CHANGES_MAX])
        return [self._chunk(chunk) for chunk in chunks.cut(unchanged)]

    def _add_changes(self, files: Sequence[BaseFileOfStates]) -> None:
        self._changes += self._manifests(files)
        for file in files:
            totals = self._added if file.in_state else self._removed
            totals.add(ChunkTotals(1, file.records, file.size_bytes))
            if file.in_state and not file.has_field_ids:
                self._without_ids.add(file.schema_version)

    def _chunk(self, files: Sequence[BaseFileOfStates]) -> Chunk:
        totals = ChunkTotals(
            len(files), sum(file.records for file in files), sum(file.size_bytes for file in files)
        )
        without_ids = sorted({file.schema_version for file in files if not file.has_field_ids})
        return Chunk(files[-1].group, self._manifests(files), totals, without_ids)

    def _manifests(self, files: Sequence[BaseFileOfStates]) -> list[IcebergManifest]:
        """A manifest of the files for each spec that they have."""
        by_spec: dict[int, list[ManifestEntry]] = {}
        for file in files:
            spec_id, entry = self._entry(file)
            by_spec.setdefault(spec_id, []).append(entry)
        return [self._manifest(spec_id, entries) for spec_id, entries in sorted(by_spec.items())]

    def _manifest(self, spec_id: int, entries: Sequence[ManifestEntry]) -> IcebergManifest:
        encoding, snapshot_id = self._encoding, self._state.time
        fields = encoding.spec.fields if spec_id == 0 else ()
        content = manifests.write_manifest(entries, snapshot_id, fields, encoding.headers[spec_id])
        ending = f"{digest(content)}.avro"
        # A file group that changes lies in the range of a chunk, and need not be in the chunk.
        kept = self._of_neighbour.get(ending)
        if kept is not None:
            return kept
        name = f"{snapshot_id}-{ending}"
        self._unwritten.manifest(name, content)
        return manifests.describe(name, len(content), spec_id, entries, snapshot_id, fields)

    def _entry(self, file: BaseFileOfStates) -> tuple[int, ManifestEntry]:
        encoding = self._encoding
        path = file.partition_path
        if path not in self._values:
            self._values[path] = encoding.spec.values(path) if encoding.spec.fields else ()
        values = self._values[path]
        return (0 if values is not None else partitions.UNPARTITIONED), ManifestEntry(
            chunks.status_of(file),
            # A compaction completes after the state as of its request, which has its files.
            file.requested_time if encoding.has_logs else file.completion_time,
            f"{encoding.location}/{relative_path(path, file.file_name)}",
            values or (),
            file.records,
            file.size_bytes,
            bounds.statistics(file.column_stats, encoding.types, file.records),
        )


def digest(content: bytes) -> str:
    """The part of a file's name that its content decides."""
    return hashlib.sha256(content).hexdigest()[:32]


def _once_each(files: Sequence[BaseFileOfStates]) -> list[BaseFileOfStates]:
    """Each file of the state or its parent once: a file that a restore brought back has several periods."""
    merged: list[BaseFileOfStates] = []
    for _, periods in groupby(files, key=lambda file: (file.group, file.file_name)):
        first, *others = periods
        in_parent = first.in_parent or any(other.in_parent for other in others)
        in_state = first.in_state or any(other.in_state for other in others)
        if in_parent or in_state:
            is_same = (first.in_parent, first.in_state) == (in_parent, in_state)
            merged.append(
                first if is_same else msgspec.structs.replace(first, in_parent=in_parent, in_state=in_state)
            )
    return merged


def _whole_chunks(files: Sequence[BaseFileOfStates]) -> list[BaseFileOfStates]:
    """The files of a page up to the last end of a chunk in it, or without its last file group."""
    ends = [at for at in range(len(files) - 1) if files[at].group != files[at + 1].group]
    assert ends, "a file group has fewer base files than a page"
    chosen = next((at for at in reversed(ends) if chunks.is_end(files[at].group)), ends[-1])
    return list(files[: chosen + 1])


def _is_fragmented(made: Sequence[Chunk]) -> bool:
    """Whether chunks have become so small that all are to be made anew."""
    files = sum(chunk.totals.files for chunk in made)
    return len(made) > 16 + 3 * files // chunks.FILES
