"""Savepoints: a completed instant pinned, so that the table can go back to it.

In Hudi a savepoint has the requested time of the instant that it saves; here it is an instant with a time of
its own, whose target is the saved one (docs/decisions/0011).
"""

from __future__ import annotations

from collections.abc import Iterable

from chronolake_metastore import errors
from chronolake_metastore.domain import cleans
from chronolake_metastore.domain.actions import COMPLETED_WRITES
from chronolake_metastore.domain.commands import Command, InstantCommand
from chronolake_metastore.domain.events import InstantRequested, SavepointReleased
from chronolake_metastore.domain.instants import Instant, illegal
from chronolake_metastore.domain.rollbacks import request_completed_at_once
from chronolake_metastore.domain.tables import Table
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import Action, State


class CreateSavepoint(Command, frozen=True):
    """``target`` is the instant to pin. Default: the latest that has completed."""

    table: str
    target: Micros | None
    writer: str
    comment: str = ""


class ReleaseSavepoint(InstantCommand, frozen=True):
    writer: str
    reason: str = ""


def target_of(table: Table, command: CreateSavepoint, known: Iterable[Instant]) -> Instant:
    """The instant to pin.

    Raises ``InstantNotFound``, and ``IllegalTransition`` when it has not completed or changes nothing.
    """
    by_time = {instant.requested_time: instant for instant in known}
    if command.target is None:
        writes = [instant for instant in by_time.values() if is_write(instant)]
        if not writes:
            raise errors.InstantNotFound(table.name, "any time: nothing has completed so far")
        return max(writes, key=completion_of)
    target = by_time.get(command.target)
    if target is None:
        raise errors.InstantNotFound(table.name, format_time(command.target, table.definition.tick))
    if not is_write(target):
        raise illegal(table, target, f"a savepoint pins a completed {', '.join(sorted(COMPLETED_WRITES))}")
    return target


def existing(target: Instant, known: Iterable[Instant]) -> Instant | None:
    """The savepoint that pins the instant already, if there is one."""
    return next(
        (instant for instant in known if pins(instant) and instant.target == target.requested_time), None
    )


def create(
    table: Table,
    command: CreateSavepoint,
    target: Instant,
    known: Iterable[Instant],
    archived_until: Micros,
    now: Micros,
) -> InstantRequested:
    """The savepoint, which completes in the same transaction.

    Raises ``HistoryCleaned`` if files that it would pin may be deleted, and ``IllegalTransition`` while the
    table is being adopted, or if a restore to it would undo instants that have left the published active
    timeline: these completed by ``archived_until``. The files of the last write exist, also after a restore to
    it.
    """
    table.refuse_unfinished()
    if completion_of(target) <= archived_until:
        raise illegal(
            table,
            target,
            "it, or an instant that completed later, has left the published active timeline, so a savepoint "
            "cannot pin it any more: Hudi's readers take the instants of the history for committed. Pin a "
            "later one, and for the next time raise hoodie.keep.min.commits or hudi.active-hours",
        )
    last = max(completion_of(instant) for instant in known if is_write(instant))
    if completion_of(target) < last:
        cleans.refuse_before(table, completion_of(target))
    return request_completed_at_once(Action.SAVEPOINT, command.writer, target.requested_time, None, now)


def release(table: Table, savepoint: Instant, command: ReleaseSavepoint) -> SavepointReleased:
    """Release a savepoint. Raises ``IllegalTransition`` if the instant is not a savepoint, or was released."""
    if not pins(savepoint):
        raise illegal(
            table,
            savepoint,
            f"it is a {savepoint.action}; only a savepoint that was not released can be released",
        )
    return SavepointReleased(by=command.writer, reason=command.reason)


def pins(instant: Instant) -> bool:
    """Whether the instant is a savepoint that has not been released."""
    return instant.action is Action.SAVEPOINT and instant.state is State.COMPLETED


def is_write(instant: Instant) -> bool:
    """Whether the instant has completed, and changed the table's content."""
    return instant.state is State.COMPLETED and instant.action in COMPLETED_WRITES


def completion_of(instant: Instant) -> Micros:
    """The completion time of a completed instant."""
    assert instant.completion_time is not None
    return instant.completion_time
