"""What writers may ask for, drawn at random, mostly sensible: each request with what the model says of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from chronolake_metastore.domain import (
    cleans,
    deletions,
    instants,
    leases,
    restores,
    rollbacks,
    savepoints,
    schemas,
    staging,
    tables,
    transactions,
)
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.properties import YIELDS_PROPERTY
from chronolake_model import (
    cleans as wire_cleans,
    instants as wire,
    schemas as wire_schemas,
    tables as wire_tables,
)
from chronolake_model.file_names import (
    FileKind,
    base_file_name,
    bucket_file_id,
    bucket_of,
    generation_of,
    parse_file_name,
)
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.markers import DeletedFile, ReportDeletions
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.times import Micros, Tick, format_time, parse_time
from chronolake_model.vocabulary import Action, State, TableType, Touch, Yields
from tests.model_of_schemas import CHANGES, Column, Columns
from tests.store import model_of_cleans
from tests.store.model import (
    BEGUN,
    KEEPS_PLAN,
    SECOND,
    SERVICES,
    WRITES,
    Group,
    Instant,
    Refusals,
    Timeline,
    Touched,
)
from tests.store.model_of_cleans import File

_Any = TypeVar("_Any")

BUCKETS: Final = 2
WRITERS: Final = ("one", "two", "three")
LEASE_SECONDS: Final = 60
VERBS: Final = (
    *["begin"] * 10,
    *["complete"] * 14,
    *["stage"] * 5,
    *["inflight", "inflight", "return", "heartbeat", "roll back", "roll back"],
    *["savepoint", "savepoint", "release", "restore", "together", "together", "drop"],
    *["schema", "schema"],
    *["clean"] * 5,
    *["clean up"] * 8,
)
POLICIES: Final = (
    wire_cleans.CleanPolicy(retain_commits=1),
    wire_cleans.CleanPolicy(retain_commits=3),
    wire_cleans.CleanPolicy(retain_hours=1),
    wire_cleans.CleanPolicy(retain_versions=1),
    wire_cleans.CleanPolicy(retain_versions=2),
)
START: Final = 1_700_000_000_000_000
"""Earlier than any time that a table gives."""
_LATER: Final = 10**18
"""Later than any time that a table gives."""
_ANY_GROUP: Final = [(bucket, generation) for bucket in range(BUCKETS) for generation in range(3)]


class Kind(msgspec.Struct, frozen=True):
    """What a table is made as."""

    type: TableType
    tick: Tick = Tick.MILLISECOND
    yields: Yields = Yields.TABLE_SERVICE


TABLES: Final = {
    "shop.orders": Kind(TableType.COPY_ON_WRITE),
    "shop.clicks": Kind(TableType.MERGE_ON_READ),
    "shop.giving_way": Kind(TableType.MERGE_ON_READ, yields=Yields.WRITER),
    "shop.fast": Kind(TableType.COPY_ON_WRITE, tick=Tick.MICROSECOND),
}


@dataclass(frozen=True)
class Asked:
    """A command, the codes with which it may be refused as things stand, and what it changes if it is not."""

    command: Command
    refusals: Callable[[], Refusals]
    happened: Callable[[bytes], None]


class Asking:
    """Draws what is asked for at ``now``, and tells ``timelines`` what came of it."""

    def __init__(
        self, data: DataObject, timelines: dict[str, Timeline], active: Sequence[str], now: int
    ) -> None:
        self._data = data
        self._timelines = timelines
        self._active = active
        self._now = now

    def draw(self) -> list[Asked]:
        """One command, or a few that belong together."""
        name = self._one_of(self._active)
        if name not in self._timelines:
            return [made(self._timelines, name, self._now)]
        verb = self._one_of(self._sensible(name) if self._usually() else VERBS)
        if verb == "drop":
            return self._drop(name)
        if verb == "together":
            return [self._complete_together()]
        if verb == "schema":
            return [self._change_schema(name)]
        if verb == "begin" or not self._timelines[name].instants:
            return [self._begin(name)]
        return [self._change(verb, name)]

    def completion(self, name: str) -> tuple[int, list[Touched], Asked]:
        """An instant to complete, with what it touches."""
        time = self._instant(name, lambda one: one.state is State.INFLIGHT)
        touched = self._touched(name, self._timelines[name].instants[time])
        staged = self._timelines[name].staged.get(time)
        if not staged or not self._usually():
            return time, touched, self._complete(name, time, touched)
        versions = [*staged] if self._usually() else self._some([*staged, 1], 1)
        replaced = [(how, group) for how, group in touched if how is Touch.REPLACED]
        touched = [*(one for version in versions for one in staged.get(version, [])), *replaced]
        return time, touched, self._complete_staged(name, time, versions, touched)

    def _sensible(self, name: str) -> list[str]:
        """The verbs for which there is an instant."""
        known = self._timelines[name].instants.values()
        states = {one.state for one in known if one.action not in (Action.SAVEPOINT, Action.RESTORE)}
        senseless = set() if len(known) > 5 else {"drop"}
        if State.INFLIGHT not in states:
            senseless |= {"complete", "stage", "return", "together"}
        if State.REQUESTED not in states:
            senseless |= {"inflight"}
        if not states & {State.REQUESTED, State.INFLIGHT}:
            senseless |= {"heartbeat", "roll back"}
        if not any(one.is_completed_write for one in known):
            senseless |= {"savepoint", "clean", "clean up"}
        if not any(one.is_savepoint for one in known):
            senseless |= {"release", "restore"}
        return [verb for verb in VERBS if verb not in senseless]

    def _change(self, verb: str, name: str) -> Asked:
        changes: dict[str, Callable[[str], Asked]] = {
            "complete": lambda name: self.completion(name)[2],
            "stage": self._stage,
            "inflight": self._go_inflight,
            "return": self._return,
            "heartbeat": self._renew,
            "roll back": self._roll_back,
            "savepoint": self._save,
            "release": self._release,
            "restore": self._restore,
            "clean": self._clean,
            "clean up": self._clean_up,
        }
        return changes[verb](name)

    # ------------------------------------------------------------------------------ begin

    def _clean(self, name: str) -> Asked:
        """The next step of a clean."""
        known = self._timelines[name].instants.values()
        begun = [one.time for one in known if one.state is State.INFLIGHT and one.action is Action.CLEAN]
        return self._complete(name, self._one_of(begun), []) if begun else self._begin(name, Action.CLEAN)

    def _clean_up(self, name: str) -> Asked:
        """The next step of a clean that the server plans."""
        pending = self._timelines[name].pending_clean()
        if pending is None or pending.state is State.REQUESTED or not self._usually():
            return self._plan_clean(name)
        return self._complete(name, pending.time, []) if pending.has_reported else self._report(name, pending)

    def _plan_clean(self, name: str) -> Asked:
        policy = self._one_of(POLICIES)
        request = wire_cleans.PlanClean(
            **msgspec.structs.asdict(policy),
            writer=self._one_of(WRITERS),
            lease_seconds=LEASE_SECONDS,
            execute=self._usually(),
        )

        def happened(body: bytes) -> None:
            timeline, clean = (
                self._timelines[name],
                msgspec.json.decode(body, type=wire_cleans.PlannedClean).clean,
            )
            pending = timeline.pending_clean()
            if pending is not None:
                assert clean is not None
                assert parse_time(clean.requested_time) == pending.time, "there is one at a time"
                if request.execute:
                    timeline.resumed_clean(pending.time, request.writer, LEASE_SECONDS, self._now)
                return
            timeline.forget_readers(self._now)
            left = model_of_cleans.deletable(timeline, policy, self._now)
            if clean is None:
                assert left == {}
                return
            assert clean.plan is not None
            # The answer has the first files of a long plan, and how many there are.
            assert {_file_at(path) for path in clean.plan.files_to_delete} <= left.keys()
            assert clean.plan.files_to_delete_count == len(left)
            assert clean.plan.cleaned_before is not None
            assert parse_time(clean.plan.cleaned_before) == max(left.values())
            begun = self._at_once(name, Action.CLEAN, parse_time(clean.requested_time), None, request.writer)
            changes: dict[str, object] = (
                {} if request.execute else {"state": State.REQUESTED, "lease_end": None}
            )
            timeline.planned_clean(
                replace(
                    begun,
                    files_to_delete=frozenset(left),
                    schema_version=timeline.writes_with(Action.CLEAN),
                    **changes,  # type: ignore[arg-type]
                ),
                left,
            )

        return self._asked(
            name,
            None,
            cleans.PlanClean(name, request),
            lambda timeline: timeline.may_plan_clean(request.writer, request.execute, self._now),
            happened,
        )

    def _report(self, name: str, clean: Instant) -> Asked:
        writer, tick = self._writer_of(name, clean.time), TABLES[name].tick
        files = [
            DeletedFile("", _stat(how, group, format_time(Micros(time), tick)).file_name)
            for time, how, group in sorted(clean.files_to_delete)
        ]
        return self._asked(
            name,
            clean.time,
            deletions.ReportDeletions(name, Micros(clean.time), ReportDeletions(files, writer)),
            lambda timeline: timeline.may_report(clean.time, writer),
            lambda _: self._timelines[name].has_reported(clean.time),
        )

    def _begin(self, name: str, action: Action | None = None) -> Asked:
        timeline = self._timelines[name]
        action = action or self._one_of(_sensible_actions(timeline) if self._usually() else list(Action))
        plan = self._plan(timeline, action)
        request = wire.BeginInstant(
            writer=self._one_of(WRITERS),
            action=action,
            lease_seconds=self._one_of((LEASE_SECONDS, 1)),
            inflight=self._one_of((True, True, False)),
            plan=None if plan is None else wire.Plan([group_name(group) for group in plan]),
            count=None if self._usually() else self._data.draw(st.integers(1, 3)),
        )

        def happened(body: bytes) -> None:
            if request.count is None:
                begun = [msgspec.json.decode(body, type=wire.Instant)]
            else:
                begun = msgspec.json.decode(body, type=wire.InstantPage).instants
            assert len(begun) == (request.count or 1)
            for document in begun:
                self._begun(name, request, document, plan or [])

        return self._asked(
            name,
            None,
            instants.BeginInstant(name, request),
            lambda timeline: timeline.may_begin(action, plan, request.count),
            happened,
        )

    def _begun(
        self, name: str, request: wire.BeginInstant, document: wire.Instant, plan: Sequence[Group]
    ) -> None:
        waits = document.state is State.REQUESTED and request.action in KEEPS_PLAN
        self._timelines[name].begun(
            Instant(
                time=parse_time(document.requested_time),
                action=request.action,
                state=State.INFLIGHT if request.inflight else State.REQUESTED,
                writer=request.writer,
                lease_seconds=request.lease_seconds,
                lease_end=None if waits else self._lease_end(request.lease_seconds),
                plan=tuple(plan),
                schema_version=self._timelines[name].writes_with(request.action),
            )
        )

    def _plan(self, timeline: Timeline, action: Action) -> list[Group] | None:
        seen, planned = sorted(timeline.seen()), {group for group, _ in timeline.planned()}
        free = [group for group in seen if group not in planned]
        if action in SERVICES and self._usually() and (free or seen):
            return self._some(free or seen, 1)
        if action in SERVICES or not self._usually():
            return self._some(_ANY_GROUP, 0)
        return None if self._data.draw(st.booleans()) else self._some(_current(timeline), 1)

    # ------------------------------------------------------------------------------ inflight, lease

    def _go_inflight(self, name: str) -> Asked:
        time = self._instant(name, lambda one: one.state is State.REQUESTED)
        writer = self._one_of((None, *WRITERS))
        return self._asked(
            name,
            time,
            instants.TakeInflight(name, Micros(time), wire.TakeInflight(writer)),
            lambda timeline: timeline.may_go_inflight(time, writer, self._now),
            lambda _: self._timelines[name].went_inflight(time, writer, self._now),
        )

    def _return(self, name: str) -> Asked:
        time = self._instant(name, lambda one: one.state is State.INFLIGHT and one.action in KEEPS_PLAN)
        writer = self._writer_of(name, time)
        return self._asked(
            name,
            time,
            instants.ReturnToRequested(name, Micros(time), wire.ReturnToRequested(writer, "tired")),
            lambda timeline: timeline.may_return(time, writer, self._now),
            lambda _: self._timelines[name].returned(time),
        )

    def _renew(self, name: str) -> Asked:
        time = self._instant(name, lambda one: one.is_pending)
        writer = self._one_of((None, *WRITERS))
        seconds = self._one_of((None, 1, LEASE_SECONDS))
        return self._asked(
            name,
            time,
            leases.RenewLease(name, Micros(time), wire.Heartbeat(seconds, writer)),
            lambda timeline: timeline.may_renew(time, writer),
            lambda _: self._timelines[name].renewed(time, seconds, self._now),
        )

    # ------------------------------------------------------------------------------ complete

    def _complete(self, name: str, time: int, touched: Sequence[Touched]) -> Asked:
        command = self._completion(name, time, touched)
        writer, cleaned_before = command.request.writer, _cleaned_before(command)

        def happened(body: bytes) -> None:
            document = msgspec.json.decode(body, type=wire.Instant)
            self._completed(name, time, touched, document, cleaned_before)

        return self._asked(
            name,
            time,
            command,
            lambda timeline: timeline.may_complete(time, touched, writer, self._now, cleaned_before),
            happened,
        )

    def _stage(self, name: str) -> Asked:
        time = self._instant(name, lambda one: one.state is State.INFLIGHT)
        drawn = self._touched(name, self._timelines[name].instants[time])
        written = [(how, group) for how, group in drawn if how is not Touch.REPLACED]
        written = written or [(Touch.BASE, _current(self._timelines[name])[0])]
        writer = None if self._usually() else self._writer_of(name, time)
        digits = format_time(Micros(time), TABLES[name].tick)
        request = wire.StageWriteStats([_stat(how, group, digits) for how, group in written], writer)

        def happened(body: bytes) -> None:
            document = msgspec.json.decode(body, type=wire.StagedWriteStats)
            assert parse_time(document.requested_time) == time
            assert document.summary.files == len(written)
            self._timelines[name].has_staged(time, document.version, written)

        return self._asked(
            name,
            time,
            staging.StageWriteStats(name, Micros(time), request),
            lambda timeline: timeline.may_stage(time, written, writer, self._now),
            happened,
        )

    def _complete_staged(
        self, name: str, time: int, versions: Sequence[int], touched: Sequence[Touched]
    ) -> Asked:
        writer = None if self._usually() else self._writer_of(name, time)
        replaced = [group_name(group) for how, group in touched if how is Touch.REPLACED]
        request = wire.CompleteInstant(replaced_file_groups=replaced, writer=writer, staged=[*versions])
        return self._asked(
            name,
            time,
            instants.CompleteInstant(name, Micros(time), request),
            lambda timeline: timeline.may_complete_staged(time, versions, touched, writer, self._now),
            lambda body: self._completed(name, time, touched, msgspec.json.decode(body, type=wire.Instant)),
        )

    def _complete_together(self) -> Asked:
        names = [name for name in self._active if name in self._timelines and self._timelines[name].instants]
        members: list[tuple[str, int, list[Touched]]] = []
        for name in self._data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)) if names else []:
            time, touched, _ = self.completion(name)
            # What was staged twice would be a file that is reported twice.
            members.append((name, time, list(dict.fromkeys(touched))))
        if not members:
            return self._begin(next(name for name in self._active if name in self._timelines))
        commands = [self._completion(*member) for member in members]

        def refusals() -> Refusals:
            if len({(name, time) for name, time, _ in members}) < len(members):
                return {Code.INVALID_PLAN: None}
            trial = copy.deepcopy(self._timelines)
            for at, ((name, time, touched), command) in enumerate(zip(members, commands, strict=True)):
                if missing := _missing(trial, name, time):
                    return missing
                writer, cleaned_before = command.request.writer, _cleaned_before(command)
                if refused := trial[name].may_complete(time, touched, writer, self._now, cleaned_before):
                    return refused
                trial[name].has_completed(time, _LATER + at, touched)
            return {}

        def happened(body: bytes) -> None:
            done = msgspec.json.decode(body, type=wire.CompletedTogether).instants
            for (name, time, touched), document, command in zip(members, done, commands, strict=True):
                self._completed(name, time, touched, document, _cleaned_before(command))

        return Asked(transactions.CompleteTogether(commands), refusals, happened)

    def _completion(self, name: str, time: int, touched: Sequence[Touched]) -> instants.CompleteInstant:
        digits = format_time(Micros(time), TABLES[name].tick)
        stats = [_stat(how, group, digits) for how, group in touched if how is not Touch.REPLACED]
        replaced = [group_name(group) for how, group in touched if how is Touch.REPLACED]
        writer = None if self._usually() else self._writer_of(name, time)
        request = wire.CompleteInstant(
            stats,
            replaced_file_groups=replaced,
            writer=writer,
            cleaned_before=self._cleans_before(name, time),
        )
        return instants.CompleteInstant(name, Micros(time), request)

    def _cleans_before(self, name: str, time: int) -> str | None:
        timeline = self._timelines[name]
        cleans = timeline.instants[time].action is Action.CLEAN
        if cleans is not self._usually() or not (cleans or self._usually()):
            return None
        completions = timeline.completions()
        # Before all, and a little behind one of them: what has not completed by then is later than allowed.
        known = [START, *completions, *(one + 1_000 for one in completions)]
        return format_time(Micros(self._one_of(known)), TABLES[name].tick)

    def _completed(
        self,
        name: str,
        time: int,
        touched: Sequence[Touched],
        document: wire.Instant,
        cleaned_before: int | None = None,
    ) -> None:
        assert parse_time(document.requested_time) == time
        assert document.completion_time is not None
        at = parse_time(document.completion_time)
        self._timelines[name].has_completed(time, at, touched, cleaned_before)

    def _touched(self, name: str, instant: Instant) -> list[Touched]:
        if not self._usually():
            touched = st.tuples(st.sampled_from([*Touch]), st.sampled_from(_ANY_GROUP))
            return self._data.draw(st.lists(touched, unique=True, max_size=3))
        timeline = self._timelines[name]
        current, live = _current(timeline), sorted(timeline.seen())
        kinds = (Touch.BASE, Touch.LOG) if timeline.type is TableType.MERGE_ON_READ else (Touch.BASE,)
        match instant.action:
            case Action.COMMIT | Action.DELTACOMMIT:
                written = [(how, group) for group in current for how in kinds]
                return self._some(written, 1)
            case Action.REPLACECOMMIT:
                going = self._some(live, 1)
                return _replaced(going, self._some([_next(group) for group in going], 0))
            case Action.CLUSTERING:
                going = [*instant.plan]
                return _replaced(going, self._some([_next(group) for group in going], 0))
            case Action.COMPACTION | Action.LOGCOMPACTION:
                how = Touch.BASE if instant.action is Action.COMPACTION else Touch.LOG
                return [(how, group) for group in self._some([*instant.plan], 1)]
            case _:
                return []

    # ------------------------------------------------------------------------------ undo

    def _roll_back(self, name: str) -> Asked:
        time = self._instant(name, lambda one: one.is_pending)
        digits = format_time(Micros(time), TABLES[name].tick)
        written = [_stat(how, (0, 0), digits).file_name for how in (Touch.BASE, Touch.LOG)]
        request = wire.RollbackInstant(
            writer=self._writer_of(name, time),
            reason="given up",
            files_to_delete=[] if self._usually() else written,
            lease_seconds=LEASE_SECONDS,
        )

        def happened(body: bytes) -> None:
            timeline, document = self._timelines[name], msgspec.json.decode(body, type=wire.Instant)
            before = timeline.instants[time]
            assert document.state is State.ROLLED_BACK
            by = None if document.rolled_back_by is None else parse_time(document.rolled_back_by)
            if before.state is State.ROLLED_BACK:
                assert by == before.undone_by, "there is one rollback"
                if by is not None:
                    timeline.resumed(by, request.writer, request.lease_seconds, self._now)
                return
            assert by is not None
            rollback = self._at_once(name, Action.ROLLBACK, by, time, request.writer)
            if request.files_to_delete:
                timeline.begun(rollback)
            else:
                timeline.settled(rollback, by + 2 * TABLES[name].tick.micros)
            timeline.rolled_back(time, by)

        return self._asked(
            name,
            time,
            rollbacks.RollbackInstant(name, Micros(time), request),
            lambda timeline: timeline.may_roll_back(time, request.writer, self._now),
            happened,
        )

    def _save(self, name: str) -> Asked:
        pinned = None
        if self._data.draw(st.booleans()):
            pinned = self._instant(name, lambda one: one.is_completed_write)

        def happened(body: bytes) -> None:
            timeline, document = self._timelines[name], msgspec.json.decode(body, type=wire.Instant)
            target = timeline.latest_write() if pinned is None else pinned
            assert document.target is not None
            assert parse_time(document.target) == target
            time, existing = parse_time(document.requested_time), timeline.savepoint_of(target)
            if existing is not None:
                assert time == existing, "there is one savepoint of an instant"
                return
            assert document.completion_time is not None
            savepoint = self._at_once(name, Action.SAVEPOINT, time, target, "operator")
            timeline.settled(savepoint, parse_time(document.completion_time))

        command = savepoints.CreateSavepoint(
            name, None if pinned is None else Micros(pinned), wire.CreateSavepoint("operator")
        )
        return self._asked(name, pinned, command, lambda timeline: timeline.may_save(pinned), happened)

    def _release(self, name: str) -> Asked:
        time = self._instant(name, lambda one: one.is_savepoint)
        return self._asked(
            name,
            time,
            savepoints.ReleaseSavepoint(name, Micros(time), wire.ReleaseSavepoint("operator")),
            lambda timeline: {} if timeline.instants[time].is_savepoint else {Code.ILLEGAL_TRANSITION: None},
            lambda _: self._timelines[name].rolled_back(time, None),
        )

    def _restore(self, name: str) -> Asked:
        savepoint = self._instant(name, lambda one: one.is_savepoint)
        digits = format_time(Micros(savepoint), TABLES[name].tick)

        def happened(body: bytes) -> None:
            timeline, document = self._timelines[name], msgspec.json.decode(body, type=wire.Instant)
            time, undone = parse_time(document.requested_time), timeline.undone_by_restore(savepoint)
            assert document.plan is not None
            assert [parse_time(each) for each in document.plan.instants] == undone
            assert document.completion_time is not None
            restore = self._at_once(name, Action.RESTORE, time, savepoint, "operator")
            at = parse_time(document.completion_time)
            timeline.settled(restore, at)
            for each in undone:
                timeline.rolled_back(each, time, at)

        command = restores.RestoreTable(name, Micros(savepoint), wire.RestoreTable("operator", digits))
        return self._asked(name, savepoint, command, lambda timeline: timeline.may_restore(savepoint), happened)

    def _drop(self, name: str) -> list[Asked]:
        """Drop a table and make it again; who comes with an instant of the old one meets nothing."""
        dropped = Asked(
            tables.DropTable(name),
            lambda: _missing(self._timelines, name, None),
            lambda _: self._timelines.__delitem__(name),
        )
        late = [self._renew(name)] if self._timelines[name].instants else []
        between = self._data.draw(st.booleans())
        again = made(self._timelines, name)
        return [dropped, *late, again] if between else [dropped, again, *late]

    # ------------------------------------------------------------------------------ schema

    def _change_schema(self, name: str) -> Asked:
        changes = self._data.draw(CHANGES)
        expected = None if self._usually() else self._data.draw(st.integers(1, 3))

        def refusals(timeline: Timeline) -> Refusals:
            if expected not in (None, timeline.schema.version):
                return {Code.SCHEMA_CHANGED: None}
            return {} if timeline.schema.after(changes) else {Code.INCOMPATIBLE_SCHEMA: None}

        def happened(body: bytes) -> None:
            timeline, document = self._timelines[name], msgspec.json.decode(body, type=wire_schemas.TableSchema)
            changed = timeline.schema.after(changes)
            assert changed is not None
            assert document.schema_version == changed.version
            timeline.schema = changed

        request = wire_schemas.ChangeSchema(changes, expected)
        return self._asked(name, None, schemas.ChangeSchema(name, request), refusals, happened)

    # ------------------------------------------------------------------------------ choices

    def _asked(
        self,
        name: str,
        time: int | None,
        command: Command,
        refusals: Callable[[Timeline], Refusals],
        happened: Callable[[bytes], None],
    ) -> Asked:
        """A request for a table, and an instant, that may be gone when its turn comes."""
        return Asked(
            command,
            lambda: _missing(self._timelines, name, time) or refusals(self._timelines[name]),
            happened,
        )

    def _at_once(self, name: str, action: Action, time: int, target: int | None, writer: str) -> Instant:
        return Instant(
            time=time,
            action=action,
            state=State.INFLIGHT,
            writer=writer,
            lease_seconds=LEASE_SECONDS,
            lease_end=self._lease_end(LEASE_SECONDS),
            target=target,
        )

    def _lease_end(self, seconds: int) -> int:
        return self._now + seconds * SECOND

    def _instant(self, name: str, is_fit: Callable[[Instant], bool]) -> int:
        known = self._timelines[name].instants
        fit = [time for time, one in known.items() if is_fit(one)]
        return self._one_of(fit if fit and self._usually() else [*known])

    def _writer_of(self, name: str, time: int) -> str:
        return self._timelines[name].instants[time].writer if self._usually() else self._one_of(WRITERS)

    def _usually(self) -> bool:
        return self._data.draw(st.integers(0, 7)) < 7

    def _one_of(self, choices: Sequence[_Any]) -> _Any:
        return self._data.draw(st.sampled_from(choices))

    def _some(self, choices: Sequence[_Any], at_least: int) -> list[_Any]:
        if not choices:
            return []
        return self._data.draw(st.lists(st.sampled_from(choices), unique=True, min_size=at_least))


def made(timelines: dict[str, Timeline], name: str, now: int = 0) -> Asked:
    """The request for a table. It takes over the folder of the dropped table of its name, if there was one."""
    kind = TABLES[name]
    request = wire_tables.CreateTable(
        name=name,
        base_path=f"/lake/{name}",
        schema=[
            wire_tables.NewField("id", "bigint"),
            wire_tables.NewField("name", "tinyint", nullable=False),
        ],
        record_key_fields=["id"],
        type=kind.type,
        index=wire_tables.NewBucketIndex(buckets=BUCKETS),
        tick=kind.tick,
        properties={YIELDS_PROPERTY: kind.yields},
        reuse_base_path=True,
    )

    def happened(_: bytes) -> None:
        columns = (Column(1, "id", "bigint", nullable=True), Column(2, "name", "tinyint", nullable=False))
        timelines[name] = Timeline(
            kind.type, kind.yields is Yields.WRITER, Columns(columns, frozenset({"id"}), ids_given=2), now=now
        )

    return Asked(
        tables.CreateTable(request), lambda: {Code.TABLE_EXISTS: None} if name in timelines else {}, happened
    )


def group_name(group: Group) -> FileGroupName:
    """The name of a file group."""
    return FileGroupName("", bucket_file_id(*group))


def _cleaned_before(command: instants.CompleteInstant) -> int | None:
    before = command.request.cleaned_before
    return None if before is None else parse_time(before)


def _missing(timelines: dict[str, Timeline], name: str, time: int | None) -> Refusals:
    if name not in timelines:
        return {Code.TABLE_NOT_FOUND: None}
    if time is not None and time not in timelines[name].instants:
        return {Code.INSTANT_NOT_FOUND: None}
    return {}


def _sensible_actions(timeline: Timeline) -> list[Action]:
    """Mostly writes; table services when there are file groups for which nobody plans."""
    free = timeline.seen().keys() - {group for group, _ in timeline.planned()}
    possible = [action for action in BEGUN[timeline.type] if free or action not in SERVICES]
    return [action for action in possible if action in WRITES] * 3 + possible


def _current(timeline: Timeline) -> list[Group]:
    return [timeline.current(bucket) for bucket in range(BUCKETS)]


def _next(group: Group) -> Group:
    return group[0], group[1] + 1


def _replaced(going: Sequence[Group], written: Sequence[Group]) -> list[Touched]:
    return [(Touch.REPLACED, group) for group in going] + [(Touch.BASE, group) for group in written]


def _file_at(path: str) -> File:
    """The file of the model that has this path."""
    name = parse_file_name(path)
    how = Touch.LOG if name.kind is FileKind.LOG else Touch.BASE
    return parse_time(name.requested_time), how, (bucket_of(name.file_id), generation_of(name.file_id))


def _stat(how: Touch, group: Group, digits: str) -> WriteStat:
    file_id = bucket_file_id(*group)
    base, log = base_file_name(file_id, "0-0-0", digits), f".{file_id}_{digits}.log.1_0-0-0"
    return WriteStat("", file_id, log if how is Touch.LOG else base, 100, 10)
