"""Bodies of the REST API for instants: what a writer asks, and how an instant stands."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.markers import MarkersType
from chronolake_model.names import decoder_pattern
from chronolake_model.tables import (
    PROPERTIES_BYTES_MAX,
    Buckets,
    Properties,
    SchemaVersion,
    TableName,
    refuse_larger,
)
from chronolake_model.times import INSTANT_TIME_PATTERN
from chronolake_model.vocabulary import (
    LEASE_SECONDS_DEFAULT,
    Action,
    Operation,
    RollbackCause,
    State,
    StreamPlace,
    Touch,
    WriteSummary,
)

__all__ = ["LEASE_SECONDS_DEFAULT", "StreamPlace", "WriteSummary"]
"""Words of the vocabulary that these bodies have."""

LEASE_SECONDS_MAX = 86_400
LeaseSeconds = Annotated[
    int, Meta(ge=1, le=LEASE_SECONDS_MAX, description="How long the writer may stay silent, in seconds.")
]
Writer = Annotated[str, Meta(min_length=1, max_length=255, description="The writer: a job, a host, a process.")]
Reason = Annotated[str, Meta(max_length=4_096)]
InstantTime = Annotated[
    str,
    Meta(
        pattern=decoder_pattern(INSTANT_TIME_PATTERN),
        description="An instant's requested time, 17 or 20 digits.",
    ),
]
WRITE_STATS_MAX = 1_000_000
STAGED_MAX = 10_000
"""Write stats that are staged at once."""
STAGED_CHUNKS_MAX = 10_000
"""Stagings that make up one instant."""
REQUESTED_TIMES_MAX = 10_000
FILE_GROUPS_MAX = 10_000
"""File groups that a plan, or a replacement, names; more of them take more instants."""
COUNT_MAX = 1_000
TOGETHER_BYTES_MAX = 4 * PROPERTIES_BYTES_MAX
"""Bytes, as JSON, of the metadata of all instants that complete together."""

FileGroups = Annotated[list[FileGroupName], Meta(max_length=FILE_GROUPS_MAX)]


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The plan of an instant: the file groups that it will change, and details for its executor.

    A compaction names the groups whose logs it merges, a clustering the groups that it replaces, a write the
    groups that it expects to write (its workload profile). A clustering with ``buckets`` resizes a table with a
    bucket index: it names all file groups of the table, none if the table is empty, and its completion gives
    the table this number of buckets. Its plan is not kept when its execution fails.
    """

    file_groups: FileGroups = []
    details: Properties = {}
    buckets: Buckets | None = None

    def __post_init__(self) -> None:
        refuse_larger("details", self.details, PROPERTIES_BYTES_MAX)


class RecordedPlan(msgspec.Struct, frozen=True):
    """A plan as the timeline keeps it.

    It has the first entries of each list, at most 100 and 8 KiB, and the count of all; other requests give all
    entries, page by page. ``instants`` are the instants that a restore rolls back, in that order.
    ``files_to_delete`` are the files that the executor of a rollback or a clean has to delete, relative to the
    table's base path. A rollback with ``by_markers`` deletes the files of the markers of its target instead; a
    marker is removed when its file was reported as deleted. With ``direct_markers``, the markers of the
    instant, or of the target, are in storage. ``cleaned_before`` is the first completion time that the table is
    served as of after the plan of a clean, ``earliest_commit_to_retain`` the requested time from which on the
    clean keeps all files. ``buckets`` is the number of buckets to which a clustering resizes the table.
    """

    file_groups: list[FileGroupName] = []
    details: dict[str, str] = {}
    instants: list[str] = []
    files_to_delete: list[str] = []
    by_markers: bool = False
    direct_markers: bool = False
    cleaned_before: str | None = None
    file_groups_count: int = 0
    instants_count: int = 0
    files_to_delete_count: int = 0
    buckets: int | None = None
    earliest_commit_to_retain: str | None = None


class PlannedFileGroups(msgspec.Struct, frozen=True):
    """File groups of an instant's plan, in the order of the plan."""

    table: str
    requested_time: str
    file_groups: list[FileGroupName]
    next_cursor: str | None


class PlannedFiles(msgspec.Struct, frozen=True):
    """Files that an instant's plan deletes, in the order of the plan, relative to the table's base path."""

    table: str
    requested_time: str
    files: list[str]
    next_cursor: str | None


class PlannedInstants(msgspec.Struct, frozen=True):
    """Instants that a restore rolls back, in the order of its plan."""

    table: str
    requested_time: str
    instants: list[str]
    next_cursor: str | None


class FileGroupsReplaced(msgspec.Struct, frozen=True):
    """File groups that an instant replaced when it completed, in the order of the request."""

    table: str
    requested_time: str
    file_groups: list[FileGroupName]
    next_cursor: str | None


class BeginInstant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Begin an instant; its requested time is issued in the transaction that records it.

    Compaction, log compaction and clustering need a plan, and keep it until a writer executes it: a requested
    instant of these actions has no lease. ``count`` is the number of instants; the answer is a list.
    """

    writer: Writer
    action: Action = Action.COMMIT
    operation: Operation = Operation.UNKNOWN
    lease_seconds: LeaseSeconds = LEASE_SECONDS_DEFAULT
    inflight: Annotated[bool, Meta(description="Go to inflight at once, without a second call.")] = True
    plan: Plan | None = None
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] | None = None
    markers: Annotated[
        MarkersType | None,
        Meta(description="Where its markers are. Default: the table property markers.type."),
    ] = None


class TakeInflight(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Take an instant inflight.

    ``writer`` is the executor of the plan; another writer may have made the plan.
    """

    writer: Writer | None = None
    lease_seconds: LeaseSeconds | None = None


class ReturnToRequested(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Stop executing a plan, and keep the plan. Another writer may do so only if the lease has ended."""

    writer: Writer
    reason: Reason = ""


class StageWriteStats(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Report files that an instant wrote before it completes, thousands at a time.

    The files are invisible until the instant completes and names the answer's ``version`` in ``staged``.
    Versions that it does not name never count.
    """

    write_stats: Annotated[list[WriteStat], Meta(min_length=1, max_length=STAGED_MAX)]
    writer: Annotated[
        Writer | None,
        Meta(description="The writer. The request is refused if another writer has taken the instant over."),
    ] = None


class StagedWriteStats(msgspec.Struct, frozen=True):
    """Staged write stats. The complete request names them by ``version``."""

    table: str
    requested_time: str
    version: int
    summary: WriteSummary


class CompleteInstant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Publish an instant with the files it wrote, all at once.

    A replacecommit or a clustering names the file groups that it replaces, a clean the time before which the
    table is not served any more.
    """

    write_stats: Annotated[list[WriteStat], Meta(max_length=WRITE_STATS_MAX)] = []
    extra_metadata: Properties = {}
    replaced_file_groups: FileGroups = []
    writer: Annotated[
        Writer | None,
        Meta(description="The writer. The request is refused if another writer has taken the instant over."),
    ] = None
    schema_version: Annotated[
        SchemaVersion | None,
        Meta(description="The version of the schema that the files were written with. Default: the instant's."),
    ] = None
    staged: Annotated[
        list[Annotated[int, Meta(ge=1, le=2**62)]],
        Meta(
            max_length=STAGED_CHUNKS_MAX,
            description="The versions in the answers to staging, instead of write_stats.",
        ),
    ] = []
    cleaned_before: Annotated[
        Annotated[str, Meta(pattern=decoder_pattern(INSTANT_TIME_PATTERN))] | None,
        Meta(
            description=(
                "For a clean: a completion time. Files that left the latest file slices at or before it may be "
                "deleted, and reads as of earlier times are refused."
            )
        ),
    ] = None
    based_on_reads: Annotated[
        bool,
        Meta(
            description=(
                "Whether the log files depend on what the writer has read of their file groups since the "
                "instant was requested. Then they conflict with log files and base files of others, as base "
                "files do."
            )
        ),
    ] = False
    keys_looked_up: Annotated[
        bool,
        Meta(
            description=(
                "Whether the writer has looked up in the table, since the instant was requested, the keys "
                "that it inserts. Then it conflicts with instants that have inserted into the same partitions "
                "since: they may have inserted the same keys into other file groups. An append to a log also "
                "conflicts with a compaction of its file group that was planned since. With a bucket index it "
                "changes nothing, because this cannot happen."
            )
        ),
    ] = False
    buckets: Annotated[
        Buckets | None,
        Meta(
            description=(
                "For a clustering that resizes the table, and only for it: the number of buckets by which its "
                "files are placed, as in its plan. It completes alone, not together with other instants."
            )
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.extra_metadata:
            refuse_larger("extra_metadata", self.extra_metadata, PROPERTIES_BYTES_MAX)


class RollbackInstant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Roll an instant back. Another writer may do so only if the lease has ended.

    With ``files_to_delete``, the rollback stays inflight until the client has deleted these files and completes
    it. Each is the path, relative to the table's base path, of a data file that has the instant's requested
    time in its name. Otherwise the files to delete are those that the instant has marked, and each deletion
    must be reported. Without markers the rollback completes at once.
    """

    writer: Writer
    reason: Reason = ""
    files_to_delete: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=5_120)]], Meta(max_length=FILE_GROUPS_MAX)
    ] = []
    lease_seconds: LeaseSeconds = LEASE_SECONDS_DEFAULT
    execute: Annotated[
        bool,
        Meta(
            description="Whether the caller deletes the files. If not, the plan waits in requested, without a "
            "lease."
        ),
    ] = True


class CreateSavepoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Pin a completed instant, so that the table can be restored to it. Default: the latest one."""

    writer: Writer
    instant: InstantTime | None = None
    comment: Reason = ""


class ReleaseSavepoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Release a savepoint."""

    writer: Writer
    reason: Reason = ""


class RestoreTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Restore to a savepoint: roll back pending instants, and those that completed after its instant."""

    writer: Writer
    savepoint: InstantTime
    reason: Reason = ""


class CompleteOne(CompleteInstant, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One instant of several that complete together."""

    table: TableName
    requested_time: InstantTime


class CompleteTogether(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Publish several instants, of one or several tables: all of them, or none."""

    instants: Annotated[list[CompleteOne], Meta(min_length=1, max_length=COUNT_MAX)]

    def __post_init__(self) -> None:
        metadata = [instant.extra_metadata for instant in self.instants if instant.extra_metadata]
        refuse_larger("the extra_metadata of all instants", metadata, TOGETHER_BYTES_MAX)


class TouchedFileGroup(FileGroupName, frozen=True, forbid_unknown_fields=True):
    """A file group that an instant would change: by a new base file, by a log file, or by replacing it."""

    how: Touch = Touch.BASE


class FindConflicts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask whether completing an instant that changes these file groups would conflict now."""

    file_groups: Annotated[list[TouchedFileGroup], Meta(min_length=1, max_length=FILE_GROUPS_MAX)]


class ConflictingInstant(msgspec.Struct, frozen=True):
    """Another instant against which a completion would lose.

    ``rebase_on`` is the completion time to read the table as of before writing again; null when the winner is
    pending. ``file_groups`` are the groups in common, the first hundred of them.
    """

    winner: str
    winner_action: Action
    winner_state: State
    rebase_on: str | None
    file_groups: list[FileGroupName]
    file_groups_in_common: int


class Conflicts(msgspec.Struct, frozen=True):
    """Whether a completion would conflict now. Later the answer may differ."""

    table: str
    requested_time: str
    conflict: ConflictingInstant | None


class Heartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Renew an instant's lease, from now on; without ``lease_seconds`` for as long as before."""

    lease_seconds: LeaseSeconds | None = None
    writer: Annotated[
        Writer | None,
        Meta(description="The writer. The request is refused if another writer has taken the instant over."),
    ] = None


class Instant(msgspec.Struct, frozen=True):
    """One instant of a table's timeline.

    ``version`` is the version of the table's log that brought the instant to this state. ``rollback_cause``
    says why the server rolled a plan back by itself. ``target`` is the instant that a rollback undoes or a
    savepoint pins, or the savepoint of a restore; ``rolled_back_by`` is the rollback or restore that undid this
    instant. Lists leave ``plan`` out. ``schema_version`` is the version of the table's schema that it writes
    with: the present one when the instant began, or when its plan was taken, unless the complete request stated
    another. It is null for instants that write no files. ``buckets`` is the number of buckets that a table with
    a bucket index had when the instant began: a writer places its records by this number, which may differ from
    that of the table's definition as the writer has read it. An instant of a ``stream`` has no lease of its
    own, and ends with the checkpoints of the stream.
    """

    table: str
    requested_time: str
    completion_time: str | None
    action: Action
    operation: Operation
    state: State
    writer: str
    lease_seconds: int
    lease_expires_at: datetime | None
    rollback_reason: str | None
    summary: WriteSummary | None
    extra_metadata: dict[str, str]
    version: int
    target: str | None = None
    rolled_back_by: str | None = None
    plan: RecordedPlan | None = None
    schema_version: int | None = None
    buckets: int | None = None
    stream: StreamPlace | None = None
    rollback_cause: RollbackCause | None = None


class CompletedTogether(msgspec.Struct, frozen=True):
    """The instants that completed together, in the order of the request."""

    instants: list[Instant]


class InstantPage(msgspec.Struct, frozen=True):
    """Instants in the requested order."""

    instants: list[Instant]
    next_cursor: str | None


class RequestedTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The instants whose completion times are wanted."""

    # Not checked here: the server then says which of them is no time, and why.
    requested_times: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"pattern": INSTANT_TIME_PATTERN})]],
        Meta(max_length=REQUESTED_TIMES_MAX),
    ]


class CompletionTimes(msgspec.Struct, frozen=True):
    """The completion time of each requested instant, in the same order.

    It is null for an instant that is not completed, and for a time at which none was requested.
    """

    completion_times: list[str | None]


class TimeInterval(msgspec.Struct, frozen=True):
    """The TrueTime interval.

    An instant that completed before this request has a completion time of at most ``latest``. An instant that
    begins after the answer gets a time later than ``earliest``. Both have 20 digits.
    """

    earliest: str
    latest: str
