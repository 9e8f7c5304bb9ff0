"""The events of the log. All other state of a table follows from them."""

from __future__ import annotations

from uuid import UUID

import msgspec

from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.lists import EMPTY, PlannedWork, Sealed
from chronolake_model.columns import SchemaField
from chronolake_model.credentials import StorageAccess
from chronolake_model.files import FileGroupName
from chronolake_model.roles import Role
from chronolake_model.schema_changes import SchemaChange
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Operation, RollbackCause, State, StreamPlace, WriteSummary


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """The data of an event beyond its columns. ``v`` is the version of its format."""

    v: int = 1


class NamespaceCreated(Payload, frozen=True, kw_only=True):
    name: str
    properties: dict[str, str]


class NamespaceDropped(Payload, frozen=True, kw_only=True):
    name: str


class LocationAllowed(Payload, frozen=True, kw_only=True):
    """Tables of a namespace may have base paths in ``location``, which is in its normal form."""

    namespace: str
    location: str


class LocationRevoked(Payload, frozen=True, kw_only=True):
    """Tables of a namespace may not have base paths in ``location`` any more."""

    namespace: str
    location: str


class EraArchived(Payload, frozen=True, kw_only=True):
    """The archive at ``location`` has the rows of an era of the log: its answers may leave PostgreSQL.

    All rows of the era are of transactions before ``archived_before``. ``runs`` are the digests of the
    descriptions of the runs that the archive had, in their order: all of them were proved by their rows.
    """

    era: int
    archived_before: int
    location: str
    runs: list[str]


class TokenCreated(Payload, frozen=True, kw_only=True):
    """A token, by which the subject ``token:<token_id>`` calls. Without ``expires_at`` it does not end.

    ``digest`` is the HMAC-SHA256 of the token under the key ``key_id``, which only servers have.
    """

    token_id: str
    key_id: str
    digest: str
    acts_for_others: bool
    expires_at: Micros | None


class TokenRotated(Payload, frozen=True, kw_only=True):
    """A token has another secret. The one before is accepted until ``previous_until``."""

    token_id: str
    key_id: str
    digest: str
    previous_until: Micros


class TokenRevoked(Payload, frozen=True, kw_only=True):
    """A token is accepted no more."""

    token_id: str


class RoleGranted(Payload, frozen=True, kw_only=True):
    """A subject has a role on ``pattern``, in place of another one; on a table that is its name then."""

    subject: str
    role: Role
    pattern: str
    table_id: UUID | None = None


class RoleRevoked(Payload, frozen=True, kw_only=True):
    """A subject has no role on ``pattern`` any more."""

    subject: str
    pattern: str
    table_id: UUID | None = None


class TableCreated(Payload, frozen=True, kw_only=True):
    """``base_path_key`` is the base path in its normal form. Without it, overlaps were not checked.

    ``took_over`` are the dropped tables whose base paths this one took over.
    """

    definition: NewDefinition
    base_path_key: str | None = None
    took_over: list[UUID] = []


class TableSchemaChanged(Payload, frozen=True, kw_only=True):
    """``fields`` is the whole new schema, ``changes`` are the requested changes, in that order.

    ``last_field_id`` is the greatest field id that was ever given to a column of the table.
    """

    name: str
    schema_version: int
    fields: list[SchemaField]
    last_field_id: int
    changes: list[SchemaChange]


class TableAltered(Payload, frozen=True, kw_only=True):
    """The name or the properties of a table have changed.

    ``name`` is the former name, ``new_name`` the new one. Without a ``new_name`` the table was not renamed.
    Unchanged properties are not listed.
    """

    name: str
    new_name: str | None = None
    set: dict[str, str] = {}
    unset: list[str] = []


class TableDropped(Payload, frozen=True, kw_only=True):
    name: str


class TableAdopted(Payload, frozen=True, kw_only=True):
    """The end of the history that a table brought with it from Hudi: all events before have Hudi's times.

    ``instants`` is their number. ``cleaned_before`` is the first completion time that the table is served as
    of, if Hudi has cleaned or archived earlier history. ``is_published`` says whether the folder has the
    history as Hudi's readers find it, so that publication begins after it. ``left_out`` says in words which
    archived instants did not come in, and why.
    """

    name: str
    instants: int
    is_published: bool
    cleaned_before: Micros | None = None
    left_out: list[str] = []


class BasePathTakenOver(Payload, frozen=True, kw_only=True):
    """A new table, ``name`` with the id ``by``, has a base path that overlaps with that of this dropped one."""

    by: UUID
    name: str


class InstantRequested(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """``state`` is inflight if the instant began inflight. The lease ends by the steady clock.

    A plan that waits for an executor has no lease. ``target`` is the instant that a rollback undoes or a
    savepoint pins, or the savepoint of a restore. ``schema_version`` is the version of the table's schema at
    that time; events without it are older than schema versions. The lease of an instant of a ``stream``
    never ends, because the stream has one; ``is_blocking`` if it may conflict with other writes, because no
    other of the stream was pending. ``planned_at`` is the time of a plan by the steady clock.
    """

    action: Action
    operation: Operation
    state: State
    writer: str
    lease_seconds: int
    lease_expires_at: Micros | None = None
    target: Micros | None = None
    plan: PlannedWork | None = None
    schema_version: int | None = None
    stream: StreamPlace | None = None
    is_blocking: bool = False
    planned_at: Micros | None = None


class InstantInflight(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The executor of a plan takes it over, with a lease of its own, and writes with the present schema.

    Without a ``writer``, the holder and the lease do not change.
    """

    writer: str | None = None
    lease_seconds: int | None = None
    lease_expires_at: Micros | None = None
    schema_version: int | None = None


class InstantReturnedToRequested(Payload, frozen=True, kw_only=True):
    """The execution of a plan ended without completion. The plan is kept, and has no lease."""

    by: str
    reason: str


class ReportOfTask(msgspec.Struct, frozen=True, omit_defaults=True):
    """The task of a stream that reported files, whether it has more, and what the completion needs to know."""

    task: str
    attempt: int = 0
    last_batch: bool = False
    end_of_input: bool = False
    extra_metadata: dict[str, str] = {}
    based_on_reads: bool = False
    keys_looked_up: bool = False


class WriteStatsStaged(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Files that were written. They are invisible until the instant completes and names this event's version.

    They are rows of ``write_stat`` under this version, with their digest. A ``report`` is of a stream's task.
    """

    summary: WriteSummary
    write_stats_digest: str
    report: ReportOfTask | None = None


class InstantCompleted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """An instant has published its files.

    They are rows of ``write_stat`` under this event's version; ``write_stats_digest`` is the digest over them.
    ``staged`` are the versions of staged files instead. ``summary`` has the totals of all files,
    ``schema_version`` is the version of the schema that they were written with. After a clean,
    ``cleaned_before`` is the first completion time that the table is served as of, unless another clean has a
    later one; ``earliest_commit_to_retain`` is as in a plan, for a clean that has none there. ``buckets`` is
    the number of buckets that the table has from then on, if the instant has changed it: a clustering that
    resized the table, or a restore to a state before that. ``steady_time`` is the time by the steady clock,
    where a grace period begins with the event.
    """

    summary: WriteSummary
    write_stats_digest: str
    extra_metadata: dict[str, str] = {}
    replaced_file_groups: Sealed[FileGroupName] = EMPTY
    schema_version: int | None = None
    staged: list[int] = []
    cleaned_before: Micros | None = None
    buckets: int | None = None
    steady_time: Micros | None = None
    earliest_commit_to_retain: Micros | None = None


class InstantRolledBack(Payload, frozen=True, kw_only=True):
    """``rollback`` is the requested time of the rollback, or restore, that undid the instant.

    ``cause`` says why, if the server did it by itself. After a conflict, ``winner`` is the write that won.
    """

    by: str
    reason: str
    rollback: Micros | None = None
    cause: RollbackCause | None = None
    winner: Micros | None = None


class FilesDeleted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A write, a rollback or a clean has deleted files from storage that were marked or planned.

    They are rows of ``deleted_file`` under this event's version; ``files`` is their number and
    ``deletions_digest`` the digest over them. ``of`` is the instant that had marked them; for a clean, it is
    the clean itself. Except after a clean, their names are checked once more later, because a task may finish
    such a file late: the grace period begins at ``steady_time``, by the steady clock.
    """

    of: Micros
    files: int
    deletions_digest: str
    steady_time: Micros | None = None


class DeletionsSwept(Payload, frozen=True, kw_only=True):
    """The names of the deleted files of an instant were checked once more, and no file was found.

    ``since`` is the time of the last deletion that the sweeper knew.
    """

    since: Micros


class SavepointReleased(Payload, frozen=True, kw_only=True):
    by: str
    reason: str


class LeaseRenewed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The lease ends by the steady clock.

    ``writer`` is the writer that took the lease over, if one did.
    """

    lease_seconds: int
    lease_expires_at: Micros
    writer: str | None = None


class StreamOpened(Payload, frozen=True, kw_only=True):
    """A stream has a new epoch. The lease ends by the steady clock.

    ``restored_checkpoint`` is the checkpoint that the job continues from, if it does.
    """

    name: str
    epoch: int
    writer: str
    tasks: int | None
    lease_seconds: int
    lease_expires_at: Micros
    restored_checkpoint: int | None = None


class StreamRenewed(Payload, frozen=True, kw_only=True):
    """The lease of a stream was renewed."""

    name: str
    lease_seconds: int
    lease_expires_at: Micros


class StreamClosed(Payload, frozen=True, kw_only=True):
    """A stream takes no requests until it is opened again. If ``expired``, its writer was silent too long.

    ``lost`` is the first checkpoint that was rolled back then although a later one may be complete.
    """

    name: str
    by: str
    reason: str
    expired: bool = False
    lost: int | None = None


class CheckpointAcknowledged(Payload, frozen=True, kw_only=True):
    """An engine has said that a checkpoint is complete; none if its input has ended."""

    name: str
    epoch: int
    checkpoint: int | None


class CheckpointAborted(Payload, frozen=True, kw_only=True):
    """An engine has said that a checkpoint was aborted. Nothing changes."""

    name: str
    epoch: int
    checkpoint: int
    reason: str


class StreamTaskRestarted(Payload, frozen=True, kw_only=True):
    """A task began again from a checkpoint. Its reports after this checkpoint do not count any more."""

    name: str
    task: str
    attempt: int
    restored_checkpoint: int | None


class StreamTaskEnded(Payload, frozen=True, kw_only=True):
    """A task has reported the end of its input, without files for an instant."""

    name: str
    task: str


class HudiFilesFound(Payload, frozen=True, kw_only=True):
    """Files in ``.hoodie`` that no publisher wrote, as a check of the publication found them.

    ``total`` is their number, of which ``paths`` has the first 100; 0 when they are gone. The event publishes
    nothing, and changes nothing of the table.
    """

    paths: list[str]
    total: int


class CredentialsVended(Payload, frozen=True, kw_only=True):
    """A subject got credentials for the storage of the table, which are valid until ``expires_at``.

    Keys are not recorded. A server records one event in 15 minutes for each subject and access, so other keys
    may be valid for 15 minutes more. The event publishes nothing, and changes nothing of the table.
    """

    subject: str
    access: StorageAccess
    expires_at: Micros


class Event(msgspec.Struct, frozen=True):
    """One row of the log. ``instant`` is the requested time of the instant that changed, if one did.

    ``answers`` is how many outcomes the table's chain of answers had before, ``answers_hash`` the hash of the
    last of them; events without them are older than those chains. A new event has its payload ``encoded`` as
    canonical JSON, which is hashed and then stored.
    """

    table_id: UUID
    version: int
    time: Micros
    instant: Micros | None
    actor: str
    request_id: str
    payload: Payload
    previous_hash: bytes
    hash: bytes
    answers: int | None = None
    answers_hash: bytes | None = None
    transaction_id: int = 0
    encoded: bytes = b""

    @property
    def type(self) -> str:
        """The name of the event in the log."""
        return type(self.payload).__name__


class Now(msgspec.Struct, frozen=True):
    """The present, in microseconds, by both clocks of the database.

    Times of tables follow the ``wall`` clock, which is never earlier than a returned time. Leases and other
    durations end by the ``steady`` clock (docs/decisions/0002-time.md). ``wall_offset`` is how far the
    database's wall clock is ahead of it. ``transaction_id`` is that of the transaction that read them, if it
    appends to the log.
    """

    wall: Micros
    steady: Micros
    wall_offset: int = 0
    transaction_id: int = 0


class Origin(msgspec.Struct, frozen=True):
    """The sender of a command, its request id, and the clocks of the database."""

    actor: str
    request_id: str
    now: Now


class ImpossibleEvent(Exception):
    """An event that does not follow from the state after the earlier events.

    Commands never make one. A log that was changed by hand may have one.
    """
