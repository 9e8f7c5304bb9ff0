"""Restores: back to a savepoint (docs/architecture.md#instants; Hudi: RestorePlanActionExecutor).

Pending instants are rolled back, clustering first, because their writers began on a state that no longer
exists. Then the instants that completed after the pinned instant, newest completion first.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import lists, plans
from chronolake_metastore.domain.actions import WRITES
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import (
    InstantCompleted,
    InstantRequested,
    InstantRolledBack,
    StreamClosed,
)
from chronolake_metastore.domain.instants import Instant, illegal
from chronolake_metastore.domain.lists import PlannedWork
from chronolake_metastore.domain.rollbacks import RollbackInstant, empty_completion, request_completed_at_once
from chronolake_metastore.domain.savepoints import completion_of, is_write, pins
from chronolake_metastore.domain.streams import Stream
from chronolake_metastore.domain.tables import Table
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import Action

INSTANTS_MAX = 10_000
"""Instants that one restore rolls back."""
UNDONE_REASON_CHARS_MAX = 200
"""Characters of the reason of a restore that each rolled-back instant keeps."""


class RestoreTable(Command, frozen=True):
    table: str
    savepoint: Micros
    writer: str
    reason: str = ""


def closing(table: Table, command: RestoreTable, stream: Stream) -> StreamClosed:
    """Close a stream: tasks that have passed a barrier do not write again what the restore has undone."""
    savepoint = format_time(command.savepoint, table.definition.tick)
    writer = command.writer
    reason = f"{writer} restored the table to the savepoint {savepoint}"
    return StreamClosed(name=stream.name, by=writer, reason=reason)


def plan(table: Table, command: RestoreTable, known: Sequence[Instant]) -> list[Instant]:
    """The instants to roll back, in that order.

    ``known`` are the savepoints of the table, and the instants that are pending or completed after the pinned
    one. Raises ``InstantNotFound``, ``IllegalTransition`` when the instant named is no savepoint,
    ``Savepointed`` when there is a later savepoint, and ``InvalidPlan`` when there are too many. While the
    table is being adopted, it raises ``IllegalTransition`` too.
    """
    table.refuse_unfinished()
    savepoint = _savepoint(table, command.savepoint, known)
    saved = _saved(savepoint, known)
    later = [
        instant for instant in known if is_write(instant) and completion_of(instant) > completion_of(saved)
    ]
    pending = [instant for instant in known if instant.state.is_pending and instant.begun_as in WRITES]
    _refuse_pinned(table, later, known)
    if len(later) + len(pending) > INSTANTS_MAX:
        raise errors.InvalidPlan(
            f"{len(later) + len(pending)} instants would be rolled back, and a restore takes {INSTANTS_MAX} at "
            "most; go back in steps, to a later savepoint first"
        )
    pending.sort(key=lambda instant: (instant.begun_as is not Action.CLUSTERING, -instant.requested_time))
    return pending + sorted(later, key=completion_of, reverse=True)


def request(command: RestoreTable, undone: Sequence[Instant], now: Micros) -> InstantRequested:
    """The restore, which completes in the same transaction."""
    plan = PlannedWork(instants=lists.seal([instant.requested_time for instant in undone]))
    return request_completed_at_once(Action.RESTORE, command.writer, command.savepoint, plan, now)


def completion(table: Table, command: RestoreTable, known: Sequence[Instant]) -> InstantCompleted:
    """The completion of the restore. With the file groups comes the number of buckets that they had."""
    saved = _saved(_savepoint(table, command.savepoint, known), known)
    buckets = plans.number_after_restore(table, completion_of(saved))
    return msgspec.structs.replace(empty_completion(command.reason), buckets=buckets)


def undo(command: RestoreTable, restore: Micros) -> InstantRolledBack:
    """The event of each instant of the plan."""
    # There may be thousands: the completion of the restore has the whole reason.
    reason = _reason(command)[:UNDONE_REASON_CHARS_MAX]
    return InstantRolledBack(by=command.writer, reason=reason, rollback=restore)


def rollback(command: RestoreTable, instant: Instant) -> RollbackInstant:
    """The rollback of a pending instant that has files to delete; it waits for an executor."""
    return RollbackInstant(
        command.table, instant.requested_time, command.writer, _reason(command), execute=False
    )


def _reason(command: RestoreTable) -> str:
    return command.reason or "the table was restored to a savepoint"


def _savepoint(table: Table, time: Micros, known: Sequence[Instant]) -> Instant:
    savepoint = next((instant for instant in known if instant.requested_time == time), None)
    if savepoint is None:
        raise errors.InstantNotFound(table.name, format_time(time, table.definition.tick))
    if not pins(savepoint):
        raise illegal(
            table,
            savepoint,
            f"it is a {savepoint.action}; restore the table to a savepoint that was not released",
        )
    return savepoint


def _saved(savepoint: Instant, known: Sequence[Instant]) -> Instant:
    return next(instant for instant in known if instant.requested_time == savepoint.target)


def _refuse_pinned(table: Table, later: Sequence[Instant], known: Sequence[Instant]) -> None:
    undone = {instant.requested_time for instant in later}
    in_the_way = [savepoint for savepoint in known if pins(savepoint) and savepoint.target in undone]
    if in_the_way:
        tick = table.definition.tick
        times = [format_time(savepoint.requested_time, tick) for savepoint in in_the_way]
        raise errors.Savepointed(
            f"{len(times)} later savepoint(s) of {table.name!r} pin instants that would be rolled back; "
            f"release {times[0]} first, or restore to it",
            table=table.name,
            savepoint=times[0],
            savepoints=times[:100],
        )
