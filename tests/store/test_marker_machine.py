"""Promise 5 as a state machine: no file that was ever marked is forgotten, whatever its instant comes to.

Instants of one table mark, complete, report deletions, are rolled back and restored; transactions die at any
statement and are sent again. What the server says is held against a model of files and states.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from hypothesis.strategies import DataObject
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.commands import group, markers as creating
from chronolake_metastore.commands.answers import Answer
from chronolake_metastore.commands.group import Request, Result
from chronolake_metastore.domain import (
    commands,
    deletions,
    instants,
    namespaces,
    restores,
    rollbacks,
    savepoints,
    staging,
    sweeps,
    tables,
)
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.markers import CreateMarkers
from chronolake_metastore.proof import rebuilding, verification
from chronolake_metastore.queries import markers as queries
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.engine import Database
from chronolake_model import (
    instants as wire,
    markers as wire_markers,
    sweeps as wire_sweeps,
    tables as wire_tables,
)
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import WriteStat
from chronolake_model.markers import DeletedFile, Marker, MarkerKind, MarkersType
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.times import Micros, Tick, format_time, parse_time
from chronolake_model.vocabulary import State
from tests.store import machines
from tests.store.dying import DyingSession

STEPS = 10
TABLE = "shop.orders"
BUCKETS = 2
ATTEMPTS = 3
WRITERS = ("one", "two")
SECOND_US = 1_000_000
STATEMENTS = 30
"""Some more than a transaction has."""

_Answered = TypeVar("_Answered")
File = tuple[int, int]
"""A bucket, and the attempt that wrote its file."""
ANY_FILE = [(bucket, attempt) for bucket in range(BUCKETS) for attempt in range(ATTEMPTS)]
FILES = st.lists(st.sampled_from(ANY_FILE), unique=True, min_size=1, max_size=4)


@dataclass
class Instant:
    """A write, or the rollback of ``target``; ``ever_marked`` are all files that it might have in storage."""

    time: int
    state: State
    writer: str
    is_direct: bool = False
    target: int | None = None
    undone_by: int | None = None
    completed: int | None = None
    marked: set[File] = field(default_factory=set)
    ever_marked: set[File] = field(default_factory=set)
    deleted: set[File] = field(default_factory=set)
    is_unswept: bool = False
    """Whether its deletions are to be looked at once more."""
    published: set[File] = field(default_factory=set)

    @property
    def is_pending(self) -> bool:
        return self.state in (State.REQUESTED, State.INFLIGHT)


class Markers(RuleBasedStateMachine):
    """The markers of one table, and whatever becomes of their instants."""

    new_database: Callable[[], str]

    def __init__(self) -> None:
        super().__init__()
        dsn = self.new_database()
        self.admin = psycopg.connect(dsn, autocommit=True)
        self.runner = asyncio.Runner()
        self.settings = Settings(dsn=dsn)
        self.database = Database(self.settings)
        self.session = DyingSession(self.database, self.sever)
        self.numbers = itertools.count()
        self.instants: dict[int, Instant] = {}
        self.savepoints: dict[int, int] = {}

    @override
    def teardown(self) -> None:
        self.runner.run(self.session.close())
        self.runner.run(self.database.close())
        self.runner.close()
        self.admin.close()

    # ------------------------------------------------------------------------------ rules

    @initialize()
    def make_a_table(self) -> None:
        self.do(namespaces.CreateNamespace(wire_tables.CreateNamespace("shop")))
        request = wire_tables.CreateTable(
            name=TABLE,
            base_path="/lake/orders",
            schema=[wire_tables.NewField("id", "bigint")],
            record_key_fields=["id"],
            index=wire_tables.NewBucketIndex(buckets=BUCKETS),
        )
        self.do(tables.CreateTable(request))
        self.begun("one", MarkersType.SERVER)

    @rule(data=st.data())
    def go_on(self, data: DataObject) -> None:
        """Some requests one after the other, mostly such as there is an instant for."""
        for _ in range(data.draw(st.integers(8, 20))):
            data.draw(st.sampled_from(self.sensible()))(data)
            self.no_file_that_was_ever_marked_is_forgotten()

    @rule()
    def verify_and_rebuild(self) -> None:
        assert self.runner.run(verification.verify(self.settings)).findings == []
        rebuilt = self.runner.run(rebuilding.rebuild(self.settings))
        assert set(rebuilt.repaired.values()) == {0}

    # ------------------------------------------------------------------------------ requests

    def begin(self, data: DataObject) -> None:
        markers = MarkersType.SERVER if self.usually(data) else MarkersType.DIRECT
        self.begun(data.draw(st.sampled_from(WRITERS)), markers)

    def mark(self, data: DataObject) -> None:
        files, die_at = data.draw(FILES), data.draw(st.sampled_from([None, None, None, 0, 1]))
        one = self.drawn(data, lambda one: one.target is None and one.is_pending)
        writer = self.writer(data, one)
        marks = [Marker("", self.name(one.time, file), MarkerKind.CREATE) for file in files]
        asked = CreateMarkers(TABLE, Micros(one.time), wire_markers.CreateMarkers(marks, writer))
        refusals = _not_from(one, {State.REQUESTED, State.INFLIGHT}) or _unless_its(one, writer)
        if one.target is not None and one.is_pending:
            refusals = {Code.ILLEGAL_TRANSITION}

        if die_at is not None:
            self.session.die_at(die_at)
        [result] = self.insist(lambda: creating.create(self.session, [asked]))

        if isinstance(result, errors.TimelineError):
            assert result.code in refusals
            return
        assert not refusals
        if die_at is None:
            assert result == [file not in one.marked for file in files]
        one.marked |= set(files)
        one.ever_marked |= set(files)

    def complete(self, data: DataObject) -> None:
        die_at, is_staged = self.death(data), data.draw(st.booleans())
        one = self.drawn(data, lambda one: one.state is State.INFLIGHT)
        writer = self.writer(data, one)
        files = [] if one.target is not None else self.attempts(data, one)
        stats = [WriteStat("", bucket_file_id(file[0]), self.name(one.time, file), 100, 10) for file in files]
        staged = self.staged(one, stats) if is_staged and stats and one.state is State.INFLIGHT else None
        request = wire.CompleteInstant(
            [] if staged else stats, writer=writer, staged=[] if staged is None else [staged]
        )
        refusals = self.may_complete(one, set(files), writer)

        body = self.do(instants.CompleteInstant(TABLE, Micros(one.time), request), refusals, die_at)

        if body is not None:
            one.state, one.completed, one.published = State.COMPLETED, self.completion(body), set(files)
            one.is_unswept |= one.target is not None and one.is_direct

    def report_deletions(self, data: DataObject) -> None:
        drawn, die_at = data.draw(FILES), self.death(data)
        one = self.drawn(data, lambda one: bool(self.marks(one).marked))
        writer, of = self.writer(data, one), self.marks(one)
        files = sorted(of.marked - of.published) if of.marked and self.usually(data) else drawn
        files = files or drawn
        named = [DeletedFile("", self.name(of.time, file)) for file in files]
        refusals = _not_from(one, {State.REQUESTED, State.INFLIGHT, State.COMPLETED})
        if one.is_pending:
            refusals |= {Code.ILLEGAL_TRANSITION} if one.state is State.REQUESTED else _unless_its(one, writer)
        known = of.marked | of.deleted
        if (not of.is_direct and not set(files) <= known) or (one.target is None and of.published & set(files)):
            refusals |= {Code.INVALID_DELETION}

        command = deletions.ReportDeletions(
            TABLE, Micros(one.time), wire_markers.ReportDeletions(named, writer)
        )
        if self.do(command, refusals, die_at) is not None:
            of.marked -= set(files)
            of.deleted |= set(files)
            one.is_unswept = True

    def sweep(self, data: DataObject) -> None:
        """Look once more for what was deleted; found is nothing, or what there may be, or what cannot be."""
        found, die_at = data.draw(FILES) if data.draw(st.booleans()) else [], self.death(data)
        one = self.drawn(data, lambda one: one.is_unswept and not one.is_pending)
        of = self.marks(one)
        if found and of.deleted - of.published and self.usually(data):
            found = sorted(of.deleted - of.published)
        refusals: set[Code] = {Code.ILLEGAL_TRANSITION} if one.is_pending else set()
        is_unknown = not of.is_direct and not set(found) <= of.marked | of.deleted
        if is_unknown or of.published & set(found):
            refusals |= {Code.INVALID_DELETION}
        seen = one.is_unswept and self.usually(data)
        since = self.unswept()[one.time] if seen else one.time
        named = [DeletedFile("", self.name(of.time, file)) for file in found]
        request = wire_sweeps.RecordSweep(self.digits(since), named)

        if self.do(sweeps.RecordSweep(TABLE, Micros(one.time), request), refusals, die_at) is None:
            return
        of.marked -= set(found)
        of.deleted |= set(found)
        one.is_unswept = bool(found) or (one.is_unswept and not seen)

    def roll_back(self, data: DataObject) -> None:
        execute, die_at = data.draw(st.booleans()), self.death(data)
        one = self.drawn(data, lambda one: one.target is None and one.is_pending)
        writer = self.writer(data, one) or one.writer
        request = wire.RollbackInstant(writer, "tired", execute=execute)
        refusals: set[Code] = set()
        if one.state is State.COMPLETED or (one.target is not None and one.is_pending):
            refusals = {Code.ILLEGAL_TRANSITION}
        elif one.is_pending:
            refusals = _unless_its(one, writer)

        command = rollbacks.RollbackInstant(TABLE, Micros(one.time), request)
        body = self.do(command, refusals, die_at)

        if body is None:
            return
        if one.state is State.ROLLED_BACK:
            self.resumed(one.undone_by, request)
            return
        document = msgspec.json.decode(body, type=wire.Instant)
        assert document.rolled_back_by is not None
        self.undone(one, parse_time(document.rolled_back_by), writer, execute=execute)

    def take_a_rollback(self, data: DataObject) -> None:
        one = self.drawn(data, lambda one: one.state is State.REQUESTED)
        writer = data.draw(st.sampled_from(WRITERS))
        refusals = _not_from(one, {State.REQUESTED})

        if self.do(instants.TakeInflight(TABLE, Micros(one.time), wire.TakeInflight(writer)), refusals):
            one.state, one.writer = State.INFLIGHT, writer

    def delete_markers(self, data: DataObject) -> None:
        one = self.drawn(data, lambda one: bool(one.marked) and not one.is_pending)
        rollback = self.instants.get(one.undone_by or 0)
        needed = rollback is not None and rollback.is_pending
        try:
            deleted = self.insist(lambda: queries.delete(self.database, TABLE, Micros(one.time)))
        except errors.IllegalTransition:
            assert one.is_pending or needed
            return
        assert not one.is_pending
        assert not needed
        assert deleted.deleted == len(one.marked)
        one.marked = set()

    def save(self) -> None:
        done = [one for one in self.instants.values() if one.target is None and one.state is State.COMPLETED]
        target = max(done, key=lambda one: one.completed or 0)
        body = self.do(savepoints.CreateSavepoint(TABLE, None, wire.CreateSavepoint("operator")))
        document = msgspec.json.decode(body or b"", type=wire.Instant)
        assert document.target is not None
        assert parse_time(document.target) == target.time
        self.savepoints[parse_time(document.requested_time)] = target.time

    def restore(self, data: DataObject) -> None:
        die_at = self.death(data)
        savepoint = data.draw(st.sampled_from(sorted(self.savepoints)))
        saved = self.instants[self.savepoints[savepoint]].completed
        assert saved is not None
        writes = [one for one in self.instants.values() if one.target is None]
        later = [one for one in writes if one.state is State.COMPLETED and (one.completed or 0) > saved]
        pinned = {one.time for one in later} & set(self.savepoints.values())
        digits = self.digits(savepoint)
        command = restores.RestoreTable(TABLE, Micros(savepoint), wire.RestoreTable("operator", digits))

        body = self.do(command, {Code.SAVEPOINTED} if pinned else set(), die_at)

        if body is None:
            return
        document = msgspec.json.decode(body, type=wire.Instant)
        assert document.plan is not None
        pending = [one for one in writes if one.is_pending]
        left = [one for one in pending if one.marked or one.is_direct]
        undone = [one for one in [*pending, *later] if one not in left]
        assert {parse_time(each) for each in document.plan.instants} == {one.time for one in undone}
        for one in undone:
            one.state, one.undone_by = State.ROLLED_BACK, parse_time(document.requested_time)
        for one in left:
            self.undone(one, self.rollback_of(one), "operator", execute=False)

    # ------------------------------------------------------------------------------ invariants

    @invariant()
    def no_file_that_was_ever_marked_is_forgotten(self) -> None:
        """It was published, or deleted, or is on the list of somebody who has still to deal with it."""
        kept = self.files("marker")
        deleted, published = self.files("deleted_file"), self.files("write_stat")
        for one in self.instants.values():
            ever = {self.name(one.time, file) for file in one.ever_marked}
            lost = ever - kept.get(one.time, set()) - deleted.get(one.time, set())
            assert lost <= published.get(one.time, set()), "nobody knows of it any more"
            waiting = (ever & kept.get(one.time, set())) - published.get(one.time, set())
            rollback = self.instants.get(one.undone_by or 0)
            assert not waiting or one.is_pending or (rollback is not None and rollback.is_pending)

    @invariant()
    def markers_and_deletions_are_as_in_the_model(self) -> None:
        marked = {one.time: {self.name(one.time, file) for file in one.marked} for one in self.writes()}
        deleted = {one.time: {self.name(one.time, file) for file in one.deleted} for one in self.writes()}
        assert self.files("marker") == {time: names for time, names in marked.items() if names}
        assert self.files("deleted_file") == {time: names for time, names in deleted.items() if names}

    @invariant()
    def what_is_to_be_swept_is_as_in_the_model(self) -> None:
        assert set(self.unswept()) == {one.time for one in self.instants.values() if one.is_unswept}

    @invariant()
    def what_is_published_was_marked_if_anything_was(self) -> None:
        for one in self.writes():
            if one.published and one.ever_marked:
                assert one.published <= one.ever_marked
                assert one.marked <= one.published

    @invariant()
    def every_instant_stands_as_in_the_model(self) -> None:
        rows = self.sql(
            "SELECT chronolake.micros(requested_time), state, writer, chronolake.micros(target),"
            " chronolake.micros(rolled_back_by) FROM chronolake.instant"
            " WHERE action NOT IN ('savepoint', 'restore')"
        )
        assert {row[0]: row[1:] for row in rows} == {
            one.time: (one.state, one.writer, one.target, one.undone_by) for one in self.instants.values()
        }

    # ------------------------------------------------------------------------------ the model

    def sensible(self) -> list[Callable[[DataObject], None]]:
        """The requests for which there is an instant, the more frequent ones more often."""
        writes, known = self.writes(), self.instants.values()
        pending = [one for one in writes if one.is_pending]
        found: list[Callable[[DataObject], None]] = [self.begin] * (4 if len(pending) < 4 else 1)
        if pending:
            found += [*[self.mark] * 4, self.roll_back, self.roll_back]
        if any(one.state is State.INFLIGHT for one in known):
            found += [self.complete] * 4
        if any(self.marks(one).marked and (one.is_pending or one.undone_by is None) for one in known):
            found += [self.report_deletions] * 4
        if any(one.state is State.REQUESTED for one in known):
            found += [self.take_a_rollback] * 2
        if any(one.is_unswept and not one.is_pending for one in known):
            found += [self.sweep] * 2
        if any(one.marked and not one.is_pending for one in known):
            found += [self.delete_markers]
        if any(one.state is State.COMPLETED for one in writes):
            found += [lambda _: self.save()]
        return [*found, self.restore] if self.savepoints else found

    def writes(self) -> list[Instant]:
        return [one for one in self.instants.values() if one.target is None]

    def marks(self, one: Instant) -> Instant:
        """The instant whose markers count: of a rollback that which it undoes."""
        return one if one.target is None else self.instants[one.target]

    def may_complete(self, one: Instant, files: set[File], writer: str | None) -> set[Code]:
        refusals = _not_from(one, {State.INFLIGHT})
        if refusals:
            return refusals
        refusals = _unless_its(one, writer)
        of = self.marks(one)
        if any(self.is_later_than(other, one, files) for other in self.writes()):
            refusals |= {Code.WRITE_CONFLICT}
        if of.marked - files:
            refusals |= {Code.UNRECONCILED_MARKERS}
        if one.target is None and (of.marked or of.deleted) and files - of.marked:
            refusals |= {Code.INVALID_WRITE_STAT}
        return refusals

    def is_later_than(self, other: Instant, one: Instant, files: set[File]) -> bool:
        """Whether another has completed, since this one was begun, a bucket that it writes too."""
        if other.state is not State.COMPLETED or (other.completed or 0) < one.time:
            return False
        return bool({bucket for bucket, _ in files} & {bucket for bucket, _ in other.published})

    def begun(self, writer: str, markers: MarkersType) -> None:
        request = wire.BeginInstant(writer, markers=markers)
        body = self.do(instants.BeginInstant(TABLE, request))
        begun = parse_time(msgspec.json.decode(body or b"", type=wire.Instant).requested_time)
        self.instants[begun] = Instant(begun, State.INFLIGHT, writer, markers is MarkersType.DIRECT)

    def undone(self, one: Instant, rollback: int, writer: str, *, execute: bool) -> None:
        one.state, one.undone_by = State.ROLLED_BACK, rollback
        waits = State.INFLIGHT if execute else State.REQUESTED
        state = waits if one.marked or one.is_direct else State.COMPLETED
        self.instants[rollback] = Instant(rollback, state, writer, one.is_direct, target=one.time)

    def resumed(self, rollback: int | None, request: wire.RollbackInstant) -> None:
        one = self.instants.get(rollback or 0)
        if one is not None and one.state is State.REQUESTED and request.execute:
            one.state, one.writer = State.INFLIGHT, request.writer

    # ------------------------------------------------------------------------------ how

    def drawn(self, data: DataObject, is_fit: Callable[[Instant], bool]) -> Instant:
        fit = [one for one in self.instants.values() if is_fit(one)]
        known = fit if fit and self.usually(data) else [*self.instants.values()]
        return self.instants[data.draw(st.sampled_from(sorted(one.time for one in known)))]

    def attempts(self, data: DataObject, one: Instant) -> list[File]:
        """One attempt a bucket; mostly of those that are marked, if any are."""
        known = sorted(one.marked) if one.marked and self.usually(data) else ANY_FILE
        chosen = {bucket: (bucket, attempt) for bucket, attempt in data.draw(st.permutations(known))}
        return sorted(chosen.values()) if self.usually(data) else sorted(chosen.values())[:1]

    def writer(self, data: DataObject, one: Instant) -> str | None:
        return data.draw(st.sampled_from([None, *WRITERS])) if not self.usually(data) else one.writer

    def death(self, data: DataObject) -> int | None:
        """The step at which the next transaction dies; mostly it does not."""
        return data.draw(st.integers(0, STATEMENTS)) if self.rarely(data) else None

    def rarely(self, data: DataObject) -> bool:
        return data.draw(st.integers(0, 3)) == 0

    def usually(self, data: DataObject) -> bool:
        return data.draw(st.integers(0, 7)) < 7

    def staged(self, one: Instant, stats: Sequence[WriteStat]) -> int | None:
        """The version under which they are staged; none where that was refused, as completing would be."""
        request = wire.StageWriteStats([*stats])
        [result] = self.run([self.request(staging.StageWriteStats(TABLE, Micros(one.time), request))])
        if isinstance(result, Answer):
            return msgspec.json.decode(result.body, type=wire.StagedWriteStats).version
        assert result.code is Code.WRITE_CONFLICT
        return None

    def do(
        self, command: Command, refusals: Set[Code] = frozenset(), die_at: int | None = None
    ) -> bytes | None:
        """What a command is answered; none when it is refused, as it must be then."""
        request = self.request(command)
        if die_at is not None:
            self.session.die_at(die_at)
        [result] = self.run([request])
        if isinstance(result, Answer):
            assert not refusals, command
            return result.body
        assert result.code in refusals, (command, result)
        return None

    def request(self, command: Command) -> Request:
        key = f"request-{next(self.numbers):06d}"
        return Request(command, key, commands.fingerprint(commands.canonical(command)), "test")

    def run(self, requests: Sequence[Request]) -> list[Result]:
        return self.insist(lambda: group.run(self.session, requests, drift_max_us=SECOND_US)).results

    def insist(self, ask: Callable[[], Coroutine[Any, Any, _Answered]]) -> _Answered:
        """The answer; asked again, as a lane does, when the database went away."""
        for _ in range(2):
            try:
                return self.runner.run(ask())
            except errors.DatabaseUnavailable:
                self.session.live_on()
        return self.runner.run(ask())

    def completion(self, body: bytes) -> int:
        document = msgspec.json.decode(body, type=wire.Instant)
        assert document.completion_time is not None
        return parse_time(document.completion_time)

    def unswept(self) -> dict[int, int]:
        """Since when each instant is to be swept that is."""
        return dict(
            self.sql(
                "SELECT chronolake.micros(requested_time), chronolake.micros(unswept_since)"
                " FROM chronolake.instant WHERE unswept_since IS NOT NULL"
            )
        )

    def rollback_of(self, one: Instant) -> int:
        rows = self.sql(
            "SELECT chronolake.micros(rolled_back_by) FROM chronolake.instant"
            f" WHERE chronolake.micros(requested_time) = {one.time}"
        )
        return int(rows[0][0])

    def files(self, rows_of: str) -> dict[int, set[str]]:
        """The files that are named in a table of the database, by their instants."""
        found: dict[int, set[str]] = {}
        for (file_name,) in self.sql(f"SELECT file_name FROM chronolake.{rows_of}"):
            digits = file_name.rpartition("_")[2].removesuffix(".parquet")
            found.setdefault(parse_time(digits), set()).add(file_name)
        return found

    def name(self, requested_time: int, file: File) -> str:
        bucket, attempt = file
        return base_file_name(bucket_file_id(bucket), f"0-0-{attempt}", self.digits(requested_time))

    def digits(self, time_: int) -> str:
        return format_time(Micros(time_), Tick.MILLISECOND)

    def sever(self, process: int) -> None:
        self.admin.execute("SELECT pg_terminate_backend(%s, 10000)", [process])

    def sql(self, statement: str) -> list[Any]:
        return self.admin.execute(statement.encode()).fetchall()


def _not_from(one: Instant, allowed: set[State]) -> set[Code]:
    if one.state in allowed:
        return set()
    return {Code.INSTANT_ROLLED_BACK if one.state is State.ROLLED_BACK else Code.ILLEGAL_TRANSITION}


def _unless_its(one: Instant, writer: str | None) -> set[Code]:
    return set() if writer in (None, one.writer) else {Code.LEASE_LIVE}


@pytest.fixture
def machine(new_database: Callable[[], str]) -> type[Markers]:
    return machines.on_real_database(Markers, new_database)


def test_no_marked_file_is_forgotten_whatever_becomes_of_its_instant(machine: type[Markers]) -> None:
    machines.play(machine, STEPS)


@pytest.mark.slow
def test_no_marked_file_is_forgotten_for_as_long_as_one_likes(machine: type[Markers]) -> None:
    machines.play_long(machine, STEPS)
