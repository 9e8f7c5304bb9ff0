"""Promised files: what streams have reported without blocking never conflicts (docs/decisions/0058-streams.md).

Until its checkpoint is complete, instants that replace its file groups are refused, and plans give way.
"""

from __future__ import annotations

import concurrent.futures

import httpx
import pytest

from chronolake_model.file_names import base_file_name, bucket_file_id
from tests.server import rest
from tests.server.checkpoints import StreamOfTable, live_logs
from tests.server.rest import Json, Table, log_stat, refused, succeeded, write_stat


@pytest.fixture
def table(shared_http: httpx.Client) -> Table:
    """A merge-on-read table with four buckets, of which the first two have files."""
    return with_files(rest.make_table(shared_http, type="merge_on_read"))


@pytest.fixture
def stream(table: Table) -> StreamOfTable:
    return opened(table)


def with_files(table: Table) -> Table:
    begun = table.begun(action="deltacommit")
    succeeded(table.complete(begun, write_stat(begun, 0), write_stat(begun, 1)))
    return table


def opened(table: Table, name: str = "job") -> StreamOfTable:
    stream = StreamOfTable(table, name)
    stream.open(tasks=1)
    return stream


def group(bucket: int, generation: int = 0) -> Json:
    return {"partition_path": "", "file_id": bucket_file_id(bucket, generation)}


def base(time: str, bucket: int, generation: int = 0) -> Json:
    file_id = bucket_file_id(bucket, generation)
    return write_stat(time, bucket, file_id=file_id, file_name=base_file_name(file_id, "0-0-0", time))


def log(time: str, bucket: int, generation: int) -> Json:
    file_id = bucket_file_id(bucket, generation)
    return write_stat(time, bucket, file_id=file_id, file_name=f".{file_id}_{time}.log.1_0-0-0")


def begun(table: Table, how: str, *buckets: int) -> str:
    """The requested time of an instant that is to replace the file groups of these buckets."""
    groups = [group(bucket) for bucket in buckets]
    match how:
        case "clustering":
            return table.begun(action="clustering", writer="service", plan={"file_groups": groups})
        case "resize":
            plan = {"file_groups": [group(0), group(1)], "buckets": 8}
            return table.begun(action="clustering", writer="service", plan=plan)
        case _:
            return table.begun(action="replacecommit", operation=how)


def replace(table: Table, time: str, how: str, *buckets: int) -> httpx.Response:
    """Complete an instant that replaces the file groups of these buckets; all of them for a resize."""
    match how:
        case "delete_partition":
            return table.complete(time, replaced_file_groups=[group(bucket) for bucket in buckets])
        case "resize":
            gone = [group(0), group(1)]
            whole = base(time, 0, 1) | {"records": 20}
            return table.complete(time, whole, replaced_file_groups=gone, buckets=8)
        case _:
            stats = [base(time, bucket, 1) for bucket in buckets]
            return table.complete(time, *stats, replaced_file_groups=[group(bucket) for bucket in buckets])


REPLACING = ("clustering", "insert_overwrite", "delete_partition", "resize")


@pytest.mark.parametrize("how", REPLACING)
def test_an_instant_that_replaces_file_groups_waits_for_what_a_stream_has_reported(
    stream: StreamOfTable, how: str
) -> None:
    table, instant = stream.table, stream.write(-1, 0)
    replacing = begun(table, how, 0)

    problem = refused(replace(table, replacing, how, 0), 409, "write-conflict")

    assert problem["context"] == {
        "winner": instant,
        "winner_action": "deltacommit",
        "winner_state": "inflight",
        "rebase_on": None,
        "file_groups": [group(0)],
        "file_groups_in_common": 1,
        "stream": "job",
        "checkpoint": -1,
    }
    for said in ("the stream 'job'", f"wait until the instant {instant}", "checkpoint -1", "begin again"):
        assert said in problem["detail"]
    assert stream.completed(1) == [instant]
    succeeded(table.roll_back(replacing, "service" if how in ("clustering", "resize") else "w"))
    succeeded(replace(table, begun(table, how, 0), how, 0))
    assert live_logs(table) == []


@pytest.mark.parametrize("how", REPLACING)
def test_a_report_after_a_replacement_is_refused_and_the_stream_goes_on(
    stream: StreamOfTable, how: str
) -> None:
    table, instant = stream.table, stream.instant(-1)
    replacing = begun(table, how, 0)
    succeeded(replace(table, replacing, how, 0))

    problem = refused(stream.report(-1, log_stat(instant, 0)), 409, "write-conflict")

    assert problem["context"]["winner"] == replacing
    stream.open()
    again = stream.instant(-1)
    stream.reported(-1, log(again, 0, 1))
    assert stream.completed(1) == [again]


@pytest.mark.parametrize("how", REPLACING)
@pytest.mark.parametrize("repetition", range(2))
def test_of_a_report_and_a_replacement_that_race_exactly_one_is_accepted(
    table: Table, how: str, repetition: int
) -> None:
    streams = [opened(table, f"job-{number}") for number in range(3)]
    instants = [stream.instant(-1) for stream in streams]
    replacing = begun(table, how, 0)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        reports = [
            threads.submit(stream.report, -1, log_stat(instant, 0, number), last_batch=True)
            for number, (stream, instant) in enumerate(zip(streams, instants, strict=True), 1)
        ]
        replaced = threads.submit(replace, table, replacing, how, 0).result().status_code
        accepted = [report.result().status_code == 200 for report in reports]

    assert (replaced == 200) is not any(accepted)
    for stream, instant, is_accepted in zip(streams, instants, accepted, strict=True):
        if is_accepted:
            assert stream.completed(1) == [instant]


@pytest.mark.parametrize("inflight", [False, True])
def test_a_plan_does_not_win_against_a_stream_where_writers_give_way(
    shared_http: httpx.Client, *, inflight: bool
) -> None:
    table = rest.make_table(shared_http, type="merge_on_read", properties={"conflicts.yields": "writer"})
    stream = opened(with_files(table))
    first = stream.write(-1, 0)
    plan = {"file_groups": [group(0)]}
    clustering = table.begun(action="clustering", writer="service", plan=plan, inflight=inflight)

    second = stream.write(1, 0)

    ordinary = table.begun(action="deltacommit")
    refused(table.complete(ordinary, log_stat(ordinary, 0)), 409, "write-conflict")
    assert stream.completed(2) == [first, second]
    assert table.state(clustering) == "rolled_back", "it cannot complete any more, so it blocks nobody"
    succeeded(table.complete(ordinary, log_stat(ordinary, 0)))


def test_a_compaction_completes_beside_reported_files_and_both_are_read(stream: StreamOfTable) -> None:
    table, instant = stream.table, stream.write(-1, 0)
    compaction = table.begun(action="compaction", writer="service", plan={"file_groups": [group(0)]})
    succeeded(table.complete(compaction, write_stat(compaction, 0)))
    assert stream.completed(1) == [instant]
    assert live_logs(table) == [("00000000", instant)]


def test_other_file_groups_than_the_reported_ones_are_replaced_at_once(stream: StreamOfTable) -> None:
    table, instant = stream.table, stream.write(-1, 0)
    succeeded(replace(table, begun(table, "clustering", 1), "clustering", 1))
    assert stream.completed(1) == [instant]


def test_a_bucket_that_a_stream_opens_in_an_overwritten_partition_completes_after_the_overwrite(
    stream: StreamOfTable,
) -> None:
    table, instant = stream.table, stream.write(-1, 2)
    overwrite = table.begun(action="replacecommit", operation="insert_overwrite")
    files = base(overwrite, 0, 1), base(overwrite, 2)
    succeeded(table.complete(overwrite, *files, replaced_file_groups=[group(0), group(1)]))
    again = table.begun(action="replacecommit", operation="insert_overwrite")

    # The bucket has files by now, so the next overwrite would replace it.
    refused(table.complete(again, replaced_file_groups=[group(2)]), 409, "write-conflict")

    assert stream.completed(1) == [instant]
    assert live_logs(table) == [("00000002", instant)]


def test_a_resize_waits_also_for_reported_files_of_buckets_that_have_none(stream: StreamOfTable) -> None:
    table, instant = stream.table, stream.write(-1, 3)
    resize = begun(table, "resize")
    problem = refused(replace(table, resize, "resize"), 409, "write-conflict")
    assert (problem["context"]["winner"], problem["context"]["file_groups"]) == (instant, [group(3)])
    assert stream.completed(1) == [instant]


def test_a_checkpoint_without_files_completes_after_a_resize(shared_http: httpx.Client) -> None:
    properties = {"streams.empty-commits": "true"}
    table = with_files(rest.make_table(shared_http, type="merge_on_read", properties=properties))
    stream = opened(table)
    instant = stream.instant(-1)
    stream.reported(-1)
    succeeded(replace(table, begun(table, "resize"), "resize"))
    assert stream.completed(1) == [instant]


def test_dropped_rolled_back_and_blocking_files_hold_no_replacement_back(stream: StreamOfTable) -> None:
    table, stopped, blocking = stream.table, opened(stream.table, "stopped"), opened(stream.table, "blocking")
    stream.write(-1, 0)
    stream.restart("0", None)
    stopped.write(-1, 0)
    stopped.open()
    held = blocking.instant(-1, blocking=True)
    blocking.reported(-1, log_stat(held, 0))
    succeeded(replace(table, begun(table, "clustering", 0), "clustering", 0))


def test_the_latest_checkpoint_is_named_and_when_it_is_complete_the_others_are(stream: StreamOfTable) -> None:
    stream.write(-1, 0)
    stream.write(1, 0)
    latest = stream.write(2, 0, 1)
    stream.write(3, 2)
    replacing = begun(stream.table, "insert_overwrite", 0)
    problem = refused(replace(stream.table, replacing, "insert_overwrite", 0), 409, "write-conflict")
    assert (problem["context"]["winner"], problem["context"]["checkpoint"]) == (latest, 2)


def test_instants_that_complete_together_wait_too(stream: StreamOfTable) -> None:
    table, instant = stream.table, stream.write(-1, 0)
    times = [begun(table, "insert_overwrite", 0), table.begun(action="deltacommit")]
    bodies = [
        {"write_stats": [base(times[0], 0, 1)], "replaced_file_groups": [group(0)]},
        {"write_stats": [log_stat(times[1], 1)]},
    ]
    members = [
        {"table": table.name, "requested_time": time} | body for time, body in zip(times, bodies, strict=True)
    ]
    together = table.http.post("/v1/transactions/complete", json={"instants": members})
    problem = refused(together, 409, "write-conflict")
    assert problem["context"]["winner"] == instant
    assert table.state(times[1]) in ("requested", "inflight")


def test_the_dry_run_tells_about_promised_files(stream: StreamOfTable) -> None:
    table, instant = stream.table, stream.write(-1, 0)
    replacing = begun(table, "insert_overwrite", 0)
    path = f"/v1/tables/{table.name}/instants/{replacing}/conflicts"
    body = {"file_groups": [group(0) | {"how": "replaced"}, group(1) | {"how": "replaced"}]}
    conflict = succeeded(table.http.post(path, json=body))["conflict"]
    assert (conflict["winner"], conflict["file_groups"]) == (instant, [group(0)])
    assert stream.completed(1) == [instant]


def test_a_file_group_of_a_bucket_that_is_not_replaced_is_refused_at_the_report(stream: StreamOfTable) -> None:
    instant = stream.instant(-1)
    refused(stream.report(-1, log(instant, 0, 1)), 422, "invalid-plan")
