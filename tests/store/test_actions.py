"""Every action on a real database: who may do what, and what of it is seen; rebuilt it comes out the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgspec
import psycopg
import pytest

from chronolake_metastore import errors
from chronolake_metastore.commands.answers import Answer
from chronolake_metastore.domain import instants, leases, restores, rollbacks, savepoints, tables, transactions
from chronolake_metastore.domain.properties import YIELDS_PROPERTY
from chronolake_metastore.proof import rebuilding, verification
from chronolake_metastore.queries import files as file_queries, instants as instant_queries
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.projections import PROJECTIONS
from chronolake_model import instants as wire, tables as wire_tables
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import Changes, FileGroupName, Snapshot, WriteStat
from chronolake_model.times import format_time, parse_time
from chronolake_model.vocabulary import Action, IndexType, Operation, State, TableType, Yields
from tests.store.history import History

_Document = TypeVar("_Document")
COW: Final = "shop.orders"
MOR: Final = "shop.clicks"
GIVING_WAY: Final = "shop.giving_way"
"""Merge-on-read, where writers give way to table services."""


class Timeline(History):
    """A lake with a table of each type."""

    def make(self) -> None:
        self.make_namespace("shop")
        self.make_table_of(COW, TableType.COPY_ON_WRITE, {})
        self.make_table_of(MOR, TableType.MERGE_ON_READ, {})
        self.make_table_of(GIVING_WAY, TableType.MERGE_ON_READ, {YIELDS_PROPERTY: Yields.WRITER})

    def make_table_of(
        self,
        name: str,
        table_type: TableType,
        properties: dict[str, str],
        index: wire_tables.NewBucketIndex = wire_tables.NewBucketIndex(),  # noqa: B008  # frozen
    ) -> None:
        self.done(
            tables.CreateTable(
                wire_tables.CreateTable(
                    name=name,
                    base_path=f"s3://lake/{name}",
                    schema=[wire_tables.NewField("id", "bigint")],
                    record_key_fields=["id"],
                    type=table_type,
                    properties=properties,
                    index=index,
                )
            )
        )

    def start(self, table: str, action: Action, **more: Any) -> wire.Instant:
        request = wire.BeginInstant(writer=more.pop("writer", "w"), action=action, **more)
        self.pass_seconds(1)
        return self.answer(instants.BeginInstant(table, request))

    def planned(self, table: str, action: Action, *groups: FileGroupName, **more: Any) -> wire.Instant:
        return self.start(table, action, plan=wire.Plan(list(groups)), **more)

    def finish(
        self, instant: wire.Instant, *stats: WriteStat, replaced: tuple[FileGroupName, ...] = ()
    ) -> wire.Instant:
        self.pass_seconds(1)
        return self.answer(completion(instant, *stats, replaced=replaced))

    def written(self, table: str, action: Action, *buckets: int, log: bool = False) -> wire.Instant:
        instant = self.start(table, action)
        return self.finish(instant, *(stat(instant, bucket, log=log) for bucket in buckets))

    def undo(self, instant: wire.Instant, writer: str = "w", **more: Any) -> wire.Instant:
        request = wire.RollbackInstant(writer, **more)
        return self.answer(
            rollbacks.RollbackInstant(instant.table, parse_time(instant.requested_time), request)
        )

    def save(self, table: str, instant: wire.Instant | None = None) -> wire.Instant:
        target = None if instant is None else parse_time(instant.requested_time)
        return self.answer(savepoints.CreateSavepoint(table, target, wire.CreateSavepoint("operator")))

    def answer(self, command: Any) -> wire.Instant:
        return msgspec.json.decode(self.done(command), type=wire.Instant)

    def now(self, instant: wire.Instant) -> wire.Instant:
        """The instant as it stands: a rolled back one is answered so without an event."""
        return self._runner.run(
            instant_queries.get(self._database, instant.table, parse_time(instant.requested_time))
        )

    def snapshot(self, table: str, as_of: str | None = None) -> Snapshot:
        time = None if as_of is None else parse_time(as_of)
        return self._runner.run(file_queries.snapshot(self._database, table, time, None, 100, None))

    def changes(self, table: str, after: str | None, until: str | None = None) -> Changes:
        start, end = (None if time is None else parse_time(time) for time in (after, until))
        return self._runner.run(file_queries.changes(self._database, table, start, end, 100, None))

    def seen(self, table: str, as_of: str | None = None) -> dict[str, tuple[str | None, int]]:
        """By file id: the instant of the base file, and the number of log files."""
        return {
            one.file_id: (one.base_file.requested_time if one.base_file else None, len(one.log_files))
            for one in self.snapshot(table, as_of).slices
        }


def group(bucket: int, generation: int = 0) -> FileGroupName:
    return FileGroupName("", bucket_file_id(bucket, generation))


def stat(instant: wire.Instant, bucket: int, *, log: bool = False, generation: int = 0) -> WriteStat:
    file_id = bucket_file_id(bucket, generation)
    base = base_file_name(file_id, "0-0-0", instant.requested_time)
    name = f".{file_id}_{instant.requested_time}.log.1_0-0-0" if log else base
    return WriteStat("", file_id, name, 100, 10)


def completion(
    instant: wire.Instant, *stats: WriteStat, replaced: tuple[FileGroupName, ...] = ()
) -> instants.CompleteInstant:
    request = wire.CompleteInstant(list(stats), replaced_file_groups=list(replaced))
    return instants.CompleteInstant(instant.table, parse_time(instant.requested_time), request)


@pytest.fixture
def lake(dsn: str) -> Iterator[Timeline]:
    with Timeline(dsn) as timeline:
        timeline.make()
        yield timeline
        before = projections(dsn)
        asyncio.run(rebuilding.rebuild(Settings(dsn=dsn)))
        assert projections(dsn) == before
        assert asyncio.run(verification.verify(Settings(dsn=dsn))).findings == []


def projections(dsn: str) -> dict[str, list[Any]]:
    with psycopg.connect(dsn) as connection:
        return {
            name: sorted(connection.execute(f"SELECT * FROM chronolake.{name}".encode()).fetchall(), key=repr)
            for name in PROJECTIONS
        }


# ---------------------------------------------------------------------------------- plans and names


@pytest.mark.parametrize(
    ("action", "completed_as", "operation"),
    [
        (Action.COMPACTION, Action.COMMIT, Operation.COMPACT),
        (Action.LOGCOMPACTION, Action.DELTACOMMIT, Operation.LOG_COMPACT),
        (Action.CLUSTERING, Action.REPLACECOMMIT, Operation.CLUSTER),
    ],
)
def test_a_table_service_plans_waits_is_executed_and_takes_the_name_that_hudi_gives_it(
    lake: Timeline, action: Action, completed_as: Action, operation: Operation
) -> None:
    lake.written(MOR, Action.DELTACOMMIT, 1, log=True)
    planned = lake.planned(MOR, action, group(1), inflight=False)
    assert (planned.action, planned.operation, planned.state) == (action, operation, State.REQUESTED)
    assert planned.lease_expires_at is None
    inflight = take(lake, planned, "executor")
    assert (inflight.state, inflight.writer) == (State.INFLIGHT, "executor")
    returned = wire.ReturnToRequested("executor", "out of memory")
    back = lake.answer(instants.ReturnToRequested(MOR, parse_time(planned.requested_time), returned))
    assert (back.state, back.lease_expires_at) == (State.REQUESTED, None)
    assert back.plan == wire.RecordedPlan([group(1)], file_groups_count=1)
    again = take(lake, planned, "another")
    stats = {
        Action.COMPACTION: [stat(again, 1)],
        Action.LOGCOMPACTION: [stat(again, 1, log=True)],
        Action.CLUSTERING: [stat(again, 1, generation=1)],
    }
    replaced = (group(1),) if action is Action.CLUSTERING else ()
    done = lake.finish(again, *stats[action], replaced=replaced)
    assert (done.action, done.operation, done.state) == (completed_as, operation, State.COMPLETED)


def take(lake: Timeline, instant: wire.Instant, writer: str) -> wire.Instant:
    request = wire.TakeInflight(writer)
    return lake.answer(instants.TakeInflight(instant.table, parse_time(instant.requested_time), request))


def test_a_file_group_is_in_one_plan_at_a_time(lake: Timeline) -> None:
    lake.written(MOR, Action.DELTACOMMIT, 1, 2, log=True)
    first = lake.planned(MOR, Action.COMPACTION, group(1), inflight=False)
    second = instants.BeginInstant(
        MOR, wire.BeginInstant("w", Action.CLUSTERING, plan=wire.Plan([group(1), group(2)]))
    )
    refused = lake.refused(second)
    assert isinstance(refused, errors.WriteConflict)
    assert refused.context["winner"] == first.requested_time
    lake.undo(first)
    lake.done(second)


@pytest.mark.parametrize(
    ("action", "plan"),
    [
        (Action.COMPACTION, None),
        (Action.COMPACTION, wire.Plan()),
        (Action.CLUSTERING, wire.Plan([group(3)])),
        (Action.COMPACTION, wire.Plan([group(1), group(1)])),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(lake: Timeline, action: Action, plan: wire.Plan | None) -> None:
    lake.written(MOR, Action.DELTACOMMIT, 1, log=True)
    refused = lake.refused(instants.BeginInstant(MOR, wire.BeginInstant("w", action, plan=plan)))
    assert isinstance(refused, errors.InvalidPlan)


def test_an_ordinary_write_does_not_go_back_to_requested(lake: Timeline) -> None:
    begun = lake.start(COW, Action.COMMIT)
    back = instants.ReturnToRequested(COW, parse_time(begun.requested_time), wire.ReturnToRequested("w"))
    assert isinstance(lake.refused(back), errors.IllegalTransition)


def test_who_has_lost_a_plan_to_another_can_neither_complete_nor_renew(lake: Timeline) -> None:
    lake.written(MOR, Action.DELTACOMMIT, 1, log=True)
    planned = lake.planned(MOR, Action.COMPACTION, group(1), lease_seconds=5)
    time = parse_time(planned.requested_time)
    lake.pass_seconds(60)
    lake.done(instants.ReturnToRequested(MOR, time, wire.ReturnToRequested("reaper")))
    take(lake, planned, "another")
    stale = wire.CompleteInstant([stat(planned, 1)], writer="w")
    assert isinstance(lake.refused(instants.CompleteInstant(MOR, time, stale)), errors.LeaseLive)
    renewal = leases.RenewLease(MOR, time, wire.Heartbeat(writer="w"))
    assert isinstance(lake.refused(renewal), errors.LeaseLive)


def test_many_instants_are_begun_at_once_in_order(lake: Timeline) -> None:
    body = lake.done(instants.BeginInstant(COW, wire.BeginInstant("w", count=50)))
    begun = msgspec.json.decode(body, type=wire.InstantPage).instants
    times = [parse_time(one.requested_time) for one in begun]
    assert len(times) == 50
    assert times == sorted(set(times))


# ---------------------------------------------------------------------------------- replacing


def test_a_replaced_file_group_is_gone_but_for_those_who_look_back(lake: Timeline) -> None:
    first = lake.written(COW, Action.COMMIT, 0, 1)
    overwrite = lake.start(COW, Action.REPLACECOMMIT, operation=Operation.INSERT_OVERWRITE)
    done = lake.finish(overwrite, stat(overwrite, 0, generation=1), replaced=(group(0), group(1)))
    assert lake.seen(COW) == {bucket_file_id(0, 1): (overwrite.requested_time, 0)}
    assert set(lake.seen(COW, first.completion_time)) == {bucket_file_id(0), bucket_file_id(1)}
    late = lake.start(COW, Action.COMMIT)
    refused = lake.refused(completion(late, stat(late, 1)))
    assert isinstance(refused, errors.WriteConflict), "a replaced group never comes back"
    assert refused.context["winner"] == done.requested_time
    skipping = lake.refused(completion(late, stat(late, 1, generation=2)))
    assert isinstance(skipping, errors.InvalidPlan)
    lake.finish(late, stat(late, 1, generation=1))


def test_a_file_group_is_not_written_and_replaced_at_once(lake: Timeline) -> None:
    lake.written(COW, Action.COMMIT, 1)
    overwrite = lake.start(COW, Action.REPLACECOMMIT)
    both = completion(overwrite, stat(overwrite, 1), replaced=(group(1),))
    assert isinstance(lake.refused(both), errors.InvalidPlan)


def test_what_is_not_there_cannot_be_replaced(lake: Timeline) -> None:
    overwrite = lake.start(COW, Action.REPLACECOMMIT)
    assert isinstance(lake.refused(completion(overwrite, replaced=(group(2),))), errors.InvalidPlan)


def test_a_log_of_a_log_compaction_in_a_replaced_group_is_never_seen(lake: Timeline) -> None:
    lake.written(MOR, Action.DELTACOMMIT, 1, log=True)
    service = lake.planned(MOR, Action.LOGCOMPACTION, group(1))
    overwrite = lake.start(MOR, Action.REPLACECOMMIT)
    replaced = lake.finish(overwrite, replaced=(group(1),))
    done = lake.finish(service, stat(service, 1, log=True))
    for as_of in (replaced.completion_time, done.completion_time, None):
        assert lake.seen(MOR, as_of) == {}


# ---------------------------------------------------------------------------------- conflicts


def test_appends_never_conflict_and_a_compaction_passes_them_by(lake: Timeline) -> None:
    lake.written(MOR, Action.DELTACOMMIT, 1, log=True)
    slow, fast = lake.start(MOR, Action.DELTACOMMIT), lake.start(MOR, Action.DELTACOMMIT)
    compaction = lake.planned(MOR, Action.COMPACTION, group(1))
    lake.finish(fast, stat(fast, 1, log=True))
    lake.finish(compaction, stat(compaction, 1))
    lake.finish(slow, stat(slow, 1, log=True))
    assert lake.seen(MOR) == {bucket_file_id(1): (compaction.requested_time, 2)}


@pytest.mark.parametrize("table", [MOR, GIVING_WAY])
def test_who_gives_way_is_a_property_of_the_table(lake: Timeline, table: str) -> None:
    lake.written(table, Action.DELTACOMMIT, 1, log=True)
    writer = lake.start(table, Action.DELTACOMMIT)
    service = lake.planned(table, Action.CLUSTERING, group(1))
    if table == GIVING_WAY:
        refused = lake.refused(completion(writer, stat(writer, 1, log=True)))
        assert isinstance(refused, errors.WriteConflict)
        assert refused.context["winner"] == service.requested_time
        assert refused.context["rebase_on"] is None
        lake.finish(service, stat(service, 1, generation=1), replaced=(group(1),))
    else:
        lake.finish(writer, stat(writer, 1, log=True))
        service_lost = completion(service, stat(service, 1, generation=1), replaced=(group(1),))
        refused = lake.refused(service_lost)
        assert isinstance(refused, errors.WriteConflict)
        assert refused.context["winner"] == writer.requested_time


def test_a_pending_instant_that_completes_after_i_began_is_a_candidate(lake: Timeline) -> None:
    other = lake.start(COW, Action.COMMIT)
    mine = lake.start(COW, Action.COMMIT)
    done = lake.finish(other, stat(other, 1))
    refused = lake.refused(completion(mine, stat(mine, 1), stat(mine, 2)))
    assert isinstance(refused, errors.WriteConflict)
    assert refused.context["rebase_on"] == done.completion_time
    assert refused.context["file_groups"] == [{"partition_path": "", "file_id": bucket_file_id(1)}]


def test_without_buckets_it_is_the_file_group_that_two_writers_must_not_share(lake: Timeline) -> None:
    simple = wire_tables.NewBucketIndex(IndexType.SIMPLE)
    lake.make_table_of("shop.simple", TableType.COPY_ON_WRITE, {}, simple)
    one, two, three = (lake.start("shop.simple", Action.COMMIT) for _ in range(3))
    lake.finish(one, named_stat(one, "aa-0"))
    lake.finish(two, named_stat(two, "bb-0"))
    assert isinstance(lake.refused(completion(three, named_stat(three, "aa-0"))), errors.WriteConflict)
    assert set(lake.seen("shop.simple")) == {"aa-0", "bb-0"}


def named_stat(instant: wire.Instant, file_id: str) -> WriteStat:
    return WriteStat("", file_id, base_file_name(file_id, "0-0-0", instant.requested_time), 100, 10)


# ---------------------------------------------------------------------------------- rollback


def test_there_is_one_rollback_however_many_ask(lake: Timeline) -> None:
    begun = lake.start(COW, Action.COMMIT)
    time = parse_time(begun.requested_time)
    asked = [rollbacks.RollbackInstant(COW, time, wire.RollbackInstant("w", "tired")) for _ in range(5)]
    answers = lake.send(*asked)
    documents = [msgspec.json.decode(one.body, type=wire.Instant) for one in answers]  # type: ignore[union-attr]
    assert {one.state for one in documents} == {State.ROLLED_BACK}
    [rollback] = {one.rolled_back_by for one in documents}
    assert rollback is not None
    undone_by = lake.now(msgspec.structs.replace(begun, requested_time=rollback))
    assert (undone_by.action, undone_by.state) == (Action.ROLLBACK, State.COMPLETED)
    assert undone_by.target == begun.requested_time


def test_a_rollback_with_files_to_delete_is_gone_on_with_by_whoever_asks_next(lake: Timeline) -> None:
    begun = lake.start(COW, Action.COMMIT)
    names = [stat(begun, bucket).file_name for bucket in (0, 1)]
    undone = lake.undo(begun, files_to_delete=names, lease_seconds=10)
    assert undone.rolled_back_by is not None
    named = msgspec.structs.replace(begun, requested_time=undone.rolled_back_by)
    rollback = lake.now(named)
    assert (rollback.state, rollback.writer) == (State.INFLIGHT, "w")
    assert rollback.plan is not None
    assert rollback.plan.files_to_delete == names
    lake.undo(begun, "another")
    assert lake.now(named).writer == "w", "whoever executes it lives"
    lake.pass_seconds(60)
    lake.undo(begun, "another")
    assert lake.now(named).writer == "another"
    time = parse_time(undone.rolled_back_by)
    lake.done(instants.ReturnToRequested(COW, time, wire.ReturnToRequested("another")))
    lake.undo(begun, "third")
    assert (lake.now(named).state, lake.now(named).writer) == (State.INFLIGHT, "third")
    assert isinstance(
        lake.refused(rollbacks.RollbackInstant(COW, time, wire.RollbackInstant("third"))),
        errors.IllegalTransition,
    )
    assert lake.finish(named).state is State.COMPLETED
    assert lake.now(named).plan == rollback.plan


def test_a_writer_that_was_rolled_back_is_told_the_reason(lake: Timeline) -> None:
    begun = lake.start(COW, Action.COMMIT)
    lake.undo(begun, reason="tired")
    refused = lake.refused(completion(begun, stat(begun, 1)))
    assert isinstance(refused, errors.InstantRolledBack)
    assert "tired" in refused.detail


# ---------------------------------------------------------------------------------- savepoint and restore


def restore(lake: Timeline, savepoint: wire.Instant) -> restores.RestoreTable:
    request = wire.RestoreTable("operator", savepoint.requested_time, "bad load")
    return restores.RestoreTable(savepoint.table, parse_time(savepoint.requested_time), request)


def test_a_restore_goes_back_in_the_order_of_the_design(lake: Timeline) -> None:
    kept = lake.written(MOR, Action.DELTACOMMIT, 1, 2, log=True)
    before = lake.seen(MOR)
    savepoint = lake.save(MOR)
    assert savepoint.target == kept.requested_time
    early = lake.start(MOR, Action.DELTACOMMIT)
    first = lake.written(MOR, Action.DELTACOMMIT, 1, log=True)
    compaction = lake.planned(MOR, Action.COMPACTION, group(1))
    lake.finish(compaction, stat(compaction, 1))
    overwrite = lake.start(MOR, Action.REPLACECOMMIT)
    lake.finish(overwrite, stat(overwrite, 2, generation=1), replaced=(group(2),))
    clustering = lake.planned(MOR, Action.CLUSTERING, group(1), inflight=False)
    lake.finish(early, stat(early, 3, log=True))
    writing = lake.start(MOR, Action.DELTACOMMIT)
    restored = lake.answer(restore(lake, savepoint))
    assert (restored.action, restored.state) == (Action.RESTORE, State.COMPLETED)
    assert restored.target == savepoint.requested_time
    assert restored.plan is not None
    assert restored.plan.instants == [
        one.requested_time for one in (clustering, writing, early, overwrite, compaction, first)
    ]
    assert lake.seen(MOR) == before
    late = lake.refused(completion(writing, stat(writing, 1, log=True)))
    assert isinstance(late, errors.InstantRolledBack)
    again = lake.written(MOR, Action.DELTACOMMIT, 1, 2, log=True)
    assert {logs for _, logs in lake.seen(MOR).values()} == {2}
    assert again.completion_time is not None
    assert lake.seen(MOR, restored.completion_time) == before


def test_a_later_savepoint_refuses_to_be_rolled_back_until_it_is_released(lake: Timeline) -> None:
    lake.written(COW, Action.COMMIT, 1)
    early = lake.save(COW)
    second = lake.written(COW, Action.COMMIT, 1)
    later = lake.save(COW, second)
    assert lake.save(COW, second).requested_time == later.requested_time, "one savepoint per instant"
    pinned = rollbacks.RollbackInstant(COW, parse_time(second.requested_time), wire.RollbackInstant("w"))
    assert isinstance(lake.refused(pinned), errors.IllegalTransition)
    refused = lake.refused(restore(lake, early))
    assert isinstance(refused, errors.Savepointed)
    assert refused.context["savepoints"] == [later.requested_time]
    release = savepoints.ReleaseSavepoint(
        COW, parse_time(later.requested_time), wire.ReleaseSavepoint("operator", "not needed")
    )
    assert lake.answer(release).state is State.ROLLED_BACK
    assert isinstance(lake.refused(release), errors.IllegalTransition)
    lake.done(restore(lake, early))
    assert isinstance(lake.refused(restore(lake, later)), errors.IllegalTransition)


def test_only_what_has_completed_and_changed_the_table_is_pinned(lake: Timeline) -> None:
    nothing = savepoints.CreateSavepoint(COW, None, wire.CreateSavepoint("operator"))
    assert isinstance(lake.refused(nothing), errors.InstantNotFound)
    pending = lake.start(COW, Action.COMMIT)
    time = parse_time(pending.requested_time)
    early = savepoints.CreateSavepoint(COW, time, wire.CreateSavepoint("operator"))
    assert isinstance(lake.refused(early), errors.IllegalTransition)


# ---------------------------------------------------------------------------------- several at once


def together(*members: instants.CompleteInstant) -> transactions.CompleteTogether:
    return transactions.CompleteTogether(list(members))


def test_instants_of_several_tables_complete_together_in_one_transaction(lake: Timeline) -> None:
    orders, clicks = lake.start(COW, Action.COMMIT), lake.start(MOR, Action.DELTACOMMIT)
    body = lake.done(
        together(completion(orders, stat(orders, 1)), completion(clicks, stat(clicks, 1, log=True)))
    )
    done = msgspec.json.decode(body, type=wire.CompletedTogether).instants
    assert [one.state for one in done] == [State.COMPLETED] * 2
    assert [one.table for one in done] == [COW, MOR]
    with psycopg.connect(lake.dsn) as connection:
        rows = connection.execute(
            "SELECT transaction_id, position FROM chronolake.event WHERE type = 'InstantCompleted'"
            " ORDER BY position"
        ).fetchall()
    assert rows[0][0] == rows[1][0]
    assert rows[1][1] == rows[0][1] + 1


def test_when_one_of_several_may_not_complete_none_does(lake: Timeline) -> None:
    orders, clicks = lake.start(COW, Action.COMMIT), lake.start(MOR, Action.DELTACOMMIT)
    lake.written(COW, Action.COMMIT, 1)
    both = together(completion(clicks, stat(clicks, 1, log=True)), completion(orders, stat(orders, 1)))
    assert isinstance(lake.refused(both), errors.WriteConflict)
    assert lake.now(clicks).state is State.INFLIGHT
    assert lake.seen(MOR) == {}
    twice = together(completion(clicks), completion(clicks))
    assert isinstance(lake.refused(twice), errors.InvalidPlan)


def test_two_of_one_table_that_touch_one_group_do_not_complete_together(lake: Timeline) -> None:
    one, two = lake.start(COW, Action.COMMIT), lake.start(COW, Action.COMMIT)
    both = together(completion(one, stat(one, 1)), completion(two, stat(two, 1)))
    assert isinstance(lake.refused(both), errors.WriteConflict)
    assert format_time(parse_time(one.requested_time)) == one.requested_time
    assert {lake.now(each).state for each in (one, two)} == {State.INFLIGHT}


# ---------------------------------------------------------------------------------- one after the other


def test_a_table_dropped_and_made_again_in_one_group_goes_on_behind_the_old_one(lake: Timeline) -> None:
    last = lake.start(COW, Action.COMMIT).requested_time
    lake.pass_seconds(-3_600)
    definition = wire_tables.CreateTable(
        name=COW,
        base_path="s3://lake/again",
        schema=[wire_tables.NewField("id", "bigint")],
        record_key_fields=["id"],
    )
    lake.send(tables.DropTable(COW), tables.CreateTable(definition))
    assert lake.start(COW, Action.COMMIT).requested_time > last


def test_a_lease_renewed_in_the_same_group_counts(lake: Timeline) -> None:
    writer = lake.start(GIVING_WAY, Action.DELTACOMMIT)
    overwrite = lake.planned(GIVING_WAY, Action.REPLACECOMMIT, group(1), lease_seconds=5)
    lake.pass_seconds(60)
    renewal = leases.RenewLease(GIVING_WAY, parse_time(overwrite.requested_time), wire.Heartbeat(60))
    _, refused = lake.send(renewal, completion(writer, stat(writer, 1, log=True)))
    assert isinstance(refused, errors.WriteConflict)
    assert refused.context["winner"] == overwrite.requested_time


def test_a_file_group_that_a_restore_brought_back_can_be_planned_for_in_the_same_group(lake: Timeline) -> None:
    lake.written(MOR, Action.DELTACOMMIT, 1, log=True)
    savepoint = lake.save(MOR)
    lake.written(MOR, Action.DELTACOMMIT, 2, log=True)
    overwrite = lake.start(MOR, Action.REPLACECOMMIT)
    lake.finish(overwrite, replaced=(group(1),))
    back = instants.BeginInstant(MOR, wire.BeginInstant("w", Action.COMPACTION, plan=wire.Plan([group(1)])))
    gone = instants.BeginInstant(MOR, wire.BeginInstant("w", Action.COMPACTION, plan=wire.Plan([group(2)])))
    _, planned, refused = lake.send(restore(lake, savepoint), back, gone)
    assert isinstance(planned, Answer)
    assert isinstance(refused, errors.InvalidPlan)


@pytest.mark.parametrize("action", [Action.CLEAN, Action.INDEXING])
def test_nothing_gives_way_to_what_writes_no_data(lake: Timeline, action: Action) -> None:
    lake.written(COW, Action.COMMIT, 1)
    lake.planned(COW, action, group(1))
    clustering = lake.planned(COW, Action.CLUSTERING, group(1))
    lake.finish(clustering, stat(clustering, 1, generation=1), replaced=(group(1),))


def test_a_restore_leaves_the_past_as_it_was(lake: Timeline) -> None:
    first = lake.written(COW, Action.COMMIT, 1, 2)
    savepoint = lake.save(COW)
    second = lake.written(COW, Action.COMMIT, 1)
    overwrite = lake.start(COW, Action.REPLACECOMMIT)
    lake.finish(overwrite, stat(overwrite, 2, generation=1), replaced=(group(2),))
    times = [one.completion_time for one in (first, savepoint, second, lake.now(overwrite))]
    before = [lake.seen(COW, time) for time in times]
    restored = lake.answer(restore(lake, savepoint))
    third = lake.written(COW, Action.COMMIT, 1)
    assert [lake.seen(COW, time) for time in times] == before
    assert lake.seen(COW, restored.completion_time) == before[0]
    # Going back again brings back what the first restore had brought back already, and only that.
    again = lake.answer(restore(lake, savepoint))
    assert lake.seen(COW) == lake.seen(COW, again.completion_time) == before[0]
    assert [lake.seen(COW, time) for time in times] == before
    assert lake.seen(COW, third.completion_time)[bucket_file_id(1)] == (third.requested_time, 0)


def test_who_follows_the_changes_hears_of_a_restore(lake: Timeline) -> None:
    first = lake.written(COW, Action.COMMIT, 1, 2)
    savepoint = lake.save(COW)
    second = lake.written(COW, Action.COMMIT, 1, 3)
    restored = lake.answer(restore(lake, savepoint))
    whole = lake.changes(COW, first.completion_time)
    assert whole.instants == []
    assert [one.requested_time for one in whole.restores] == [restored.requested_time]
    told = {one.file_id: (one.before, one.after) for one in whole.file_groups}
    assert told == {
        bucket_file_id(1): (told[bucket_file_id(1)][1], told[bucket_file_id(1)][1]),
        bucket_file_id(3): (None, None),
    }
    until = lake.changes(COW, first.completion_time, second.completion_time)
    assert [one.requested_time for one in until.instants] == [second.requested_time]
    assert until.restores == []
    since = lake.changes(COW, second.completion_time)
    assert since.instants == []
    assert {one.file_id: one.after is None for one in since.file_groups} == {
        bucket_file_id(1): False,
        bucket_file_id(3): True,
    }


def test_a_range_that_is_cut_off_shows_what_is_undone_only_behind_its_end(
    lake: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    savepoint = lake.save(COW, lake.written(COW, Action.COMMIT, 1))
    undone = [lake.written(COW, Action.COMMIT, bucket) for bucket in (2, 3)]
    restored = lake.answer(restore(lake, savepoint))
    monkeypatch.setattr(file_queries, "CHANGED_INSTANTS_MAX", 2)

    first = lake.changes(COW, None)
    second = lake.changes(COW, first.to)

    assert first.to == undone[0].completion_time
    assert [one.requested_time for one in first.instants][1:] == [undone[0].requested_time]
    assert {one.file_id for one in first.file_groups} == {bucket_file_id(1), bucket_file_id(2)}
    assert (second.to, second.instants) == (restored.completion_time, [])
    assert [one.requested_time for one in second.restores] == [restored.requested_time]


def test_changes_name_the_file_groups_that_were_replaced(lake: Timeline) -> None:
    first = lake.written(COW, Action.COMMIT, 1, 2)
    overwrite = lake.start(COW, Action.REPLACECOMMIT)
    lake.finish(overwrite, replaced=(group(2),))
    [gone] = lake.changes(COW, first.completion_time).file_groups
    assert gone.file_id == bucket_file_id(2)
    assert gone.before is not None
    assert gone.after is None
