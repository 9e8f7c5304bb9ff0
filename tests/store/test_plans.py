"""Plans of table services, the file groups that they name, and those that writes replace."""

from __future__ import annotations

import psycopg
import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain import instants, leases, rollbacks
from chronolake_metastore.domain.plans import NewPlan
from chronolake_metastore.domain.results import BegunInstantsResult
from chronolake_model import instants as wire
from chronolake_model.file_names import bucket_file_id
from chronolake_model.times import parse_time
from chronolake_model.vocabulary import Action, Operation, State
from tests.store.tables_of_types import COW, MOR, TablesOfTypes, completion, group, stat
from tests.store.tampering import failed_checks


@pytest.mark.parametrize(
    ("action", "completed_as", "operation"),
    [
        (Action.COMPACTION, Action.COMMIT, Operation.COMPACT),
        (Action.LOGCOMPACTION, Action.DELTACOMMIT, Operation.LOG_COMPACT),
        (Action.CLUSTERING, Action.REPLACECOMMIT, Operation.CLUSTER),
    ],
)
def test_a_table_service_plans_waits_is_executed_and_takes_the_name_that_hudi_gives_it(
    history: TablesOfTypes, action: Action, completed_as: Action, operation: Operation
) -> None:
    history.written(MOR, Action.DELTACOMMIT, 1, log=True)
    planned = history.planned(MOR, action, group(1), inflight=False)
    assert (planned.action, planned.operation, planned.state) == (action, operation, State.REQUESTED)
    assert planned.lease_expires_at is None
    inflight = take(history, planned, "executor")
    assert (inflight.state, inflight.writer) == (State.INFLIGHT, "executor")
    back = history.answer(
        instants.ReturnToRequested(MOR, parse_time(planned.requested_time), "executor", "out of memory")
    )
    assert (back.state, back.lease_expires_at) == (State.REQUESTED, None)
    assert back.plan == wire.RecordedPlan([group(1)], file_groups_count=1)
    again = take(history, planned, "another")
    stats = {
        Action.COMPACTION: [stat(again, 1)],
        Action.LOGCOMPACTION: [stat(again, 1, log=True)],
        Action.CLUSTERING: [stat(again, 1, generation=1)],
    }
    replaced = (group(1),) if action is Action.CLUSTERING else ()
    done = history.finish(again, *stats[action], replaced=replaced)
    assert (done.action, done.operation, done.state) == (completed_as, operation, State.COMPLETED)


def test_one_transaction_may_end_a_plan_and_make_another_of_the_same_group(history: TablesOfTypes) -> None:
    history.written(MOR, Action.DELTACOMMIT, 1, log=True)
    first = history.planned(MOR, Action.COMPACTION, group(1), inflight=False)
    rollback = rollbacks.RollbackInstant(MOR, parse_time(first.requested_time), "w")
    begin = instants.BeginInstant(MOR, "w", Action.COMPACTION, inflight=False, plan=NewPlan([group(1)]))

    results = history.send(rollback, begin)

    assert not [result for result in results if isinstance(result, errors.TimelineError)]
    assert failed_checks(history.dsn) == set()


def test_the_database_refuses_a_second_plan_of_a_file_group(history: TablesOfTypes) -> None:
    """#1780, #5916: two pending compactions of one file group."""
    history.written(MOR, Action.DELTACOMMIT, 1, log=True)
    history.planned(MOR, Action.COMPACTION, group(1), inflight=False)

    with (
        psycopg.connect(history.dsn) as connection,
        pytest.raises(psycopg.errors.UniqueViolation, match="planned_group_of_service"),
    ):
        connection.execute(
            "INSERT INTO chronolake.planned_group SELECT table_id, partition_path, file_id,"
            " requested_time + interval '1 s', true FROM chronolake.planned_group"
        )


def take(history: TablesOfTypes, instant: wire.Instant, writer: str) -> wire.Instant:
    return history.answer(instants.TakeInflight(instant.table, parse_time(instant.requested_time), writer))


def test_a_file_group_is_in_one_plan_at_a_time(history: TablesOfTypes) -> None:
    history.written(MOR, Action.DELTACOMMIT, 1, 2, log=True)
    first = history.planned(MOR, Action.COMPACTION, group(1), inflight=False)
    second = instants.BeginInstant(MOR, "w", Action.CLUSTERING, plan=NewPlan([group(1), group(2)]))
    refused = history.refused(second)
    assert isinstance(refused, errors.WriteConflict)
    assert refused.context["winner"] == first.requested_time
    history.undo(first)
    history.done(second)


@pytest.mark.parametrize(
    ("action", "plan"),
    [
        (Action.COMPACTION, None),
        (Action.COMPACTION, NewPlan()),
        (Action.CLUSTERING, NewPlan([group(3)])),
        (Action.COMPACTION, NewPlan([group(1), group(1)])),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(
    history: TablesOfTypes, action: Action, plan: NewPlan | None
) -> None:
    history.written(MOR, Action.DELTACOMMIT, 1, log=True)
    refused = history.refused(instants.BeginInstant(MOR, "w", action, plan=plan))
    assert isinstance(refused, errors.InvalidPlan)


def test_an_ordinary_write_does_not_go_back_to_requested(history: TablesOfTypes) -> None:
    begun = history.start(COW, Action.COMMIT)
    back = instants.ReturnToRequested(COW, parse_time(begun.requested_time), "w")
    assert isinstance(history.refused(back), errors.IllegalTransition)


def test_an_executor_that_lost_its_plan_can_neither_complete_nor_renew(history: TablesOfTypes) -> None:
    history.written(MOR, Action.DELTACOMMIT, 1, log=True)
    planned = history.planned(MOR, Action.COMPACTION, group(1), lease_seconds=5)
    time = parse_time(planned.requested_time)
    history.pass_seconds(60)
    history.done(instants.ReturnToRequested(MOR, time, "reaper"))
    take(history, planned, "another")
    assert isinstance(
        history.refused(instants.CompleteInstant(MOR, time, [stat(planned, 1)], writer="w")), errors.LeaseLive
    )
    renewal = leases.RenewLease(MOR, time, writer="w")
    assert isinstance(history.refused(renewal), errors.LeaseLive)


def test_many_instants_are_begun_at_once_in_order(history: TablesOfTypes) -> None:
    begun = history.done(instants.BeginInstant(COW, "w", count=50))
    assert isinstance(begun, BegunInstantsResult)
    times = begun.requested_times
    assert len(times) == 50
    assert times == sorted(set(times))


def test_a_replaced_file_group_is_visible_only_in_the_past(history: TablesOfTypes) -> None:
    first = history.written(COW, Action.COMMIT, 0, 1)
    overwrite = history.start(COW, Action.REPLACECOMMIT, operation=Operation.INSERT_OVERWRITE)
    done = history.finish(overwrite, stat(overwrite, 0, generation=1), replaced=(group(0), group(1)))
    assert history.seen(COW) == {bucket_file_id(0, 1): (overwrite.requested_time, 0)}
    assert set(history.seen(COW, first.completion_time)) == {bucket_file_id(0), bucket_file_id(1)}
    late = history.start(COW, Action.COMMIT)
    refused = history.refused(completion(late, stat(late, 1)))
    assert isinstance(refused, errors.WriteConflict), "a replaced group never comes back"
    assert refused.context["winner"] == done.requested_time
    skipping = history.refused(completion(late, stat(late, 1, generation=2)))
    assert isinstance(skipping, errors.InvalidPlan)
    history.finish(late, stat(late, 1, generation=1))


def test_a_file_group_is_not_written_and_replaced_at_once(history: TablesOfTypes) -> None:
    history.written(COW, Action.COMMIT, 1)
    overwrite = history.start(COW, Action.REPLACECOMMIT)
    both = completion(overwrite, stat(overwrite, 1), replaced=(group(1),))
    assert isinstance(history.refused(both), errors.InvalidPlan)


def test_a_missing_file_group_cannot_be_replaced(history: TablesOfTypes) -> None:
    overwrite = history.start(COW, Action.REPLACECOMMIT)
    assert isinstance(history.refused(completion(overwrite, replaced=(group(2),))), errors.InvalidPlan)


def test_a_log_of_a_log_compaction_in_a_replaced_group_is_never_seen(history: TablesOfTypes) -> None:
    history.written(MOR, Action.DELTACOMMIT, 1, log=True)
    service = history.planned(MOR, Action.LOGCOMPACTION, group(1))
    overwrite = history.start(MOR, Action.REPLACECOMMIT)
    replaced = history.finish(overwrite, replaced=(group(1),))
    done = history.finish(service, stat(service, 1, log=True))
    for as_of in (replaced.completion_time, done.completion_time, None):
        assert history.seen(MOR, as_of) == {}


def test_changes_name_the_file_groups_that_were_replaced(history: TablesOfTypes) -> None:
    first = history.written(COW, Action.COMMIT, 1, 2)
    overwrite = history.start(COW, Action.REPLACECOMMIT)
    history.finish(overwrite, replaced=(group(2),))
    [gone] = history.changes(COW, first.completion_time).file_groups
    assert gone.file_id == bucket_file_id(2)
    assert gone.before is not None
    assert gone.after is None
