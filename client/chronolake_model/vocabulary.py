"""The closed lists of words: actions, states, operations, table types (Hudi's own; docs/glossary.md)."""

from __future__ import annotations

import enum
from typing import Final

import msgspec


class Action(enum.StrEnum):
    """The action of an instant on a table (Hudi: HoodieTimeline.VALID_ACTIONS_IN_TIMELINE).

    On completion a compaction becomes a commit, a log compaction a deltacommit, a clustering a replacecommit.
    """

    COMMIT = "commit"
    DELTACOMMIT = "deltacommit"
    REPLACECOMMIT = "replacecommit"
    CLUSTERING = "clustering"
    COMPACTION = "compaction"
    LOGCOMPACTION = "logcompaction"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    INDEXING = "indexing"


class State(enum.StrEnum):
    """The state of an instant. Hudi has no ``rolled_back``: it removes the instant's files instead."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"
    ROLLED_BACK = "rolled_back"

    @property
    def is_pending(self) -> bool:
        """Whether the instant may still complete or be rolled back."""
        return self in (State.REQUESTED, State.INFLIGHT)


class Operation(enum.StrEnum):
    """The operation of a writer (Hudi: WriteOperationType)."""

    INSERT = "insert"
    UPSERT = "upsert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert_overwrite"
    DELETE_PARTITION = "delete_partition"
    COMPACT = "compact"
    LOG_COMPACT = "log_compact"
    CLUSTER = "cluster"
    UNKNOWN = "unknown"


class RollbackCause(enum.StrEnum):
    """Why the server rolled a plan back by itself."""

    CONFLICT = "conflict"
    """A write completed in a file group of the plan."""
    EXPIRED = "expired"
    """No executor has completed the plan in time, and none has it."""
    SCHEMA = "schema"
    """A column by which the plan sorts records was dropped, renamed or given another type."""


class TableType(enum.StrEnum):
    """How a table stores updates."""

    COPY_ON_WRITE = "copy_on_write"
    MERGE_ON_READ = "merge_on_read"


class IndexType(enum.StrEnum):
    """How a writer finds the file group of a record key.

    Bucket: by a hash of the key. Simple: by reading the keys of the files. Bloom: the same, of those files only
    whose key range and bloom filter admit the key. With the last two the writer names its file groups as it
    likes. So two writers could insert one new key into two new file groups, and they conflict if each says that
    it looked its keys up (docs/decisions/0048). Record: as these, by an index of all keys that is kept with the
    table's data; a key is unique in the whole table.
    """

    BUCKET = "bucket"
    SIMPLE = "simple"
    BLOOM = "bloom"
    RECORD = "record"


class Yields(enum.StrEnum):
    """The side that gives way when a write and a clustering or compaction touch the same file groups.

    The table property ``conflicts.yields``. The client whose instant gives way must begin it again.
    """

    TABLE_SERVICE = "table-service"
    WRITER = "writer"


class Touch(enum.StrEnum):
    """How an instant changes a file group: with a new base file, with a log file, or by replacing it."""

    BASE = "base"
    LOG = "log"
    REPLACED = "replaced"


class TimeOrder(enum.StrEnum):
    """Which of an instant's two times a list is ordered and paged by."""

    REQUESTED_TIME = "requested_time"
    COMPLETION_TIME = "completion_time"


class Direction(enum.StrEnum):
    """Oldest first, or newest first."""

    ASCENDING = "asc"
    DESCENDING = "desc"


class View(enum.StrEnum):
    """Which slice of each file group a snapshot shows (Hudi: TableFileSystemView).

    Merged: what a reader reads; while a compaction is pending, the base file before it with the logs of both
    slices. Latest: the newest slice, also the empty one that a pending compaction opened. Read optimised: the
    latest base file without logs.
    """

    MERGED = "merged"
    LATEST = "latest"
    READ_OPTIMISED = "read_optimised"


LEASE_SECONDS_DEFAULT = 60


class WriteSummary(msgspec.Struct, frozen=True):
    """Totals over the write stats of a completed instant."""

    files: int = 0
    size_bytes: int = 0
    records: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0


class StreamPlace(msgspec.Struct, frozen=True):
    """The stream that an instant belongs to, and the checkpoint whose files it has."""

    name: str
    epoch: int
    checkpoint: int


class PlanExecutions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The executions of a plan until now: how often it was taken, and the last one that ended without success.

    ``planned_at``, by the steady clock, and ``ended_at`` are in microseconds.
    """

    taken: int = 0
    executor: str | None = None
    reason: str | None = None
    ended_at: int | None = None
    planned_at: int | None = None

    def ended(self, executor: str, reason: str, at: int) -> PlanExecutions:
        """The executions after one that ended without success; one that began with its plan was not counted."""
        return PlanExecutions(self.taken or 1, executor, reason, at, self.planned_at)


NO_CHECKPOINT = -1
"""The checkpoint of what is written before the first barrier."""
TASKS_MAX = 10_000


RETAIN_COMMITS_DEFAULT: Final = 10
FILES_TO_CLEAN_MAX: Final = 10_000
"""Files of one clean's plan; the next one takes the rest."""


GRACE_PROPERTY: Final = "deletions.grace-seconds"
"""The property of a table that says how long after a deletion its file's name is looked at once more."""
GRACE_SECONDS_DEFAULT: Final = 900
GRACE_SECONDS_MAX: Final = 365 * 86_400


ADOPTED_PROPERTY: Final = "hudi.adopted"
"""The properties of the Hudi table when it was adopted, as the text of hoodie.properties."""
ADOPTING_PROPERTY: Final = "hudi.adopting"
"""The digest of Hudi's timeline, as ``timeline_digest`` makes it, from which the history was made.

The table has it until its folder is guarded, and the timeline there was found unchanged."""
TIMELINE_DIGEST_PATTERN: Final = r"^[0-9a-f]{64}$"


EARLIEST_COMMIT_KEY: Final = "hudi.earliest-commit-to-retain"
"""The extra metadata of an adopted clean with the earliest commit to retain that Hudi recorded."""


class Refusal(enum.StrEnum):
    """Why a file may not be deleted. A reason, once released, keeps its meaning."""

    LIVE = "live"
    """It is in a latest file slice."""
    SERVED = "served"
    """It left the latest slices, and the table is still served as of a time when it was in one."""
    HELD = "held"
    """A savepoint, the lease of a reader or the publication for Hudi's readers needs it. Ask again later."""
    PLANNED = "planned"
    """It is in a file group for which a table service is planned."""
    PUBLISHED = "published"
    """It was published: only a clean whose plan names it may delete it."""
    STAGED = "staged"
    """Its instant is pending, and has staged it."""
    PENDING = "pending"
    """Its instant is pending, and not the caller's; or the caller does not hold the lease of the plan."""
    OTHER_INSTANT = "other-instant"
    """It is not a file of the instant in whose name it is to be deleted."""
    UNKNOWN_INSTANT = "unknown-instant"
    """The table's timeline has no instant of the time in its name."""
    DROPPED_TABLE = "dropped-table"
    """A dropped table whose base path overlaps published it, or had the instant in its name."""
    NOT_A_DATA_FILE = "not-a-data-file"
    """It has no data file's name."""


class TableService(enum.StrEnum):
    """A job that keeps a table healthy: it changes how the records are stored, never the records."""

    COMPACTION = "compaction"
    LOG_COMPACTION = "log-compaction"
    CLUSTERING = "clustering"
    CLEAN = "clean"

    @property
    def action(self) -> Action:
        """The action of its instants, by the name that they begin with."""
        return Action(self.value.replace("-", ""))


class HeldReason(enum.StrEnum):
    """Why a table service is not planned, or not for some file groups. A reason keeps its meaning."""

    OFF = "off"
    """A property of the table switches it off, or the table has no use for it."""
    BELOW_THRESHOLD = "below-threshold"
    """Its trigger has not fired, or the file groups are below the threshold of its strategy."""
    NOTHING_TO_DO = "nothing-to-do"
    """It would change nothing."""
    PENDING_PLAN = "pending-plan"
    """The file groups are in a plan that is not completed yet."""
    PENDING_WRITE = "pending-write"
    """A pending write has said that it changes the file groups, or may read the files."""
    SAVEPOINT = "savepoint"
    """A savepoint needs the files."""
    READER = "reader"
    """The lease of a reader, or the publication for Hudi's readers, needs the files."""
    BOUNDED = "bounded"
    """They are beyond a bound of this round; the next round takes them."""
