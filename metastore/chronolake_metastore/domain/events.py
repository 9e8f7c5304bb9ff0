"""The events: what the log says of a table. Everything else that is known of it follows from them."""

from __future__ import annotations

import hashlib
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.clock import Clock, next_time
from chronolake_model.files import FileGroupName
from chronolake_model.instants import WriteSummary
from chronolake_model.schemas import SchemaChange
from chronolake_model.tables import CreateTable, SchemaField
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Operation, State


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """What an event says beyond its columns. ``v`` is the version of its form."""

    v: int = 1


class NamespaceCreated(Payload, frozen=True, kw_only=True):
    name: str
    properties: dict[str, str]


class NamespaceDropped(Payload, frozen=True, kw_only=True):
    name: str


class TableCreated(Payload, frozen=True, kw_only=True):
    definition: CreateTable


class TableSchemaChanged(Payload, frozen=True, kw_only=True):
    """``fields`` is the whole new schema, ``changes`` what was asked for, in that order.

    ``last_field_id`` is the greatest field id that was ever given to a column of the table.
    """

    name: str
    schema_version: int
    fields: list[SchemaField]
    last_field_id: int
    changes: list[SchemaChange]


class TableDropped(Payload, frozen=True, kw_only=True):
    name: str


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an instant is to do.

    ``instants`` are those that a restore rolls back, in that order; ``files_to_delete`` is what the executor of
    a rollback or a clean has to delete, relative to the table's base path; or a rollback goes ``by_markers``,
    those of its target. With ``direct_markers`` those of the instant, or of the target, are in storage. A clean
    that the server planned has ``cleaned_before``: from its request on that is the first completion time that
    the table is served as of, unless another clean went further.
    """

    file_groups: list[FileGroupName] = []
    details: dict[str, str] = {}
    instants: list[Micros] = []
    files_to_delete: list[str] = []
    by_markers: bool = False
    direct_markers: bool = False
    cleaned_before: Micros | None = None


class InstantRequested(Payload, frozen=True, kw_only=True):
    """``state`` is inflight when the writer went there at once; the lease ends by the wall clock.

    A plan that waits for somebody to execute it has no lease. ``target`` is the instant that a rollback undoes,
    a savepoint pins, or the savepoint that a restore goes back to. ``schema_version`` is that of the table's
    schema then; events without it are older than schema versions.
    """

    action: Action
    operation: Operation
    state: State
    writer: str
    lease_seconds: int
    lease_expires_at: Micros | None
    target: Micros | None = None
    plan: Plan | None = None
    schema_version: int | None = None


class InstantInflight(Payload, frozen=True, kw_only=True):
    """Whoever executes a plan takes it over, with a lease of its own, and writes with the schema of now.

    Without a writer all stays as it was.
    """

    writer: str | None = None
    lease_seconds: int | None = None
    lease_expires_at: Micros | None = None
    schema_version: int | None = None


class InstantReturnedToRequested(Payload, frozen=True, kw_only=True):
    """The execution of a plan was given up; the plan is kept, and has no lease."""

    by: str
    reason: str


class WriteStatsStaged(Payload, frozen=True, kw_only=True):
    """Files that are written, and that nobody sees before the instant completes and names this event's version.

    They are rows of ``write_stat`` under it; ``write_stats_digest`` seals them.
    """

    summary: WriteSummary
    write_stats_digest: str


class InstantCompleted(Payload, frozen=True, kw_only=True):
    """The files are rows of ``write_stat`` under this event's version; ``write_stats_digest`` seals them.

    Or they were ``staged`` under these versions. ``summary`` is of all of them, ``schema_version`` that of the
    schema that they were written with. After a clean with ``cleaned_before`` that is the first completion time
    that the table is served as of, unless another clean went further.
    """

    summary: WriteSummary
    extra_metadata: dict[str, str]
    write_stats_digest: str
    replaced_file_groups: list[FileGroupName] = []
    schema_version: int | None = None
    staged: list[int] = []
    cleaned_before: Micros | None = None


class InstantRolledBack(Payload, frozen=True, kw_only=True):
    """``rollback`` is the requested time of the rollback, or restore, that undid the instant."""

    by: str
    reason: str
    rollback: Micros | None = None


class FilesDeleted(Payload, frozen=True, kw_only=True):
    """Files that were marked, or planned, are not in storage any more: a write, a rollback or a clean did it.

    They are ``files`` rows of ``deleted_file`` under this event's version, sealed by ``deletions_digest``;
    ``of`` is the instant that had marked them, of a clean itself. Nothing else changes, but that they are to be
    looked for once more, unless by a clean: a task that did not hear of it may finish such a file late.
    """

    of: Micros
    files: int
    deletions_digest: str


class DeletionsSwept(Payload, frozen=True, kw_only=True):
    """The files that were deleted of an instant were looked for once more, and none was there.

    ``since`` is the time of the last deletion that was known then.
    """

    since: Micros


class SavepointReleased(Payload, frozen=True, kw_only=True):
    by: str
    reason: str


class LeaseRenewed(Payload, frozen=True, kw_only=True):
    """The lease ends by the wall clock, not by the table's, which may be ahead of it.

    ``writer`` is who took the lease over, if somebody did.
    """

    lease_seconds: int
    lease_expires_at: Micros
    writer: str | None = None


PAYLOADS: Final[dict[str, type[Payload]]] = {
    payload.__name__: payload
    for payload in (
        NamespaceCreated,
        NamespaceDropped,
        TableCreated,
        TableSchemaChanged,
        TableDropped,
        InstantRequested,
        InstantInflight,
        InstantReturnedToRequested,
        WriteStatsStaged,
        InstantCompleted,
        InstantRolledBack,
        FilesDeleted,
        DeletionsSwept,
        SavepointReleased,
        LeaseRenewed,
    )
}
"""Every type of event, by the name it has in the log."""


class Event(msgspec.Struct, frozen=True):
    """One row of the log. ``instant`` is the requested time of the instant that changed, if one did."""

    table_id: UUID
    version: int
    time: Micros
    instant: Micros | None
    actor: str
    request_id: str
    payload: Payload
    previous_hash: bytes
    hash: bytes

    @property
    def type(self) -> str:
        """The name of the event in the log."""
        return type(self.payload).__name__


class StoredEvent(msgspec.Struct, frozen=True):
    """One row of the log as it is stored: ``payload`` is JSON that nobody has looked into yet."""

    table_id: UUID
    version: int
    time: Micros
    instant: Micros | None
    actor: str
    request_id: str
    type: str
    payload: str
    previous_hash: bytes
    hash: bytes


class Origin(msgspec.Struct, frozen=True):
    """Who asked, under which request id, and what the wall clock of the database said."""

    actor: str
    request_id: str
    now: Micros


def next_event(clock: Clock, origin: Origin, payload: Payload, instant: Micros | None = None) -> Event:
    """The event that ``clock`` gives the next time, version and place in the chain to.

    A request of an instant is itself the instant: its time is the instant's requested time.
    """
    time = next_time(clock, origin.now)
    if isinstance(payload, InstantRequested):
        assert instant is None
        instant = time
    version = clock.version + 1
    said = type(payload).__name__, instant, time, origin.actor, origin.request_id, payload
    return Event(
        table_id=clock.table_id,
        version=version,
        time=time,
        instant=instant,
        actor=origin.actor,
        request_id=origin.request_id,
        payload=payload,
        previous_hash=clock.head,
        hash=_seal(clock.head, clock.table_id, version, said),
    )


def advance(clock: Clock, event: Event) -> Clock:
    """The clock after ``event``."""
    assert event.version == clock.version + 1, "versions are dense"
    assert event.time > clock.last_time, "times increase"
    assert event.previous_hash == clock.head, "each event carries the hash of its predecessor"
    return Clock(clock.table_id, clock.tick, event.time, event.version, event.hash)


def encode_payload(payload: Payload) -> bytes:
    """The payload as canonical JSON: sorted names, no spaces, no floats; what the hash is taken over."""
    return msgspec.json.encode(payload, order="sorted")


def hash_of(event: Event | StoredEvent) -> bytes:
    """SHA-256 over the event and its predecessor's hash, both in canonical JSON.

    Of a stored event it is taken over the payload as it is stored, whatever this release makes of it.
    """
    payload = event.payload if isinstance(event, Event) else msgspec.json.decode(event.payload)
    said = event.type, event.instant, event.time, event.actor, event.request_id, payload
    return _seal(event.previous_hash, event.table_id, event.version, said)


def _seal(previous_hash: bytes, table_id: UUID, version: int, said: tuple[object, ...]) -> bytes:
    # Lists of plain values and sorted objects: the same bytes come out when the event is read back.
    sealed = previous_hash.hex(), table_id, version, *said
    return hashlib.sha256(msgspec.json.encode(sealed, order="sorted")).digest()


def decode(stored: StoredEvent) -> Event:
    """The event that a row of the log is; raises ``ValueError`` when it is none that this release knows."""
    form = PAYLOADS.get(stored.type)
    if form is None:
        raise ValueError(f"{stored.type!r} is no type of event")
    try:
        payload = msgspec.json.decode(stored.payload, type=form)
    except msgspec.ValidationError as exc:
        raise ValueError(f"the payload is not that of {stored.type}: {exc}") from exc
    return Event(
        table_id=stored.table_id,
        version=stored.version,
        time=stored.time,
        instant=stored.instant,
        actor=stored.actor,
        request_id=stored.request_id,
        payload=payload,
        previous_hash=stored.previous_hash,
        hash=stored.hash,
    )
