"""Chunks: the files of a state of a table, and those that it removes, cut by their order into manifests.

Files are sorted by file group. A chunk ends after a file group that its digest chooses, so equal states are cut
alike, and a commit changes few chunks. A snapshot is made from a neighbour's chunks: only those are read and
written again in whose ranges a file group has changed. Of a chunk that is carried on, only the snapshot that
wrote it has added and removed files: so do Iceberg's own writers.
"""

from __future__ import annotations

import bisect
import functools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from chronolake_metastore.iceberg import manifests
from chronolake_metastore.iceberg.manifests import IcebergManifest, ManifestEntry, Status
from chronolake_metastore.store.files import FIRST, GroupKey
from chronolake_metastore.store.iceberg import BaseFileOfStates, ServedState
from chronolake_model import decoding

GroupRange = tuple[GroupKey, GroupKey | None]
"""The file groups after the first key, up to the second; to the end if that is None."""
FILES: Final = 100
"""The number of files in a chunk on average."""
FILES_MAX: Final = 4 * FILES
BLOCK_FILES: Final = 20
"""The number of files in a block of a manifest on average."""


def status_of(file: BaseFileOfStates) -> Status:
    """How a state has a file that it, or its parent, has."""
    if file.in_parent and file.in_state:
        return Status.EXISTING
    return Status.ADDED if file.in_state else Status.DELETED


class ChunkTotals(msgspec.Struct, array_like=True):
    """Numbers of files, records and bytes."""

    files: int = 0
    records: int = 0
    size_bytes: int = 0

    def add(self, other: ChunkTotals) -> None:
        """Add the numbers of others."""
        self.files += other.files
        self.records += other.records
        self.size_bytes += other.size_bytes


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """The manifests of a range of file groups, up to ``last``; ``totals`` are those of its files.

    ``without_ids`` as in ``SnapshotIndex``.
    """

    last: GroupKey
    manifests: list[IcebergManifest]
    totals: ChunkTotals
    without_ids: list[int]


class SnapshotIndex(msgspec.Struct, frozen=True):
    """The manifests of a snapshot, which has a state and its changes since ``parent``.

    The first state of a table has no parent. A state whose parent is not served any more is its own parent, so
    it has no changes. ``added`` and ``removed`` are the files of the changes, ``without_ids`` the versions of
    the schema with which its files without field ids were written.
    """

    state: ServedState
    parent: ServedState | None
    chunks: list[Chunk]
    added: ChunkTotals
    removed: ChunkTotals
    without_ids: list[int]

    @property
    def manifests(self) -> list[IcebergManifest]:
        """All manifests of the snapshot."""
        return [manifest for chunk in self.chunks for manifest in chunk.manifests]

    @property
    def totals(self) -> ChunkTotals:
        """The numbers of the whole snapshot."""
        totals = ChunkTotals()
        for chunk in self.chunks:
            totals.add(chunk.totals)
        return totals


def index_of(manifest_list: bytes) -> SnapshotIndex | None:
    """The index in a manifest list; None if the file is damaged."""
    try:
        return decoding.decode(manifests.index_of(manifest_list), SnapshotIndex)
    except manifests.DAMAGED:
        return None


def is_end(group: GroupKey) -> bool:
    """Whether a chunk ends after this file group."""
    return _digest(group) % FILES == 0


@functools.lru_cache(maxsize=manifests.KEPT_MAX)
def _digest(group: GroupKey) -> int:
    return zlib.crc32("\0".join(group).encode())


def cut(entries: Sequence[ManifestEntry]) -> Iterator[Sequence[ManifestEntry]]:
    """The entries, which come in the order of their file groups, cut into chunks."""
    begin, last = 0, len(entries)
    for at, entry in enumerate(entries, 1):
        is_last_of_group = at == last or entries[at].group != entry.group
        if is_last_of_group and (at - begin >= FILES_MAX or is_end(entry.group)):
            yield entries[begin:at]
            begin = at
    if begin < last:
        yield entries[begin:]


def cut_into_blocks(chunk: Sequence[ManifestEntry]) -> Iterator[Sequence[ManifestEntry]]:
    """The entries of a manifest, cut after those that the digests of their file groups choose."""
    begin = 0
    for at, entry in enumerate(chunk, 1):
        if _digest(entry.group) % BLOCK_FILES == 0 or at - begin >= 4 * BLOCK_FILES:
            yield chunk[begin:at]
            begin = at
    if begin < len(chunk):
        yield chunk[begin:]


def without_empty(chunks: Sequence[Chunk], snapshot_id: int) -> list[Chunk]:
    """The chunks that have files, or files that this snapshot removed."""
    return [
        chunk
        for chunk in chunks
        if chunk.totals.files or any(manifest.snapshot_id == snapshot_id for manifest in chunk.manifests)
    ]


def changed(chunks: Sequence[Chunk], groups: Iterable[GroupKey], entries_max: int) -> list[list[range]]:
    """The positions of the chunks with changed file groups in their ranges, those side by side together.

    They come in batches, each of at most ``entries_max`` entries, or of one chunk.
    """
    lasts = [chunk.last for chunk in chunks]
    positions = sorted({min(bisect.bisect_left(lasts, group), len(lasts) - 1) for group in groups})
    batches: list[list[range]] = []
    entries = 0
    for position in positions:
        of_chunk = sum(sum(manifest.files) for manifest in chunks[position].manifests)
        if not batches or entries + of_chunk > entries_max:
            batches.append([])
            entries = 0
        entries += of_chunk
        batch = batches[-1]
        if batch and batch[-1].stop == position:
            batch[-1] = range(batch[-1].start, position + 1)
        else:
            batch.append(range(position, position + 1))
    return batches


def range_of(chunks: Sequence[Chunk], positions: range) -> GroupRange:
    """The range of the chunks at these positions: the last chunk of all reaches to the end."""
    first = chunks[positions.start - 1].last if positions.start else FIRST
    return first, None if positions.stop == len(chunks) else chunks[positions.stop - 1].last
