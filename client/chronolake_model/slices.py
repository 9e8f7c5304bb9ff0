"""Bodies of the REST API for what is known of file groups and partitions beyond the live slices.

``as_of`` in all of them is the time that the answer is of; null when there was nothing yet.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from chronolake_model.files import DataFile, FileGroupName, FileSlice, PartitionPath
from chronolake_model.names import decoder_pattern
from chronolake_model.times import READ_TIME_PATTERN
from chronolake_model.vocabulary import Action, Operation

FILE_GROUPS_MAX = 10_000
"""The most file groups, and the most buckets, that a request may name."""


class HistoricSlice(msgspec.Struct, frozen=True):
    """A slice that a file group has or had.

    ``pending`` marks the slice of a compaction that has not completed.
    """

    base_instant_time: str
    base_file: DataFile | None
    log_files: list[DataFile]
    pending: bool
    superseded_at: Annotated[
        str | None,
        Meta(description="The time at which a newer base file completed, or the group was replaced."),
    ]


class GroupReplacement(msgspec.Struct, frozen=True):
    """The instant that replaced a file group."""

    requested_time: str
    completion_time: str
    action: Action
    operation: Operation


class FileGroupHistory(msgspec.Struct, frozen=True):
    """A file group with all its slices, the newest last; none when there was no such group. A page."""

    table: str
    as_of: str | None
    partition_path: str
    file_id: str
    replaced: Annotated[
        GroupReplacement | None, Meta(description="The replacement; null if the group was not replaced.")
    ]
    slices: list[HistoricSlice]
    next_cursor: str | None


class Partition(msgspec.Struct, frozen=True):
    """The totals over the live file slices of one partition path."""

    partition_path: str
    file_groups: int
    files: int
    size_bytes: int
    records: Annotated[int, Meta(description="Records in base files.")]


class Partitions(msgspec.Struct, frozen=True):
    """The partition paths that have live file slices, by name. A page."""

    table: str
    as_of: str | None
    partitions: list[Partition]
    next_cursor: str | None


class ReplacedFileGroup(msgspec.Struct, frozen=True):
    """A replaced file group, and its replacement."""

    partition_path: str
    file_id: str
    replaced: GroupReplacement


class ReplacedFileGroups(msgspec.Struct, frozen=True):
    """The file groups that had been replaced, by name. A page."""

    table: str
    as_of: str | None
    file_groups: list[ReplacedFileGroup]
    next_cursor: str | None


class PendingFileGroup(msgspec.Struct, frozen=True):
    """A file group in the plan of a table service; the instant is that of ``requested_time``."""

    partition_path: str
    file_id: str
    requested_time: str
    action: Action


class PendingFileGroups(msgspec.Struct, frozen=True):
    """The file groups in plans of table services that had neither completed nor been rolled back. A page."""

    table: str
    as_of: str | None
    file_groups: list[PendingFileGroup]
    next_cursor: str | None


class BucketName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file group of a bucket, in a partition of a table with a bucket index."""

    partition_path: PartitionPath
    bucket: Annotated[int, Meta(ge=0, le=99_999_999)]


_EACH_ONCE: Final = Meta(max_length=FILE_GROUPS_MAX, extra_json_schema={"uniqueItems": True})


class FindFileGroups(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ask for the slices of file groups, and of those of buckets. Each is named once."""

    file_groups: Annotated[list[FileGroupName], _EACH_ONCE] = []
    buckets: Annotated[list[BucketName], _EACH_ONCE] = []
    as_of: Annotated[
        Annotated[str, Meta(pattern=decoder_pattern(READ_TIME_PATTERN))] | None,
        Meta(description="A completion time, `earliest` or `latest`. Default: now."),
    ] = None
    limit: Annotated[
        int, Meta(ge=1, le=FILE_GROUPS_MAX, description="The largest number of entries of a page.")
    ] = FILE_GROUPS_MAX
    cursor: Annotated[
        str | None, Meta(description="`next_cursor` of the page before, with the rest of the body unchanged.")
    ] = None


class FoundFileGroup(msgspec.Struct, frozen=True):
    """The slice of a file group of the request as of the time."""

    slice: Annotated[FileSlice | None, Meta(description="Its files; null when it has none.")]
    replaced: Annotated[
        str | None,
        Meta(
            description="The file id of the last file group of the bucket that was replaced, if there was one."
        ),
    ]


class FoundFileGroups(msgspec.Struct, frozen=True):
    """An entry for each of the file groups of the request, and then for each of its buckets. A page."""

    table: str
    as_of: str | None
    file_groups: list[FoundFileGroup]
    next_cursor: str | None
