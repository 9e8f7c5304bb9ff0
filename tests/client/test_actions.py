"""Table services, savepoints, restore, several at once, and the timeline's words, against a real server."""

from __future__ import annotations

import pytest

import chronolake
from chronolake import Action, FileGroupName, Operation, State, WriteStat, errors
from chronolake._progress import PLAN_KEEPING_ACTIONS
from chronolake_metastore.domain.actions import RULES
from chronolake_model.file_names import base_file_name, bucket_file_id
from tests.client.gateway import Fault, Gateway
from tests.client.test_writes import publish, stat_of


def group(bucket: int, generation: int = 0) -> FileGroupName:
    return FileGroupName("", bucket_file_id(bucket, generation))


def next_group(write: chronolake.Write, bucket: int) -> WriteStat:
    """A base file in the file group that comes after a bucket's first."""
    file_id = bucket_file_id(bucket, 1)
    return WriteStat("", file_id, base_file_name(file_id, "0-0-0", write.requested_time), 100, 3)


def log_of(write: chronolake.Write, bucket: int) -> WriteStat:
    file_id = bucket_file_id(bucket)
    return WriteStat("", file_id, f".{file_id}_{write.requested_time}.log.1_0-0-0", 10, 1)


def append(table: chronolake.Table, bucket: int) -> chronolake.Instant:
    with table.begin() as write:
        write.add(log_of(write, bucket))
    return write.instant


def test_the_client_knows_which_actions_keep_their_plan() -> None:
    assert {action for action, rules in RULES.items() if rules.keeps_plan} == PLAN_KEEPING_ACTIONS


def test_a_plan_waits_and_is_executed_by_another(clicks: chronolake.Table) -> None:
    append(clicks, 1)

    planned = clicks.plan(Action.COMPACTION, [group(1)], {"strategy": "log size"}, writer="planner")
    assert (planned.state, planned.lease_expires_at) == (State.REQUESTED, None)
    with clicks.execute(planned.requested_time, writer="executor", lease_seconds=30) as write:
        assert write.instant.plan == chronolake.RecordedPlan(
            [group(1)], {"strategy": "log size"}, file_groups_count=1
        )
        write.add(stat_of(write, 1))

    assert (write.instant.action, write.instant.operation) == (Action.COMMIT, Operation.COMPACT)
    assert write.instant.writer == "executor"
    [file_slice] = clicks.snapshot().slices
    assert file_slice.base_instant_time == planned.requested_time


def test_an_execution_that_raises_keeps_the_plan(clicks: chronolake.Table) -> None:
    append(clicks, 1)
    planned = clicks.plan(Action.COMPACTION, [group(1)])

    with pytest.raises(ZeroDivisionError), clicks.execute(planned.requested_time):
        raise ZeroDivisionError("by zero")
    assert clicks.instant(planned.requested_time).state is State.REQUESTED

    again = clicks.execute(planned.requested_time)
    assert again.return_to_requested("not now").state is State.REQUESTED
    with clicks.execute(planned.requested_time) as third:
        third.return_to_requested()
    assert clicks.instant(planned.requested_time).state is State.REQUESTED


def test_a_plan_that_has_lost_to_a_write_is_rolled_back(table: chronolake.Table) -> None:
    publish(table, 1)
    planned = table.plan(Action.CLUSTERING, [group(1)])

    with pytest.raises(errors.InstantRolledBack), table.execute(planned.requested_time) as write:
        publish(table, 1)
        write.add(next_group(write, 1))
        write.replace(group(1))

    assert table.instant(planned.requested_time).state is State.ROLLED_BACK


def test_an_executor_that_lost_its_plan_stops_and_leaves_it_alone(clicks: chronolake.Table) -> None:
    append(clicks, 1)
    planned = clicks.plan(Action.COMPACTION, [group(1)])

    with (
        pytest.raises(errors.LeaseLive),
        clicks.execute(planned.requested_time, writer="first") as slow,
    ):
        clicks.write(planned.requested_time).return_to_requested("it hangs")
        other = clicks.execute(planned.requested_time, writer="second")
        slow.refresh()
        slow.complete()

    assert other.refresh().state is State.INFLIGHT
    assert other.complete([stat_of(other, 1)]).state is State.COMPLETED


def test_a_replaced_file_group_disappears(table: chronolake.Table) -> None:
    publish(table, 1)
    publish(table, 2)

    with table.begin(action=Action.REPLACECOMMIT, operation=Operation.INSERT_OVERWRITE) as write:
        write.replace(group(1))
        write.complete([next_group(write, 1)], replaced_file_groups=[group(2)])

    assert [file_slice.file_id for file_slice in table.snapshot().slices] == [bucket_file_id(1, 1)]


def test_a_conflict_is_reported_before_the_work_is_done(table: chronolake.Table) -> None:
    write = table.begin()
    assert write.conflicts() is None
    write.add(stat_of(write, 1))
    assert write.conflicts() is None

    winner = publish(table, 1)

    conflict = write.conflicts()
    assert conflict is not None
    assert (conflict.winner, conflict.rebase_on) == (winner.requested_time, winner.completion_time)
    assert conflict.file_groups == [group(1)]
    assert write.conflicts([chronolake.TouchedFileGroup("", bucket_file_id(2))]) is None
    assert write.refresh().state is State.INFLIGHT


def test_many_instants_are_begun_in_one_request(table: chronolake.Table) -> None:
    begun = table.begin_many(20, writer="batch")

    times = [write.requested_time for write in begun]
    assert times == sorted(set(times))
    assert [instant.requested_time for instant in table.instants(pending=True, writer="batch")] == times


def test_writes_of_several_tables_complete_together(
    client: chronolake.Client, table: chronolake.Table, clicks: chronolake.Table
) -> None:
    with table.begin() as order, clicks.begin() as click:
        order.add(stat_of(order, 1))
        order.extra_metadata["batch"] = "7"
        click.add(log_of(click, 1))
        done = client.complete_together([order, click])

    assert done == [order.instant, click.instant]
    assert [instant.state for instant in done] == [State.COMPLETED] * 2
    assert done[0].extra_metadata == {"batch": "7"}
    assert client.complete_together([]) == []


def test_when_one_of_several_may_not_complete_none_does(
    client: chronolake.Client, table: chronolake.Table, clicks: chronolake.Table
) -> None:
    with pytest.raises(errors.WriteConflict), clicks.begin() as click, table.begin() as order:
        click.add(log_of(click, 1))
        order.add(stat_of(order, 1))
        publish(table, 1)
        client.complete_together([click, order])

    assert clicks.instant(click.requested_time).state is State.ROLLED_BACK
    assert table.instant(order.requested_time).state is State.ROLLED_BACK
    assert clicks.snapshot().slices == []


def test_several_that_complete_while_answers_are_lost_do_so_once(
    gateway: Gateway, table: chronolake.Table
) -> None:
    with chronolake.connect(gateway.url, retry_seconds=20) as client:
        writes = client.table(table.name).begin_many(2)
        for bucket, write in enumerate(writes):
            write.add(stat_of(write, bucket))
        gateway.faults.extend([Fault.LOSE_ANSWER, Fault.BAD_GATEWAY])
        done = client.complete_together(writes)

    assert list(table.instants()) == done


def test_a_table_goes_back_to_a_savepoint(table: chronolake.Table) -> None:
    kept = publish(table, 1)
    savepoint = table.savepoint(comment="before the load")
    assert savepoint.target == kept.requested_time
    assert table.savepoint(kept.requested_time).requested_time == savepoint.requested_time
    bad, writing = publish(table, 1), table.begin()

    restored = table.restore(savepoint.requested_time, "a bad load")

    assert restored.plan is not None
    assert restored.plan.instants == [writing.requested_time, bad.requested_time]
    [file_slice] = table.snapshot().slices
    assert file_slice.base_instant_time == kept.requested_time
    with pytest.raises(errors.InstantRolledBack):
        writing.complete()
    assert list(table.timeline.savepoints()) == [savepoint]
    table.release_savepoint(savepoint.requested_time, "over")
    assert table.timeline.savepoints().first() is None


def test_a_rollback_with_files_to_delete_is_completed_by_its_executor(table: chronolake.Table) -> None:
    write = table.begin()
    file_name = stat_of(write, 0).file_name

    undone = table.rollback(write.requested_time, files_to_delete=[file_name], execute=False)

    assert undone.rolled_back_by is not None
    rollback = table.execute(undone.rolled_back_by)
    assert rollback.instant.plan is not None
    assert rollback.instant.plan.files_to_delete == [file_name]
    assert rollback.complete().state is State.COMPLETED
    assert [rollback.target for rollback in table.timeline.rollbacks()] == [write.requested_time]


def test_a_timeline_is_read_in_hudis_words(table: chronolake.Table) -> None:
    slow = table.begin()
    done = [publish(table, bucket) for bucket in range(3)]
    pending = table.begin(operation=Operation.DELETE, writer="eraser")
    last = slow.complete([stat_of(slow, 3)])
    timeline = table.timeline

    assert timeline.first() == last
    assert timeline.last() == pending.instant
    assert timeline.nth(2) == done[1]
    assert timeline.nth(5) is None
    assert list(timeline.pending()) == [pending.instant]
    assert list(timeline.active()) == list(timeline)
    assert timeline.where(operation=Operation.DELETE, writer="eraser").first() == pending.instant
    completed = timeline.completed()
    assert completed.last() == done[2]
    assert completed.by_completion_time().last() == last
    assert list(completed.reverse().take(2)) == [done[2], done[1]]
    assert timeline.before_or_on(done[1].requested_time).last() == done[1]
    assert list(timeline.after(done[1].requested_time)) == [done[2], pending.instant]
    assert done[1].completion_time is not None
    by_completion = timeline.by_completion_time()
    assert by_completion.before_or_on(done[1].completion_time).last() == done[1]
    assert list(by_completion.after(done[1].completion_time)) == [done[2], last]
    assert list(timeline.before_or_on(done[2].requested_time).before_or_on(done[0].requested_time)) == [
        last,
        done[0],
    ]


def test_words_that_no_instant_fits_are_refused_at_once(table: chronolake.Table) -> None:
    with pytest.raises(ValueError, match="completed"):
        table.timeline.pending().completed()
    with pytest.raises(ValueError, match="both the writer"):
        table.timeline.where(writer="a").where(writer="b")
    with pytest.raises(ValueError, match="from 0"):
        table.timeline.nth(-1)
