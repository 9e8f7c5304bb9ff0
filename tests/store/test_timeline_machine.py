"""The promises of design.md section 1 as a state machine: groups of commands, steps of the clock, rebuilds.

The model is plain Python: what state each instant must be in. The invariants are asked of a real PostgreSQL.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import DataObject
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.commands import group, rebuilding, verifying
from chronolake_metastore.commands.answers import Answer
from chronolake_metastore.commands.group import Request, Result
from chronolake_metastore.domain import commands, instants, leases, namespaces, rollbacks, tables
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import Event, decode, hash_of
from chronolake_metastore.queries import files as file_queries
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import event_log
from chronolake_metastore.store.engine import Database
from chronolake_metastore.store.projections import PROJECTIONS
from chronolake_metastore.store.transaction import Session
from chronolake_model import instants as wire, tables as wire_tables
from chronolake_model.file_names import base_file_name, bucket_file_id, bucket_of
from chronolake_model.files import Snapshot, WriteStat
from chronolake_model.times import Micros, Tick, format_time, parse_time
from chronolake_model.vocabulary import State

EXAMPLES = int(os.environ.get("CHRONOLAKE_EXAMPLES", "12"))
TABLES = {"shop.orders": Tick.MILLISECOND, "shop.clicks": Tick.MICROSECOND}
BUCKETS = 3
WRITERS = ("one", "two")
START_US = 1_800_000_000_000_000
LEASE_SECONDS = 60

VERBS = ("begin", "inflight", "complete", "rollback", "heartbeat")
LEGAL = {
    ("inflight", State.REQUESTED): State.INFLIGHT,
    ("complete", State.INFLIGHT): State.COMPLETED,
    ("rollback", State.REQUESTED): State.ROLLED_BACK,
    ("rollback", State.INFLIGHT): State.ROLLED_BACK,
    ("rollback", State.ROLLED_BACK): State.ROLLED_BACK,
    ("heartbeat", State.REQUESTED): State.REQUESTED,
    ("heartbeat", State.INFLIGHT): State.INFLIGHT,
}


class Timeline(RuleBasedStateMachine):
    """Two tables, two writers, and whatever they do."""

    new_database: Callable[[], str]

    def __init__(self) -> None:
        super().__init__()
        self.dsn = self.new_database()
        self.runner = asyncio.Runner()
        self.settings = Settings(dsn=self.dsn)
        self.database = Database(self.settings)
        self.session = Session(self.database)
        self.numbers = itertools.count()
        self.states: dict[tuple[str, Micros], State] = {}
        self.latest: dict[tuple[str, int], Micros] = {}
        self.answered: list[tuple[Request, Answer]] = []
        self.refused: list[tuple[Request, errors.TimelineError]] = []
        self.snapshots: dict[tuple[str, str], Snapshot] = {}

    @override
    def teardown(self) -> None:
        self.runner.run(self.session.close())
        self.runner.run(self.database.close())
        self.runner.close()

    @initialize()
    def make_tables(self) -> None:
        self.set_clock(START_US)
        made: list[Command] = [namespaces.CreateNamespace(wire_tables.CreateNamespace("shop"))]
        made += [
            tables.CreateTable(
                wire_tables.CreateTable(
                    name=name,
                    base_path=f"/lake/{name}",
                    schema=[wire_tables.NewField("id", "bigint")],
                    record_key_fields=["id"],
                    index=wire_tables.NewBucketIndex(buckets=BUCKETS),
                    tick=tick,
                )
            )
            for name, tick in TABLES.items()
        ]
        for result in self.run([self.request(command) for command in made[:1]]) + self.run(
            [self.request(command) for command in made[1:]]
        ):
            assert isinstance(result, Answer)

    @rule(data=st.data())
    def carry_out_a_group(self, data: DataObject) -> None:
        """1 to 4 commands of either table in one transaction, legal or not."""
        wanted = [self.draw(data) for _ in range(data.draw(st.integers(1, 4)))]
        requests = [self.request(command) for _, command in wanted]
        for (verb, command), request, result in zip(wanted, requests, self.run(requests), strict=True):
            self.check(verb, command, request, result)

    @precondition(lambda self: self.answered)
    @rule(data=st.data())
    def send_a_request_again(self, data: DataObject) -> None:
        request, first = data.draw(st.sampled_from(self.answered))
        [again] = self.run([request])
        assert isinstance(again, Answer)
        assert (again.status, again.body) == (first.status, first.body)

    @precondition(lambda self: self.refused)
    @rule(data=st.data())
    def send_a_refused_request_again(self, data: DataObject) -> None:
        request, first = data.draw(st.sampled_from(self.refused))
        [again] = self.run([request])
        assert isinstance(again, type(first))
        assert (again.detail, again.context, again.recorded) == (first.detail, first.context, first.recorded)

    @precondition(lambda self: self.answered)
    @rule(data=st.data())
    def send_another_request_under_a_used_key(self, data: DataObject) -> None:
        used, _ = data.draw(st.sampled_from(self.answered))
        another = self.request(instants.BeginInstant("shop.orders", wire.BeginInstant(writer="another")))
        [refused] = self.run([msgspec.structs.replace(another, request_id=used.request_id)])
        assert isinstance(refused, errors.IdempotencyKeyReused)

    @rule(step_us=st.integers(-7_200_000_000, 7_200_000_000))
    def step_the_wall_clock(self, step_us: int) -> None:
        self.set_clock(START_US + step_us)

    @rule()
    def rebuild(self) -> None:
        before = self.projections()
        rebuilt = self.runner.run(rebuilding.rebuild(self.settings))
        assert self.projections() == before
        assert set(rebuilt.repaired.values()) == {0}

    @rule()
    def verify(self) -> None:
        report = self.runner.run(verifying.verify(self.settings))
        assert report.findings == []

    @rule(name=st.sampled_from(sorted(TABLES)))
    def read_a_snapshot(self, name: str) -> None:
        snapshot = self.snapshot(name, None)
        if snapshot.as_of is not None:
            self.snapshots[name, snapshot.as_of] = snapshot

    @invariant()
    def the_latest_snapshot_shows_the_last_completed_file_of_each_bucket(self) -> None:
        for name, tick in TABLES.items():
            seen = {
                entry.file_id: entry.base_file.requested_time
                for entry in self.snapshot(name, None).slices
                if entry.base_file is not None
            }
            expected = {
                bucket_file_id(bucket): format_time(time, tick)
                for (table, bucket), time in self.latest.items()
                if table == name
            }
            assert seen == expected

    @invariant()
    def a_snapshot_seen_once_is_seen_for_ever(self) -> None:
        for (name, as_of), seen in self.snapshots.items():
            assert self.snapshot(name, parse_time(as_of)) == seen

    @invariant()
    def the_log_is_dense_increasing_and_chained(self) -> None:
        last: dict[Any, Any] = {}
        for event in self.runner.run(self.events()):
            before = last.get(event.table_id)
            assert event.version == (before.version + 1 if before else 1)
            assert before is None or event.time > before.time
            assert event.previous_hash == (before.hash if before else b"")
            assert event.hash == hash_of(event)
            last[event.table_id] = event

    @invariant()
    def every_refusal_is_recorded_once_and_has_no_event(self) -> None:
        recorded = self.sql("SELECT request_id FROM chronolake.refusal ORDER BY position")
        assert [request_id for (request_id,) in recorded] == [one.request_id for one, _ in self.refused]
        assert self.sql("SELECT FROM chronolake.event JOIN chronolake.refusal USING (request_id)") == []

    @invariant()
    def every_instant_is_in_the_state_that_was_answered(self) -> None:
        rows = self.sql(
            "SELECT t.namespace || '.' || t.name, chronolake.micros(i.requested_time), i.state"
            " FROM chronolake.instant i JOIN chronolake.lake_table t USING (table_id)"
            " WHERE i.action <> 'rollback'"
        )
        assert {(name, time): State(state) for name, time, state in rows} == self.states

    def draw(self, data: DataObject) -> tuple[str, Command]:
        verb = data.draw(st.sampled_from(VERBS))
        name = data.draw(st.sampled_from(sorted(TABLES)))
        known = [time for table, time in self.states if table == name]
        if verb == "begin" or not known:
            begin = wire.BeginInstant(
                writer=data.draw(st.sampled_from(WRITERS)),
                inflight=data.draw(st.booleans()),
                lease_seconds=LEASE_SECONDS,
            )
            return "begin", instants.BeginInstant(name, begin)
        time = data.draw(st.sampled_from(known))
        return verb, self.change(data, verb, name, time)

    def change(self, data: DataObject, verb: str, name: str, time: Micros) -> Command:
        match verb:
            case "inflight":
                return instants.TakeInflight(name, time, wire.TakeInflight())
            case "complete":
                buckets = data.draw(st.sets(st.integers(0, BUCKETS - 1)))
                stats = [_stat(bucket, format_time(time, TABLES[name])) for bucket in sorted(buckets)]
                return instants.CompleteInstant(name, time, wire.CompleteInstant(stats))
            case "rollback":
                writer = data.draw(st.sampled_from(WRITERS))
                return rollbacks.RollbackInstant(name, time, wire.RollbackInstant(writer))
            case _:
                return leases.RenewLease(name, time, wire.Heartbeat())

    def check(self, verb: str, command: Command, request: Request, result: Result) -> None:
        if isinstance(result, errors.TimelineError):
            self.check_refusal(verb, command, result)
            self.refused.append((request, result))
            return
        self.answered.append((request, result))
        document = msgspec.json.decode(result.body, type=wire.Instant)
        key = (document.table, parse_time(document.requested_time))
        if verb == "begin":
            assert key not in self.states, "a requested time is given once"
            self.states[key] = document.state
        else:
            assert (verb, self.states[key]) in LEGAL
            self.states[key] = LEGAL[verb, self.states[key]]
            assert document.state is self.states[key]
        if isinstance(command, instants.CompleteInstant):
            assert document.completion_time is not None
            assert document.completion_time > document.requested_time
            for stat in command.request.write_stats:
                self.latest[command.table, bucket_of(stat.file_id)] = command.requested_time

    def check_refusal(self, verb: str, command: Command, refusal: errors.TimelineError) -> None:
        assert isinstance(
            command,
            instants.TakeInflight | instants.CompleteInstant | rollbacks.RollbackInstant | leases.RenewLease,
        )
        state = self.states[command.table, command.requested_time]
        if (verb, state) in LEGAL:
            assert isinstance(refusal, errors.WriteConflict | errors.LeaseLive)
        elif state is State.ROLLED_BACK:
            assert isinstance(refusal, errors.InstantRolledBack)
        else:
            assert isinstance(refusal, errors.IllegalTransition)

    def request(self, command: Command) -> Request:
        key = f"request-{next(self.numbers)}"
        return Request(command, key, commands.fingerprint(commands.canonical(command)), "test")

    def run(self, requests: Sequence[Request]) -> list[Result]:
        return self.runner.run(group.run(self.session, requests, drift_max_us=1_000_000)).results

    def set_clock(self, now_us: int) -> None:
        self.sql(f"CREATE OR REPLACE FUNCTION chronolake.now_us() RETURNS bigint LANGUAGE sql RETURN {now_us}")

    def snapshot(self, name: str, as_of: Micros | None) -> Snapshot:
        return self.runner.run(file_queries.snapshot(self.database, name, as_of, None, 100, None))

    async def events(self) -> list[Event]:
        async with self.session.begin() as tx:
            page = await event_log.read(tx, event_log.Cursor())
        return [decode(stored) for stored in page.events]

    def projections(self) -> dict[str, list[Any]]:
        return {name: sorted(self.sql(f"SELECT * FROM chronolake.{name}"), key=repr) for name in PROJECTIONS}

    def sql(self, statement: str) -> list[Any]:
        with psycopg.connect(self.dsn) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


def _stat(bucket: int, requested_time: str) -> WriteStat:
    file_id = bucket_file_id(bucket)
    return WriteStat("", file_id, base_file_name(file_id, "0-0-0", requested_time), 1, 1)


@pytest.fixture
def machine(new_database: Callable[[], str]) -> Iterator[type[Timeline]]:
    class OnRealDatabase(Timeline):
        pass

    OnRealDatabase.new_database = staticmethod(new_database)
    yield OnRealDatabase


def test_the_promises_hold_whatever_writers_do(machine: type[Timeline]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
