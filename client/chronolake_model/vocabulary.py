"""The closed lists of words: actions, states, operations, table types (Hudi's own, design.md section 2)."""

from __future__ import annotations

import enum


class Action(enum.StrEnum):
    """What an instant does to a table (Hudi: HoodieTimeline.VALID_ACTIONS_IN_TIMELINE)."""

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
    """Where an instant stands; ``rolled_back`` is, in Hudi, the absence of its files."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"
    ROLLED_BACK = "rolled_back"

    @property
    def is_pending(self) -> bool:
        """Whether the instant may still complete or be rolled back."""
        return self in (State.REQUESTED, State.INFLIGHT)


class Operation(enum.StrEnum):
    """What a writer did (Hudi: WriteOperationType)."""

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


class TableType(enum.StrEnum):
    """How a table keeps its updates."""

    COPY_ON_WRITE = "copy_on_write"
    MERGE_ON_READ = "merge_on_read"


class IndexType(enum.StrEnum):
    """How a writer finds the file group of a record key."""

    BUCKET = "bucket"


class TimeOrder(enum.StrEnum):
    """Which of an instant's two times a list is ordered and paged by."""

    REQUESTED_TIME = "requested_time"
    COMPLETION_TIME = "completion_time"


class Direction(enum.StrEnum):
    """Oldest first, or newest first."""

    ASCENDING = "asc"
    DESCENDING = "desc"
