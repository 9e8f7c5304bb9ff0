"""Bodies of the REST API for data files: what was written, what is live, what changed."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

ARROW: Final = "application/vnd.apache.arrow.stream"
"""The media type of an Arrow IPC stream."""

Count = Annotated[int, Meta(ge=0, le=2**62)]
PartitionPath = Annotated[
    str,
    Meta(max_length=4_096, description="The folder below the table's base path; empty when unpartitioned."),
]


FileId = Annotated[str, Meta(min_length=1, max_length=255)]


COLUMN_STATS_MAX = 1_000
"""Columns of a file that a write stat has stats of; of the others nothing is known."""
Bound = bool | int | float | Annotated[str, Meta(max_length=256)]


class ColumnStats(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Statistics of one column of a data file. A field that is left out is unknown.

    Every value that is not null lies between ``min`` and ``max``, which are literals as filters have them. They
    need not be values themselves: a long string may be cut off in ``min``, and cut off and raised in ``max``.
    NaN is greater than any other number: a column with one has ``"NaN"`` for its ``max``, or none. Binary and
    nested columns have no bounds.
    """

    field_id: Annotated[
        int, Meta(ge=1, le=2**31 - 1, description="The field id of the column in the table's schema.")
    ]
    min: Bound | UnsetType = UNSET
    max: Bound | UnsetType = UNSET
    nulls: Annotated[Count, Meta(description="Records in which it is null.")] | UnsetType = UNSET


class WriteStat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One data file that an instant wrote (Hudi: HoodieWriteStat)."""

    partition_path: PartitionPath
    file_id: FileId
    file_name: Annotated[str, Meta(min_length=1, max_length=1_024)]
    size_bytes: Count
    records: Annotated[Count, Meta(description="Records in the file.")]
    inserts: Count = 0
    updates: Count = 0
    deletes: Count = 0
    column_stats: (
        Annotated[
            list[ColumnStats],
            Meta(max_length=COLUMN_STATS_MAX, description="What prunes the file; any columns, in any order."),
        ]
        | UnsetType
    ) = UNSET
    has_field_ids: (
        Annotated[
            bool,
            Meta(
                description="Whether each column of the file has its field id, nested fields and Hudi's five "
                "included. Left out: false."
            ),
        ]
        | UnsetType
    ) = UNSET


class FileGroupName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file group of a table."""

    partition_path: PartitionPath
    file_id: FileId


class DataFile(msgspec.Struct, frozen=True):
    """One published data file; ``path`` is relative to the table's base path.

    ``schema_version`` is the version of the table's schema that it was written with. ``has_field_ids`` says
    whether the file carries the field id of each column and nested field.
    """

    path: str
    size_bytes: int
    records: int
    requested_time: str
    completion_time: str
    schema_version: int = 1
    has_field_ids: bool = False


class FileSlice(msgspec.Struct, frozen=True):
    """The files of one file group that a reader merges. ``base_instant_time`` is the slice's own time."""

    partition_path: str
    file_id: str
    base_instant_time: str
    base_file: DataFile | None
    log_files: list[DataFile]


class Snapshot(msgspec.Struct, frozen=True):
    """The live file slices as of a completion time; ``as_of`` is null when nothing had completed.

    A page; the next one is of the same ``as_of``, regardless of what completes meanwhile.
    """

    table: str
    as_of: str | None
    slices: list[FileSlice]
    next_cursor: str | None


class CompletedInstant(msgspec.Struct, frozen=True):
    """An instant whose records count in a range of completion times."""

    requested_time: str
    completion_time: str


class ChangedFileGroup(msgspec.Struct, frozen=True):
    """A file group written to, replaced or restored in the range: its slice at the range's start and end.

    ``before`` is null if the group did not exist yet, ``after`` if it no longer exists.
    """

    partition_path: str
    file_id: str
    before: FileSlice | None
    after: FileSlice | None


class Changes(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """The instants that completed in the range (from, to], and their file groups.

    ``to`` is the completion time up to which the answer is complete: the next range starts there. ``instants``
    leaves out instants that a restore in the range undid. If there are ``restores``, records came back that
    none of ``instants`` wrote: read the slices ``after`` completely.

    Pages name ``instants`` and ``restores`` first, each once, and then the file groups. Instants and restores
    are 100,000 at most: a longer range is answered up to the last of them, which is ``to``.
    """

    table: str
    from_: str | None
    to: str | None
    instants: list[CompletedInstant]
    file_groups: list[ChangedFileGroup]
    next_cursor: str | None
    restores: list[CompletedInstant] = []
