"""Reports are promises: a file with which its checkpoint could never complete is refused when it is reported.

Each refusal names what is in the way; the checkpoint completes with what was accepted
(docs/decisions/0058-streams.md).
"""

from __future__ import annotations

import concurrent.futures

import httpx
import pytest

from tests.server import rest
from tests.server.checkpoints import StreamOfTable, live_logs
from tests.server.rest import Json, Table, log_stat, refused, succeeded, write_stat

NOT_BUCKETS = {"type": "simple"}


def opened(table: Table, name: str = "job") -> StreamOfTable:
    stream = StreamOfTable(table, name)
    stream.open()
    return stream


@pytest.fixture
def stream(shared_http: httpx.Client) -> StreamOfTable:
    """A stream of a merge-on-read table with a bucket index."""
    return opened(rest.make_table(shared_http, type="merge_on_read"))


@pytest.fixture
def copying(shared_http: httpx.Client) -> StreamOfTable:
    """A stream of a copy-on-write table whose file groups have ids of the writers' choice."""
    return opened(rest.make_table(shared_http, index=NOT_BUCKETS))


@pytest.fixture
def strict(shared_http: httpx.Client) -> StreamOfTable:
    """A stream of a table whose files must be marked."""
    return opened(rest.make_table(shared_http, type="merge_on_read", properties={"markers.required": "true"}))


def base(instant: str, file_id: str = "a-0", attempt: int = 0) -> Json:
    name = f"{file_id}_{attempt}-0-0_{instant}.parquet"
    return write_stat(instant) | {"file_id": file_id, "file_name": name}


def log(instant: str, file_id: str = "a-0") -> Json:
    return write_stat(instant) | {"file_id": file_id, "file_name": f".{file_id}_{instant}.log.1_0-0-0"}


def appended(instant: str, bucket: int = 1) -> Json:
    """The marker of a log file."""
    return {"partition_path": "", "file_name": log_stat(instant, bucket)["file_name"], "kind": "APPEND"}


def test_a_file_of_one_task_is_refused_from_another(stream: StreamOfTable) -> None:
    instant = stream.write(-1, 1)

    problem = refused(stream.report(-1, log_stat(instant, 1), task="1"), 422, "invalid-write-stat")

    assert "the task '0'" in problem["detail"]
    assert problem["context"]["other_task"] == "0"
    # A task of a restored job has the files of others in its state.
    assert stream.reported(-1, log_stat(instant, 1), task="1", bootstrap=True)["files"] == 0
    assert stream.completed(1) == [instant]


def test_of_tasks_that_report_one_file_at_once_one_is_accepted(stream: StreamOfTable) -> None:
    instant = stream.instant(-1)
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        reports = [
            threads.submit(stream.report, -1, log_stat(instant, 1), task=str(task), last_batch=True)
            for task in range(6)
        ]
        statuses = sorted(report.result().status_code for report in reports)
    assert statuses == [200, 422, 422, 422, 422, 422]
    assert stream.completed(1) == [instant]


def test_a_file_that_a_restarted_task_has_dropped_may_be_reported_by_another(stream: StreamOfTable) -> None:
    instant = stream.write(-1, 1)
    stream.restart("0", None)
    assert stream.reported(-1, log_stat(instant, 1), task="1")["files"] == 1
    assert stream.completed(1) == [instant]
    assert live_logs(stream.table) == [("00000001", instant)]


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("task", ["0", "1"])
def test_a_second_base_file_of_a_group_in_one_instant_is_refused(
    copying: StreamOfTable, task: str, *, blocking: bool
) -> None:
    instant = copying.instant(-1, blocking=blocking)
    copying.reported(-1, base(instant))

    problem = refused(copying.report(-1, base(instant, attempt=1), task=task), 422, "invalid-write-stat")

    assert problem["context"]["other_file_name"] == base(instant)["file_name"]
    copying.reported(-1, base(instant, "b-0"), task=task)
    assert copying.completed(1) == [instant]


def test_one_new_group_is_refused_in_a_second_pending_checkpoint(copying: StreamOfTable) -> None:
    times = [copying.instant(-1), copying.instant(1)]
    copying.reported(-1, base(times[0]))

    problem = refused(copying.report(1, base(times[1])), 409, "may-conflict")

    named = {name: problem["context"][name] for name in ("stream", "checkpoint", "requested_time", "file_id")}
    assert named == {"stream": "job", "checkpoint": -1, "requested_time": times[0], "file_id": "a-0"}
    copying.reported(1, base(times[1], "b-0"))
    assert copying.completed(2) == times


def test_one_new_group_is_refused_in_an_earlier_checkpoint_and_another_stream(
    copying: StreamOfTable,
) -> None:
    earlier, later = copying.instant(-1), copying.instant(1)
    other = opened(copying.table, "other")
    copying.reported(1, base(later))

    refused(copying.report(-1, base(earlier)), 409, "may-conflict")
    refused(other.report(-1, base(other.instant(-1))), 409, "may-conflict")

    assert copying.completed(2) == [later]


def test_a_group_is_free_again_when_its_instant_is_rolled_back_or_its_task_has_restarted(
    copying: StreamOfTable,
) -> None:
    other = opened(copying.table, "other")
    copying.reported(-1, base(copying.instant(-1)))
    copying.open()
    copying.reported(-1, base(copying.instant(-1)))
    copying.restart("0", None)
    instant = other.instant(-1)
    other.reported(-1, base(instant))
    assert other.completed(1) == [instant]


def test_a_base_file_of_a_blocking_instant_waits_for_a_promised_one(copying: StreamOfTable) -> None:
    promised = copying.instant(-1)
    copying.reported(-1, base(promised))
    other = opened(copying.table, "other")
    blocking = other.instant(-1, blocking=True)

    refused(other.report(-1, base(blocking)), 409, "may-conflict")

    assert copying.completed(1) == [promised]


def test_of_two_blocking_instants_with_one_group_the_first_to_complete_wins(copying: StreamOfTable) -> None:
    other = opened(copying.table, "other")
    times = [stream.instant(-1, blocking=True) for stream in (copying, other)]
    copying.reported(-1, base(times[0]))
    other.reported(-1, base(times[1]))
    assert other.completed(1) == [times[1]]
    refused(copying.complete(1), 409, "write-conflict")


def test_log_files_of_a_new_group_may_follow_its_base_file_not_precede_it(
    shared_http: httpx.Client,
) -> None:
    stream = opened(rest.make_table(shared_http, type="merge_on_read", index=NOT_BUCKETS))
    first, second = stream.instant(-1), stream.instant(1)
    stream.reported(-1, base(first, "a-0"), log(first, "b-0"))

    refused(stream.report(1, base(second, "b-0")), 409, "may-conflict")

    stream.reported(1, log(second, "a-0"), log(second, "b-0"))
    assert stream.completed(2) == [first, second]


def test_a_file_without_a_marker_is_refused_where_markers_are_required(strict: StreamOfTable) -> None:
    instant = strict.instant(-1)

    problem = refused(strict.report(-1, log_stat(instant, 1)), 422, "invalid-write-stat")

    assert "mark a file before you write it" in problem["detail"]
    strict.table.marked(instant, appended(instant))
    strict.reported(-1, log_stat(instant, 1))
    assert strict.completed(1) == [instant]


def test_a_file_without_a_marker_is_refused_when_its_instant_has_others(stream: StreamOfTable) -> None:
    instant = stream.instant(-1)
    stream.table.marked(instant, appended(instant))
    refused(stream.report(-1, log_stat(instant, 1), log_stat(instant, 2)), 422, "invalid-write-stat")
    stream.reported(-1, log_stat(instant, 1))
    assert stream.completed(1) == [instant]


def test_direct_markers_are_compared_at_the_acknowledgement(shared_http: httpx.Client) -> None:
    properties = {"markers.required": "true", "markers.type": "direct"}
    stream = opened(rest.make_table(shared_http, type="merge_on_read", properties=properties))
    instant = stream.instant(-1)
    stream.reported(-1, log_stat(instant, 1))
    refused(stream.complete(1), 422, "invalid-write-stat")
    stream.table.marked(instant, appended(instant))
    assert stream.completed(1) == [instant]


def test_a_file_that_was_reported_deleted_is_refused(stream: StreamOfTable) -> None:
    instant = stream.instant(-1)
    stream.table.marked(instant, appended(instant))
    succeeded(stream.table.report(instant, appended(instant)))
    problem = refused(stream.report(-1, log_stat(instant, 1)), 422, "invalid-write-stat")
    assert "was reported as deleted" in problem["detail"]


def test_a_restored_task_cannot_report_files_that_its_completed_instant_does_not_have(
    stream: StreamOfTable,
) -> None:
    instant = stream.write(-1, 1)
    stream.completed(1)
    stream.open(restored_checkpoint=1)

    problem = refused(
        stream.report(-1, log_stat(instant, 1), log_stat(instant, 2), bootstrap=True), 422, "invalid-write-stat"
    )

    assert problem["context"]["file_name"] == log_stat(instant, 2)["file_name"]
    assert "restore the job from an earlier checkpoint" in problem["detail"]
    assert stream.reported(-1, log_stat(instant, 1), bootstrap=True)["is_completed"]
    # Also while the checkpoint has another instant, because a job began anew.
    assert stream.open() and stream.instant(-1) > instant
    assert stream.reported(-1, log_stat(instant, 1), bootstrap=True)["is_completed"]
