"""The promises (docs/architecture.md#promises) as a state machine: every action, crashes, expiry, retries.

Commands are drawn (command_strategies/), and their answers compared with a plain-Python model (model.py). The
invariants query a real PostgreSQL. A transaction dies between any two of its steps (dying.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from hypothesis.strategies import DataObject

from chronolake_metastore import errors
from chronolake_metastore.commands.group import Result
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.commands.recording import Request
from chronolake_metastore.domain import instants, namespaces
from chronolake_metastore.domain.events import Event, TableCreated
from chronolake_metastore.domain.logs import CATALOG_ID, hash_of
from chronolake_metastore.domain.proof import ProofFinding
from chronolake_metastore.domain.results import Refused
from chronolake_metastore.domain.stored_events import decode
from chronolake_metastore.notes import readers
from chronolake_metastore.projections.registry import TABLES as PROJECTIONS
from chronolake_metastore.proof import rebuilding, verification
from chronolake_metastore.queries import conflicts, files as file_queries
from chronolake_metastore.store import event_log
from chronolake_model import instants as wire
from chronolake_model.file_names import bucket_of, generation_of
from chronolake_model.files import Changes, FileSlice, Snapshot
from chronolake_model.readers import BeginReading
from chronolake_model.times import Bound, Micros, ReadTime, parse_time
from tests.store import machines, model_of_cleans, model_of_conflicts
from tests.store.command_strategies import completions, strategies, tables
from tests.store.command_strategies.draws import KINDS, DrawnCommand, Draws, group_name
from tests.store.model import Timeline
from tests.store.model_of_cleans import ReaderLease
from tests.store.model_of_instants import COMPLETED_AS, SERVICES, WRITES, Group, Slice
from tests.store.naive_reader import Log
from tests.store.shown import TESTER
from tests.store.views import Views

STEPS = 25
START_US = 1_800_000_000_000_000
STEPS_OF_A_GROUP = 40
"""A group has some twenty statements, each with a step before it and one after."""

_Outcome = tuple[str | None, bytes]


class Promises(machines.DatabaseMachine):
    """Some of the tables, and their writers and readers. The table ``instants`` has all instants."""

    instants = "chronolake.instant"

    def __init__(self) -> None:
        super().__init__()
        self.turns = itertools.count()
        self.now_us = 0
        self.active: list[str] = []
        self.timelines: dict[str, Timeline] = {}
        self.outcomes: dict[str, tuple[Request, _Outcome]] = {}
        self.refused: list[str] = []
        self.cursor = event_log.Cursor()
        self.heads: dict[UUID, Event] = {}
        self.ticks: dict[UUID, int] = {CATALOG_ID: 1_000}
        self.last_of_name: dict[str, Micros] = {}
        self.names: dict[UUID, str] = {}

    # ------------------------------------------------------------------------------ rules

    @initialize(active=st.sets(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2))
    def create_tables(self, active: set[str]) -> None:
        self.set_clock(START_US)
        self.active = sorted(active)
        namespace = namespaces.CreateNamespace("shop")
        self.play([DrawnCommand(namespace, dict, lambda _: None)])
        self.play([tables.create(self.timelines, name, self.now_us) for name in self.active])

    @rule(data=st.data())
    def execute_a_group(self, data: DataObject) -> None:
        """Some commands in one transaction, legal or not."""
        self.play(self.draw(data))

    @rule(data=st.data())
    def execute_many_groups(self, data: DataObject) -> None:
        """Commands one after the other, each drawn when the results of the earlier ones are known."""
        for _ in range(data.draw(st.integers(5, 15))):
            self.play(strategies.draw(self.draws(data)))
            self.set_clock(self.now_us + data.draw(st.sampled_from([0, 0, 1_000, machines.SECOND_US])))

    @rule(data=st.data(), step=st.integers(0, STEPS_OF_A_GROUP), together=st.booleans())
    def crash_and_send_again(self, data: DataObject, step: int, together: bool) -> None:
        """The transaction dies at any step, or after its end. The client cannot know, and sends all again."""
        drawn = self.draw(data)
        requests = [self.request(each.command) for each in drawn]
        self.session.die_at(step)
        with pytest.raises(errors.DatabaseUnavailable):
            self.run(requests)
        groups = [requests] if together else [[request] for request in requests]
        results = [result for again in groups for result in self.run(again)]
        self.check(drawn, requests, results)

    @precondition(lambda self: self.outcomes)
    @rule(data=st.data())
    def send_requests_again(self, data: DataObject) -> None:
        """After others in a group, and one of these twice: each gets its first answer."""
        old = data.draw(st.lists(st.sampled_from(sorted(self.outcomes)), min_size=1, max_size=3))
        drawn = self.draw(data)
        requests = [self.request(each.command) for each in drawn]
        results = self.run([*requests, *(self.outcomes[request_id][0] for request_id in old), requests[-1]])
        self.check(drawn, requests, results[: len(requests)])
        for request_id, result in zip(
            [*old, requests[-1].ctx.request_id], results[len(requests) :], strict=True
        ):
            assert outcome(result) == self.outcomes[request_id][1]

        used = data.draw(st.sampled_from(old))
        another = self.request(instants.BeginInstant(self.active[0], writer="another"))
        ctx = msgspec.structs.replace(another.ctx, request_id=used)
        [refused] = self.run([msgspec.structs.replace(another, ctx=ctx)])
        assert isinstance(refused, errors.IdempotencyKeyReused)

    @rule(
        seconds=st.sampled_from([0.000_001, 0.001, 1, 30, 61, 61, 3_600, -0.001, -1, -61, -7_200, 30 * 86_400])
    )
    def step_the_wall_clock(self, seconds: float) -> None:
        self.set_clock(self.now_us + round(seconds * machines.SECOND_US))

    @precondition(lambda self: any(timeline.instants for timeline in self.timelines.values()))
    @rule(data=st.data())
    def find_conflicts(self, data: DataObject) -> None:
        """The answer of the dry run equals the result of complete."""
        name = data.draw(st.sampled_from([name for name in self.active if self.timelines[name].instants]))
        timeline = self.timelines[name]
        requested_time, touched, complete = completions.completion(self.draws(data), name)
        groups = [
            wire.TouchedFileGroup("", group_name(group).file_id, how)
            for how, group in touched
            if timeline.instants[requested_time].action in SERVICES | WRITES
        ]
        winner = None
        # Of an instant that has ended it means nothing: its own files hide those of others.
        if groups and timeline.instants[requested_time].is_pending:
            answer = self.runner.run(
                conflicts.find(TESTER, self.database, name, Micros(requested_time), wire.FindConflicts(groups))
            )
            winner = None if answer.conflict is None else parse_time(answer.conflict.winner)
            assert winner == model_of_conflicts.conflict(timeline, requested_time, touched, self.now_us)
        [result] = self.play([complete])
        if isinstance(result, errors.WriteConflict):
            assert winner is not None
        elif isinstance(result, Answer):
            assert winner is None

    @rule(data=st.data(), seconds=st.sampled_from([1, 60, 86_400]), follows=st.booleans())
    def read_under_a_lease(self, data: DataObject, seconds: int, follows: bool) -> None:
        """As of any time that there was, or none; the lease may end before it is given up."""
        name = data.draw(st.sampled_from(self.active))
        timeline = self.timelines.get(name)
        if timeline is None:
            return
        at = data.draw(st.sampled_from([None, *timeline.completions()]))
        request = BeginReading("reader", lease_seconds=seconds, follows=follows)
        taking = readers.begin(TESTER, self.database, name, request, None if at is None else Micros(at))
        is_cleaned = timeline.cleaned_before is not None and at is not None and at < timeline.cleaned_before
        if at is not None and (not timeline.serves(at) or (follows and is_cleaned)):
            with pytest.raises(errors.HistoryCleaned):
                self.runner.run(taking)
            return
        lease = self.runner.run(taking)
        for any_timeline in self.timelines.values():
            any_timeline.forget_readers(self.now_us - readers.EXPIRED_KEPT_US)
        if lease.as_of is not None or follows:
            as_of = 0 if lease.as_of is None else parse_time(lease.as_of)
            expires = self.now_us + seconds * machines.SECOND_US
            timeline.readers[lease.lease_id] = ReaderLease(as_of, expires, follows)

    @precondition(lambda self: any(timeline.readers for timeline in self.timelines.values()))
    @rule(data=st.data())
    def end_reading(self, data: DataObject) -> None:
        leases = [(name, lease) for name, timeline in self.timelines.items() for lease in timeline.readers]
        name, lease_id = data.draw(st.sampled_from(leases))
        self.timelines[name].readers.pop(lease_id)
        assert self.runner.run(readers.end(TESTER, self.database, name, UUID(lease_id))).released

    @rule()
    def look_back_verify_and_rebuild(self) -> None:
        for name, timeline in self.timelines.items():
            for at in timeline.completions():
                self.compare_snapshots(name, at)
            self.compare_views(name, None)
        assert self.verify() == []
        before = self.projections()
        rebuilt = self.runner.run(rebuilding.rebuild(self.settings, archived=self.archived))
        assert set(rebuilt.repaired.values()) == {0}
        assert self.projections() == before

    # ------------------------------------------------------------------------------ invariants

    @invariant()
    def the_log_is_dense_chained_and_of_one_clock(self) -> None:
        for event in self.runner.run(self.new_events()):
            before = self.heads.get(event.table_id)
            if isinstance(event.payload, TableCreated):
                definition = event.payload.definition
                self.names[event.table_id] = definition.name
                self.ticks[event.table_id] = definition.tick.micros
                assert event.time > self.last_of_name.get(definition.name, 0)
            tick = self.ticks[event.table_id]
            assert event.version == (before.version + 1 if before else 1)
            if before is not None:
                assert event.time == max(before.time + tick, self.now_us - self.now_us % tick)
            assert event.previous_hash == (before.hash if before else b"")
            assert event.hash == hash_of(event)
            self.heads[event.table_id] = event
            if event.table_id in self.names:
                self.last_of_name[self.names[event.table_id]] = event.time

    @invariant()
    def every_outcome_is_known_and_every_refusal_recorded_once(self) -> None:
        recorded = self.recorded_outcomes().values()
        assert {request_id: (code, result) for request_id, code, result in recorded} == {
            request_id: outcome for request_id, (_, outcome) in self.outcomes.items()
        }
        refused = self.sql("SELECT request_id FROM chronolake.refusal ORDER BY position")
        assert [request_id for (request_id,) in refused] == self.refused
        assert self.sql("SELECT FROM chronolake.event JOIN chronolake.refusal USING (request_id)") == []

    @invariant()
    def every_instant_stands_as_in_the_model(self) -> None:
        rows = self.sql(
            "SELECT t.namespace || '.' || t.name, chronolake.micros(i.requested_time), i.action, i.state,"
            " i.writer, chronolake.micros(i.lease_expires_at), chronolake.micros(i.completion_time),"
            " chronolake.micros(i.target), chronolake.micros(i.rolled_back_by), i.schema_version"
            f" FROM {self.instants} i JOIN chronolake.lake_table t USING (table_id)"
            " WHERE t.dropped_at IS NULL"
        )
        assert {(name, requested): columns for name, requested, *columns in rows} == {
            (name, instant.time): [
                COMPLETED_AS.get(instant.action, instant.action) if instant.was_completed else instant.action,
                instant.state,
                instant.writer,
                instant.lease_end,
                instant.completed,
                instant.target,
                instant.undone_by,
                instant.schema_version,
            ]
            for name, timeline in self.timelines.items()
            for instant in timeline.instants.values()
        }

    @invariant()
    def every_schema_is_as_in_the_model_and_its_versions_are_dense(self) -> None:
        rows = self.sql(
            "SELECT t.namespace || '.' || t.name, s.schema_version, s.fields,"
            " (t.definition ->> 'schema_version')::int, t.definition -> 'schema'"
            " FROM chronolake.schema_version s JOIN chronolake.lake_table t USING (table_id)"
            " WHERE t.dropped_at IS NULL ORDER BY 1, 2"
        )
        assert [(name, number) for name, number, *_ in rows] == [
            (name, number)
            for name, timeline in sorted(self.timelines.items())
            for number in range(1, timeline.schema.version + 1)
        ]
        for name, number, fields, present, present_fields in rows:
            columns = self.timelines[name].schema
            assert present == columns.version
            assert number < present or fields == present_fields
            assert present_fields == [
                {
                    "field_id": column.id,
                    "name": column.name,
                    "type": column.type,
                    "nullable": column.nullable,
                    "nested": [],
                }
                for column in columns.columns
            ]

    @invariant()
    def the_first_time_served_is_as_in_the_model(self) -> None:
        rows = self.sql(
            "SELECT namespace || '.' || name, chronolake.micros(cleaned_before)"
            " FROM chronolake.lake_table WHERE dropped_at IS NULL"
        )
        assert dict(rows) == {name: timeline.cleaned_before for name, timeline in self.timelines.items()}

    @invariant()
    def file_groups_are_planned_and_replaced_as_in_the_model(self) -> None:
        planned = set(self.groups("planned_group"))
        assert planned == {
            (name, bucket, generation, requested)
            for name, timeline in self.timelines.items()
            for (bucket, generation), requested in timeline.planned()
        }
        by_services = [
            (name, bucket, generation)
            for name, bucket, generation, requested in planned
            if self.timelines[name].instants[requested].action in SERVICES
        ]
        assert len(set(by_services)) == len(by_services), "a file group is in one plan at a time"
        assert set(self.groups("replaced_group", "withdrawn_at IS NULL")) == {
            (name, bucket, generation, requested)
            for name, timeline in self.timelines.items()
            for (bucket, generation), requested in timeline.replaced().items()
        }

    @invariant()
    def completed_writes_are_seen_and_not_lost(self) -> None:
        for timeline in self.timelines.values():
            assert model_of_conflicts.lost_updates(timeline) == []
            assert model_of_conflicts.unseen(timeline) == []

    @invariant()
    def no_clean_has_deleted_a_file_that_a_reader_needs(self) -> None:
        for timeline in self.timelines.values():
            assert timeline.cleaned.isdisjoint(model_of_cleans.needed(timeline))

    @invariant()
    def snapshots_are_as_in_the_model(self) -> None:
        """The latest of each table, and one of the earlier ones in turn."""
        turn = next(self.turns)
        for name, timeline in self.timelines.items():
            self.compare_snapshots(name, None)
            if times := timeline.completions():
                self.compare_snapshots(name, times[turn % len(times)])

    @invariant()
    def views_equal_the_events(self) -> None:
        """A snapshot as of one earlier time, in turn."""
        turn = next(self.turns)
        for name in self.timelines:
            self.compare_views(name, turn)

    @invariant()
    def a_follower_of_changes_has_the_files_of_a_snapshot(self) -> None:
        if next(self.turns) % 3 == 0:
            return  # the next range is longer
        for name, timeline in self.timelines.items():
            self.follow(name, timeline)

    # ------------------------------------------------------------------------------ how

    def verify(self) -> list[ProofFinding]:
        return self.runner.run(verification.verify(self.settings, archived=self.archived)).findings

    def draw(self, data: DataObject) -> list[DrawnCommand]:
        draws = self.draws(data)
        return [command for _ in range(data.draw(st.integers(1, 4))) for command in strategies.draw(draws)]

    def draws(self, data: DataObject) -> Draws:
        return Draws(data, self.timelines, self.active, self.now_us)

    def play(self, drawn: Sequence[DrawnCommand]) -> list[Result]:
        requests = [self.request(each.command) for each in drawn]
        results = self.run(requests)
        self.check(drawn, requests, results)
        return results

    def check(
        self, drawn: Sequence[DrawnCommand], requests: Sequence[Request], results: Sequence[Result]
    ) -> None:
        """Commands in order: in a shared transaction too, each sees the effects of those before it."""
        for command, request, result in zip(drawn, requests, results, strict=True):
            refusals = command.refusals()
            if isinstance(result, Answer):
                assert not refusals, command.command
                command.apply(result.result)
            else:
                assert result.code in refusals, (command.command, result)
                if winner := refusals[result.code]:
                    assert parse_time(result.context["winner"]) == winner
                self.refused.append(request.ctx.request_id)
            self.outcomes[request.ctx.request_id] = (request, outcome(result))

    def set_clock(self, now_us: int) -> None:
        if self.active:
            self.the_log_is_dense_chained_and_of_one_clock()
        self.now_us = now_us
        for timeline in self.timelines.values():
            timeline.now = now_us
        for clock in ("now_us", "steady_us"):
            self.sql(
                f"CREATE OR REPLACE FUNCTION chronolake.{clock}() RETURNS bigint LANGUAGE sql RETURN {now_us}"
            )

    def compare_snapshots(self, name: str, as_of: int | None) -> None:
        timeline = self.timelines[name]
        if as_of is not None and not timeline.serves(as_of):
            with pytest.raises(errors.HistoryCleaned) as refused:
                self.snapshot(name, Micros(as_of))
            assert parse_time(refused.value.context["first_servable_time"]) == timeline.cleaned_before
            return
        snapshot = self.snapshot(name, None if as_of is None else Micros(as_of))
        assert {_group(each): _slice(each) for each in snapshot.slices} == timeline.seen(as_of), as_of

    def snapshot(self, name: str, as_of: ReadTime | None) -> Snapshot:
        return self.runner.run(file_queries.snapshot(TESTER, self.database, name, as_of, None, 100, None))

    def changes(self, name: str, after: ReadTime | None) -> Changes:
        return self.runner.run(file_queries.changes(TESTER, self.database, name, after, None, 100, None))

    def compare_views(self, name: str, turn: int | None) -> None:
        """As of all times at which something happened, or of one of them."""
        log = Log(self.admin, name)
        times = log.times()
        for at in times if turn is None else [times[turn % len(times)]]:
            first = self.timelines[name].cleaned_before
            views = Views(self.database, name, at, log.replayed(at), first, log.cleaned)
            served = self.timelines[name].serves(at)
            self.runner.run(views.compare(turn) if served else views.refused())

    def follow(self, name: str, timeline: Timeline) -> None:
        """Read the changes since the last time, and apply them to the slices as of that time."""
        after = timeline.followed_to
        first = timeline.cleaned_before
        if after is not None and first is not None and after < first:
            with pytest.raises(errors.HistoryCleaned):
                self.changes(name, Micros(after))
            earliest = self.snapshot(name, Bound.EARLIEST)
            timeline.followed = {_group(each): _slice(each) for each in earliest.slices}
            after = first
            changes = self.changes(name, Bound.EARLIEST)
        else:
            changes = self.changes(name, None if after is None else Micros(after))
        if changes.to is None:
            return
        until = parse_time(changes.to)
        counted = {parse_time(instant.requested_time) for instant in changes.instants}
        assert counted == timeline.written_between(after or 0, until)
        for changed in changes.file_groups:
            group = bucket_of(changed.file_id), generation_of(changed.file_id)
            before = timeline.followed.pop(group, None)
            assert before == (None if changed.before is None else _slice(changed.before))
            if changed.after is not None:
                timeline.followed[group] = _slice(changed.after)
        timeline.followed_to = until
        assert timeline.followed == timeline.seen()

    async def new_events(self) -> list[Event]:
        async with self.session.begin() as tx:
            page = await event_log.read(tx, self.cursor)
        self.cursor = page.end
        return [decode(stored) for stored in page.events]

    def groups(self, projection: str, condition: str = "true") -> list[tuple[str, int, int, int]]:
        rows = self.sql(
            "SELECT t.namespace || '.' || t.name, file_id, chronolake.micros(requested_time)"
            f" FROM chronolake.{projection} JOIN chronolake.lake_table t USING (table_id)"
            f" WHERE t.dropped_at IS NULL AND {condition}"
        )
        return [
            (name, bucket_of(file_id), generation_of(file_id), requested) for name, file_id, requested in rows
        ]

    def projections(self) -> dict[str, list[Any]]:
        return {name: sorted(self.sql(f"SELECT * FROM chronolake.{name}"), key=repr) for name in PROJECTIONS}


def outcome(result: Result) -> _Outcome:
    if isinstance(result, Answer):
        return None, msgspec.json.encode(result.result)
    refused = Refused(code=result.code, detail=result.detail, context=result.context, place="")
    return result.code, msgspec.json.encode(refused)


def _group(file_slice: FileSlice) -> Group:
    return bucket_of(file_slice.file_id), generation_of(file_slice.file_id)


def _slice(file_slice: FileSlice) -> Slice:
    base = None if file_slice.base_file is None else parse_time(file_slice.base_file.requested_time)
    return base, tuple(parse_time(log.requested_time) for log in file_slice.log_files)


@pytest.fixture
def machine(new_database: Callable[[], str]) -> type[Promises]:
    return machines.on_real_database(Promises, new_database)


def test_the_promises_hold_for_any_writers(machine: type[Promises]) -> None:
    # The same examples in each run, so that no change fails by chance; the slow test explores.
    machines.play(machine, STEPS, examples=5, derandomize=True)


@pytest.mark.slow
def test_the_promises_hold_for_as_long_as_one_likes(machine: type[Promises]) -> None:
    machines.play_long(machine, STEPS)
