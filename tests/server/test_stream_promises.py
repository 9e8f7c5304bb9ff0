"""The state of a stream beside other requests: acknowledged files, its writer, and the answers to tasks."""

from __future__ import annotations

import httpx
import pytest

from tests.server import rest
from tests.server.checkpoints import StreamOfTable, live_logs
from tests.server.rest import Table, log_stat, refused, succeeded


@pytest.fixture
def table(shared_http: httpx.Client) -> Table:
    return rest.make_table(shared_http, type="merge_on_read")


def appended(instant: str, bucket: int = 1) -> rest.Json:
    """The marker of a log file."""
    stat = log_stat(instant, bucket)
    return {"partition_path": "", "file_name": stat["file_name"], "kind": "APPEND"}


def refused_acknowledgement(stream: StreamOfTable) -> str:
    """The instant of a complete checkpoint, whose acknowledgement is refused for a left-over file."""
    instant = stream.instant(-1)
    stream.table.marked(instant, appended(instant), appended(instant, 2))
    stream.reported(-1, log_stat(instant, 1))
    refused(stream.complete(1), 409, "unreconciled-markers")
    return instant


def test_an_acknowledgement_before_a_last_batch_does_not_count(stream: StreamOfTable) -> None:
    first = stream.write(-1, 1)
    second = stream.instant(1)
    succeeded(stream.report(1, log_stat(second, 1)))

    refused(stream.complete(9), 409, "checkpoint-incomplete")

    assert stream.shown()["acknowledged_checkpoint"] == 1
    assert live_logs(stream.table) == [("00000001", first)]
    # The tasks go on where they are.
    stream.reported(1, log_stat(second, 2), task="1")
    stream.reported(1)
    assert stream.instant(2) > second
    assert stream.completed(2) == [second]


def test_a_restarted_task_drops_nothing_that_is_acknowledged(stream: StreamOfTable) -> None:
    instant = refused_acknowledgement(stream)

    body = {"epoch": 1, "task": "0", "restored_checkpoint": None}
    assert succeeded(stream.post("restart-task", body))["dropped_files"] == 0

    succeeded(stream.table.report(instant, appended(instant, 2)))
    assert stream.completed(1) == [instant]
    assert live_logs(stream.table) == [("00000001", instant)]


def test_an_acknowledged_checkpoint_takes_no_more_files(stream: StreamOfTable) -> None:
    instant = refused_acknowledgement(stream)

    refused(stream.report(-1, log_stat(instant, 2), task="1"), 409, "checkpoint-passed")

    stream.reported(-1, log_stat(instant, 1), bootstrap=True)


def test_instants_that_stay_have_the_writer_that_opened_the_stream_last(stream: StreamOfTable) -> None:
    instant = stream.instant(-1)
    stream.table.marked(instant, appended(instant))
    stream.reported(-1, log_stat(instant, 1))
    stream.open(writer="next", restored_checkpoint=1)

    marked = stream.table.mark(instant, appended(instant, 2), writer="w")
    refused(marked, 409, "lease-live")
    deleted = stream.table.report(instant, appended(instant), writer="w")
    refused(deleted, 409, "lease-live")

    succeeded(stream.table.mark(instant, appended(instant), writer="next"))
    assert stream.completed(1) == [instant]


def test_a_restore_of_the_table_closes_its_streams(stream: StreamOfTable) -> None:
    kept = stream.write(-1, 1)
    stream.completed(1)
    path = f"/v1/tables/{stream.table.name}"
    savepoint = succeeded(
        stream.table.http.post(f"{path}/savepoints", json={"writer": "w", "instant": kept}, headers={})
    )
    stream.write(1, 2)
    half = stream.write(2, 3)

    restore = {"writer": "w", "savepoint": savepoint["requested_time"]}
    succeeded(stream.table.http.post(f"{path}/restore", json=restore, headers={}))

    # A task behind the barrier does not write again what was undone; no other may complete without it.
    refused(stream.request(2, "1"), 409, "stream-fenced")
    refused(stream.complete(3), 409, "stream-fenced")
    assert stream.buffer() == {}
    stream.open(restored_checkpoint=1)
    again = stream.write(1, 2)
    assert again > half
    assert stream.completed(2) == [again]
    assert live_logs(stream.table) == [("00000001", kept), ("00000002", again)]


def test_a_task_may_say_with_the_files_of_its_state_that_its_input_has_ended(stream: StreamOfTable) -> None:
    instant = stream.write(-1, 1)
    stream.completed(1)
    stream.open(tasks=1, restored_checkpoint=1)

    answer = stream.reported(-1, log_stat(instant, 1), bootstrap=True, end_of_input=True)

    assert answer["is_completed"]
    assert stream.completed() == []


def test_only_who_opens_a_stream_gets_all_tasks(stream: StreamOfTable) -> None:
    stream.write(-1, 1)

    renewed = succeeded(stream.post("heartbeat", {"epoch": 1}))
    aborted = succeeded(stream.post("abort", {"epoch": 1, "checkpoint": 1}))
    opened = stream.open(restored_checkpoint=1)

    assert [len(answer["checkpoints"][0]["tasks"]) for answer in (renewed, aborted, opened)] == [0, 0, 1]
