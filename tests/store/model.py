"""The timeline of one table in plain Python, which tests compare with the server; they share no code.

``may_*`` gives the codes with which the server may refuse a command; if there are none, the server must execute
it. After that the test has the model change as the answer says. Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from chronolake_model.problems import ProblemCode as Code
from chronolake_model.vocabulary import Action, State, TableType, Touch
from tests.model_of_schemas import Columns
from tests.store import model_of_cleans, model_of_conflicts
from tests.store.model_of_cleans import File, ReaderLease
from tests.store.model_of_instants import (
    BEGUN,
    KEEPS_PLAN,
    SECOND,
    SERVICES,
    TOUCHES,
    UNDOES,
    WRITES,
    Completed,
    Group,
    Instant,
    Refusals,
    Slice,
    Touched,
    not_from,
)


@dataclass
class Timeline:
    """All instants of one table, and the state that follows from them."""

    type: TableType
    writers_yield: bool
    schema: Columns
    instants: dict[int, Instant] = field(default_factory=dict)
    followed: dict[Group, Slice] = field(default_factory=dict)
    """The slices of a reader that follows the changes."""
    followed_to: int | None = None
    staged: dict[int, dict[int, list[Touched]]] = field(default_factory=dict)
    """By instant, the files that were staged under each version."""
    cleaned_before: int | None = None
    """The first time that is served."""
    cleaned: set[File] = field(default_factory=set)
    """The files that the plans of cleans name."""
    readers: dict[str, ReaderLease] = field(default_factory=dict)
    now: int = 0
    """The wall clock."""

    # ------------------------------------------------------------------------------ the view of readers

    def seen(self, at: int | None = None) -> dict[Group, Slice]:
        """The slices as of a completion time, or now."""
        done = self.completed() if at is None else self.completed_by(at)
        groups = {group for instant in done for _, group in instant.touched}
        slices = {}
        for group in groups:
            if any(instant.touches(Touch.REPLACED, group) for instant in done):
                continue
            base = max((instant.time for instant in done if instant.touches(Touch.BASE, group)), default=None)
            logs = [
                instant.time
                for instant in done
                if instant.touches(Touch.LOG, group) and (base is None or instant.completed >= base)
            ]
            slices[group] = (base, tuple(logs))
        return slices

    def serves(self, at: int) -> bool:
        """Whether the slices as of then are all there: not cleaned, or held by a savepoint or a reader."""
        held = model_of_cleans.held(self, self.now)
        return self.cleaned_before is None or at >= self.cleaned_before or at in held

    def forget_readers(self, until: int) -> None:
        """The server deletes leases that ended by then: if its clock goes back, they hold nothing again."""
        self.readers = {lease_id: lease for lease_id, lease in self.readers.items() if lease.expires > until}

    def pending_writes(self) -> list[int]:
        """The writes of users that are pending."""
        return [
            instant.time
            for instant in self.instants.values()
            if instant.is_pending and instant.action in WRITES
        ]

    def completed(self) -> list[Completed]:
        """The completed instants that were not undone, in the order of their completion."""
        done = [
            Completed(instant.time, instant.completed, instant)
            for instant in self.instants.values()
            if instant.completed
        ]
        return sorted(done, key=lambda instant: instant.completed)

    def completed_by(self, at: int) -> list[Completed]:
        """The instants that had completed by then, and were not undone by then."""
        done = [
            Completed(instant.time, completed, instant)
            for instant in self.instants.values()
            if (completed := instant.completed or instant.undone_completion)
            and completed <= at
            and (instant.undone_at is None or instant.undone_at > at)
        ]
        return sorted(done, key=lambda instant: instant.completed)

    def written_between(self, after: int, until: int) -> set[int]:
        """The writes that completed in (after, until], and count as of its end."""
        return {
            instant.time
            for instant in self.completed_by(until)
            if instant.completed > after and instant.instant.action in WRITES | SERVICES
        }

    def completions(self) -> list[int]:
        """All completion times that there ever were."""
        times = [instant.completed or instant.undone_completion for instant in self.instants.values()]
        return sorted(time for time in times if time)

    def changes(self) -> list[int]:
        """The completion times at which the slices changed."""
        changing = WRITES | SERVICES | {Action.RESTORE}
        times = [
            instant.completed or instant.undone_completion
            for instant in self.instants.values()
            if instant.action in changing
        ]
        return sorted(time for time in times if time)

    def current(self, bucket: int) -> Group:
        """The file group of a bucket that is not replaced."""
        gone = self.replaced()
        return next((bucket, n) for n in range(len(gone) + 1) if (bucket, n) not in gone)

    def replaced(self) -> dict[Group, int]:
        """The file groups that are gone, and the instants that took them."""
        return {
            group: instant.time
            for instant in self.completed()
            for how, group in instant.touched
            if how is Touch.REPLACED
        }

    def replaced_by(self, group: Group, at: int) -> bool:
        """Whether a file group was gone as of a completion time."""
        return any(instant.touches(Touch.REPLACED, group) for instant in self.completed_by(at))

    def planned(self) -> set[tuple[Group, int]]:
        """The file groups that pending instants plan for."""
        return {
            (group, instant.time)
            for instant in self.instants.values()
            if instant.is_pending
            for group in instant.plan
        }

    # ------------------------------------------------------------------------------ begin to complete

    def may_begin(self, action: Action, plan: Sequence[Group] | None, count: int | None) -> Refusals:
        if action not in BEGUN[self.type]:
            return {Code.ACTION_NOT_SUPPORTED: None}
        if (action in SERVICES and not plan) or (plan is not None and count is not None):
            return {Code.INVALID_PLAN: None}
        refusals: Refusals = {}
        if action in SERVICES and plan:
            if set(plan) - self.seen().keys():
                refusals[Code.INVALID_PLAN] = None
            shared = [time for group, time in self.planned() if group in plan and self._is_service(time)]
            if shared:
                refusals[Code.WRITE_CONFLICT] = max(shared)
        return refusals

    def begun(self, instant: Instant) -> None:
        assert instant.time not in self.instants, "a requested time is given once"
        assert instant.time > max(self.instants, default=0)
        self.instants[instant.time] = instant

    def may_go_inflight(self, time: int, writer: str | None, now: int) -> Refusals:
        instant = self.instants[time]
        if instant.state is not State.REQUESTED:
            return not_from(instant)
        return self._unless_leased(instant, writer or instant.writer, now)

    def went_inflight(self, time: int, writer: str | None, now: int) -> None:
        instant = self.instants[time]
        if writer is not None or instant.lease_end is None:
            self._lease(time, writer or instant.writer, instant.lease_seconds, now)
            self._change(time, schema_version=self.writes_with(instant.action))
        self._change(time, state=State.INFLIGHT)

    def writes_with(self, action: Action) -> int | None:
        """The version of the schema of an instant that is started now."""
        return None if action in UNDOES else self.schema.version

    def may_return(self, time: int, writer: str, now: int) -> Refusals:
        instant = self.instants[time]
        if instant.state is not State.INFLIGHT:
            return not_from(instant)
        if instant.action not in KEEPS_PLAN:
            return {Code.ILLEGAL_TRANSITION: None}
        return self._unless_leased(instant, writer, now)

    def returned(self, time: int) -> None:
        self._change(time, state=State.REQUESTED, lease_end=None)

    def may_renew(self, time: int, writer: str | None) -> Refusals:
        instant = self.instants[time]
        if not instant.is_pending:
            return not_from(instant)
        if instant.lease_end is None:
            return {Code.ILLEGAL_TRANSITION: None}
        return {} if writer in (None, instant.writer) else {Code.LEASE_LIVE: None}

    def renewed(self, time: int, lease_seconds: int | None, now: int) -> None:
        instant = self.instants[time]
        self._lease(time, instant.writer, lease_seconds or instant.lease_seconds, now)

    def may_stage(self, time: int, written: Sequence[Touched], writer: str | None, now: int) -> Refusals:
        """Complete with this alone; the instants that it completes with are seen when it completes."""
        refusals = self._may_publish(time, set(written), writer, now)
        instant = self.instants[time]
        if instant.state is State.INFLIGHT and self._may_write(instant, set(written)):
            refusals.pop(Code.INVALID_PLAN, None)
        return refusals

    def has_staged(self, time: int, version: int, written: Sequence[Touched]) -> None:
        self.staged.setdefault(time, {})[version] = [*written]

    def may_complete_staged(
        self, time: int, versions: Sequence[int], touched: Sequence[Touched], writer: str | None, now: int
    ) -> Refusals:
        """Complete with all of this at once; ``touched`` has a file twice that was staged twice."""
        refusals = self.may_complete(time, touched, writer, now)
        is_repeated = len(set(touched)) < len(touched) or len(set(versions)) < len(versions)
        is_known = set(versions) <= self.staged.get(time, {}).keys()
        if self.instants[time].state is State.INFLIGHT and (is_repeated or not is_known):
            refusals[Code.INVALID_WRITE_STAT] = None
        return refusals

    def may_complete(
        self,
        time: int,
        touched: Iterable[Touched],
        writer: str | None,
        now: int,
        cleaned_before: int | None = None,
    ) -> Refusals:
        instant, touched = self.instants[time], set(touched)
        refusals = self._may_publish(time, touched, writer, now)
        if instant.state is not State.INFLIGHT:
            return refusals
        if not self._may_clean(instant, cleaned_before):
            refusals[Code.INVALID_PLAN] = None
        if instant.files_to_delete and not instant.has_reported:
            refusals[Code.UNDELETED_FILES] = None
        if instant.action is Action.CLUSTERING and self._loses_records(instant, touched):
            refusals[Code.INVALID_WRITE_STAT] = None
        return refusals

    def _may_publish(self, time: int, touched: set[Touched], writer: str | None, now: int) -> Refusals:
        instant = self.instants[time]
        if instant.state is not State.INFLIGHT:
            return not_from(instant)
        refusals: Refusals = {}
        if writer not in (None, instant.writer):
            refusals[Code.LEASE_LIVE] = None
        if self.type is TableType.COPY_ON_WRITE and any(how is Touch.LOG for how, _ in touched):
            refusals[Code.INVALID_WRITE_STAT] = None
        if not self._fits(instant, touched):
            refusals[Code.INVALID_PLAN] = None
        winner = model_of_conflicts.conflict(self, time, touched, now)
        if winner is not None:
            refusals[Code.WRITE_CONFLICT] = winner
        return refusals

    def _loses_records(self, instant: Instant, touched: set[Touched]) -> bool:
        """Whether it reports fewer records than base files have that leave, in groups without log files."""
        live = self.seen()
        leaving = {group for how, group in touched if how is not Touch.LOG}
        going = [live[group] for group in leaving & live.keys()]
        stored = sum(self.instants[base].records for base, logs in going if base is not None and not logs)
        written = [group for how, group in touched if how is not Touch.REPLACED]
        return instant.records * len(written) < stored

    def _may_clean(self, instant: Instant, before: int | None) -> bool:
        if before is None:
            return True
        return (
            instant.action is Action.CLEAN
            and not instant.files_to_delete
            and before <= max(self.completions(), default=0)
        )

    def has_completed(
        self, time: int, at: int, touched: Iterable[Touched], cleaned_before: int | None = None
    ) -> list[int]:
        """Gives the clusterings that its completion rolls back, in that order."""
        assert at > max([time, *(instant.completed for instant in self.completed())])
        if cleaned_before is not None:
            # A file left the slices because a write superseded it or a restore undid it.
            changes = [time for time in self.changes() if time <= cleaned_before]
            kept = [] if self.cleaned_before is None else [self.cleaned_before]
            self.cleaned_before = max([*changes, *kept], default=None)
        cancelled = model_of_conflicts.cancelled(self, time, touched)
        self._settle(time, at)
        self._change(time, touched=frozenset(touched))
        return cancelled

    def _may_write(self, instant: Instant, touched: set[Touched]) -> bool:
        if {how for how, _ in touched} - TOUCHES.get(instant.action, set()):
            return False
        written = {group for how, group in touched if how is not Touch.REPLACED}
        return instant.action not in (Action.COMPACTION, Action.LOGCOMPACTION) or written <= set(instant.plan)

    def _fits(self, instant: Instant, touched: set[Touched]) -> bool:
        bases_and_logs = {group for how, group in touched if how is not Touch.REPLACED}
        going = {group for how, group in touched if how is Touch.REPLACED}
        if not self._may_write(instant, touched) or bases_and_logs & going:
            return False
        if instant.action is Action.CLUSTERING and going != set(instant.plan):
            return False
        gone = self.replaced().keys() | going
        first_is_gone = all(n == 0 or (bucket, n - 1) in gone for bucket, n in bases_and_logs)
        return going <= self.seen().keys() and first_is_gone

    # ------------------------------------------------------------------------------ cleans

    def pending_clean(self) -> Instant | None:
        """The server's plan of a clean that is not executed to its end."""
        return next(
            (instant for instant in self.instants.values() if instant.is_pending and instant.files_to_delete),
            None,
        )

    def may_plan_clean(self, writer: str, execute: bool, now: int) -> Refusals:
        instant = self.pending_clean()
        return self._unless_leased(instant, writer, now) if instant is not None and execute else {}

    def planned_clean(self, clean: Instant, left: dict[File, int]) -> None:
        self.begun(clean)
        self.cleaned |= clean.files_to_delete
        self.cleaned_before = max(self.cleaned_before or 0, *left.values())
        self.readers = {lease_id: lease for lease_id, lease in self.readers.items() if lease.expires > self.now}

    def resumed_clean(self, time: int, writer: str, lease_seconds: int, now: int) -> None:
        """A writer takes the instant over, or continues it."""
        if self.instants[time].state is State.REQUESTED:
            self._change(time, state=State.INFLIGHT, schema_version=self.schema.version)
        self._lease(time, writer, lease_seconds, now)

    def may_report(self, time: int, writer: str) -> Refusals:
        instant = self.instants[time]
        if instant.state is State.REQUESTED:
            return {Code.ILLEGAL_TRANSITION: None}
        return {Code.LEASE_LIVE: None} if instant.is_pending and writer != instant.writer else {}

    def has_reported(self, time: int) -> None:
        self._change(time, has_reported=True)

    # ------------------------------------------------------------------------------ undoing

    def may_roll_back(self, time: int, writer: str, now: int) -> Refusals:
        instant = self.instants[time]
        if instant.state is State.ROLLED_BACK:
            return {}
        if instant.state is State.COMPLETED or instant.action in (Action.ROLLBACK, Action.RESTORE):
            return {Code.ILLEGAL_TRANSITION: None}
        if instant.files_to_delete:
            return {Code.ILLEGAL_TRANSITION: None}
        return self._unless_leased(instant, writer, now)

    def resumed(self, rollback: int, writer: str, lease_seconds: int, now: int) -> None:
        """A writer requested a rollback that exists already."""
        instant = self.instants[rollback]
        if instant.state is State.REQUESTED or (
            instant.is_pending and not self._unless_leased(instant, writer, now)
        ):
            self._lease(rollback, writer, lease_seconds, now)
            self._change(rollback, state=State.INFLIGHT)

    def rolled_back(self, time: int, by: int | None, at: int | None = None) -> None:
        """Undone; ``at`` is the completion of the restore that did it."""
        self._change(
            time,
            state=State.ROLLED_BACK,
            completed=None,
            undone_completion=self.instants[time].completed,
            undone_at=at,
            lease_end=None,
            undone_by=by,
        )

    def may_save(self, target: int | None) -> Refusals:
        if target is None:
            return {} if self.latest_write() else {Code.INSTANT_NOT_FOUND: None}
        instant = self.instants[target]
        if not instant.is_completed_write:
            return {Code.ILLEGAL_TRANSITION: None}
        assert instant.completed is not None
        # Files that only a reader holds may be deleted when its lease ends, so they cannot be pinned.
        was_cleaned = self.cleaned_before is not None and instant.completed < self.cleaned_before
        is_there = not was_cleaned or self.savepoint_of(target) is not None or target == self.latest_write()
        return {} if is_there else {Code.HISTORY_CLEANED: None}

    def latest_write(self) -> int | None:
        """The write that completed last."""
        return next(
            (instant.time for instant in reversed(self.completed()) if instant.instant.is_completed_write), None
        )

    def savepoint_of(self, target: int | None) -> int | None:
        """The savepoint that pins an instant."""
        return next(
            (
                instant.time
                for instant in self.instants.values()
                if instant.is_savepoint and instant.target == target
            ),
            None,
        )

    def settled(self, instant: Instant, at: int) -> None:
        """A rollback, a savepoint or a restore has begun and completed."""
        self.begun(instant)
        self._settle(instant.time, at)

    def may_restore(self, savepoint: int) -> Refusals:
        if not self.instants[savepoint].is_savepoint:
            return {Code.ILLEGAL_TRANSITION: None}
        pinned = [self.savepoint_of(time) for time in self.undone_by_restore(savepoint)]
        return {Code.SAVEPOINTED: None} if any(pinned) else {}

    def undone_by_restore(self, savepoint: int) -> list[int]:
        """The instants that a restore to a savepoint undoes, in that order."""
        target = self.instants[savepoint].target
        assert target is not None
        saved = self.instants[target].completed
        assert saved is not None
        later = [
            instant.time
            for instant in self.completed()
            if instant.completed > saved and instant.instant.is_completed_write
        ]
        pending = [
            instant
            for instant in self.instants.values()
            if instant.is_pending and instant.action in WRITES | SERVICES
        ]
        pending.sort(key=lambda instant: (instant.action is not Action.CLUSTERING, -instant.time))
        return [instant.time for instant in pending] + later[::-1]

    def _is_service(self, time: int) -> bool:
        return self.instants[time].action in SERVICES

    def _unless_leased(self, instant: Instant, writer: str, now: int) -> Refusals:
        is_free = instant.lease_end is None or writer == instant.writer or now >= instant.lease_end
        return {} if is_free else {Code.LEASE_LIVE: None}

    def _lease(self, time: int, writer: str, seconds: int, now: int) -> None:
        self._change(time, writer=writer, lease_seconds=seconds, lease_end=now + seconds * SECOND)

    def _settle(self, time: int, at: int) -> None:
        self._change(time, state=State.COMPLETED, completed=at, was_completed=True, lease_end=None)

    def _change(self, time: int, **changes: object) -> None:
        self.instants[time] = replace(self.instants[time], **changes)  # type: ignore[arg-type]
