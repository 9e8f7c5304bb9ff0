"""A write from begin to its end, against a real server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import chronolake
from chronolake import Operation, State, WriteStat, _progress, calls, errors
from chronolake_model import operations
from chronolake_model.file_names import base_file_name, bucket_file_id, write_token
from chronolake_model.instants import RollbackInstant

WAIT_SECONDS = 20.0


def stat_of(write: chronolake.Write | chronolake.AsyncWrite, bucket: int = 0, records: int = 3) -> WriteStat:
    file_id = bucket_file_id(bucket)
    name = base_file_name(file_id, write_token(bucket, 1, 0), write.requested_time)
    return WriteStat("", file_id, name, size_bytes=100, records=records, inserts=records)


def publish(table: chronolake.Table, bucket: int = 0) -> chronolake.Instant:
    with table.begin() as write:
        write.add(stat_of(write, bucket))
    return write.instant


def test_a_block_that_ends_well_publishes_the_files_that_were_added(table: chronolake.Table) -> None:
    with table.begin(operation=Operation.UPSERT, writer="job-7") as write:
        write.add(stat_of(write, 0))
        write.add(stat_of(write, 1))

    instant = table.instant(write.requested_time)
    assert write.instant == instant
    assert instant.state is State.COMPLETED
    assert instant.operation is Operation.UPSERT
    assert instant.writer == "job-7"
    assert instant.summary is not None
    assert (instant.summary.files, instant.summary.records) == (2, 6)
    assert [file_slice.file_id for file_slice in table.snapshot().slices] == [
        bucket_file_id(0),
        bucket_file_id(1),
    ]


@pytest.fixture
def staging_from_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many files are four, and they are staged two at a time."""
    monkeypatch.setattr(_progress, "STAGED_FROM", 3)
    monkeypatch.setattr(_progress, "STAGED_AT_ONCE", 2)


@pytest.mark.usefixtures("staging_from_four")
def test_very_many_files_are_staged_part_by_part_and_published_together(
    client: chronolake.Client, table: chronolake.Table
) -> None:
    with table.begin() as write:
        write.add(stat_of(write, 0))
        write.complete([stat_of(write, bucket) for bucket in range(1, 4)], {"rows": "12"})

    events = [event.type for event in client.events(table=table.name)]
    assert events[-3:] == ["WriteStatsStaged", "WriteStatsStaged", "InstantCompleted"]
    assert write.instant.summary is not None
    assert (write.instant.summary.files, write.instant.summary.records) == (4, 12)
    assert write.instant.extra_metadata == {"rows": "12"}
    assert len(table.snapshot().slices) == 4


@pytest.mark.usefixtures("staging_from_four")
def test_few_files_are_not_staged(client: chronolake.Client, table: chronolake.Table) -> None:
    with table.begin() as write:
        for bucket in range(3):
            write.add(stat_of(write, bucket))

    events = [event.type for event in client.events(table=table.name)]
    assert events[-2:] == ["InstantRequested", "InstantCompleted"]


@pytest.mark.usefixtures("staging_from_four")
def test_very_many_files_of_one_that_has_lost_are_rolled_back(table: chronolake.Table) -> None:
    with pytest.raises(errors.WriteConflict), table.begin() as write:
        for bucket in range(4):
            write.add(stat_of(write, bucket))
        publish(table, bucket=3)

    assert table.instant(write.requested_time).state is State.ROLLED_BACK


def test_a_block_that_raises_rolls_back_and_the_error_passes_through(table: chronolake.Table) -> None:
    with pytest.raises(ZeroDivisionError) as caught, table.begin() as write:
        write.add(stat_of(write))
        raise ZeroDivisionError("by zero")

    instant = table.instant(write.requested_time)
    assert instant.state is State.ROLLED_BACK
    assert instant.rollback_reason == "ZeroDivisionError: by zero"
    assert not getattr(caught.value, "__notes__", [])
    assert table.snapshot().slices == []


def test_an_error_whose_text_no_json_can_hold_rolls_back_all_the_same(table: chronolake.Table) -> None:
    with pytest.raises(OSError, match="file"), table.begin() as write:
        raise OSError("file \udcff\0 is broken")

    assert table.instant(write.requested_time).rollback_reason == "OSError: file ?? is broken"


def test_an_error_is_not_hidden_when_the_rollback_fails_too(table: chronolake.Table) -> None:
    with pytest.raises(ZeroDivisionError) as caught, table.begin() as write:
        # Another process completes it meanwhile.
        table.write(write.requested_time).complete()
        raise ZeroDivisionError("by zero")

    assert table.instant(write.requested_time).state is State.COMPLETED
    assert "not rolled back" in caught.value.__notes__[0]
    assert "completed" in caught.value.__notes__[0]


def test_an_instant_that_was_completed_in_the_block_is_left_alone(table: chronolake.Table) -> None:
    with table.begin() as write:
        write.complete([stat_of(write)], {"rows": "3"})

    assert write.instant.state is State.COMPLETED
    assert write.instant.extra_metadata == {"rows": "3"}


def test_an_instant_that_another_process_completed_is_left_alone_once_that_is_known(
    table: chronolake.Table,
) -> None:
    with table.begin() as write:
        elsewhere = table.write(write.requested_time)
        elsewhere.complete([stat_of(write)])
        assert write.refresh().state is State.COMPLETED

    assert write.instant.summary is not None
    assert write.instant.summary.files == 1


def test_an_instant_that_was_rolled_back_in_the_block_is_left_alone(table: chronolake.Table) -> None:
    with table.begin() as write:
        write.rollback("nothing to do")

    assert write.instant.state is State.ROLLED_BACK


def test_the_rollback_of_a_completed_instant_is_refused(table: chronolake.Table) -> None:
    instant = publish(table)

    with pytest.raises(errors.IllegalTransition) as caught:
        table.write(instant.requested_time).rollback()

    assert caught.value.context["state"] == "completed"


def test_a_writer_that_was_rolled_back_cannot_complete(table: chronolake.Table) -> None:
    with pytest.raises(errors.InstantRolledBack), table.begin() as write:
        table.write(write.requested_time).rollback("operator")


def test_the_loser_of_a_write_conflict_gets_the_winner_and_is_rolled_back(table: chronolake.Table) -> None:
    with pytest.raises(errors.WriteConflict) as caught, table.begin() as loser:
        loser.add(stat_of(loser, 0))
        winner = publish(table, 0)

    assert caught.value.context["winner"] == winner.requested_time
    assert table.instant(loser.requested_time).state is State.ROLLED_BACK


def test_an_instant_may_stay_requested_until_it_is_taken_inflight(table: chronolake.Table) -> None:
    write = table.begin(inflight=False)
    assert write.instant.state is State.REQUESTED
    with pytest.raises(errors.IllegalTransition):
        write.complete()

    assert write.inflight().state is State.INFLIGHT
    assert write.complete().state is State.COMPLETED


def test_an_unknown_instant_is_not_found(table: chronolake.Table) -> None:
    with pytest.raises(errors.InstantNotFound):
        table.write("20200101000000000")


def test_begin_chooses_the_action_by_the_type_of_the_table(
    client: chronolake.Client, namespace: str, table: chronolake.Table
) -> None:
    definition = table.definition
    merged = client.create_table(
        f"{namespace}.merged",
        base_path=f"file:///merged/{namespace}",
        schema=definition.schema,
        record_key_fields=["id"],
        ordering_field="id",
        type=chronolake.TableType.MERGE_ON_READ,
    )

    assert table.begin().instant.action is chronolake.Action.COMMIT
    assert merged.begin().instant.action is chronolake.Action.DELTACOMMIT


def test_a_heartbeat_moves_the_end_of_the_lease(table: chronolake.Table) -> None:
    write = table.begin(lease_seconds=10)
    before = write.instant.lease_expires_at

    after = write.heartbeat(600).lease_expires_at

    assert before is not None
    assert after is not None
    assert (after - before).total_seconds() > 500


def test_a_block_that_outlives_its_lease_keeps_it(table: chronolake.Table) -> None:
    with table.begin(lease_seconds=1) as write:
        first = write.instant.version
        await_(lambda: write.instant.version >= first + 4)
        with pytest.raises(errors.LeaseLive):
            roll_back_as("a stranger", table, write.requested_time)

    assert write.instant.state is State.COMPLETED


def test_a_renewal_reports_the_rollback_and_complete_raises_it(
    table: chronolake.Table,
) -> None:
    with pytest.raises(errors.InstantRolledBack), table.begin(lease_seconds=1) as write:
        table.write(write.requested_time).rollback("operator")
        await_(lambda: write.lost is not None)
        assert isinstance(write.lost, errors.InstantRolledBack)
        write.complete()


def test_no_thread_is_left_behind(table: chronolake.Table) -> None:
    with table.begin() as write:
        assert any(write.requested_time in thread.name for thread in threading.enumerate())

    assert not any(write.requested_time in thread.name for thread in threading.enumerate())


def test_threads_may_share_a_client_and_a_write(table: chronolake.Table) -> None:
    with ThreadPoolExecutor(4) as pool, table.begin() as write:
        list(pool.map(lambda bucket: write.add(stat_of(write, bucket)), range(4)))
        begun = list(pool.map(lambda _: table.begin(), range(8)))

    assert len({instant.requested_time for instant in begun}) == 8
    assert len(table.snapshot().slices) == 4


def test_the_timeline_is_filtered_ordered_bounded_and_paged(table: chronolake.Table) -> None:
    done = [publish(table, bucket) for bucket in range(3)]
    pending = table.begin()

    newest = table.instants(direction=chronolake.Direction.DESCENDING, limit=2)
    assert [instant.requested_time for instant in newest] == [pending.requested_time, done[2].requested_time]
    completed = table.instants(state=State.COMPLETED, requested_from=done[0].requested_time)
    assert list(completed) == done[1:]
    either = table.instants(state=[State.INFLIGHT, State.REQUESTED])
    assert [instant.requested_time for instant in either] == [pending.requested_time]
    by_completion = table.instants(
        completed_to=done[1].completion_time, order_by=chronolake.TimeOrder.COMPLETION_TIME
    )
    assert list(by_completion) == done[:2]
    assert list(table.instants(limit=0)) == []


def test_pages_are_followed_to_the_end(table: chronolake.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chronolake.calls.base.LIMIT_MAX", 2)
    monkeypatch.setattr("chronolake.calls.base.FILES_LIMIT_MAX", 2)
    done = [publish(table, bucket) for bucket in (0, 1, 2, 3, 0)]

    assert list(table.instants()) == done
    assert len(table.snapshot().slices) == 4
    changes = table.changes()
    assert [instant.requested_time for instant in changes.instants] == [
        instant.requested_time for instant in done
    ]
    assert len(changes.file_groups) == 4


def test_a_snapshot_of_the_past_shows_the_instants_completed_by_then(table: chronolake.Table) -> None:
    first = publish(table, 0)
    publish(table, 1)

    then = table.snapshot(as_of=first.completion_time)

    assert then.as_of == first.completion_time
    assert [file_slice.file_id for file_slice in then.slices] == [bucket_file_id(0)]


def test_changes_continue_at_the_end_of_the_last_ones(table: chronolake.Table) -> None:
    publish(table, 0)
    start = table.changes()
    second = publish(table, 1)

    changes = table.changes(from_=start.to)

    assert [instant.requested_time for instant in changes.instants] == [second.requested_time]
    assert [file_group.file_id for file_group in changes.file_groups] == [bucket_file_id(1)]
    assert changes.to is not None
    assert second.completion_time is not None
    assert changes.to >= second.completion_time


def roll_back_as(writer: str, table: chronolake.Table, requested_time: str) -> None:
    table._transport.send(
        calls.call(
            operations.timeline.ROLL_BACK_INSTANT, table.name, requested_time, body=RollbackInstant(writer)
        )
    )


def await_(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
