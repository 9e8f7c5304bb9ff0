"""The file groups that a write opens: their file ids, and those of the groups that it replaces. No Spark.

The file id of a bucket's group is fixed, and counts the groups of the bucket that were replaced before it,
because a replaced group is never used again (docs/decisions/0011). So two writers that open a group in one
bucket open the same one, and the server sees their conflict.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from chronolake_model.file_names import bucket_file_id, bucket_of, generation_of
from chronolake_model.files import FileGroupName
from chronolake_model.slices import ReplacedFileGroup
from chronolake_spark.stored_slices import StoredSlice


class Replaces(enum.StrEnum):
    """The file groups that an overwrite replaces."""

    PARTITIONS = "dynamic"
    """Those of the partitions that it writes to."""
    TABLE = "all"
    """All of the table."""


def to_open(
    slices: Sequence[StoredSlice], replaced: Iterable[ReplacedFileGroup], replaces: Replaces | None
) -> list[FileGroupName]:
    """The next file group of each bucket whose group was replaced, or that this write replaces.

    In other buckets a write opens the first file group.
    """
    gone = [FileGroupName(group.partition_path, group.file_id) for group in replaced]
    live = [FileGroupName(slice_.partition_path, slice_.file_id) for slice_ in slices]
    if replaces is not None:
        gone += live
    last: dict[tuple[str, int], int] = {}
    for name in gone:
        place = (name.partition_path, bucket_of(name.file_id))
        last[place] = max(generation_of(name.file_id), last.get(place, 0))
    return [
        FileGroupName(partition_path, bucket_file_id(bucket, generation + 1))
        for (partition_path, bucket), generation in last.items()
    ]


def replaced_by(
    replaces: Replaces | None, slices: Sequence[StoredSlice], written_partitions: Iterable[str]
) -> list[FileGroupName]:
    """The file groups of ``slices`` that a write to these partitions replaces."""
    if replaces is None:
        return []
    written = set(written_partitions)
    return [
        FileGroupName(slice_.partition_path, slice_.file_id)
        for slice_ in slices
        if replaces is Replaces.TABLE or slice_.partition_path in written
    ]
