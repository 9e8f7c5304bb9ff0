"""The files of a record index: entries that say in which file group the record of a key is.

A file has each key once, ordered by key, in small row groups: to find one key takes the footer and one row
group. Large files have the keys of one shard, which is a hash of the key; small ones have the keys of all
shards. Of two files with one key, the later one counts.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronolake import _keys
from chronolake.slices import errors, key_search
from chronolake.slices.base_files import TableFolder
from chronolake.slices.key_search import KeySet

KEY, PARTITION_PATH, FILE_ID = "key", "partition_path", "file_id"
ENTRIES: Final = pa.schema([(KEY, pa.string()), (PARTITION_PATH, pa.string()), (FILE_ID, pa.string())])
"""An entry: a record key, and the file group that has its record."""

ROW_GROUP_ROWS: Final = 16_384
SHARD_ENTRIES: Final = 1_000_000
"""Entries of a shard when shards are made."""
SHARD_ENTRIES_MAX: Final = 4_000_000
"""With more entries per shard on average, shards are split."""
SMALL_ENTRIES_MAX: Final = 250_000
"""Entries of a file with the keys of all shards."""
SMALL_FILES_MAX: Final = 8
SHARD_FILES_MAX: Final = 4
_PATH: Final = b"chronolake.path"
"""Where the footer has the path of the file, which names the table and is no other file's."""
_UNREADABLE: Final = (pa.ArrowException, OSError, ValueError, LookupError, RuntimeError)
"""The exceptions that readers of Parquet raise for damaged content."""


class IndexFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of the index; ``path`` is relative to the base path. ``shard`` is None if it has keys of all."""

    path: str
    entries: int
    size_bytes: int
    shard: int | None


def shards_for(entries: int) -> int:
    """The number of shards for ``entries`` entries."""
    return max(1, math.ceil(entries / SHARD_ENTRIES))


def shards_of(keys: pa.Array | pa.ChunkedArray, shards: int) -> npt.NDArray[np.int64]:
    """The shard of each key."""
    if shards == 1:
        return np.zeros(len(keys), np.int64)
    texts = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    return _keys.buckets([texts.cast(pa.large_string())], shards)


def latest(parts: Iterable[pa.Table]) -> pa.Table:
    """One entry per key, ordered by key: that of the last part, and of its last row, which has the key."""
    entries = pa.concat_tables([ENTRIES.empty_table(), *(part.select(ENTRIES.names) for part in parts)])
    numbered = entries.append_column("number", pa.array(np.arange(len(entries))))
    order = pc.sort_indices(numbered, sort_keys=[(KEY, "ascending"), ("number", "ascending")])
    ordered = entries.take(order).combine_chunks()
    keys = ordered[KEY]
    if len(ordered) < 2:  # a key and the next one
        return ordered
    is_last = pc.not_equal(keys.slice(0, len(keys) - 1), keys.slice(1)).to_numpy()
    return ordered.filter(pa.array(np.append(is_last, True)))


def write(folder: TableFolder, index_folder: str, entries: pa.Table, shard: int | None) -> IndexFile:
    """Write a file with entries as ``latest`` gives them."""
    path = f"{index_folder}/{uuid.uuid4()}.parquet"
    with folder.create(path) as sink:
        with pq.ParquetWriter(
            sink,
            ENTRIES,
            compression="zstd",
            use_dictionary=[PARTITION_PATH, FILE_ID],
            write_page_checksum=True,
        ) as writer:
            writer.write_table(entries, row_group_size=ROW_GROUP_ROWS)
            writer.add_key_value_metadata({_PATH: path})
        size_bytes = int(sink.tell())
    return IndexFile(path, len(entries), size_bytes, shard)


def read(folder: TableFolder, file: IndexFile, keys: pa.Array | None = None) -> pa.Table:
    """The entries of a file, of these keys if given.

    Raises ``RecordIndexDamaged``; ``OSError`` where the storage fails.
    """
    try:
        with folder.filesystem.open_input_file(folder.path(file.path)) as source:
            return _entries(source, file, keys)
    except FileNotFoundError as exc:
        raise _damaged(file, "it is missing") from exc
    except _UNREADABLE:
        # An OSError may be of the storage, or say that the content is no Parquet: it is read apart from that.
        with folder.filesystem.open_input_stream(folder.path(file.path)) as stream:
            content = stream.read()
    try:
        return _entries(pa.BufferReader(content), file, keys)
    except _UNREADABLE as exc:
        raise _damaged(file, str(exc)) from exc


def _entries(source: pa.NativeFile, file: IndexFile, keys: pa.Array | None) -> pa.Table:
    if source.size() != file.size_bytes:
        raise ValueError(f"it has {source.size()} bytes, not {file.size_bytes}")
    with pq.ParquetFile(source, page_checksum_verification=True) as parquet:
        if (parquet.metadata.metadata or {}).get(_PATH) != file.path.encode():
            raise ValueError("it is another file")
        if keys is None:
            return parquet.read().cast(ENTRIES)
        parts = key_search.rows(parquet, ENTRIES.names, KeySet(keys), KEY)
        return pa.concat_tables([ENTRIES.empty_table(), *(part.cast(ENTRIES) for part in parts)])


def _damaged(file: IndexFile, reason: str) -> errors.RecordIndexDamaged:
    return errors.RecordIndexDamaged(
        f"the file {file.path} of the record index is missing or damaged ({reason}); make the index again: "
        "table.update_index(rebuild=True)",
        {"path": file.path},
    )


def find(folder: TableFolder, files: Sequence[IndexFile], shards: int, keys: pa.Array) -> pa.Table:
    """The entries of keys in files, which come oldest first."""
    left, parts = keys.cast(pa.string()), [ENTRIES.empty_table()]
    shards_left = shards_of(left, shards)
    for file in reversed(files):
        if not len(left):
            break
        wanted = left if file.shard is None else left.filter(pa.array(shards_left == file.shard))
        if not len(wanted):
            continue
        part = read(folder, file, wanted)
        if len(part):
            parts.append(part)
            is_left = pc.invert(pc.is_in(left, value_set=part[KEY].combine_chunks()))
            left, shards_left = left.filter(is_left), shards_left[is_left.to_numpy(zero_copy_only=False)]
    return pa.concat_tables(parts)


class Merged(msgspec.Struct, frozen=True):
    """The files of an index, oldest first, and its number of shards."""

    files: list[IndexFile]
    shards: int


def added(folder: TableFolder, index_folder: str, stored: Merged, entries: pa.Table) -> Merged:
    """The index with later entries. Files are merged when there are many of them. No file is deleted."""
    if not len(entries):
        return stored
    small = [file for file in stored.files if file.shard is None]
    if len(entries) <= SMALL_ENTRIES_MAX and len(small) < SMALL_FILES_MAX:
        return Merged([*stored.files, write(folder, index_folder, entries, None)], stored.shards)
    return merged(folder, index_folder, stored, entries)


def merged(folder: TableFolder, index_folder: str, stored: Merged, entries: pa.Table) -> Merged:
    """The index with later entries, without small files. No file is deleted."""
    small = [file for file in stored.files if file.shard is None]
    later = latest([*(read(folder, file) for file in small), entries])
    total = len(later) + sum(file.entries for file in stored.files if file.shard is not None)
    shards = stored.shards
    if total > shards * SHARD_ENTRIES_MAX or len(small) == len(stored.files):
        # A multiple: so each shard is split on its own.
        shards *= math.ceil(shards_for(total) / shards)
    shard_of_later = shards_of(later[KEY], stored.shards)
    files: list[IndexFile] = []
    for shard in range(stored.shards):
        of_shard = [file for file in stored.files if file.shard == shard]
        new = later.filter(pa.array(shard_of_later == shard))
        files += _shard_files(folder, index_folder, (of_shard, new), shard, (stored.shards, shards))
    return Merged(files, shards)


def _shard_files(
    folder: TableFolder,
    index_folder: str,
    contents: tuple[Sequence[IndexFile], pa.Table],
    shard: int,
    change: tuple[int, int],
) -> Iterator[IndexFile]:
    """The files of a shard, or of those that it is split into, with later entries."""
    files, new = contents
    before, after = change
    if before == after and len(files) < SHARD_FILES_MAX:
        yield from files
        if len(new):
            yield write(folder, index_folder, new, shard)
        return
    entries = latest([*(read(folder, file) for file in files), new])
    places = shards_of(entries[KEY], after)
    for place in range(shard, after, before):
        part = entries.filter(pa.array(places == place))
        if len(part):
            yield write(folder, index_folder, part, place)
