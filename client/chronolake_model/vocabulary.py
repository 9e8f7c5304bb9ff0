"""The closed lists of words: actions, states, operations, table types (Hudi's own; docs/glossary.md)."""

from __future__ import annotations

import enum


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


class TableType(enum.StrEnum):
    """How a table stores updates."""

    COPY_ON_WRITE = "copy_on_write"
    MERGE_ON_READ = "merge_on_read"


class IndexType(enum.StrEnum):
    """How a writer finds the file group of a record key.

    Bucket: by a hash of the key. Simple: by reading the keys of the files. Bloom: the same, of those files only
    whose key range and bloom filter admit the key. With the last two the writer names its file groups as it
    likes. So two writers could insert one new key into two new file groups, and they conflict if each says that
    it looked its keys up (docs/decisions/0049). Record: as these, by an index of all keys that is kept with the
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
