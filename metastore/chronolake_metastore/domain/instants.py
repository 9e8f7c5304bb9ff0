"""Instants: begun, taken inflight, completed (docs/architecture.md#instants).

requested -> inflight -> completed; inflight -> requested for what keeps its plan; requested or inflight ->
rolled_back (rollbacks.py). An instant never leaves rolled_back. It leaves completed only by a restore
(restores.py), or as a savepoint by its release (savepoints.py).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import actions, conflicts, files, lists, plans
from chronolake_metastore.domain.commands import Command, InstantCommand
from chronolake_metastore.domain.events import (
    Event,
    ImpossibleEvent,
    InstantCompleted,
    InstantInflight,
    InstantRequested,
    InstantReturnedToRequested,
    InstantRolledBack,
    LeaseRenewed,
    SavepointReleased,
    WriteStatsStaged,
)
from chronolake_metastore.domain.lists import PlannedWork
from chronolake_metastore.domain.plans import LeftOut, NewPlan
from chronolake_metastore.domain.tables import Table
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.marker_names import MarkersType
from chronolake_model.times import MICROS_PER_SECOND, Micros, Tick, format_time
from chronolake_model.vocabulary import (
    LEASE_SECONDS_DEFAULT,
    Action,
    Operation,
    PlanExecutions,
    RollbackCause,
    State,
    StreamPlace,
    WriteSummary,
)

PENDING: Final = frozenset({State.REQUESTED, State.INFLIGHT})


def _short_name(name: str) -> str:
    # A recorded result has these names, and each command records one.
    return "".join(word[0] for word in name.split("_")) if "_" in name else name[:3]


class Instant(msgspec.Struct, frozen=True, omit_defaults=True, rename=_short_name):
    """An instant in its present state. ``version`` is the version of the event that brought it there.

    A restore, or a savepoint's release, has undone an instant with an ``undone_completion_time``.
    ``unswept_since`` is the time of the last reported deletion that must be checked once more. The grace period
    before that check began at ``grace_began_at``, by the steady clock, as ``lease_expires_at`` is.

    ``action`` is the one it was begun with until it completes, then its completed name. An instant of a
    ``stream`` has no lease of its own: its lease lasts until the stream ends it. A plan has ``executions``.
    """

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
    rollback_cause: RollbackCause | None = None
    summary: WriteSummary | None = None
    extra_metadata: dict[str, str] = msgspec.field(default_factory=dict)
    target: Micros | None = None
    rolled_back_by: Micros | None = None
    undone_completion_time: Micros | None = None
    rolled_back_at: Micros | None = None
    plan: PlannedWork | None = None
    schema_version: int | None = None
    unswept_since: Micros | None = None
    grace_began_at: Micros | None = None
    stream: StreamPlace | None = None
    executions: PlanExecutions | None = None

    @property
    def begun_as(self) -> Action:
        """The action that was begun."""
        return actions.begun_as(self.action, self.operation)

    @property
    def is_planned_clean(self) -> bool:
        """Whether it is a clean that the server planned, so that its files are not served any more."""
        return self.plan is not None and self.plan.cleaned_before is not None


class TableInstant(msgspec.Struct, frozen=True, rename=_short_name):
    """An instant of a table, and the table's number of buckets when it began.

    Its lease ends by the steady clock; the wall clock is ahead of that by ``wall_offset`` microseconds.
    """

    table: str
    tick: Tick
    instant: Instant
    buckets: int | None
    wall_offset: int


def of_table(table: Table, instant: Instant, wall_offset: int) -> TableInstant:
    """The instant with what is told of its table."""
    buckets = table.buckets_as_of(instant.requested_time)
    return TableInstant(table.name, table.definition.tick, instant, buckets, wall_offset)


class Marks(msgspec.Struct, frozen=True):
    """Whether an instant that may end has markers, and whether it had markers whose files were deleted."""

    has_markers: bool
    had_deletions: bool


class BeginInstant(Command, frozen=True):
    """``inflight`` says whether it goes to inflight at once. ``count`` is the number of instants."""

    table: str
    writer: str
    action: Action = Action.COMMIT
    operation: Operation = Operation.UNKNOWN
    lease_seconds: int = LEASE_SECONDS_DEFAULT
    inflight: bool = True
    plan: NewPlan | None = None
    count: int | None = None
    markers: MarkersType | None = None


class ReturnToRequested(InstantCommand, frozen=True):
    writer: str
    reason: str = ""


class TakeInflight(InstantCommand, frozen=True):
    writer: str | None = None
    lease_seconds: int | None = None


class CompleteInstant(InstantCommand, frozen=True):
    """``staged`` are the versions of staged write stats, which replace ``write_stats``."""

    write_stats: Sequence[WriteStat] = ()
    extra_metadata: dict[str, str] = msgspec.field(default_factory=dict)
    replaced_file_groups: Sequence[FileGroupName] = ()
    writer: str | None = None
    schema_version: int | None = None
    staged: Sequence[int] = ()
    cleaned_before: Micros | None = None
    based_on_reads: bool = False
    keys_looked_up: bool = False
    buckets: int | None = None


def begin(
    table: Table,
    command: BeginInstant,
    concurrent: conflicts.ConcurrentInstants,
    now: Micros,
    left_out: LeftOut = (),
) -> InstantRequested:
    """Begin an instant; its lease runs from ``now``, by the steady clock.

    ``left_out`` are the live file groups that the plan of a resize lacks. Raises ``ActionNotSupported``,
    ``InvalidPlan``, ``WriteConflict`` when another plan has its file groups, or ``IllegalTransition`` while the
    table is being adopted.
    """
    table.refuse_unfinished()
    rules = actions.RULES[command.action]
    _refuse_unsupported(table, command, rules)
    plans.check(table, command.action, command.plan, rules, concurrent, has_count=command.count is not None)
    plans.refuse_resize(table, command.action, command.plan, left_out)
    plan = _plan(table, command)
    # A plan without an executor waits for one. It has no lease: there is no writer that could go silent.
    keeps_plan = plans.keeps_plan(rules, plan)
    return InstantRequested(
        action=command.action,
        operation=rules.operation or command.operation,
        state=State.INFLIGHT if command.inflight else State.REQUESTED,
        writer=command.writer,
        lease_seconds=command.lease_seconds,
        lease_expires_at=lease_end(now, command.lease_seconds) if command.inflight or not keeps_plan else None,
        plan=plan,
        schema_version=table.definition.schema_version,
        planned_at=now if keeps_plan else None,
    )


def _plan(table: Table, command: BeginInstant) -> PlannedWork | None:
    is_direct = (command.markers or table.markers_type) is MarkersType.DIRECT
    if command.plan is None:
        return PlannedWork(direct_markers=True) if is_direct else None
    groups = lists.seal(command.plan.file_groups)
    return PlannedWork(groups, command.plan.details, direct_markers=is_direct, buckets=command.plan.buckets)


def take_inflight(table: Table, instant: Instant, command: TakeInflight, now: Micros) -> InstantInflight:
    """Go from requested to inflight; raises ``IllegalTransition``, ``InstantRolledBack`` or ``LeaseLive``.

    Any caller may take a waiting plan over. While a lease runs, only its writer changes the instant.
    """
    refuse_unless(table, instant, {State.REQUESTED}, "go to inflight")
    writer, seconds = command.writer or instant.writer, command.lease_seconds or instant.lease_seconds
    if instant.lease_expires_at is not None:
        if command.writer is None and command.lease_seconds is None:
            return InstantInflight()
        refuse_while_leased(instant, writer, now)
    return InstantInflight(
        writer=writer,
        lease_seconds=seconds,
        lease_expires_at=lease_end(now, seconds),
        # A rollback writes no files.
        schema_version=None if instant.action is Action.ROLLBACK else table.definition.schema_version,
    )


def return_to_requested(
    table: Table, instant: Instant, command: ReturnToRequested, now: Micros
) -> InstantReturnedToRequested:
    """Stop the execution of a plan and keep the plan.

    Raises ``IllegalTransition``, ``InstantRolledBack`` or ``LeaseLive``.
    """
    refuse_unless(table, instant, {State.INFLIGHT}, "go back to requested")
    if not plans.keeps_plan(actions.RULES[instant.begun_as], instant.plan):
        keepers = ", ".join(sorted(action for action, rules in actions.RULES.items() if rules.keeps_plan))
        raise illegal(
            table,
            instant,
            (
                f"only an instant that keeps its plan ({keepers}; not a resize) goes back to requested; roll "
                "this one back instead"
            ),
        )
    refuse_while_leased(instant, command.writer, now)
    return InstantReturnedToRequested(by=command.writer, reason=command.reason)


def complete(
    table: Table,
    instant: Instant,
    command: CompleteInstant,
    concurrent: conflicts.ConcurrentInstants,
    now: Micros,
    staged: files.Staged = files.NOTHING_STAGED,
    unplanned: Sequence[FileGroupName] = (),
    left_out: LeftOut = (),
) -> InstantCompleted:
    """Publish an inflight instant; ``unplanned`` are its file groups that its plan does not name.

    ``left_out`` are the live file groups that a resize does not replace.
    Raises ``IllegalTransition``, ``InstantRolledBack``, ``InvalidWriteStat``, ``InvalidPlan`` or
    ``WriteConflict``.
    """
    refuse_unless(table, instant, {State.INFLIGHT}, "complete")
    refuse_another(instant, command.writer)
    stats, replaced = command.write_stats, command.replaced_file_groups
    if instant.stream is None or command.staged:
        # A checkpoint without files places none. It was reported, so it is not written again after the resize.
        plans.refuse_before_resize(table, instant.begun_as, instant.requested_time)
    plans.refuse_other_number(table, instant.plan, command.buckets)
    placed_by = plans.placed_by(table, instant.plan)
    files.check(placed_by, format_time(instant.requested_time, table.definition.tick), stats)
    files.check_staged(command.staged, stats, staged)
    _refuse_unknown_schema(table, command.schema_version)
    written = [*files.touches(stats), *staged.touched]
    plans.check_touched(instant.begun_as, instant.plan, written, replaced, unplanned)
    touched = conflicts.group_changes(instant.begun_as, written, replaced)
    others = in_the_way(instant, concurrent)
    conflicts.refuse(table, instant.requested_time, touched, others, now)
    if command.based_on_reads:
        conflicts.refuse_based_on_reads(table, instant.requested_time, touched, others, now)
    plans.check_groups(table, touched, concurrent)
    plans.refuse_left_out(table, left_out)
    return InstantCompleted(
        summary=files.total(staged.chunks.values()) if command.staged else files.summarise(stats),
        extra_metadata=command.extra_metadata,
        write_stats_digest=files.digest(stats),
        replaced_file_groups=lists.seal(replaced),
        schema_version=command.schema_version or instant.schema_version,
        staged=list(command.staged),
        buckets=command.buckets,
        steady_time=now if _is_swept_after(instant) else None,
    )


def in_the_way(instant: Instant, concurrent: conflicts.ConcurrentInstants) -> conflicts.ConcurrentInstants:
    """The concurrent instants that an instant may lose against.

    An instant of a stream gives way to no plan, because its engine writes nothing again.
    """
    return concurrent if instant.stream is None else conflicts.completed(concurrent)


def lease_end(now: Micros, lease_seconds: int) -> Micros:
    """The end of a lease of ``lease_seconds`` from ``now``."""
    return Micros(now + lease_seconds * MICROS_PER_SECOND)


def refuse_unless(table: Table, instant: Instant, allowed: Set[State], move: str) -> None:
    """Raise ``InstantRolledBack`` or ``IllegalTransition`` unless the instant is in an ``allowed`` state."""
    if instant.state in allowed:
        return
    requested_time = format_time(instant.requested_time, table.definition.tick)
    context = {"table": table.name, "requested_time": requested_time, "state": instant.state}
    if instant.state is State.ROLLED_BACK:
        reason = f" ({instant.rollback_reason})" if instant.rollback_reason else ""
        raise errors.InstantRolledBack(
            f"the instant {requested_time} of {table.name!r} was rolled back{reason}; stop writing and begin a "
            "new one",
            **context,
            reason=instant.rollback_reason,
            cause=instant.rollback_cause,
        )
    raise illegal(table, instant, f"it can {move} only from {' or '.join(sorted(allowed))}")


def refuse_while_leased(instant: Instant, writer: str, now: Micros) -> None:
    """Raise ``LeaseLive`` if another writer than ``writer`` holds a lease at ``now``, by the steady clock."""
    expires = instant.lease_expires_at
    if expires is None or writer == instant.writer or now >= expires:
        return
    seconds_left = seconds_until(expires, now)
    raise errors.LeaseLive(
        f"the lease of {instant.writer!r} runs for another {seconds_left} s; ask that writer, or wait",
        writer=instant.writer,
        lease_seconds_left=seconds_left,
    )


def seconds_until(time: Micros, now: Micros) -> int:
    """The seconds from ``now`` until ``time``, rounded up."""
    return -((now - time) // MICROS_PER_SECOND)


def refuse_another(instant: Instant, writer: str | None) -> None:
    """Raise ``LeaseLive`` if ``writer`` has lost the instant to another writer."""
    if writer is not None and writer != instant.writer:
        raise errors.LeaseLive(
            f"the writer {instant.writer!r} holds the instant, not {writer!r}; stop writing",
            writer=instant.writer,
        )


def evolve(instant: Instant | None, event: Event) -> Instant:
    """The instant after ``event``: the only way in which it changes. Raises ``ImpossibleEvent``."""
    payload = event.payload
    if isinstance(payload, InstantRequested):
        if instant is not None:
            raise ImpossibleEvent("the instant was requested before")
        return _begun(event, payload)
    if instant is None:
        raise ImpossibleEvent("there is no such instant")
    return msgspec.structs.replace(instant, version=event.version, **_change(instant, event))


def _begun(event: Event, payload: InstantRequested) -> Instant:
    return Instant(
        requested_time=event.time,
        action=payload.action,
        operation=payload.operation,
        state=payload.state,
        writer=payload.writer,
        lease_seconds=payload.lease_seconds,
        lease_expires_at=payload.lease_expires_at,
        version=event.version,
        target=payload.target,
        plan=payload.plan,
        schema_version=payload.schema_version,
        stream=payload.stream,
        executions=None if payload.planned_at is None else PlanExecutions(planned_at=payload.planned_at),
    )


def _change(instant: Instant, event: Event) -> dict[str, object]:
    change: dict[str, object] = {}
    before = instant.executions or PlanExecutions()
    match event.payload:
        case WriteStatsStaged():
            pass
        case InstantInflight() as payload:
            change = {"state": State.INFLIGHT}
            if payload.writer is not None:
                change |= {
                    "writer": payload.writer,
                    "lease_seconds": payload.lease_seconds,
                    "lease_expires_at": payload.lease_expires_at,
                    "schema_version": payload.schema_version,
                    "executions": msgspec.structs.replace(before, taken=before.taken + 1),
                }
        case InstantReturnedToRequested() as payload:
            ended = before.ended(instant.writer, payload.reason, event.time)
            change = {"state": State.REQUESTED, "lease_expires_at": None, "executions": ended}
        case InstantCompleted() as payload:
            change = {
                "state": State.COMPLETED,
                "action": actions.RULES[instant.action].completed_as,
                "completion_time": event.time,
                "lease_expires_at": None,
                "summary": payload.summary,
                "extra_metadata": payload.extra_metadata,
                "schema_version": payload.schema_version,
            }
            if _is_swept_after(instant):
                change |= {"unswept_since": event.time, "grace_began_at": payload.steady_time or event.time}
        case InstantRolledBack() as payload:
            change = _undone(instant, payload.reason, event.time) | {"rolled_back_by": payload.rollback}
            change |= {"lease_expires_at": None, "rollback_cause": payload.cause}
        case SavepointReleased() as payload:
            change = _undone(instant, payload.reason, event.time)
        case LeaseRenewed() as payload:
            change = {
                "lease_seconds": payload.lease_seconds,
                "lease_expires_at": payload.lease_expires_at,
                "writer": payload.writer or instant.writer,
            }
        case _:
            raise ImpossibleEvent(f"{event.type} is not an event of an instant")
    return change


def _undone(instant: Instant, reason: str, at: Micros) -> dict[str, object]:
    return {
        "state": State.ROLLED_BACK,
        "completion_time": None,
        "rollback_reason": reason,
        "undone_completion_time": instant.completion_time,
        "rolled_back_at": at,
    }


def _is_swept_after(instant: Instant) -> bool:
    """Whether its completion begins a grace period before a sweep.

    The target of a rollback may continue to create markers in storage, because no server refuses them there.
    """
    return instant.action is Action.ROLLBACK and has_direct_markers(instant)


def has_direct_markers(instant: Instant) -> bool:
    """Whether its markers are in storage; of a rollback those of its target."""
    return instant.plan is not None and instant.plan.direct_markers


def format_if(time: Micros | None, tick: Tick) -> str | None:
    """The digits of a time, if there is one."""
    return None if time is None else format_time(time, tick)


def illegal(table: Table, instant: Instant, what: str) -> errors.IllegalTransition:
    """The refusal of a transition, which names the present state; ``what`` says what to do."""
    requested_time = format_time(instant.requested_time, table.definition.tick)
    return errors.IllegalTransition(
        f"the instant {requested_time} of {table.name!r} is {instant.state}; {what}",
        table=table.name,
        requested_time=requested_time,
        state=instant.state,
    )


def _refuse_unknown_schema(table: Table, schema_version: int | None) -> None:
    present = table.definition.schema_version
    if schema_version is not None and schema_version > present:
        raise errors.InvalidWriteStat(
            f"the schema of {table.name!r} has no version {schema_version} to write files with; "
            f"it has the versions 1 to {present}",
            schema_version=schema_version,
            present_schema_version=present,
        )


def _refuse_unsupported(table: Table, command: BeginInstant, rules: actions.Rules) -> None:
    table_type = table.definition.type
    if table_type not in rules.table_types:
        supported = actions.supported(table_type)
        own = "" if rules.table_types else "; there is another request for this action"
        raise errors.ActionNotSupported(
            f"a {table_type} table takes {', '.join(supported)}; "
            f"{command.action} cannot be begun on {table.name!r}{own}",
            action=command.action,
            supported=supported,
        )
    wanted = {rules.operation} if rules.operation else actions.WRITE_OPERATIONS
    if command.operation is not Operation.UNKNOWN and command.operation not in wanted:
        raise errors.ActionNotSupported(
            f"a {command.action} takes the operation {' or '.join(sorted(wanted))}, not {command.operation}",
            action=command.action,
            supported=actions.supported(table_type),
        )
