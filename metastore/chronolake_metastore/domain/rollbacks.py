"""Rollbacks: an instant that undoes a pending instant (docs/architecture.md#instants).

There is one rollback per instant. Its plan is made once, and a later request continues it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chronolake_metastore import errors
from chronolake_metastore.domain import conflicts, files, lists, properties
from chronolake_metastore.domain.commands import InstantCommand
from chronolake_metastore.domain.events import (
    InstantCompleted,
    InstantInflight,
    InstantRequested,
    InstantRolledBack,
    LeaseRenewed,
)
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import (
    PENDING,
    Instant,
    has_direct_markers,
    illegal,
    lease_end,
    refuse_unless,
    refuse_while_leased,
)
from chronolake_metastore.domain.lists import PlannedWork
from chronolake_metastore.domain.tables import Table
from chronolake_model.marker_names import file_at, is_file_of
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import LEASE_SECONDS_DEFAULT, Action, Operation, RollbackCause, State

NEVER_ROLLED_BACK = frozenset({Action.ROLLBACK, Action.RESTORE})
"""Actions that undo others: they are executed to the end, never rolled back."""


class RollbackInstant(InstantCommand, frozen=True):
    """``cause`` and ``winner`` are those of ``InstantRolledBack``: only the server gives them."""

    writer: str
    reason: str = ""
    files_to_delete: Sequence[str] = ()
    lease_seconds: int = LEASE_SECONDS_DEFAULT
    execute: bool = True
    cause: RollbackCause | None = None
    winner: Micros | None = None


def refuse_rollback(table: Table, target: Instant, command: RollbackInstant, now: Micros) -> None:
    """Raise ``IllegalTransition`` unless the instant is pending, and ``LeaseLive`` while its lease runs.

    Raises ``InvalidPlan`` when a file that is named is none of the instant's. ``now`` is by the steady clock.
    The instant must not be rolled back yet.
    """
    if target.state is State.COMPLETED:
        raise illegal(table, target, "a completed instant is undone only by a restore to an earlier savepoint")
    refuse_unless(table, target, PENDING, "be rolled back")
    if target.action in NEVER_ROLLED_BACK:
        raise illegal(table, target, f"a {target.action} cannot be rolled back; execute its plan to the end")
    if target.plan is not None and target.plan.cleaned_before is not None:
        raise illegal(
            table,
            target,
            (
                "a planned clean cannot be rolled back, because the files of its plan are not served any more; "
                "execute it to the end"
            ),
        )
    refuse_while_leased(target, command.writer, now)
    _refuse_files_of_others(table, target, command.files_to_delete)


def _refuse_files_of_others(table: Table, target: Instant, paths: Sequence[str]) -> None:
    """Raise ``InvalidPlan`` unless all files are data files of the target by their names.

    The guard deletes no others, so the rollback would wait for ever.
    """
    time = format_time(target.requested_time, table.definition.tick)
    # A slash at the beginning is lost in the file, and so its report would not match the plan.
    others = [path for path in paths if path.startswith("/") or not is_file_of(file_at(path), time)]
    if others:
        raise errors.InvalidPlan(
            f"{len(others)} of files_to_delete are not data files of the instant {time} of {table.name!r} by "
            f"their names; the first is {others[0][:200]!r}. A rollback deletes only files of the instant that "
            "it undoes",
            files_in_question=len(others),
            file=others[0],
        )


def plan(command: RollbackInstant, target: Instant, *, is_marked: bool) -> PlannedWork:
    """The files to delete: the named ones, or else those that the target has marked.

    The server does not see direct markers, so there may be more.
    """
    named = command.files_to_delete
    is_direct = has_direct_markers(target)
    return PlannedWork(
        files_to_delete=lists.seal(named),
        by_markers=(is_marked or is_direct) and not named,
        direct_markers=is_direct,
    )


def has_files(plan: PlannedWork) -> bool:
    """Whether the plan of a rollback asks for anything to be deleted."""
    return plan.by_markers or plan.files_to_delete.count > 0


def request(command: RollbackInstant, plan: PlannedWork, now: Micros) -> InstantRequested:
    """The instant that undoes the target; inflight, with a lease for the caller if it has files to delete.

    If the caller does not delete them, the plan waits for another executor.
    """
    waits = has_files(plan) and not command.execute
    return InstantRequested(
        action=Action.ROLLBACK,
        operation=Operation.UNKNOWN,
        state=State.REQUESTED if waits else State.INFLIGHT,
        writer=command.writer,
        lease_seconds=command.lease_seconds,
        lease_expires_at=None if waits else lease_end(now, command.lease_seconds),
        target=command.requested_time,
        plan=plan,
    )


def undo(command: RollbackInstant, rollback: Micros) -> InstantRolledBack:
    """The event of the target when its rollback is requested."""
    return InstantRolledBack(
        by=command.writer,
        reason=command.reason,
        rollback=rollback,
        cause=command.cause,
        winner=command.winner,
    )


def of_lost_clustering(
    table: Table, clustering: Micros, write: Instant, in_common: Sequence[FileGroup]
) -> RollbackInstant:
    """The rollback of a clustering after the completion of a write in file groups of its plan.

    Its files wait for an executor, because the writer may not reach them.
    """
    winner = format_time(write.requested_time, table.definition.tick)
    reason = (
        f"the write {winner} of {write.writer!r} completed in {len(in_common)} of its file group(s): "
        f"{conflicts.names_of(in_common)}"
    )
    return RollbackInstant(
        table.name,
        clustering,
        write.writer,
        reason,
        execute=False,
        cause=RollbackCause.CONFLICT,
        winner=write.requested_time,
    )


def of_impossible_layouts(table: Table, pending: Iterable[Instant], actor: str) -> list[RollbackInstant]:
    """The rollbacks of clusterings that no executor could take any more, because the schema has changed.

    One that is inflight goes on: it has the schema of the moment at which its executor took it.
    """
    schema = table.definition.schema
    return [
        RollbackInstant(
            table.name, instant.requested_time, actor, reason, execute=False, cause=RollbackCause.SCHEMA
        )
        for instant in pending
        if instant.state is State.REQUESTED
        and instant.begun_as is Action.CLUSTERING
        and instant.plan is not None
        and (reason := properties.impossible_layout(instant.plan.details, schema)) is not None
    ]


def resume(rollback: Instant, command: RollbackInstant, now: Micros) -> InstantInflight | LeaseRenewed | None:
    """Let a later caller execute the plan of a rollback, unless it has an executor or nothing is left to do."""
    if not command.execute:
        return None
    expires = lease_end(now, command.lease_seconds)
    if rollback.state is State.REQUESTED:
        return InstantInflight(
            writer=command.writer, lease_seconds=command.lease_seconds, lease_expires_at=expires
        )
    if rollback.state is not State.INFLIGHT:
        return None
    assert rollback.lease_expires_at is not None
    if command.writer != rollback.writer and now < rollback.lease_expires_at:
        return None
    return LeaseRenewed(lease_seconds=command.lease_seconds, lease_expires_at=expires, writer=command.writer)


def empty_completion(comment: str = "") -> InstantCompleted:
    """The completion of an instant that publishes nothing: a rollback, a savepoint, a restore."""
    extra_metadata = {"comment": comment} if comment else {}
    return InstantCompleted(
        summary=files.summarise([]), extra_metadata=extra_metadata, write_stats_digest=files.digest([])
    )


def request_completed_at_once(
    action: Action, writer: str, target: Micros | None, plan: PlannedWork | None, now: Micros
) -> InstantRequested:
    """The request of an instant that completes in the transaction that begins it."""
    return InstantRequested(
        action=action,
        operation=Operation.UNKNOWN,
        state=State.INFLIGHT,
        writer=writer,
        lease_seconds=LEASE_SECONDS_DEFAULT,
        lease_expires_at=lease_end(now, LEASE_SECONDS_DEFAULT),
        target=target,
        plan=plan,
    )
