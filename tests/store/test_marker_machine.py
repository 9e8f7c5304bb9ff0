"""Promise 5 as a state machine: no file that was ever marked is forgotten, however its instant ends.

Instants of one table mark, complete, report deletions, are rolled back and restored. Transactions die at any
statement and are sent again. The answers are compared with a model of files and states (model_of_markers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence, Set
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from hypothesis.strategies import DataObject
from msgspec.structs import asdict
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.commands import group
from chronolake_metastore.commands.group import Result
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.commands.recording import Request
from chronolake_metastore.domain import (
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
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.markers import CreateMarkers
from chronolake_metastore.domain.results import AnyResult
from chronolake_metastore.notes import markers as notes
from chronolake_metastore.proof import rebuilding, verification
from chronolake_metastore.store import reconciling
from chronolake_model import (
    instants as wire,
    tables as wire_tables,
)
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import WriteStat
from chronolake_model.markers import DeletedFile, Marker, MarkerKind, MarkersType
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.times import Micros, Tick, format_time, parse_time
from chronolake_model.vocabulary import State
from tests.store import machines, shown
from tests.store.model_of_markers import (
    DELETED_AT_COMPLETION_MAX,
    File,
    MarkedInstant,
    MarkedTable,
    not_from,
    unless_its,
)
from tests.store.shown import TESTER

STEPS = 10
TABLE = "shop.orders"
BUCKETS = 2
ATTEMPTS = 3
WRITERS = ("first", "second")
STATEMENTS = 30
"""A few more than a transaction has."""

_Answer = TypeVar("_Answer")
ANY_FILE = [(bucket, attempt) for bucket in range(BUCKETS) for attempt in range(ATTEMPTS)]
FILES = st.lists(st.sampled_from(ANY_FILE), unique=True, min_size=1, max_size=4)


class Markers(machines.DatabaseMachine):
    """The markers of one table, for instants with any end."""

    def __init__(self) -> None:
        super().__init__()
        self.table = MarkedTable()

    # ------------------------------------------------------------------------------ rules

    @initialize()
    def make_a_table(self) -> None:
        self.do(namespaces.CreateNamespace("shop"))
        self.do(
            tables.CreateTable(
                NewDefinition(
                    name=TABLE,
                    base_path="/lake/orders",
                    schema=[wire_tables.NewField("id", "bigint")],
                    record_key_fields=["id"],
                    index=wire_tables.NewBucketIndex(buckets=BUCKETS),
                )
            )
        )
        self.begun("first", MarkersType.SERVER)

    @rule(data=st.data())
    def send_requests(self, data: DataObject) -> None:
        """Some requests one after the other, mostly those for which there is an instant."""
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
        instant = self.drawn(data, lambda instant: instant.target is None and instant.is_pending)
        writer = self.writer(data, instant)
        marks = [Marker("", self.name(instant.time, file), MarkerKind.CREATE) for file in files]
        command = CreateMarkers(TABLE, Micros(instant.time), marks, writer)
        refusals = not_from(instant, {State.REQUESTED, State.INFLIGHT}) or unless_its(instant, writer)
        if instant.target is not None and instant.is_pending:
            refusals = {Code.ILLEGAL_TRANSITION}

        if die_at is not None:
            self.session.die_at(die_at)
        [result] = self.insist(lambda: notes.create(self.session, [command]))

        if isinstance(result, errors.TimelineError):
            assert result.code in refusals
            return
        assert not refusals
        if die_at is None:
            assert result == [file not in instant.marked for file in files]
        instant.marked |= set(files)
        instant.ever_marked |= set(files)

    def complete(self, data: DataObject) -> None:
        die_at, is_staged = self.death(data), data.draw(st.booleans())
        instant = self.drawn(data, lambda instant: instant.state is State.INFLIGHT)
        writer = self.writer(data, instant)
        files = [] if instant.target is not None else self.attempts(data, instant)
        stats = [
            WriteStat("", bucket_file_id(file[0]), self.name(instant.time, file), 100, 10) for file in files
        ]
        is_staged &= bool(stats) and instant.state is State.INFLIGHT
        staged = self.staged(instant, files, stats) if is_staged else None
        refusals = self.table.may_complete(instant, set(files), writer)

        result = self.do(
            instants.CompleteInstant(
                TABLE,
                Micros(instant.time),
                [] if staged else stats,
                writer=writer,
                staged=[] if staged is None else [staged],
            ),
            refusals,
            die_at,
        )

        if result is not None:
            self.table.completed(instant, self.completion(result), set(files))

    def report_deletions(self, data: DataObject) -> None:
        drawn, die_at = data.draw(FILES), self.death(data)
        instant = self.drawn(data, lambda instant: bool(self.table.owner(instant).marked))
        writer, owner = self.writer(data, instant), self.table.owner(instant)
        files = sorted(owner.marked - owner.published) if owner.marked and self.usually(data) else drawn
        files = files or drawn
        named = [DeletedFile("", self.name(owner.time, file)) for file in files]
        refusals = not_from(instant, {State.REQUESTED, State.INFLIGHT, State.COMPLETED})
        if instant.is_pending:
            refusals |= (
                {Code.ILLEGAL_TRANSITION} if instant.state is State.REQUESTED else unless_its(instant, writer)
            )
        if self.is_unknown(owner, files) or (instant.target is None and owner.needed & set(files)):
            refusals |= {Code.INVALID_DELETION}

        command = deletions.ReportDeletions(TABLE, Micros(instant.time), named, writer)
        if self.do(command, refusals, die_at) is not None:
            owner.marked -= set(files)
            owner.deleted |= set(files)
            instant.is_unswept = True

    def sweep(self, data: DataObject) -> None:
        """Look again for deleted files: it finds none, some that may be there, or some that cannot be."""
        late, die_at = data.draw(FILES) if data.draw(st.booleans()) else [], self.death(data)
        instant = self.drawn(data, lambda instant: instant.is_unswept and not instant.is_pending)
        owner = self.table.owner(instant)
        if late and owner.deleted - owner.published and self.usually(data):
            late = sorted(owner.deleted - owner.published)
        refusals: set[Code] = {Code.ILLEGAL_TRANSITION} if instant.is_pending else set()
        if self.is_unknown(owner, late) or owner.published & set(late):
            refusals |= {Code.INVALID_DELETION}
        seen = instant.is_unswept and self.usually(data)
        since = self.unswept()[instant.time] if seen else instant.time
        named = [DeletedFile("", self.name(owner.time, file)) for file in late]

        if (
            self.do(sweeps.RecordSweep(TABLE, Micros(instant.time), Micros(since), named), refusals, die_at)
            is None
        ):
            return
        owner.marked -= set(late)
        owner.deleted |= set(late)
        instant.is_unswept = bool(late) or (instant.is_unswept and not seen)

    def roll_back(self, data: DataObject) -> None:
        execute, die_at = data.draw(st.booleans()), self.death(data)
        instant = self.drawn(data, lambda instant: instant.target is None and instant.is_pending)
        writer = self.writer(data, instant) or instant.writer
        request = wire.RollbackInstant(writer, "tired", execute=execute)
        refusals: set[Code] = set()
        if instant.state is State.COMPLETED or (instant.target is not None and instant.is_pending):
            refusals = {Code.ILLEGAL_TRANSITION}
        elif instant.is_pending:
            refusals = unless_its(instant, writer)

        command = rollbacks.RollbackInstant(TABLE, Micros(instant.time), **asdict(request))
        result = self.do(command, refusals, die_at)

        if result is None:
            return
        if instant.state is State.ROLLED_BACK:
            self.table.rollback_resumed(instant.undone_by, request)
            return
        document = shown.instant(result)
        assert document.rolled_back_by is not None
        self.table.rolled_back(instant, parse_time(document.rolled_back_by), writer, execute=execute)

    def take_a_rollback(self, data: DataObject) -> None:
        instant = self.drawn(data, lambda instant: instant.state is State.REQUESTED)
        writer = data.draw(st.sampled_from(WRITERS))
        refusals = not_from(instant, {State.REQUESTED})

        if self.do(instants.TakeInflight(TABLE, Micros(instant.time), writer), refusals):
            instant.state, instant.writer = State.INFLIGHT, writer

    def delete_markers(self, data: DataObject) -> None:
        instant = self.drawn(data, lambda instant: bool(instant.marked) and not instant.is_pending)
        rollback = self.table.instants.get(instant.undone_by or 0)
        needed = rollback is not None and rollback.is_pending
        try:
            deleted = self.insist(lambda: notes.delete(TESTER, self.database, TABLE, Micros(instant.time)))
        except errors.IllegalTransition:
            assert instant.is_pending or needed
            return
        assert not instant.is_pending
        assert not needed
        assert deleted.deleted == len(instant.marked)
        instant.marked = set()

    def save(self) -> None:
        done = [
            instant
            for instant in self.table.instants.values()
            if instant.target is None and instant.state is State.COMPLETED
        ]
        target = max(done, key=lambda instant: instant.completed or 0)
        result = self.do(savepoints.CreateSavepoint(TABLE, None, "operator"))
        document = shown.instant(result)
        assert document.target is not None
        assert parse_time(document.target) == target.time
        self.table.savepoints[parse_time(document.requested_time)] = target.time

    def restore(self, data: DataObject) -> None:
        die_at = self.death(data)
        savepoint = data.draw(st.sampled_from(sorted(self.table.savepoints)))
        saved = self.table.instants[self.table.savepoints[savepoint]].completed
        assert saved is not None
        writes = [instant for instant in self.table.instants.values() if instant.target is None]
        later = [
            instant
            for instant in writes
            if instant.state is State.COMPLETED and (instant.completed or 0) > saved
        ]
        pinned = {instant.time for instant in later} & set(self.table.savepoints.values())
        command = restores.RestoreTable(TABLE, Micros(savepoint), "operator")

        result = self.do(command, {Code.SAVEPOINTED} if pinned else set(), die_at)

        if result is None:
            return
        document = shown.instant(result)
        assert document.plan is not None
        pending = [instant for instant in writes if instant.is_pending]
        left = [instant for instant in pending if instant.marked or instant.is_direct]
        undone = [instant for instant in [*pending, *later] if instant not in left]
        assert {parse_time(each) for each in document.plan.instants} == {instant.time for instant in undone}
        for instant in undone:
            instant.state, instant.undone_by = State.ROLLED_BACK, parse_time(document.requested_time)
        for instant in left:
            self.table.rolled_back(instant, self.rollback_of(instant), "operator", execute=False)

    # ------------------------------------------------------------------------------ invariants

    @invariant()
    def no_file_that_was_ever_marked_is_forgotten(self) -> None:
        """Each was published or deleted, or has a marker that a pending instant or rollback still needs."""
        kept = self.files("marker")
        deleted, published = self.files("deleted_file"), self.files("write_stat")
        for instant in self.table.instants.values():
            ever = {self.name(instant.time, file) for file in instant.ever_marked}
            lost = ever - kept.get(instant.time, set()) - deleted.get(instant.time, set())
            assert lost <= published.get(instant.time, set()), "no record has these files"
            waiting = (ever & kept.get(instant.time, set())) - published.get(instant.time, set())
            rollback = self.table.instants.get(instant.undone_by or 0)
            assert not waiting or instant.is_pending or (rollback is not None and rollback.is_pending)

    @invariant()
    def markers_and_deletions_are_as_in_the_model(self) -> None:
        marked = {
            instant.time: {self.name(instant.time, file) for file in instant.marked}
            for instant in self.table.writes()
        }
        deleted = {
            instant.time: {self.name(instant.time, file) for file in instant.deleted}
            for instant in self.table.writes()
        }
        assert self.files("marker") == {time: names for time, names in marked.items() if names}
        assert self.files("deleted_file") == {time: names for time, names in deleted.items() if names}

    @invariant()
    def unswept_instants_are_as_in_the_model(self) -> None:
        assert set(self.unswept()) == {
            instant.time for instant in self.table.instants.values() if instant.is_unswept
        }

    @invariant()
    def published_files_of_an_instant_with_markers_were_marked(self) -> None:
        for instant in self.table.writes():
            if instant.published and instant.ever_marked:
                assert instant.published <= instant.ever_marked
                assert instant.marked <= instant.published

    @invariant()
    def every_instant_stands_as_in_the_model(self) -> None:
        rows = self.sql(
            "SELECT chronolake.micros(requested_time), state, writer, chronolake.micros(target),"
            " chronolake.micros(rolled_back_by) FROM chronolake.instant"
            " WHERE action NOT IN ('savepoint', 'restore')"
        )
        assert {row[0]: row[1:] for row in rows} == {
            instant.time: (instant.state, instant.writer, instant.target, instant.undone_by)
            for instant in self.table.instants.values()
        }

    # ------------------------------------------------------------------------------ the model

    def sensible(self) -> list[Callable[[DataObject], None]]:
        """The requests for which there is an instant, each as often as its weight."""
        writes, known = self.table.writes(), self.table.instants.values()
        pending = [instant for instant in writes if instant.is_pending]
        requests: list[Callable[[DataObject], None]] = [self.begin] * (4 if len(pending) < 4 else 1)
        if pending:
            requests += [*[self.mark] * 4, self.roll_back, self.roll_back]
        if any(instant.state is State.INFLIGHT for instant in known):
            requests += [self.complete] * 4
        if any(
            self.table.owner(instant).marked and (instant.is_pending or instant.undone_by is None)
            for instant in known
        ):
            requests += [self.report_deletions] * 4
        if any(instant.state is State.REQUESTED for instant in known):
            requests += [self.take_a_rollback] * 2
        if any(instant.is_unswept and not instant.is_pending for instant in known):
            requests += [self.sweep] * 2
        if any(instant.marked and not instant.is_pending for instant in known):
            requests += [self.delete_markers]
        if any(instant.state is State.COMPLETED for instant in writes):
            requests += [lambda _: self.save()]
        return [*requests, self.restore] if self.table.savepoints else requests

    def is_unknown(self, owner: MarkedInstant, files: Sequence[File]) -> bool:
        """Whether the server does not know of one of the files that the instant has marked it."""
        return not owner.is_direct and not set(files) <= owner.marked | owner.deleted

    def begun(self, writer: str, markers: MarkersType) -> None:
        result = self.do(instants.BeginInstant(TABLE, writer, markers=markers))
        begun = parse_time(shown.instant(result).requested_time)
        self.table.instants[begun] = MarkedInstant(begun, State.INFLIGHT, writer, markers is MarkersType.DIRECT)

    # ------------------------------------------------------------------------------ how

    def drawn(self, data: DataObject, is_fit: Callable[[MarkedInstant], bool]) -> MarkedInstant:
        fit = [instant for instant in self.table.instants.values() if is_fit(instant)]
        known = fit if fit and self.usually(data) else [*self.table.instants.values()]
        return self.table.instants[data.draw(st.sampled_from(sorted(instant.time for instant in known)))]

    def attempts(self, data: DataObject, instant: MarkedInstant) -> list[File]:
        """One attempt for each bucket; mostly of marked ones, if any exist."""
        known = sorted(instant.marked) if instant.marked and self.usually(data) else ANY_FILE
        chosen = {bucket: (bucket, attempt) for bucket, attempt in data.draw(st.permutations(known))}
        return sorted(chosen.values()) if self.usually(data) else sorted(chosen.values())[:1]

    def writer(self, data: DataObject, instant: MarkedInstant) -> str | None:
        return data.draw(st.sampled_from([None, *WRITERS])) if not self.usually(data) else instant.writer

    def death(self, data: DataObject) -> int | None:
        """The step at which the next transaction dies; mostly it does not."""
        return data.draw(st.integers(0, STATEMENTS)) if self.rarely(data) else None

    def rarely(self, data: DataObject) -> bool:
        return data.draw(st.integers(0, 3)) == 0

    def usually(self, data: DataObject) -> bool:
        return data.draw(st.integers(0, 7)) < 7

    def staged(self, instant: MarkedInstant, files: Sequence[File], stats: Sequence[WriteStat]) -> int | None:
        """The version under which they are staged; none where that was refused, as completing would be."""
        [result] = self.run([self.request(staging.StageWriteStats(TABLE, Micros(instant.time), [*stats]))])
        if isinstance(result, Answer):
            instant.staged |= set(files)
            return shown.staged(result.result).version
        assert result.code is Code.WRITE_CONFLICT
        return None

    def do(
        self, command: Command, refusals: Set[Code] = frozenset(), die_at: int | None = None
    ) -> AnyResult | None:
        """The answer to a command, or None when it is refused, as the model expects."""
        request = self.request(command)
        if die_at is not None:
            self.session.die_at(die_at)
        [answer] = self.run([request])
        if isinstance(answer, Answer):
            assert not refusals, command
            return answer.result
        assert answer.code in refusals, (command, answer)
        return None

    @override
    def run(self, requests: Sequence[Request]) -> list[Result]:
        return self.insist(lambda: group.run(self.session, requests, drift_max_us=machines.SECOND_US)).results

    def insist(self, send: Callable[[], Coroutine[Any, Any, _Answer]]) -> _Answer:
        """The answer. The request is sent again, as a lane does, when the database became unavailable."""
        for _ in range(2):
            try:
                return self.runner.run(send())
            except errors.DatabaseUnavailable:
                self.session.live_on()
        return self.runner.run(send())

    def completion(self, result: AnyResult) -> int:
        document = shown.instant(result)
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

    def rollback_of(self, instant: MarkedInstant) -> int:
        rows = self.sql(
            "SELECT chronolake.micros(rolled_back_by) FROM chronolake.instant"
            f" WHERE chronolake.micros(requested_time) = {instant.time}"
        )
        return int(rows[0][0])

    def files(self, rows_of: str) -> dict[int, set[str]]:
        """The files that are named in a table of the database, by their instants."""
        files: dict[int, set[str]] = {}
        for (file_name,) in self.sql(f"SELECT file_name FROM {rows_of}"):
            digits = file_name.rpartition("_")[2].removesuffix(".parquet")
            files.setdefault(parse_time(digits), set()).add(file_name)
        return files

    def name(self, requested_time: int, file: File) -> str:
        bucket, attempt = file
        return base_file_name(bucket_file_id(bucket), f"0-0-{attempt}", self.digits(requested_time))

    def digits(self, time_: int) -> str:
        return format_time(Micros(time_), Tick.MILLISECOND)


@pytest.fixture
def machine(new_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> type[Markers]:
    monkeypatch.setattr(reconciling, "DELETED_AT_COMPLETION_MAX", DELETED_AT_COMPLETION_MAX)
    return machines.on_real_database(Markers, new_database)


def test_no_marked_file_is_forgotten_for_any_end_of_its_instant(machine: type[Markers]) -> None:
    machines.play(machine, STEPS, examples=5)


@pytest.mark.slow
def test_no_marked_file_is_forgotten_for_as_long_as_one_likes(machine: type[Markers]) -> None:
    machines.play_long(machine, STEPS)
