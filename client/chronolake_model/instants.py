"""Bodies of the REST API for instants: what a writer asks, and how an instant stands."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_model.files import WriteStat
from chronolake_model.tables import Properties
from chronolake_model.vocabulary import Action, Operation, State

LEASE_SECONDS_DEFAULT = 60
LeaseSeconds = Annotated[
    int, Meta(ge=1, le=86_400, description="How long the writer may stay silent, in seconds.")
]
Writer = Annotated[str, Meta(min_length=1, max_length=255, description="Who writes: a job, a host, a process.")]
WRITE_STATS_MAX = 1_000_000
REQUESTED_TIMES_MAX = 10_000


class BeginInstant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Begin an instant; its requested time is issued in the transaction that records it."""

    writer: Writer
    action: Action = Action.COMMIT
    operation: Operation = Operation.UNKNOWN
    lease_seconds: LeaseSeconds = LEASE_SECONDS_DEFAULT
    inflight: Annotated[bool, Meta(description="Go to inflight at once, without a second call.")] = True


class CompleteInstant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Publish an instant with the files it wrote, all at once."""

    write_stats: Annotated[list[WriteStat], Meta(max_length=WRITE_STATS_MAX)] = []
    extra_metadata: Properties = {}


class RollbackInstant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Give an instant up. Another than its writer may do so only when its lease has ended."""

    writer: Writer
    reason: Annotated[str, Meta(max_length=4_096)] = ""


class Heartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Renew an instant's lease, from now on; without ``lease_seconds`` for as long as before."""

    lease_seconds: LeaseSeconds | None = None


class WriteSummary(msgspec.Struct, frozen=True):
    """Totals over the write stats of a completed instant."""

    files: int = 0
    size_bytes: int = 0
    records: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0


class Instant(msgspec.Struct, frozen=True):
    """One instant of a table's timeline.

    ``version`` is the version of the table's log that brought the instant to this state.
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


class InstantPage(msgspec.Struct, frozen=True):
    """Instants in the order that was asked for."""

    instants: list[Instant]
    next_cursor: str | None


class RequestedTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The instants whose completion times are wanted."""

    requested_times: Annotated[list[str], Meta(max_length=REQUESTED_TIMES_MAX)]


class CompletionTimes(msgspec.Struct, frozen=True):
    """The completion time of each instant that was asked for, in the same order.

    It is null for an instant that is not completed, and for a time at which none was requested.
    """

    completion_times: list[str | None]


class TimeInterval(msgspec.Struct, frozen=True):
    """The TrueTime interval.

    Whatever completed before this answer was asked for, completed at ``latest`` or before; whatever is
    begun after the answer gets a time later than ``earliest``. Both in 20 digits.
    """

    earliest: str
    latest: str
