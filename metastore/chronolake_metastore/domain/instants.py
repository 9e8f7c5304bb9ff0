"""Instants: begun, taken inflight, completed, rolled back (design.md section 7).

requested -> inflight -> completed; requested or inflight -> rolled_back. Nothing leaves completed or
rolled_back.
"""

from __future__ import annotations

from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import files
from chronolake_metastore.domain.events import (
    Event,
    InstantCompleted,
    InstantInflight,
    InstantRequested,
    InstantRolledBack,
    LeaseRenewed,
)
from chronolake_metastore.domain.tables import Table
from chronolake_model import instants as wire
from chronolake_model.instants import WriteSummary
from chronolake_model.times import MICROS_PER_SECOND, Micros, format_time, to_datetime
from chronolake_model.vocabulary import Action, Operation, State, TableType

ACTIONS_BY_TYPE: Final = {
    TableType.COPY_ON_WRITE: frozenset({Action.COMMIT}),
    TableType.MERGE_ON_READ: frozenset({Action.DELTACOMMIT}),
}
"""The actions that can be begun. Table services and the rest of Hudi's actions are not among them yet."""


class Instant(msgspec.Struct, frozen=True):
    """An instant as it stands. ``version`` is the version of the table's log that brought it here."""

    requested_time: Micros
    action: Action
    operation: Operation
    state: State
    writer: str
    lease_seconds: int
    lease_expires_at: Micros | None
    version: int
    completion_time: Micros | None = None
    rollback_reason: str | None = None
    summary: WriteSummary | None = None
    extra_metadata: dict[str, str] = {}


class BeginInstant(msgspec.Struct, frozen=True, tag=True):
    table: str
    request: wire.BeginInstant


class TakeInflight(msgspec.Struct, frozen=True, tag=True):
    table: str
    requested_time: Micros


class CompleteInstant(msgspec.Struct, frozen=True, tag=True):
    table: str
    requested_time: Micros
    request: wire.CompleteInstant


class RollbackInstant(msgspec.Struct, frozen=True, tag=True):
    table: str
    requested_time: Micros
    request: wire.RollbackInstant


def begin(table: Table, command: BeginInstant, now: Micros) -> InstantRequested:
    """Begin an instant; its lease runs from ``now``, the wall's time. Raises ``ActionNotSupported``."""
    request = command.request
    supported = ACTIONS_BY_TYPE[table.definition.type]
    if request.action not in supported:
        raise errors.ActionNotSupported(
            f"a {table.definition.type} table takes {', '.join(sorted(supported))}; "
            f"{request.action} cannot be begun on {table.name!r}",
            action=request.action,
            supported=sorted(supported),
        )
    return InstantRequested(
        action=request.action,
        operation=request.operation,
        state=State.INFLIGHT if request.inflight else State.REQUESTED,
        writer=request.writer,
        lease_seconds=request.lease_seconds,
        lease_expires_at=lease_end(now, request.lease_seconds),
    )


def take_inflight(table: Table, instant: Instant) -> InstantInflight:
    """Go from requested to inflight; raises ``IllegalTransition`` or ``InstantRolledBack``."""
    refuse_unless(table, instant, {State.REQUESTED}, "go to inflight")
    return InstantInflight()


def complete(
    table: Table, instant: Instant, command: CompleteInstant, base_files: files.BaseFiles
) -> InstantCompleted:
    """Publish an inflight instant.

    Raises ``IllegalTransition``, ``InstantRolledBack``, ``InvalidWriteStat`` or ``WriteConflict``.
    """
    refuse_unless(table, instant, {State.INFLIGHT}, "complete")
    stats = command.request.write_stats
    files.check(table, format_time(instant.requested_time, table.definition.tick), stats)
    files.refuse_conflicts(table, instant.requested_time, stats, base_files)
    return InstantCompleted(
        summary=files.summarise(stats),
        extra_metadata=command.request.extra_metadata,
        write_stats_digest=files.digest(stats),
    )


def roll_back(
    table: Table, instant: Instant, command: RollbackInstant, now: Micros
) -> InstantRolledBack | None:
    """Give up a pending instant; nothing is left to do when that has happened already.

    ``now`` is the wall's time. Raises ``IllegalTransition`` when completed, and ``LeaseLive`` when another
    than the writer asks before the lease has ended.
    """
    request = command.request
    if instant.state is State.ROLLED_BACK:
        return None
    refuse_unless(table, instant, {State.REQUESTED, State.INFLIGHT}, "be rolled back")
    assert instant.lease_expires_at is not None
    if request.writer != instant.writer and now < instant.lease_expires_at:
        expires_at = to_datetime(instant.lease_expires_at).isoformat()
        raise errors.LeaseLive(
            f"the lease of {instant.writer!r} runs until {expires_at}; ask that writer, or wait",
            writer=instant.writer,
            lease_expires_at=expires_at,
        )
    return InstantRolledBack(by=request.writer, reason=request.reason)


def lease_end(now: Micros, lease_seconds: int) -> Micros:
    """When a lease of so many seconds ends that runs from ``now``."""
    return Micros(now + lease_seconds * MICROS_PER_SECOND)


def refuse_unless(table: Table, instant: Instant, allowed: set[State], move: str) -> None:
    """Raise ``InstantRolledBack`` or ``IllegalTransition`` unless the instant is in an ``allowed`` state."""
    if instant.state in allowed:
        return
    requested_time = format_time(instant.requested_time, table.definition.tick)
    context = {"table": table.name, "requested_time": requested_time, "state": instant.state}
    if instant.state is State.ROLLED_BACK:
        reason = f" ({instant.rollback_reason})" if instant.rollback_reason else ""
        raise errors.InstantRolledBack(
            f"the instant {requested_time} of {table.name!r} was rolled back{reason}; "
            "stop writing and begin another",
            **context,
            reason=instant.rollback_reason,
        )
    raise errors.IllegalTransition(
        f"the instant {requested_time} of {table.name!r} is {instant.state}; "
        f"only from {' or '.join(sorted(allowed))} can it {move}",
        **context,
    )


def evolve(instant: Instant | None, event: Event) -> Instant:
    """The instant after ``event``: the only way its state changes, live and on rebuild."""
    change: dict[str, object]
    match event.payload:
        case InstantRequested() as payload:
            assert instant is None
            return Instant(
                requested_time=event.time,
                action=payload.action,
                operation=payload.operation,
                state=payload.state,
                writer=payload.writer,
                lease_seconds=payload.lease_seconds,
                lease_expires_at=payload.lease_expires_at,
                version=event.version,
            )
        case InstantInflight():
            change = {"state": State.INFLIGHT}
        case InstantCompleted() as payload:
            change = {
                "state": State.COMPLETED,
                "completion_time": event.time,
                "lease_expires_at": None,
                "summary": payload.summary,
                "extra_metadata": payload.extra_metadata,
            }
        case InstantRolledBack() as payload:
            change = {
                "state": State.ROLLED_BACK,
                "lease_expires_at": None,
                "rollback_reason": payload.reason,
            }
        case LeaseRenewed() as payload:
            change = {
                "lease_seconds": payload.lease_seconds,
                "lease_expires_at": payload.lease_expires_at,
            }
        case _:
            raise AssertionError(f"{event.type} is no event of an instant")
    assert instant is not None
    return msgspec.structs.replace(instant, version=event.version, **change)


def document(table: Table, instant: Instant) -> wire.Instant:
    """The instant as the REST API shows it."""
    tick = table.definition.tick
    completion_time = instant.completion_time
    expires_at = instant.lease_expires_at
    return wire.Instant(
        table=table.name,
        requested_time=format_time(instant.requested_time, tick),
        completion_time=None if completion_time is None else format_time(completion_time, tick),
        action=instant.action,
        operation=instant.operation,
        state=instant.state,
        writer=instant.writer,
        lease_seconds=instant.lease_seconds,
        lease_expires_at=None if expires_at is None else to_datetime(expires_at),
        rollback_reason=instant.rollback_reason,
        summary=instant.summary,
        extra_metadata=instant.extra_metadata,
        version=instant.version,
    )
