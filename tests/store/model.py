"""The timeline of one table in plain Python, to hold the server against: it shares no code with it, only words.

Whoever asks for something first asks the model for the codes with which the server may refuse it: none, then
it must be carried out. What the server answers is then told to the model. Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from chronolake_model.problems import ProblemCode as Code
from chronolake_model.vocabulary import Action, State, TableType, Touch
from tests.model_of_schemas import Columns
from tests.store import model_of_cleans
from tests.store.model_of_cleans import File, ReaderLease

Group = tuple[int, int]
"""A file group of a bucket: the bucket, and how many groups of it were replaced before."""
Touched = tuple[Touch, Group]
Refusals = dict[Code, int | None]
"""For each code with which a request may be refused, the instant that wins where it is a conflict."""
Slice = tuple[int | None, tuple[int, ...]]
"""The instants that wrote a slice's base file and, by completion, its log files."""

SERVICES = {Action.CLUSTERING, Action.COMPACTION, Action.LOGCOMPACTION}
WRITES = {Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT}
UNDOES = {Action.ROLLBACK, Action.SAVEPOINT, Action.RESTORE}
KEEPS_PLAN = SERVICES | {Action.CLEAN, Action.INDEXING, Action.ROLLBACK}
COMPLETED_AS = {
    Action.CLUSTERING: Action.REPLACECOMMIT,
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
}
_EITHER = {Action.REPLACECOMMIT, Action.CLUSTERING, Action.CLEAN, Action.INDEXING}
BEGUN = {
    TableType.COPY_ON_WRITE: sorted(_EITHER | {Action.COMMIT}),
    TableType.MERGE_ON_READ: sorted(
        _EITHER | {Action.DELTACOMMIT, Action.COMPACTION, Action.LOGCOMPACTION},
    ),
}
_TOUCHES = {
    Action.COMMIT: {Touch.BASE},
    Action.DELTACOMMIT: {Touch.BASE, Touch.LOG},
    Action.REPLACECOMMIT: set(Touch),
    Action.CLUSTERING: set(Touch),
    Action.COMPACTION: {Touch.BASE},
    Action.LOGCOMPACTION: {Touch.LOG},
}
SECOND = 1_000_000


@dataclass(frozen=True)
class Instant:
    """One instant; ``action`` is the one that was begun, ``plan`` the file groups that it named then."""

    time: int
    action: Action
    state: State
    writer: str
    lease_seconds: int
    lease_end: int | None
    plan: tuple[Group, ...] = ()
    target: int | None = None
    undone_by: int | None = None
    completed: int | None = None
    was_completed: bool = False
    undone_completion: int | None = None
    undone_at: int | None = None
    touched: frozenset[Touched] = frozenset()
    schema_version: int | None = None
    files_to_delete: frozenset[File] = frozenset()
    """Of a clean that the server planned."""
    has_reported: bool = False

    @property
    def is_pending(self) -> bool:
        return self.state in (State.REQUESTED, State.INFLIGHT)

    @property
    def is_completed_write(self) -> bool:
        return self.state is State.COMPLETED and self.action in WRITES | SERVICES

    @property
    def is_savepoint(self) -> bool:
        return self.state is State.COMPLETED and self.action is Action.SAVEPOINT

    def touches(self, how: Touch, group: Group) -> bool:
        return (how, group) in self.touched


@dataclass
class Timeline:
    """All instants of one table, and what follows from them."""

    type: TableType
    writers_yield: bool
    schema: Columns
    instants: dict[int, Instant] = field(default_factory=dict)
    followed: dict[Group, Slice] = field(default_factory=dict)
    """The slices as a reader has them who follows the changes."""
    followed_to: int | None = None
    staged: dict[int, dict[int, list[Touched]]] = field(default_factory=dict)
    """By instant, what was staged under each version."""
    cleaned_before: int | None = None
    """The first time that is served."""
    cleaned: set[File] = field(default_factory=set)
    """The files that the plans of cleans name."""
    readers: dict[str, ReaderLease] = field(default_factory=dict)
    now: int = 0
    """The wall clock."""

    # ------------------------------------------------------------------------------ what a reader sees

    def seen(self, at: int | None = None) -> dict[Group, Slice]:
        """The slices as of a completion time, or now."""
        done = self.completed() if at is None else self.completed_by(at)
        groups = {group for one in done for _, group in one.touched}
        slices = {}
        for group in groups:
            if any(one.touches(Touch.REPLACED, group) for one in done):
                continue
            base = max((one.time for one in done if one.touches(Touch.BASE, group)), default=None)
            logs = [
                one.time
                for one in done
                if one.touches(Touch.LOG, group) and (base is None or one.completed >= base)
            ]
            slices[group] = (base, tuple(logs))
        return slices

    def serves(self, at: int) -> bool:
        """Whether the slices as of then are all there: not cleaned, or what a savepoint or a reader holds."""
        held = model_of_cleans.held(self, self.now)
        return self.cleaned_before is None or at >= self.cleaned_before or at in held

    def forget_readers(self, until: int) -> None:
        """The server deletes leases that ended by then: if its clock goes back, they hold nothing again."""
        self.readers = {lease_id: one for lease_id, one in self.readers.items() if one.expires > until}

    def pending_writes(self) -> list[int]:
        """The writes of users that are pending."""
        return [one.time for one in self.instants.values() if one.is_pending and one.action in WRITES]

    def completed(self) -> list[Completed]:
        """What has completed and was not undone, in the order of its completion."""
        done = [Completed(one.time, one.completed, one) for one in self.instants.values() if one.completed]
        return sorted(done, key=lambda one: one.completed)

    def completed_by(self, at: int) -> list[Completed]:
        """What had completed by then, and was not undone by then."""
        done = [
            Completed(one.time, completed, one)
            for one in self.instants.values()
            if (completed := one.completed or one.undone_completion)
            and completed <= at
            and (one.undone_at is None or one.undone_at > at)
        ]
        return sorted(done, key=lambda one: one.completed)

    def written_between(self, after: int, until: int) -> set[int]:
        """The writes that completed in (after, until], and count as of its end."""
        return {
            one.time
            for one in self.completed_by(until)
            if one.completed > after and one.instant.action in WRITES | SERVICES
        }

    def completions(self) -> list[int]:
        """All completion times that there ever were."""
        times = [one.completed or one.undone_completion for one in self.instants.values()]
        return sorted(time for time in times if time)

    def changes(self) -> list[int]:
        """The completion times at which the slices changed."""
        changing = WRITES | SERVICES | {Action.RESTORE}
        times = [
            one.completed or one.undone_completion for one in self.instants.values() if one.action in changing
        ]
        return sorted(time for time in times if time)

    def current(self, bucket: int) -> Group:
        """The file group of a bucket that is not replaced."""
        gone = self.replaced()
        return next((bucket, n) for n in range(len(gone) + 1) if (bucket, n) not in gone)

    def replaced(self) -> dict[Group, int]:
        """The file groups that are gone, and the instants that took them."""
        return {
            group: one.time for one in self.completed() for how, group in one.touched if how is Touch.REPLACED
        }

    def planned(self) -> set[tuple[Group, int]]:
        """The file groups that pending instants plan for."""
        return {(group, one.time) for one in self.instants.values() if one.is_pending for group in one.plan}

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
        one = self.instants[time]
        if one.state is not State.REQUESTED:
            return _not_from(one)
        return self._unless_leased(one, writer or one.writer, now)

    def went_inflight(self, time: int, writer: str | None, now: int) -> None:
        one = self.instants[time]
        if writer is not None or one.lease_end is None:
            self._lease(time, writer or one.writer, one.lease_seconds, now)
            self._change(time, schema_version=self.writes_with(one.action))
        self._change(time, state=State.INFLIGHT)

    def writes_with(self, action: Action) -> int | None:
        """The version of the schema that an instant writes with which is taken in hand now."""
        return None if action in UNDOES else self.schema.version

    def may_return(self, time: int, writer: str, now: int) -> Refusals:
        one = self.instants[time]
        if one.state is not State.INFLIGHT:
            return _not_from(one)
        if one.action not in KEEPS_PLAN:
            return {Code.ILLEGAL_TRANSITION: None}
        return self._unless_leased(one, writer, now)

    def returned(self, time: int) -> None:
        self._change(time, state=State.REQUESTED, lease_end=None)

    def may_renew(self, time: int, writer: str | None) -> Refusals:
        one = self.instants[time]
        if not one.is_pending:
            return _not_from(one)
        if one.lease_end is None:
            return {Code.ILLEGAL_TRANSITION: None}
        return {} if writer in (None, one.writer) else {Code.LEASE_LIVE: None}

    def renewed(self, time: int, lease_seconds: int | None, now: int) -> None:
        one = self.instants[time]
        self._lease(time, one.writer, lease_seconds or one.lease_seconds, now)

    def may_stage(self, time: int, written: Sequence[Touched], writer: str | None, now: int) -> Refusals:
        """As completing with nothing but that; what it goes with is seen when it completes."""
        refusals = self.may_complete(time, written, writer, now)
        one = self.instants[time]
        if one.state is State.INFLIGHT and self._may_write(one, set(written)):
            refusals.pop(Code.INVALID_PLAN, None)
        return refusals

    def has_staged(self, time: int, version: int, written: Sequence[Touched]) -> None:
        self.staged.setdefault(time, {})[version] = [*written]

    def may_complete_staged(
        self, time: int, versions: Sequence[int], touched: Sequence[Touched], writer: str | None, now: int
    ) -> Refusals:
        """As completing with all that at once; ``touched`` has twice what was staged twice."""
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
        one, touched = self.instants[time], set(touched)
        if one.state is not State.INFLIGHT:
            return _not_from(one)
        refusals: Refusals = {}
        if writer not in (None, one.writer):
            refusals[Code.LEASE_LIVE] = None
        if self.type is TableType.COPY_ON_WRITE and any(how is Touch.LOG for how, _ in touched):
            refusals[Code.INVALID_WRITE_STAT] = None
        if not self._fits(one, touched) or not self._may_clean(one, cleaned_before):
            refusals[Code.INVALID_PLAN] = None
        if one.files_to_delete and not one.has_reported:
            refusals[Code.UNDELETED_FILES] = None
        winner = self.conflict(time, touched, now)
        if winner is not None:
            refusals[Code.WRITE_CONFLICT] = winner
        return refusals

    def _may_clean(self, one: Instant, before: int | None) -> bool:
        if before is None:
            return True
        return (
            one.action is Action.CLEAN
            and not one.files_to_delete
            and before <= max(self.completions(), default=0)
        )

    def has_completed(
        self, time: int, at: int, touched: Iterable[Touched], cleaned_before: int | None = None
    ) -> None:
        assert at > max([time, *(one.completed for one in self.completed())])
        if cleaned_before is not None:
            # What left the slices by then left them with a write, or with a restore.
            changes = [one for one in self.changes() if one <= cleaned_before]
            kept = [] if self.cleaned_before is None else [self.cleaned_before]
            self.cleaned_before = max([*changes, *kept], default=None)
        self._settle(time, at)
        self._change(time, touched=frozenset(touched))

    def conflict(self, time: int, touched: Iterable[Touched], now: int) -> int | None:
        """Who wins when the instant completes; none, when nobody is in its way."""
        mine = self.instants[time]
        others = [one for one in self.instants.values() if one.time != time]
        winners = [
            (other.completed or 0, other.time)
            for how, group in touched
            for other in others
            if self._is_in_the_way(mine, _deed(mine.action, how), group, other, now)
        ]
        return max(winners)[1] if winners else None

    def _is_in_the_way(self, mine: Instant, change: str, group: Group, other: Instant, now: int) -> bool:
        if other.is_pending and group in other.plan:
            return self._plan_stands(mine, change, other, now)
        if change == "log_compact" and group in self.replaced():
            return False  # nobody sees the group any more, whoever wrote to it before it was replaced
        return other.completed is not None and any(
            _spoils(mine, change, other, other.completed, _deed(other.action, how))
            for how, theirs in other.touched
            if theirs == group
        )

    def _plan_stands(self, mine: Instant, change: str, other: Instant, now: int) -> bool:
        """Whether a pending plan for the group is in the way: one side gives way, as the table says."""
        if other.action not in SERVICES and (other.lease_end is None or other.lease_end <= now):
            return False
        if not self.writers_yield:
            return change == "cluster" and other.action in WRITES
        if change not in ("append", "write", "replace"):
            return False
        if other.action is Action.CLUSTERING:
            return True
        was_scheduled_after = other.time > mine.time
        if other.action is Action.COMPACTION:
            return change != "append" and was_scheduled_after
        return other.action is Action.REPLACECOMMIT and was_scheduled_after

    def _may_write(self, one: Instant, touched: set[Touched]) -> bool:
        if {how for how, _ in touched} - _TOUCHES.get(one.action, set()):
            return False
        written = {group for how, group in touched if how is not Touch.REPLACED}
        return one.action not in (Action.COMPACTION, Action.LOGCOMPACTION) or written <= set(one.plan)

    def _fits(self, one: Instant, touched: set[Touched]) -> bool:
        bases_and_logs = {group for how, group in touched if how is not Touch.REPLACED}
        going = {group for how, group in touched if how is Touch.REPLACED}
        if not self._may_write(one, touched) or bases_and_logs & going:
            return False
        if one.action is Action.CLUSTERING and going != set(one.plan):
            return False
        gone = self.replaced().keys() | going
        first_is_gone = all(n == 0 or (bucket, n - 1) in gone for bucket, n in bases_and_logs)
        return going <= self.seen().keys() and first_is_gone

    # ------------------------------------------------------------------------------ cleans

    def pending_clean(self) -> Instant | None:
        """The server's plan of a clean that is not executed to its end."""
        return next((one for one in self.instants.values() if one.is_pending and one.files_to_delete), None)

    def may_plan_clean(self, writer: str, execute: bool, now: int) -> Refusals:
        one = self.pending_clean()
        return self._unless_leased(one, writer, now) if one is not None and execute else {}

    def planned_clean(self, clean: Instant, left: dict[File, int]) -> None:
        self.begun(clean)
        self.cleaned |= clean.files_to_delete
        self.cleaned_before = max(self.cleaned_before or 0, *left.values())
        self.readers = {name: one for name, one in self.readers.items() if one.expires > self.now}

    def resumed_clean(self, time: int, writer: str, lease_seconds: int, now: int) -> None:
        """Somebody goes on with it."""
        if self.instants[time].state is State.REQUESTED:
            self._change(time, state=State.INFLIGHT, schema_version=self.schema.version)
        self._lease(time, writer, lease_seconds, now)

    def may_report(self, time: int, writer: str) -> Refusals:
        one = self.instants[time]
        if one.state is State.REQUESTED:
            return {Code.ILLEGAL_TRANSITION: None}
        return {Code.LEASE_LIVE: None} if one.is_pending and writer != one.writer else {}

    def has_reported(self, time: int) -> None:
        self._change(time, has_reported=True)

    # ------------------------------------------------------------------------------ undoing

    def may_roll_back(self, time: int, writer: str, now: int) -> Refusals:
        one = self.instants[time]
        if one.state is State.ROLLED_BACK:
            return {}
        if one.state is State.COMPLETED or one.action in (Action.ROLLBACK, Action.RESTORE):
            return {Code.ILLEGAL_TRANSITION: None}
        if one.files_to_delete:
            return {Code.ILLEGAL_TRANSITION: None}
        return self._unless_leased(one, writer, now)

    def resumed(self, rollback: int, writer: str, lease_seconds: int, now: int) -> None:
        """Somebody asked for a rollback that there is already."""
        one = self.instants[rollback]
        if one.state is State.REQUESTED or (one.is_pending and not self._unless_leased(one, writer, now)):
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
        one = self.instants[target]
        if not one.is_completed_write:
            return {Code.ILLEGAL_TRANSITION: None}
        assert one.completed is not None
        # What only a reader holds may be gone when its lease ends: that is nothing to pin.
        was_cleaned = self.cleaned_before is not None and one.completed < self.cleaned_before
        is_there = not was_cleaned or self.savepoint_of(target) is not None or target == self.latest_write()
        return {} if is_there else {Code.HISTORY_CLEANED: None}

    def latest_write(self) -> int | None:
        """The write that completed last."""
        return next((one.time for one in reversed(self.completed()) if one.instant.is_completed_write), None)

    def savepoint_of(self, target: int | None) -> int | None:
        """The savepoint that pins an instant."""
        return next(
            (one.time for one in self.instants.values() if one.is_savepoint and one.target == target), None
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
        """What going back to a savepoint undoes, in that order."""
        target = self.instants[savepoint].target
        assert target is not None
        saved = self.instants[target].completed
        assert saved is not None
        later = [
            one.time for one in self.completed() if one.completed > saved and one.instant.is_completed_write
        ]
        pending = [one for one in self.instants.values() if one.is_pending and one.action in WRITES | SERVICES]
        pending.sort(key=lambda one: (one.action is not Action.CLUSTERING, -one.time))
        return [one.time for one in pending] + later[::-1]

    # ------------------------------------------------------------------------------ what must never be

    def lost_updates(self) -> list[tuple[int, int]]:
        """Pairs of completed instants of which the second threw away what the first had completed meanwhile."""
        return [
            (first.time, second.time)
            for second in self.completed()
            for how, group in second.instant.touched
            if _deed(second.instant.action, how) in ("write", "replace", "cluster")
            for first in self.completed()
            if second.time < first.completed < second.completed
            and any(
                _deed(first.instant.action, what) in ("write", "append", "replace", "cluster")
                for what, theirs in first.instant.touched
                if theirs == group
            )
        ]

    def unseen(self) -> list[tuple[int, Group]]:
        """Completed writes that nobody could ever see, and the groups."""
        return [
            (one.time, group)
            for one in self.completed()
            for how, group in one.instant.touched
            if _deed(one.instant.action, how) in ("write", "append", "compact")
            and one.time not in _instants_of(self.seen(one.completed).get(group))
        ]

    def _is_service(self, time: int) -> bool:
        return self.instants[time].action in SERVICES

    def _unless_leased(self, one: Instant, writer: str, now: int) -> Refusals:
        is_free = one.lease_end is None or writer == one.writer or now >= one.lease_end
        return {} if is_free else {Code.LEASE_LIVE: None}

    def _lease(self, time: int, writer: str, seconds: int, now: int) -> None:
        self._change(time, writer=writer, lease_seconds=seconds, lease_end=now + seconds * SECOND)

    def _settle(self, time: int, at: int) -> None:
        self._change(time, state=State.COMPLETED, completed=at, was_completed=True, lease_end=None)

    def _change(self, time: int, **changes: object) -> None:
        self.instants[time] = replace(self.instants[time], **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Completed:
    """An instant that has a completion time."""

    time: int
    completed: int
    instant: Instant

    def touches(self, how: Touch, group: Group) -> bool:
        return self.instant.touches(how, group)

    @property
    def touched(self) -> frozenset[Touched]:
        return self.instant.touched


def _deed(action: Action, how: Touch) -> str:
    match how:
        case Touch.REPLACED:
            return "cluster" if action is Action.CLUSTERING else "replace"
        case Touch.LOG:
            return "log_compact" if action is Action.LOGCOMPACTION else "append"
        case Touch.BASE:
            return "compact" if action is Action.COMPACTION else "write"


def _spoils(mine: Instant, change: str, other: Instant, completed: int, others_deed: str) -> bool:
    """Whether what another has completed in a file group leaves no room for what ``mine`` does there."""
    if others_deed in ("replace", "cluster"):
        return change != "log_compact"  # what is gone is gone; a log compaction adds nothing that could be lost
    if change == "append":
        return False
    if others_deed == "compact":
        return change != "compact" and other.time > mine.time
    # A base file takes the place of records, so all of them must have been read.
    reads = {
        "write": {"write", "append", "log_compact"},
        "replace": {"write", "append"},
        "cluster": {"write", "append"},
        "compact": {"write"},
        "log_compact": {"write"},
    }
    return others_deed in reads[change] and completed > mine.time


def _not_from(one: Instant) -> Refusals:
    if one.state is State.ROLLED_BACK:
        return {Code.INSTANT_ROLLED_BACK: None}
    return {Code.ILLEGAL_TRANSITION: None}


def _instants_of(found: Slice | None) -> set[int | None]:
    return set() if found is None else {found[0], *found[1]}
