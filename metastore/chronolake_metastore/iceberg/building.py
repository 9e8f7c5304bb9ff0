"""Makes the manifests of a state of a table, from those of a neighbouring state where there is one."""

from __future__ import annotations

import asyncio
import bisect
import hashlib
import operator
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, Protocol

import msgspec

from chronolake_metastore.iceberg import chunks, manifests
from chronolake_metastore.iceberg.chunks import Chunk, ChunkTotals, SnapshotIndex
from chronolake_metastore.iceberg.encoding import Encoding
from chronolake_metastore.iceberg.folders import LIST_BYTES_MAX, MetadataFolder
from chronolake_metastore.iceberg.manifests import Block, IcebergManifest, ManifestEntry, Status
from chronolake_metastore.store.files import FIRST, GroupKey
from chronolake_metastore.store.iceberg import BaseFileOfStates, ChangedGroups, ServedState
from chronolake_model.times import Micros

ROWS: Final = 5_000
"""The most files that are read at once, and about the most entries of former manifests."""
_STATS: Final = 200_000
"""About how many statistics of columns are read at once."""
_ROWS_MIN: Final = 1_000
CHANGED_MAX: Final = 2_000
"""With more changed file groups than this, all chunks are made anew."""
WRITTEN_AT_ONCE: Final = 64
READ_AT_ONCE: Final = 16
"""The most manifests that are read at once."""
MANIFESTS_BYTES_MAX: Final = 64 * 1024 * 1024
"""The most bytes of them. A larger manifest is not read."""
KEPT_BYTES_MAX: Final = 128 * 1024 * 1024
"""The most bytes of manifests that a server keeps in memory, of all tables: about 700 a file of ten columns."""
ENTRIES_BYTES_MAX: Final = 256 * 1024 * 1024
"""The most bytes of former entries in memory. With more, all chunks are made anew."""


class Facts(Protocol):
    """The facts of one table, see ``queries.iceberg``."""

    async def changes(
        self,
        state: ServedState,
        parent: ServedState,
        between: tuple[Micros, Micros],
        limits: tuple[int, int],
    ) -> ChangedGroups | None:
        """The file groups that changed in a range, and their files; None if not known, or if too many."""

    async def files(
        self, state: ServedState, parent: ServedState | None, after: GroupKey, limit: int
    ) -> list[BaseFileOfStates]:
        """The first files in the file groups after one."""


class KeptManifests:
    """The manifests that were written last, by name: the next snapshots are made from them.

    Names have digests of the contents, so tables may share them.
    """

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._size_bytes = 0
        self._kept: OrderedDict[str, list[Block]] = OrderedDict()

    def keep(self, written: Mapping[str, list[Block]]) -> None:
        """Keep manifests, instead of those that were used longest ago."""
        for name, blocks in written.items():
            self._size_bytes += _bytes_of(blocks) - _bytes_of(self._kept.pop(name, []))
            self._kept[name] = blocks
        while self._size_bytes > self._bytes_max:
            _, blocks = self._kept.popitem(last=False)
            self._size_bytes -= _bytes_of(blocks)

    def get(self, name: str) -> list[Block] | None:
        """A manifest, if it is kept."""
        if name in self._kept:
            self._kept.move_to_end(name)
        return self._kept.get(name)


class MetadataFiles:
    """The files in a folder, and those that are not written yet: in the order in which they may appear."""

    def __init__(self, folder: MetadataFolder, kept: KeptManifests) -> None:
        self._folder = folder
        self._kept = kept
        self._manifests: dict[str, bytes] = {}
        self._blocks: dict[str, list[Block]] = {}
        self._lists: dict[str, bytes] = {}
        self._metadata: dict[str, bytes] = {}

    def manifest(self, name: str, content: bytes, blocks: list[Block]) -> None:
        """Add a manifest."""
        self._manifests[name] = content
        self._blocks[name] = blocks

    def manifest_list(self, name: str, content: bytes) -> None:
        """Add a manifest list."""
        self._lists[name] = content

    async def manifest_list_of(self, name: str) -> bytes | None:
        """A manifest list, if it exists."""
        return self._lists.get(name) or await self._folder.read(name, LIST_BYTES_MAX)

    def metadata(self, name: str, content: bytes) -> None:
        """Add the metadata of the table."""
        self._metadata[name] = content

    async def flush(self, files_min: int = 1) -> None:
        """Write the files, if there are ``files_min`` at least."""
        stages = (self._manifests, self._lists, self._metadata)
        if sum(map(len, stages)) < files_min:
            return
        await self._folder.create([list(stage.items()) for stage in stages])
        self._kept.keep(self._blocks)
        for stage in (*stages, self._blocks):
            stage.clear()

    async def manifests_of(self, found: Sequence[IcebergManifest]) -> list[list[Block] | bytes | None]:
        """Manifests: their blocks where they are in memory, or else their contents, of those that exist."""

        async def content_of(manifest: IcebergManifest) -> list[Block] | bytes | None:
            known = self._blocks.get(manifest.path) or self._kept.get(manifest.path)
            if known is not None:
                return known
            return await self._folder.read(manifest.path, min(manifest.size_bytes, MANIFESTS_BYTES_MAX))

        return await asyncio.gather(*map(content_of, found))


class SnapshotBuilder:
    """Makes the manifests of one snapshot; for ``parent`` see ``SnapshotIndex``."""

    def __init__(
        self,
        encoding: Encoding,
        facts: Facts,
        files: MetadataFiles,
        state: ServedState,
        parent: ServedState | None,
    ) -> None:
        self._encoding = encoding
        self._facts = facts
        self._files = files
        self._state = state
        self._parent = parent
        self._added, self._removed = ChunkTotals(), ChunkTotals()
        self._rows = min(ROWS, max(_ROWS_MIN, _STATS // max(len(encoding.types), 1)))
        self._of_neighbour: dict[str, IcebergManifest] = {}
        """Its manifests, by their names without the snapshot."""
        self._former: dict[GroupKey, Block] = {}
        """The neighbour's blocks that may be written again as they are, by the first file group of each."""

    async def build(self, neighbour: SnapshotIndex | None) -> SnapshotIndex:
        """Make the manifests, and return the index of the snapshot."""
        made = None if neighbour is None else await self._from_neighbour(neighbour)
        if made is None:
            made = await self._anew()
        without_ids = {version for chunk in made for version in chunk.without_ids}
        return SnapshotIndex(self._state, self._parent, made, self._added, self._removed, sorted(without_ids))

    async def _from_neighbour(self, neighbour: SnapshotIndex) -> list[Chunk] | None:
        """The chunks, those without a change as they are; None if too much has changed."""
        old = neighbour.chunks
        if not old or self._parent is None:
            return None
        involved = [self._state, self._parent, neighbour.state]
        if neighbour.state.time > self._state.time:
            # What it adds and removes is not carried back.
            involved.append(neighbour.parent or neighbour.state)
        between = min(state.time for state in involved), max(state.completion_time for state in involved)
        changes = await self._facts.changes(self._state, self._parent, between, (CHANGED_MAX, self._rows))
        if changes is None:
            return None
        groups, files = changes.groups, changes.files
        self._of_neighbour = {
            manifest.path.partition("-")[2]: manifest for chunk in old for manifest in chunk.manifests
        }
        made: list[Chunk] = []
        kept_from = begin = 0
        for positions in chunks.changed(old, groups, self._rows):
            former = await self._blocks_of(
                [manifest for found in positions for at in found for manifest in old[at].manifests]
            )
            if former is None:
                return None
            _, last = chunks.range_of(old, positions[-1])
            end = len(files) if last is None else bisect.bisect_right(files, last, key=_group)
            made += old[kept_from : positions[0].start]
            made += await asyncio.to_thread(self._rebuilt, old, positions, former, groups, files[begin:end])
            await self._files.flush(WRITTEN_AT_ONCE)
            kept_from, begin = positions[-1].stop, end
        made = chunks.without_empty([*made, *old[kept_from:]], self._state.time)
        return None if _is_fragmented(made) else made

    async def _blocks_of(self, former: Sequence[IcebergManifest]) -> list[Block] | None:
        """The blocks of manifests; None if one cannot be used, or if they are too large together."""
        blocks: list[Block] = []
        bytes_left = ENTRIES_BYTES_MAX
        for page in pages(former):
            found = await self._files.manifests_of(page)
            of_page = await asyncio.to_thread(self._decoded, page, found, bytes_left)
            if of_page is None:
                return None
            blocks += of_page
            bytes_left -= _bytes_of(of_page)
        return blocks

    def _decoded(
        self,
        former: Sequence[IcebergManifest],
        found: Sequence[list[Block] | bytes | None],
        bytes_left: int,
    ) -> list[Block] | None:
        """The blocks of manifests.

        None if one is damaged, not there, or of another spec, or if they are larger than ``bytes_left``.
        """
        blocks: list[Block] = []
        for manifest, known in zip(former, found, strict=True):
            of_manifest = known if isinstance(known, list) else _stored(manifest, known)
            if of_manifest is None:
                return None
            bytes_left -= _bytes_of(of_manifest)
            if bytes_left < 0 or not self._is_of_spec(manifest.spec_id, of_manifest):
                return None
            blocks += of_manifest
        return blocks

    def _is_of_spec(self, spec_id: int, blocks: Sequence[Block]) -> bool:
        """Whether entries would be encoded by this spec: a property may change how paths are read."""
        paths = {entry.group[0] for block in blocks for entry in block.entries}
        return {self._encoding.partition(path)[0] for path in paths} <= {spec_id}

    def _rebuilt(
        self,
        old: Sequence[Chunk],
        positions: Sequence[range],
        former: Sequence[Block],
        groups: Collection[GroupKey],
        files: Sequence[BaseFileOfStates],
    ) -> list[Chunk]:
        """The chunks from the first to the last of ``positions``.

        Those at ``positions`` had the ``former`` blocks, and have these files of ``groups``.
        """
        changed, deleted = set(groups), Status.DELETED
        entries = [
            _carried(entry)
            for block in former
            for entry in block.entries
            if entry.status is not deleted and entry.group not in changed
        ]
        entries += self._encoded(files)
        self._former = {block.entries[0].group: block for block in former if block.is_of_any_snapshot}
        entries.sort(key=_group)
        made: list[Chunk] = []
        kept_from, begin = positions[0].start, 0
        for position in positions:
            _, last = chunks.range_of(old, position)
            end = len(entries) if last is None else bisect.bisect_right(entries, last, key=_group)
            made += old[kept_from : position.start]
            made += self._chunks(entries[begin:end])
            kept_from, begin = position.stop, end
        return made

    async def _anew(self) -> list[Chunk]:
        """All chunks. Files are read page by page, and a chunk that a page cuts is read again."""
        self._added, self._removed = ChunkTotals(), ChunkTotals()
        self._of_neighbour, self._former = {}, {}
        made: list[Chunk] = []
        after = FIRST
        while True:
            files = await self._facts.files(self._state, self._parent, after, self._rows)
            is_last = len(files) < self._rows
            if not is_last:
                files = _whole_chunks(files)
                after = files[-1].group
            made += await asyncio.to_thread(lambda page: self._chunks(self._encoded(page)), files)
            await self._files.flush(WRITTEN_AT_ONCE)
            if is_last:
                return made

    def _encoded(self, files: Sequence[BaseFileOfStates]) -> list[ManifestEntry]:
        """The entries of files; those that the state adds or removes are counted."""
        entries: list[ManifestEntry] = []
        for file in _once_each(files):
            entries.append(self._encoding.entry(file))
            if not file.in_parent or not file.in_state:
                totals = self._added if file.in_state else self._removed
                totals.add(ChunkTotals(1, file.records, file.size_bytes))
        return entries

    def _chunks(self, entries: Sequence[ManifestEntry]) -> list[Chunk]:
        """The chunks of entries, which come in order."""
        return [self._chunk(chunk) for chunk in chunks.cut(entries)]

    def _chunk(self, entries: Sequence[ManifestEntry]) -> Chunk:
        deleted = Status.DELETED
        live = [entry for entry in entries if entry.status is not deleted]
        totals = ChunkTotals(
            len(live), sum([entry.records for entry in live]), sum([entry.size_bytes for entry in live])
        )
        without_ids = {entry.version_without_ids for entry in live} - {0}
        # Entries are many, their paths few.
        specs = {path: self._encoding.partition(path)[0] for path in {entry.group[0] for entry in entries}}
        made = [
            self._manifest(spec_id, [entry for entry in entries if specs[entry.group[0]] == spec_id])
            for spec_id in sorted(set(specs.values()))
        ]
        return Chunk(entries[-1].group, made, totals, sorted(without_ids))

    def _manifest(self, spec_id: int, entries: Sequence[ManifestEntry]) -> IcebergManifest:
        encoding, snapshot_id = self._encoding, self._state.time
        fields = encoding.fields(spec_id)
        blocks = [self._block(some) for some in chunks.cut_into_blocks(entries)]
        content = manifests.write_manifest(blocks, fields, encoding.headers[spec_id])
        ending = _ending(content)
        # A file group that changes lies in the range of a chunk, and need not be in the chunk.
        kept = self._of_neighbour.get(ending)
        if kept is not None:
            return kept
        name = f"{snapshot_id}-{ending}"
        self._files.manifest(name, content, blocks)
        values = {encoding.partition(path)[1] for path in {entry.group[0] for entry in entries}}
        summaries = manifests.summarize(fields, values)
        return manifests.describe(name, len(content), spec_id, entries, snapshot_id, summaries)

    def _block(self, entries: Sequence[ManifestEntry]) -> Block:
        former = self._former.get(entries[0].group)
        if former is not None and former.entries == entries:
            return former
        return manifests.make_block(entries, self._state.time)


def pages(former: Iterable[IcebergManifest]) -> Iterator[list[IcebergManifest]]:
    """Manifests in the parts that are read at once."""
    page: list[IcebergManifest] = []
    size_bytes = 0
    for manifest in former:
        size_bytes += manifest.size_bytes
        if page and (len(page) == READ_AT_ONCE or size_bytes > MANIFESTS_BYTES_MAX):
            yield page
            page, size_bytes = [], manifest.size_bytes
        page.append(manifest)
    if page:
        yield page


def _stored(manifest: IcebergManifest, content: bytes | None) -> list[Block] | None:
    """The blocks in the content of a manifest; None if it is damaged or not there."""
    if content is None or not manifest.path.endswith(f"-{_ending(content)}"):
        return None
    try:
        blocks = manifests.blocks_of(content)
    except manifests.DAMAGED:
        return None
    return blocks if sum(len(block.entries) for block in blocks) == sum(manifest.files) else None


def _bytes_of(blocks: Iterable[Block]) -> int:
    """About the memory of blocks."""
    return sum([block.size_bytes for block in blocks])


def _ending(manifest: bytes) -> str:
    """The end of a manifest's name."""
    return f"{digest(manifest)}.avro"


_group: Final = operator.attrgetter("group")


def _carried(entry: ManifestEntry) -> ManifestEntry:
    """An entry of a file that a later state still has."""
    return msgspec.structs.replace(entry, status=Status.EXISTING) if entry.status else entry


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
