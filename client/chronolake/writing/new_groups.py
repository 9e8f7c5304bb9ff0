"""The file groups that a write opens: their file ids, and those of the groups that it replaces.

The file id of a bucket's group is fixed, and counts the groups of the bucket that were replaced before it,
because a replaced group is never used again (docs/decisions/0011). So two writers that open a group in one
bucket open the same one, and the server sees their conflict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from chronolake.indexes import partial_snapshots
from chronolake.indexes.tables import BlockingTable
from chronolake.slices.stored_slices import StoredSlice
from chronolake.writing.choices import Replaces
from chronolake_model.file_names import bucket_file_id, bucket_of, generation_of
from chronolake_model.files import FileGroupName
from chronolake_model.slices import ReplacedFileGroup


def to_open(
    slices: Sequence[StoredSlice], replaced: Iterable[ReplacedFileGroup], replaces: Replaces | None
) -> list[FileGroupName]:
    """The next file group of each bucket whose group was replaced, or that this write replaces.

    In other buckets a write opens the first file group.
    """
    gone = [FileGroupName(group.partition_path, group.file_id) for group in replaced]
    if replaces is not None:
        gone += [FileGroupName(slice_.partition_path, slice_.file_id) for slice_ in slices]
    of_buckets: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name in gone:
        of_buckets[name.partition_path, bucket_of(name.file_id)].append(name.file_id)
    return [
        FileGroupName(partition_path, next_file_id(bucket, file_ids))
        for (partition_path, bucket), file_ids in of_buckets.items()
    ]


def next_file_id(bucket: int, gone: Iterable[str]) -> str:
    """The file id of the file group that a bucket opens after those that are ``gone``."""
    return bucket_file_id(bucket, max(map(generation_of, gone), default=-1) + 1)


def replaced_by(
    replaces: Replaces | None, table: BlockingTable, as_of: str, written_partitions: Iterable[str]
) -> list[FileGroupName]:
    """The file groups that a write to these partitions replaces, of those live as of a completion time."""
    if replaces is None:
        return []
    if replaces is Replaces.TABLE:
        slices = table.snapshot(as_of).slices
    else:
        slices = partial_snapshots.of_partitions(table, as_of, written_partitions)
    return [FileGroupName(slice_.partition_path, slice_.file_id) for slice_ in slices]
