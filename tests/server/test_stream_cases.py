"""Streams: cases that other streaming sinks have got wrong; tests/streams/test_cases.py lists all of them."""

from __future__ import annotations

import concurrent.futures
import threading

import httpx
import pytest

from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.checkpoints import StreamOfTable, live_logs
from tests.server.rest import Table, log_stat, refused, succeeded, write_stat

HOUR_MICROS = 3_600_000_000


@pytest.fixture
def table(shared_http: httpx.Client) -> Table:
    return rest.make_table(shared_http, type="merge_on_read")


def test_a_checkpoint_in_progress_that_no_task_has_reported_survives_no_restore_and_loses_nothing(
    stream: StreamOfTable,
) -> None:
    before, in_progress = stream.write(-1, 1), stream.instant(1)
    stream.open(restored_checkpoint=1)
    assert stream.buffer() == {-1: before}
    assert stream.completed(1) == [before]
    again = stream.write(1, 2)
    assert again > in_progress
    assert stream.completed(2) == [again]
    assert live_logs(stream.table) == [("00000001", before), ("00000002", again)]


def test_an_instant_that_completes_after_a_restore_keeps_its_own_checkpoint(stream: StreamOfTable) -> None:
    stream.write(-1, 1)
    stream.completed(3)
    instant = stream.write(3, 1)
    stream.open(restored_checkpoint=4)
    assert stream.completed(4) == [instant]
    completed = succeeded(stream.table.http.get(f"/v1/tables/{stream.table.name}/instants/{instant}"))
    assert completed["stream"]["checkpoint"] == 3
    assert stream.shown()["acknowledged_checkpoint"] == 4


def test_an_acknowledgement_that_was_under_way_before_the_restore_is_refused_and_then_repeated(
    stream: StreamOfTable,
) -> None:
    earlier = StreamOfTable(stream.table)
    earlier.epoch = stream.epoch
    instant = stream.write(-1, 1)
    stream.open(restored_checkpoint=1)
    refused(earlier.complete(1), 409, "stream-fenced")
    assert stream.completed(1) == [instant]
    assert stream.completed(1) == []


def test_a_late_abort_of_a_complete_checkpoint_takes_nothing_back(stream: StreamOfTable) -> None:
    instant = stream.write(-1, 1)
    assert stream.completed(1) == [instant]
    succeeded(stream.post("abort", {"epoch": stream.epoch, "checkpoint": 1}))
    assert stream.table.state(instant) == "completed"
    behind = stream.write(1, 2)
    assert stream.completed(2) == [behind]


def test_tasks_that_ask_at_once_in_blocking_mode_begin_one_instant(stream: StreamOfTable) -> None:
    before = stream.instant(-1, blocking=True)
    stream.reported(-1, write_stat(before))
    all_have_waited = threading.Barrier(9)

    def ask(task: int) -> str:
        refused(stream.request(1, str(task), blocking=True), 409, "instant-not-yet")
        all_have_waited.wait(timeout=30)
        while True:
            answer = stream.request(1, str(task), blocking=True)
            if answer.is_success:
                requested_time: str = answer.json()["requested_time"]
                return requested_time

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(ask, task) for task in range(8)]
        all_have_waited.wait(timeout=30)
        assert stream.completed(1) == [before]
        assert {answer.result() for answer in asked} == {stream.buffer()[1]}


def test_reported_files_are_invisible_until_the_acknowledgement(stream: StreamOfTable) -> None:
    instant = stream.instant(-1)
    succeeded(stream.report(-1, log_stat(instant, 1)))
    assert live_logs(stream.table) == []
    stream.reported(-1, log_stat(instant, 2))
    assert live_logs(stream.table) == []
    stream.completed(1)
    assert live_logs(stream.table) == [("00000001", instant), ("00000002", instant)]


def test_checkpoints_behind_an_empty_one_complete(stream: StreamOfTable) -> None:
    empty = stream.instant(-1)
    stream.reported(-1, requested_time=empty)
    behind = stream.write(1, 1)
    assert stream.completed(2) == [behind]
    assert stream.table.state(empty) == "rolled_back"


def test_a_compaction_does_not_wait_for_the_pending_instants_of_a_stream(stream: StreamOfTable) -> None:
    table = stream.table
    base = table.begun(action="deltacommit")
    succeeded(table.complete(base, write_stat(base, 1)))
    pending = stream.write(-1, 1)
    group = {"partition_path": "", "file_id": write_stat(base, 1)["file_id"]}
    compaction = table.begun(action="compaction", plan={"file_groups": [group]})
    succeeded(table.complete(compaction, write_stat(compaction, 1)))

    assert stream.completed(1) == [pending]

    [file_slice] = succeeded(table.http.get(f"/v1/tables/{table.name}/snapshot"))["slices"]
    assert file_slice["base_file"]["requested_time"] == compaction
    assert [log["requested_time"] for log in file_slice["log_files"]] == [pending]


def test_the_instants_of_a_stream_increase_although_the_clock_is_set_back(
    server: ServerProcess, http: httpx.Client
) -> None:
    stream = StreamOfTable(rest.make_table(http, type="merge_on_read"))
    stream.open(lease_seconds=86_400)
    first = stream.write(-1, 1)
    database.set_wall_clock(server.dsn, f"{database.WALL_CLOCK} - {HOUR_MICROS}")
    second = stream.write(1, 1)
    assert stream.completed(2) == [first, second]
    assert first < second
