"""Contents of the files of a timeline: metadata of commits, cleans, savepoints, rollbacks and restores, and the
plan of a compaction.

In layout 2 each is an Avro file with one record. In layout 1, of table version 6, the metadata of commits and
replace commits are JSON; the others are Avro too. A file is decoded by the schema in it: fields that are not
known here are ignored, and fields that are missing or null have the default of the type below.

Names of fields are Hudi's, in snake case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from chronolake_hudi import avro_files, metadata_schemas
from chronolake_hudi.avro_files import Codec
from chronolake_hudi.errors import DamagedFile
from chronolake_hudi.timeline_files import Layout
from chronolake_model import decoding
from chronolake_model.vocabulary import Operation

SCHEMA_KEY: Final = "schema"
"""The key of a table's Avro schema in the extra metadata of a commit."""
NO_COMMIT: Final = "null"
"""The previous commit of the first file of a file group."""
CLEAN_POLICY: Final = "KEEP_LATEST_COMMITS"
SAVEPOINTS_KEY: Final = "savepointed_timestamps"
"""The key in the extra metadata of a clean with the saved instants, with commas."""
_ADVICE: Final = "restore the file from a copy, or remove the instant with Hudi's or Chronolake's tools"


class HudiWriteStat(msgspec.Struct, frozen=True, rename="camel"):
    """One file that an instant wrote (Hudi: HoodieWriteStat, and HoodieDeltaWriteStat for a log file).

    ``path`` is relative to the table's base path. Incremental reads need ``file_size_in_bytes``.
    ``log_version``, ``base_file`` and ``log_files`` are those of a log file; the files are named without
    their folder.
    """

    file_id: str = ""
    path: str = ""
    partition_path: str = ""
    file_size_in_bytes: int = 0
    prev_commit: str = NO_COMMIT
    num_writes: int = 0
    num_inserts: int = 0
    num_update_writes: int = 0
    num_deletes: int = 0
    total_write_bytes: int = 0
    total_write_errors: int = 0
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: list[str] | None = None
    prev_base_file: str | None = None


class CommitMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The files of a commit, delta commit, compaction or log compaction, by partition path.

    ``extra_metadata`` has the table's Avro schema under ``SCHEMA_KEY``. ``operation_type`` is a word of Hudi's
    WriteOperationType, ``compacted`` true for a compaction.
    """

    partition_to_write_stats: dict[str, list[HudiWriteStat]] = {}
    compacted: bool = False
    extra_metadata: dict[str, str] = {}
    version: int = 1
    operation_type: str | None = None


class ReplaceCommitMetadata(CommitMetadata, frozen=True, rename="camel"):
    """The files of a replace commit or a clustering, and the ids of the file groups that it replaced."""

    partition_to_replace_file_ids: dict[str, list[str]] = {}


class CleanPartition(msgspec.Struct, frozen=True, rename="camel"):
    """The files that a clean deleted in one partition. Files are named without their folder."""

    partition_path: str
    policy: str = CLEAN_POLICY
    delete_path_patterns: list[str] = []
    success_delete_files: list[str] = []
    failed_delete_files: list[str] = []
    is_partition_deleted: bool | None = None


class CleanMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The files that a clean deleted.

    ``earliest_commit_to_retain`` is the requested time from which on the table can be read as of: Hudi refuses
    earlier ones. Without it such reads return too few rows. Hudi's next clean looks only at the partitions that
    were written since then, and at those of savepoints in ``extra_metadata`` that are gone.
    """

    start_clean_time: str
    earliest_commit_to_retain: str
    last_completed_commit_timestamp: str = ""
    time_taken_in_millis: int = 0
    total_files_deleted: int = 0
    partition_metadata: dict[str, CleanPartition] = {}
    version: int = 2
    extra_metadata: dict[str, str] | None = None


class CompactionOperation(msgspec.Struct, frozen=True, rename="camel"):
    """One file slice that a compaction merges. Files are named without their folder."""

    file_id: str
    base_instant_time: str
    partition_path: str = ""
    data_file_path: str | None = None
    delta_file_paths: list[str] = []


class CompactionPlan(msgspec.Struct, frozen=True, rename="camel"):
    """The plan of a compaction or a log compaction, in its requested file."""

    operations: list[CompactionOperation] = []
    extra_metadata: dict[str, str] = {}
    version: int = 2


class SavepointPartition(msgspec.Struct, frozen=True, rename="camel"):
    """The files of one partition that a savepoint keeps, named without their folder."""

    partition_path: str
    savepoint_data_file: list[str] = []


class SavepointMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The files that a savepoint keeps. ``savepointed_at`` is in milliseconds since 1970."""

    savepointed_by: str = ""
    savepointed_at: int = 0
    comments: str = ""
    partition_metadata: dict[str, SavepointPartition] = {}
    version: int = 1


class InstantInfo(msgspec.Struct, frozen=True, rename="camel"):
    """An instant that was rolled back. ``commit_time`` is its requested time."""

    commit_time: str
    action: str


class RollbackPartition(msgspec.Struct, frozen=True, rename="camel"):
    """The files of one partition that a rollback deleted."""

    partition_path: str
    success_delete_files: list[str] = []
    failed_delete_files: list[str] = []


class RollbackMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The effects of a rollback."""

    start_rollback_time: str
    commits_rollback: list[str] = []
    instants_rollback: list[InstantInfo] = []
    time_taken_in_millis: int = 0
    total_files_deleted: int = 0
    partition_metadata: dict[str, RollbackPartition] = {}
    version: int = 1


class RestoreMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The effects of a restore: for each instant, by its requested time, its rollbacks."""

    start_restore_time: str
    instants_to_rollback: list[str] = []
    restore_instant_info: list[InstantInfo] = []
    hoodie_restore_metadata: dict[str, list[RollbackMetadata]] = {}
    time_taken_in_millis: int = 0
    version: int = 1


Metadata = (
    CommitMetadata | CleanMetadata | CompactionPlan | SavepointMetadata | RollbackMetadata | RestoreMetadata
)
"""The contents of a file of a timeline. A ``ReplaceCommitMetadata`` is a ``CommitMetadata``."""

_SCHEMAS: Final[Mapping[type[Metadata], Callable[[], metadata_schemas.Schema]]] = {
    CommitMetadata: metadata_schemas.commit,
    ReplaceCommitMetadata: metadata_schemas.replace_commit,
    CleanMetadata: metadata_schemas.clean,
    CompactionPlan: metadata_schemas.compaction_plan,
    SavepointMetadata: metadata_schemas.savepoint,
    RollbackMetadata: metadata_schemas.rollback,
    RestoreMetadata: metadata_schemas.restore,
}
_IDENTIFYING: Final[Mapping[type[msgspec.Struct], str]] = {
    CommitMetadata: "partitionToWriteStats",
    ReplaceCommitMetadata: "partitionToReplaceFileIds",
    CompactionPlan: "operations",
    SavepointMetadata: "savepointedAt",
}
"""A field that the files of a type have and others have not, for the types whose fields all have defaults."""
MetadataT = TypeVar("MetadataT", bound=Metadata)


def operation_type(operation: Operation) -> str:
    """Hudi's word for an operation."""
    return operation.value.upper()


def encode(metadata: Metadata, codec: Codec = "null") -> bytes:
    """The content of a file of layout 2. The same metadata give the same bytes, in any order of maps."""
    record: dict[str, Any] = msgspec.to_builtins(metadata)
    return avro_files.encode(_sorted_maps(record), _SCHEMAS[type(metadata)](), codec)


def decode(content: bytes, metadata_type: type[MetadataT], path: str, layout: Layout = Layout.TWO) -> MetadataT:
    """The contents of the file ``path``.

    Raises ``DamagedFile`` if the file is empty or cut off, or holds something else.
    """
    if layout is Layout.ONE and issubclass(metadata_type, CommitMetadata):
        record = _parse_json(content, path)
    else:
        record = avro_files.decode(content, path)
    return of_record(record, metadata_type, path)


def of_record(record: Mapping[str, Any], metadata_type: type[MetadataT], path: str) -> MetadataT:
    """The contents that a record in the file ``path`` has. Raises ``DamagedFile`` if it has something else."""
    identifying = _IDENTIFYING.get(metadata_type)
    try:
        if identifying is not None and identifying not in record:
            raise msgspec.ValidationError(f"Object missing required field `{identifying}`")
        return decoding.convert(_without_nulls(record), metadata_type)
    except (msgspec.ValidationError, RecursionError) as exc:
        raise DamagedFile(path, f"the file does not hold {metadata_type.__name__} ({exc})", _ADVICE) from exc


def _parse_json(content: bytes, path: str) -> dict[str, Any]:
    if not content:
        raise DamagedFile(path, "the file is empty", _ADVICE)
    try:
        return decoding.decode(content, dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise DamagedFile(path, f"the file is no complete JSON document ({exc})", _ADVICE) from exc


def _sorted_maps(value: Any) -> Any:
    match value:
        case dict():
            return {key: _sorted_maps(value[key]) for key in sorted(value)}
        case list():
            return [_sorted_maps(item) for item in value]
        case _:
            return value


def _without_nulls(value: Any) -> Any:
    # A null stands for the default of its field; as an item of a list it stands for nothing.
    match value:
        case Mapping():
            return {key: _without_nulls(item) for key, item in value.items() if item is not None}
        case list():
            return [_without_nulls(item) for item in value if item is not None]
        case _:
            return value
