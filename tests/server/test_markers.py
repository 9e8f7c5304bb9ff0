"""Markers over REST (docs/architecture.md#markers-and-deletion)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.fix_server import ServerProcess
from tests.server import database, rest
from tests.server.rest import Json, Table, marker, refused, succeeded, write_stat

LARGE = 12_345
"""More than one transaction deletes."""


def many(requested_time: str, number: int) -> list[Json]:
    """This many markers of one instant."""
    return [marker(requested_time, bucket) for bucket in range(number)]


def left_unreconciled(dsn: str, requested_time: str, *markers: Json) -> None:
    """Unreported markers of an instant that completed under an earlier release."""
    with database.connected(dsn) as connection:
        connection.cursor().executemany(
            "INSERT INTO marker SELECT table_id, requested_time, %s, %s, %s, NULL, now() FROM instant"
            " WHERE requested_time = moment_of(%s)",
            [
                (created["partition_path"], created["file_name"], created["kind"], requested_time)
                for created in markers
            ],
        )


def test_a_marker_is_created_once_and_existed_from_then_on(table: Table) -> None:
    instant = table.begun()

    assert table.marked(instant, marker(instant)) == ["created"]
    assert table.marked(instant, marker(instant)) == ["existed"]
    assert table.markers(instant) == [marker(instant)]


def test_each_marker_of_a_list_has_its_own_outcome(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant, 1))

    outcomes = table.marked(instant, marker(instant, 0), marker(instant, 1), marker(instant, 0))

    assert outcomes == ["created", "existed", "existed"]


def test_markers_are_no_events_of_the_log(table: Table, shared_dsn: str) -> None:
    instant = table.begun()
    before = database.contents(shared_dsn, *database.LOG, *database.PROJECTIONS)

    table.marked(instant, *many(instant, 10))

    assert database.contents(shared_dsn, *database.LOG, *database.PROJECTIONS) == before


def test_a_commands_lock_on_the_table_keeps_no_marker_waiting(table: Table, shared_dsn: str) -> None:
    instant = table.begun()
    with database.clock_held(shared_dsn, table.name):
        assert table.marked(instant, marker(instant)) == ["created"]


@pytest.mark.parametrize(
    "bad",
    [
        {"file_name": "part-0.parquet"},
        {"kind": "APPEND"},
        {"partition_path": "../elsewhere"},
        {"partition_path": ".hoodie"},
        {"partition_path": "a\nb"},
        {"file_name": write_stat("20260101000000000")["file_name"]},
    ],
    ids=str,
)
def test_of_a_list_with_one_bad_marker_none_is_created(table: Table, bad: Json) -> None:
    instant = table.begun()

    problem = refused(table.mark(instant, marker(instant, 1), marker(instant) | bad), 422, "invalid-marker")

    assert problem["detail"].startswith("markers[1]: ")
    assert table.markers(instant) == []


@pytest.mark.parametrize(
    ("properties", "right", "wrong"),
    [
        ({}, "day=2026-01-01", "2026-01-01"),
        ({"partition-paths.hive-style": "false"}, "2026-01-01", "day=2026-01-01"),
    ],
)
def test_a_partition_path_in_another_style_than_the_tables_is_refused(
    shared_http: httpx.Client, properties: Json, right: str, wrong: str
) -> None:
    table = rest.make_table(shared_http, partition_fields=["day"], properties=properties)
    instant = table.begun()
    markers = [marker(instant, 1, right), marker(instant, 0, wrong)]

    problem = refused(table.mark(instant, *markers), 422, "invalid-marker")
    assert problem["context"]["index"] == 1
    assert table.markers(instant) == []
    stat = write_stat(instant, 0, wrong)
    refused(table.stage(instant, stat), 422, "invalid-write-stat")
    refused(table.complete(instant, stat), 422, "invalid-write-stat")
    assert table.marked(instant, marker(instant, 1, right)) == ["created"]


def test_after_a_rollback_a_marker_is_refused_with_the_reason(table: Table) -> None:
    instant = table.begun()
    table.roll_back(instant, reason="lost its node")

    problem = refused(table.mark(instant, marker(instant)), 410, "instant-rolled-back")

    assert problem["context"]["reason"] == "lost its node"
    assert table.markers(instant) == []


def test_a_writer_that_lost_the_instant_to_another_is_refused(table: Table) -> None:
    instant = table.begun()

    assert (
        refused(table.mark(instant, marker(instant), writer="x"), 409, "lease-live")["context"]["writer"] == "w"
    )
    assert succeeded(table.mark(instant, marker(instant), writer="w"))["outcomes"] == ["created"]


def test_a_plan_without_an_executor_takes_no_markers(table: Table) -> None:
    first = table.begun()
    table.complete(first, write_stat(first))
    group = {"partition_path": "", "file_id": write_stat(first)["file_id"]}
    plan = table.begun(action="clustering", inflight=False, plan={"file_groups": [group]})

    refused(table.mark(plan, marker(plan)), 409, "illegal-transition")
    table.inflight(plan)
    assert table.marked(plan, marker(plan)) == ["created"]


def test_refused_and_created_go_apart_in_one_batch(table: Table) -> None:
    live, gone = table.begun(), table.begun()
    table.roll_back(gone)
    requests = [live, gone, "20260101000000000", live] * 8
    with ThreadPoolExecutor(len(requests)) as threads:
        sent = threads.map(
            lambda bucket, instant: table.mark(instant, marker(instant, bucket)), range(len(requests)), requests
        )
        answers = list(sent)

    assert [answer.status_code for answer in answers] == [200, 410, 404, 200] * 8
    assert len(table.markers(live)) == 16


def test_pages_of_markers_are_all_markers_in_order(table: Table) -> None:
    instant = table.begun()
    wanted = many(instant, 7)
    table.marked(instant, *reversed(wanted))
    path = f"/v1/tables/{table.name}/instants/{instant}/markers"

    first = succeeded(table.http.get(path, params={"limit": 4}))
    second = succeeded(table.http.get(path, params={"limit": 4, "cursor": first["next_cursor"]}))

    assert first["markers"] + second["markers"] == wanted
    assert second["next_cursor"] is None


def test_markers_without_write_stats_are_those_of_other_attempts(table: Table, shared_dsn: str) -> None:
    instant = table.begun()
    retried = marker(instant, 1) | {"file_name": marker(instant, 1)["file_name"].replace("0-0-0_", "0-0-1_")}
    table.marked(instant, marker(instant, 0), marker(instant, 1))
    assert table.markers(instant, unpublished="true") == table.markers(instant)

    succeeded(table.complete(instant, write_stat(instant, 0), write_stat(instant, 1)))
    left_unreconciled(shared_dsn, instant, retried)

    assert table.markers(instant, unpublished="true") == [retried]
    assert table.markers(instant) == [retried]


def test_write_stats_that_were_staged_count_too(table: Table, shared_dsn: str) -> None:
    instant = table.begun()
    table.marked(instant, *many(instant, 2))
    version = table.staged(instant, write_stat(instant, 0), write_stat(instant, 1))
    table.staged(instant, write_stat(instant, 2))

    succeeded(table.complete(instant, staged=[version]))
    left_unreconciled(shared_dsn, instant, marker(instant, 2))

    assert table.markers(instant, unpublished="true") == [marker(instant, 2)]


def test_files_undone_by_a_restore_still_count_as_published(table: Table, shared_dsn: str) -> None:
    first = table.begun()
    table.complete(first, write_stat(first))
    savepoint = succeeded(
        table.http.post(f"/v1/tables/{table.name}/savepoints", json={"writer": "w", "instant": first})
    )
    undone = table.begun()
    table.marked(undone, *many(undone, 1))
    succeeded(table.complete(undone, write_stat(undone, 0)))
    left_unreconciled(shared_dsn, undone, marker(undone, 1))
    body = {"writer": "w", "savepoint": savepoint["requested_time"]}

    succeeded(table.http.post(f"/v1/tables/{table.name}/restore", json=body))

    assert table.state(undone) == "rolled_back"
    assert table.markers(undone, unpublished="true") == [marker(undone, 1)]


def test_pages_of_markers_without_write_stats_are_all_of_them(table: Table, shared_dsn: str) -> None:
    instant = table.begun()
    kinds = [marker(instant, bucket, kind=kind) for bucket in range(4) for kind in ("CREATE", "MERGE")]
    table.marked(instant, *kinds[2:4])
    succeeded(table.complete(instant, write_stat(instant, 1)))
    left_unreconciled(shared_dsn, instant, *kinds[:2], *kinds[4:])
    path = f"/v1/tables/{table.name}/instants/{instant}/markers"
    query: dict[str, str | int] = {"unpublished": "true", "limit": 3}

    first = succeeded(table.http.get(path, params=query))
    second = succeeded(table.http.get(path, params=query | {"cursor": first["next_cursor"]}))

    assert first["markers"] + second["markers"] == kinds[:2] + kinds[4:]


@pytest.mark.parametrize(("bucket", "exists"), [(0, True), (1, False)])
def test_a_marker_is_looked_up_by_its_name(table: Table, bucket: int, exists: bool) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant))
    name = f"{marker(instant, bucket)['file_name']}.marker.CREATE"

    answer = succeeded(
        table.http.get(f"/v1/tables/{table.name}/instants/{instant}/marker", params={"name": name})
    )

    assert (answer["name"], answer["exists"]) == (name, exists)


def test_markers_stay_while_their_instant_is_pending(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant))

    refused(table.delete_markers(instant), 409, "illegal-transition")

    assert table.markers(instant) == [marker(instant)]


def test_all_markers_of_an_instant_that_ended_are_deleted_and_no_others(table: Table) -> None:
    ended, other = table.begun(), table.begun()
    table.marked(other, marker(other))
    table.marked(ended, *many(ended, LARGE - 10_000))
    table.marked(ended, *many(ended, LARGE)[-10_000:])
    succeeded(table.roll_back(ended, files_to_delete=[marker(ended)["file_name"]]))

    assert succeeded(table.delete_markers(ended)) == {"deleted": LARGE}
    assert succeeded(table.delete_markers(ended)) == {"deleted": 0}
    assert (table.markers(ended), table.markers(other)) == ([], [marker(other)])


@pytest.mark.parametrize(("files", "left"), [(1_000, 0), (1_001, 1_001)])
def test_a_complete_deletes_the_markers_of_its_files_unless_they_are_many(
    shared_http: httpx.Client, files: int, left: int
) -> None:
    table = rest.make_table(shared_http, index={"buckets": 1_002})
    instant, pending = table.begun(), table.begun()
    table.marked(instant, *many(instant, files))
    table.marked(pending, marker(pending))

    succeeded(table.complete(instant, *(write_stat(instant, bucket) for bucket in range(files))))

    assert succeeded(table.delete_markers(instant)) == {"deleted": left}
    assert table.markers(pending) == [marker(pending)]


def test_markers_are_deleted_while_a_command_holds_the_table(table: Table, shared_dsn: str) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant))
    succeeded(table.roll_back(instant, files_to_delete=[marker(instant)["file_name"]]))
    with database.clock_held(shared_dsn, table.name):
        assert succeeded(table.delete_markers(instant)) == {"deleted": 1}


def test_markers_are_counted_by_their_outcome(server: ServerProcess) -> None:
    with rest.connect(server.url) as http:
        table = rest.make_table(http)
        instant = table.begun()
        table.marked(instant, *many(instant, 3))
        table.marked(instant, marker(instant))
        table.mark("20260101000000000", marker("20260101000000000"))
        metrics = http.get("/metrics").text

    assert 'chronolake_markers_total{result="created"} 3.0' in metrics
    assert 'chronolake_markers_total{result="existed"} 1.0' in metrics
    assert 'chronolake_markers_total{result="instant-not-found"} 1.0' in metrics
    assert "chronolake_marker_batch_size_sum 5.0" in metrics


def test_requests_within_the_interval_of_a_batch_share_the_next_batch(
    new_server: Callable[..., ServerProcess], dsn: str
) -> None:
    server = new_server(dsn, "--marker-interval-ms", "1000")
    with rest.connect(server.url) as http, ThreadPoolExecutor(16) as threads:
        table = rest.make_table(http)
        instant = table.begun()
        table.marked(instant, marker(instant, 16))
        outcomes = list(threads.map(lambda bucket: table.marked(instant, marker(instant, bucket)), range(16)))
        metrics = http.get("/metrics").text

    assert outcomes == [["created"]] * 16
    assert "chronolake_marker_batch_requests_count 2.0" in metrics
    assert "chronolake_marker_batch_requests_sum 17.0" in metrics
