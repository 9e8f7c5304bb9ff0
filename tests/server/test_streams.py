"""Streams: checkpoints of an engine become instants, exactly once, and no writer waits.

The cases of Hudi's coordinator (docs/decisions/0058-streams.md) are tests by name.
"""

from __future__ import annotations

import concurrent.futures

import httpx
import pytest

from tests.server import rest
from tests.server.checkpoints import StreamOfTable, live_logs
from tests.server.rest import Table, log_stat, marker, refused, succeeded, write_stat


@pytest.fixture
def table(shared_http: httpx.Client) -> Table:
    return rest.make_table(shared_http, type="merge_on_read")


def instant_of(stream: StreamOfTable, requested_time: str) -> rest.Json:
    """An instant as the timeline shows it."""
    return succeeded(stream.table.http.get(f"/v1/tables/{stream.table.name}/instants/{requested_time}"))


def appended(instant: str) -> rest.Json:
    """The marker of a log file in the bucket 1."""
    return marker(instant, 1) | {"file_name": log_stat(instant, 1)["file_name"], "kind": "APPEND"}


def test_the_same_checkpoint_gets_the_same_instant(stream: StreamOfTable) -> None:
    first, again = stream.request(-1, "0"), stream.request(-1, "1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()


def test_another_checkpoint_gets_another_instant_at_once(
    stream: StreamOfTable,
) -> None:
    first, second = stream.instant(-1), stream.instant(1)
    assert second > first
    assert stream.buffer() == {-1: first, 1: second}


def test_tasks_that_ask_at_once_begin_one_instant(stream: StreamOfTable) -> None:
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        times = set(threads.map(lambda task: stream.instant(-1, str(task)), range(64)))
    assert len(times) == 1
    begun = succeeded(stream.table.http.get(f"/v1/tables/{stream.table.name}/instants"))["instants"]
    assert [instant["requested_time"] for instant in begun] == list(times)
    assert begun[0]["stream"] == {"name": "job", "epoch": 1, "checkpoint": -1}
    assert begun[0]["lease_expires_at"] is None


def test_an_idle_stream_begins_no_instant_ahead(stream: StreamOfTable) -> None:
    for checkpoint in range(1, 5):
        assert stream.completed(checkpoint) == []
    timeline = succeeded(stream.table.http.get(f"/v1/tables/{stream.table.name}/instants"))
    assert timeline["instants"] == []


def test_in_blocking_mode_an_instant_begins_when_the_one_before_has_ended(stream: StreamOfTable) -> None:
    first = stream.instant(-1, blocking=True)
    problem = refused(stream.request(1, blocking=True), 409, "instant-not-yet")
    assert problem["context"]["pending"] == [first]
    assert stream.instant(-1, "1", blocking=True) == first
    stream.reported(-1, log_stat(first))
    stream.completed(1)
    assert stream.instant(1, blocking=True) > first


def test_not_yet_is_no_outcome_so_the_same_request_gets_an_instant_later(stream: StreamOfTable) -> None:
    stream.write(-1, 1)
    path = f"/v1/tables/{stream.table.name}/streams/job/instants"
    body = {"epoch": 1, "task": "0", "checkpoint": 1, "blocking": True}
    headers = rest.keyed(rest.new_key())
    refused(stream.table.http.post(path, json=body, headers=headers), 409, "instant-not-yet")
    stream.completed(1)
    assert stream.table.http.post(path, json=body, headers=headers).status_code == 201


def test_pending_instants_are_bounded(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http, type="merge_on_read", properties={"streams.pending-max": "2"})
    stream = StreamOfTable(table)
    stream.open()
    stream.write(-1, 1)
    stream.write(1, 1)
    refused(stream.request(2), 409, "instant-not-yet")
    stream.completed(1)
    assert stream.request(2).status_code == 201


def test_a_checkpoint_that_is_known_to_be_complete_gets_no_new_instant(stream: StreamOfTable) -> None:
    stream.write(-1, 1)
    stream.completed(3)
    problem = refused(stream.request(1), 409, "checkpoint-passed")
    assert problem["context"]["acknowledged_checkpoint"] == 3
    assert stream.request(3).status_code == 201


def test_several_flushes_of_a_task_merge(stream: StreamOfTable) -> None:
    instant = stream.instant(-1)
    succeeded(stream.report(-1, log_stat(instant, 1)))
    succeeded(stream.report(-1, log_stat(instant, 2)))
    stream.reported(-1, log_stat(instant, 1, number=2))
    assert stream.completed(1) == [instant]
    assert live_logs(stream.table) == [("00000001", instant), ("00000001", instant), ("00000002", instant)]


def test_a_report_that_comes_again_is_the_same_event(stream: StreamOfTable) -> None:
    instant = stream.instant(-1)
    stats = [log_stat(instant, 1), log_stat(instant, 2)]
    assert [stream.reported(-1, *stats)["files"] for _ in range(3)] == [2, 0, 0]
    assert stream.reported(-1, *stats, bootstrap=True, task="1")["files"] == 0
    assert stream.completed(1) == [instant]
    assert live_logs(stream.table) == [("00000001", instant), ("00000002", instant)]


def test_reports_of_one_file_that_race_count_once(stream: StreamOfTable) -> None:
    instant = stream.instant(-1)
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: stream.reported(-1, log_stat(instant, 1)), range(24)))
    assert sum(answer["files"] for answer in answers) == 1
    assert stream.completed(1) == [instant]


def test_a_file_that_is_reported_with_another_size_is_refused(stream: StreamOfTable) -> None:
    instant = stream.instant(-1)
    stream.reported(-1, log_stat(instant))
    refused(stream.report(-1, log_stat(instant) | {"size_bytes": 7}), 422, "invalid-write-stat")


def test_an_instant_of_another_checkpoint_is_refused(stream: StreamOfTable) -> None:
    first, later = stream.instant(-1), stream.instant(1)
    refused(stream.report(-1, log_stat(later)), 422, "invalid-write-stat")
    refused(stream.report(1, log_stat(first)), 422, "invalid-write-stat")
    other = StreamOfTable(stream.table, "other")
    other.open()
    refused(stream.report(-1, log_stat(other.instant(-1))), 422, "invalid-write-stat")
    plain = stream.table.begun(action="deltacommit")
    refused(stream.report(-1, log_stat(plain)), 422, "invalid-write-stat")


def test_base_files_of_other_groups_are_refused_unless_the_instant_is_blocking(stream: StreamOfTable) -> None:
    instant = stream.instant(-1)
    refused(stream.report(-1, write_stat(instant)), 409, "may-conflict")
    stream.reported(-1)
    stream.completed(1)
    blocking = stream.instant(1, blocking=True)
    stream.reported(1, write_stat(blocking))
    assert stream.completed(2) == [blocking]


def test_without_a_bucket_index_new_file_groups_are_taken_and_known_ones_are_not(
    shared_http: httpx.Client,
) -> None:
    table = rest.make_table(shared_http, index={"type": "simple"})
    stream = StreamOfTable(table)
    stream.open()
    first = stream.instant(-1)
    stream.reported(-1, _new_group(first, "a-0"))
    assert stream.completed(1) == [first]
    second = stream.instant(1)
    refused(stream.report(1, _new_group(second, "a-0")), 409, "may-conflict")
    stream.reported(1, _new_group(second, "b-0"))
    assert stream.completed(2) == [second]


def _new_group(instant: str, file_id: str) -> rest.Json:
    return write_stat(instant) | {"file_id": file_id, "file_name": f"{file_id}_0-0-0_{instant}.parquet"}


def test_an_acknowledgement_completes_every_earlier_checkpoint_in_order(stream: StreamOfTable) -> None:
    times = [stream.write(checkpoint, 1) for checkpoint in (-1, 1, 2)]
    assert stream.completed(2) == times[:2]
    assert stream.buffer() == {2: times[2]}
    shown = [
        succeeded(stream.table.http.get(f"/v1/tables/{stream.table.name}/instants/{time}")) for time in times
    ]
    assert shown[0]["completion_time"] < shown[1]["completion_time"]
    assert shown[2]["state"] == "inflight"


def test_checkpoints_complete_in_the_order_of_their_ids_not_of_their_instants(stream: StreamOfTable) -> None:
    later, earlier = stream.write(4, 1), stream.write(3, 1)
    assert later < earlier
    assert stream.completed(5) == [earlier, later]


def test_repeated_and_earlier_acknowledgements_change_nothing(stream: StreamOfTable) -> None:
    stream.write(-1, 1)
    second = stream.write(3, 1)
    assert len(stream.completed(3)) == 1
    before = stream.shown()
    assert [stream.completed(checkpoint) for checkpoint in (3, 1, 2, 3)] == [[], [], [], []]
    assert stream.shown() == before
    assert stream.completed(9) == [second]


def test_a_lost_acknowledgement_is_covered_by_the_next(stream: StreamOfTable) -> None:
    times = [stream.write(-1, 1), stream.write(1, 1)]
    assert stream.completed(2) == times


def test_a_task_that_has_not_reported_its_last_batch_holds_the_checkpoint_back(stream: StreamOfTable) -> None:
    first = stream.write(-1, 1)
    second = stream.instant(1)
    succeeded(stream.report(1, log_stat(second, 1), task="late"))
    problem = refused(stream.complete(2), 409, "checkpoint-incomplete")
    assert problem["context"]["tasks"] == ["late"]
    assert "open the stream with restored_checkpoint" in problem["detail"]
    assert problem["context"]["ended"] == [first]
    assert [stream.table.state(time) for time in (first, second)] == ["completed", "inflight"]
    stream.reported(1, task="late")
    assert stream.completed(2) == [second]


def test_marked_files_that_no_task_reported_hold_the_checkpoint_back_until_they_are_deleted(
    stream: StreamOfTable,
) -> None:
    instant = stream.instant(-1)
    lost = marker(instant, 3)
    stream.table.marked(instant, lost, appended(instant))
    stream.reported(-1, log_stat(instant, 1))
    behind = stream.write(1, 1)
    problem = refused(stream.complete(2), 409, "unreconciled-markers")
    assert problem["context"]["checkpoint_instant"] == instant
    assert "delete nothing, and restore the job" in problem["detail"]
    assert [file["file_name"] for file in problem["context"]["files"]] == [lost["file_name"]]
    succeeded(stream.table.report(instant, lost))
    stream.table.marked(behind, appended(behind))
    assert stream.completed(2) == [instant, behind]
    assert (stream.table.markers(instant), stream.table.markers(behind)) == ([], [])


def test_a_checkpoint_far_above_all_others_completes_nothing(stream: StreamOfTable) -> None:
    first, second = stream.write(-1, 1), stream.write(7, 1)

    problem = refused(stream.complete(1_700_000_000_000), 409, "unknown-checkpoint")

    assert (problem["context"]["newest_checkpoint"], stream.shown()["acknowledged_checkpoint"]) == (7, None)
    refused(stream.complete(1_000_008), 409, "unknown-checkpoint")
    assert stream.completed(1_000_007) == [first, second]
    # A stream that was idle long is behind the ids of its engine.
    assert stream.completed(9_000_000) == []
    third = stream.write(9_000_000, 1)
    assert stream.completed(9_000_001) == [third]


def test_an_engine_may_number_its_checkpoints_by_times(stream: StreamOfTable) -> None:
    first = stream.write(-1, 1)
    assert stream.completed(1_700_000_000_000) == [first]

    second = stream.write(1_700_000_000_000, 1)
    assert stream.completed(1_700_003_600_000) == [second]


def test_an_aborted_checkpoint_keeps_its_files_for_the_next(stream: StreamOfTable) -> None:
    instant = stream.write(-1, 1)
    succeeded(stream.post("abort", {"epoch": 1, "checkpoint": 1, "reason": "timeout"}))
    assert stream.buffer() == {-1: instant}
    assert stream.completed(2) == [instant]


def test_a_checkpoint_without_files_completes_no_instant(stream: StreamOfTable) -> None:
    instant = stream.instant(-1)
    stream.reported(-1, requested_time=instant)
    done = succeeded(stream.complete(1))
    assert (done["instants"], done["rolled_back"]) == ([], [instant])
    assert stream.table.state(instant) == "rolled_back"


def test_a_table_may_want_commits_without_files(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http, type="merge_on_read", properties={"streams.empty-commits": "true"})
    stream = StreamOfTable(table)
    stream.open()
    instant = stream.instant(-1)
    stream.reported(-1, requested_time=instant)
    assert stream.completed(1) == [instant]


def test_extra_metadata_is_published_with_the_instants(stream: StreamOfTable) -> None:
    instant = stream.write(-1, 1)
    stream.completed(1, extra_metadata={"offset": "7"})
    shown = instant_of(stream, instant)
    assert shown["extra_metadata"] == {"offset": "7"}


def test_what_is_left_completes_when_all_tasks_have_ended(stream: StreamOfTable) -> None:
    instant = stream.write(-1, 1, end_of_input=True)
    problem = refused(stream.complete(), 409, "checkpoint-incomplete")
    assert "open the stream with restored_checkpoint" in problem["detail"]
    stream.reported(-1, task="1", end_of_input=True)
    assert stream.completed() == [instant]
    assert stream.completed() == []
    succeeded(stream.post("close", {"epoch": 1}))
    refused(stream.request(1), 409, "stream-fenced")


def test_the_log_has_the_end_of_the_input_after_an_acknowledged_checkpoint(stream: StreamOfTable) -> None:
    stream.write(-1, 1)
    stream.completed(1)
    stream.write(1, 2, end_of_input=True)
    stream.reported(1, task="1", end_of_input=True)
    stream.completed()

    log = succeeded(stream.table.http.get("/v1/events", params={"table": stream.table.name, "limit": 1_000}))
    acknowledged = [event for event in log["events"] if event["type"] == "CheckpointAcknowledged"]
    assert [event["payload"]["checkpoint"] for event in acknowledged] == [1, None]


def test_no_more_tasks_end_than_the_stream_has(stream: StreamOfTable) -> None:
    for task in ("0", "1", "0"):
        stream.reported(-1, task=task, end_of_input=True)
    refused(stream.report(-1, task="2", last_batch=True, end_of_input=True), 422, "invalid-write-stat")
    assert stream.shown()["ended_tasks"] == 2


def test_the_metadata_of_tasks_is_in_the_stream_but_not_in_kept_answers(stream: StreamOfTable) -> None:
    stream.write(-1, 1, extra_metadata={"job": "nightly"})
    assert stream.shown()["checkpoints"][0]["tasks"]["0"]["extra_metadata"] == {"job": "nightly"}
    assert "nightly" not in str(stream.open(restored_checkpoint=0))


def test_a_task_that_has_ended_does_not_write_again(stream: StreamOfTable) -> None:
    stream.reported(-1, end_of_input=True)
    refused(stream.request(-1), 409, "checkpoint-passed")


def test_a_stream_with_pending_instants_is_not_closed(stream: StreamOfTable) -> None:
    stream.write(-1, 1)
    refused(stream.post("close", {"epoch": 1}), 409, "illegal-transition")


def test_a_later_open_fences_every_call_of_the_earlier_epoch(stream: StreamOfTable) -> None:
    zombie = StreamOfTable(stream.table)
    zombie.epoch = stream.epoch
    instant = stream.write(-1, 1)
    stream.open(writer="second", restored_checkpoint=1)
    calls = [
        zombie.request(1),
        zombie.report(-1, log_stat(instant, 2)),
        zombie.complete(1),
        zombie.post("abort", {"epoch": 1, "checkpoint": 1}),
        zombie.post("heartbeat", {"epoch": 1}),
        zombie.post("restart-task", {"epoch": 1, "task": "0"}),
        zombie.post("close", {"epoch": 1}),
    ]
    for call in calls:
        context = refused(call, 409, "stream-fenced")["context"]
        assert (context["epoch"], context["writer"]) == (2, "second")
        assert context["opened_at"] == stream.shown()["opened_at"]


def test_a_restored_job_completes_what_was_acknowledged_and_nothing_behind_it(stream: StreamOfTable) -> None:
    before, behind = stream.write(-1, 1), stream.write(1, 1)
    opened = stream.open(restored_checkpoint=1, tasks=3)
    assert [checkpoint["requested_time"] for checkpoint in opened["checkpoints"]] == [before]
    assert stream.table.state(behind) == "rolled_back"
    assert stream.reported(-1, log_stat(before, 1), task="0", bootstrap=True)["files"] == 0
    assert stream.completed(1) == [before]
    again = stream.write(1, 1)
    assert again > behind
    assert stream.completed(2) == [again]
    assert live_logs(stream.table) == [("00000001", before), ("00000001", again)]


def test_a_restored_task_may_report_a_completed_instant_again(stream: StreamOfTable) -> None:
    instant = stream.write(-1, 1)
    stream.completed(1)
    stream.open(restored_checkpoint=1)
    answer = stream.reported(-1, log_stat(instant, 1), bootstrap=True)
    assert (answer["is_completed"], answer["files"]) == (True, 0)
    refused(stream.report(-1, log_stat(instant, 1)), 409, "illegal-transition")
    assert stream.completed(1) == []


def test_a_stateless_restart_asks_for_the_first_checkpoint_again_and_gets_a_new_instant(
    stream: StreamOfTable,
) -> None:
    lost = stream.write(-1, 1)
    stream.open()
    assert stream.instant(-1) > lost
    assert stream.table.state(lost) == "rolled_back"
    refused(stream.report(-1, log_stat(lost, 1)), 410, "instant-rolled-back")


def test_the_files_of_a_rolled_back_instant_wait_for_an_executor(stream: StreamOfTable) -> None:
    instant = stream.instant(-1)
    stream.table.marked(instant, marker(instant, 1))
    stream.open()
    shown = instant_of(stream, instant)
    assert stream.table.state(shown["rolled_back_by"]) == "requested"


def test_a_task_that_restarts_alone_drops_only_its_own_files(stream: StreamOfTable) -> None:
    instant = stream.instant(1)
    stream.reported(1, log_stat(instant, 1), task="0")
    succeeded(stream.report(1, log_stat(instant, 2), task="1"))
    attempt = stream.restart("1", 1)
    refused(stream.report(1, log_stat(instant, 2), task="1"), 409, "stream-fenced")
    assert stream.instant(1, "1", attempt=attempt) == instant
    stream.reported(1, log_stat(instant, 2, number=2), task="1", attempt=attempt)
    assert stream.completed(2) == [instant]
    assert live_logs(stream.table) == [("00000001", instant), ("00000002", instant)]


def test_a_task_that_restarts_keeps_what_it_reported_before_its_checkpoint(stream: StreamOfTable) -> None:
    before, behind = stream.write(-1, 1), stream.write(1, 2)
    attempt = stream.restart("0", 1)
    assert stream.shown()["checkpoints"][1]["tasks"] == {}
    assert stream.completed(1) == [before]
    stream.reported(1, log_stat(behind, 3), attempt=attempt)
    assert stream.completed(2) == [behind]
    assert live_logs(stream.table) == [("00000001", before), ("00000003", behind)]


def test_two_streams_of_one_table_do_not_touch_each_other(stream: StreamOfTable) -> None:
    other = StreamOfTable(stream.table, "other")
    other.open()
    own, foreign = stream.write(-1, 1), other.write(-1, 1, number=2)
    assert own != foreign
    other.open()
    assert stream.completed(1) == [own]


def test_an_instant_of_a_stream_ends_with_its_checkpoint_only(stream: StreamOfTable) -> None:
    instant = stream.write(-1, 1)
    table = stream.table
    refused(table.complete(instant, log_stat(instant, 2)), 409, "illegal-transition")
    refused(table.stage(instant, log_stat(instant, 2)), 409, "illegal-transition")
    refused(table.roll_back(instant), 409, "illegal-transition")
    refused(table.heartbeat(instant), 409, "illegal-transition")
    together = {"instants": [{"table": table.name, "requested_time": instant, "write_stats": []}]}
    refused(table.http.post("/v1/transactions/complete", json=together), 409, "illegal-transition")
    assert stream.completed(1) == [instant]


def test_a_stream_is_named_by_letters_and_digits(table: Table) -> None:
    refused(StreamOfTable(table, "a b").post("open", {"writer": "w"}), 400, "invalid-parameter")
    refused(StreamOfTable(table, "missing").request(-1, epoch=1), 404, "stream-not-found")


def test_streams_are_listed_page_by_page(table: Table) -> None:
    for name in ("b", "a", "c"):
        stream = StreamOfTable(table, name)
        stream.open()
        stream.write(-1, 1)
    path = f"/v1/tables/{table.name}/streams"
    first = succeeded(table.http.get(path, params={"limit": 2}))
    rest_of_them = succeeded(table.http.get(path, params={"limit": 2, "cursor": first["next_cursor"]}))
    listed = [*first["streams"], *rest_of_them["streams"]]
    assert [stream["name"] for stream in listed] == ["a", "b", "c"]
    assert [stream["buffered_files"] for stream in listed] == [1, 1, 1]
    assert listed[0]["checkpoints"][0]["tasks"] == {}
