"""A deletion that a writer reports is on record once, and only for files that may be deleted."""

from __future__ import annotations

import httpx
import pytest

from tests.server import rest
from tests.server.checkpoints import StreamOfTable
from tests.server.reconciling import names, recorded, retried, shown
from tests.server.rest import Json, Table, log_stat, marker, new_key, refused, succeeded, write_stat


def test_a_report_sent_again_under_its_key_is_recorded_once(table: Table, shared_dsn: str) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant))
    key = new_key()

    first = succeeded(table.report(instant, marker(instant), key=key))
    again = succeeded(table.report(instant, marker(instant), key=key))

    assert first == again
    assert recorded(shared_dsn, table) == [(instant, None, marker(instant)["file_name"], "anonymous", key)]


def test_of_a_report_with_a_file_that_was_never_marked_nothing_is_recorded(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant, 0))

    problem = refused(table.report(instant, marker(instant, 0), marker(instant, 1)), 422, "invalid-deletion")

    assert problem["context"]["files"] == [{"partition_path": "", "file_name": marker(instant, 1)["file_name"]}]
    assert len(table.markers(instant)) == 1


@pytest.mark.parametrize("name", ["0", "a.parquet", ".", "\u20ac", "x" * 1_024])
@pytest.mark.parametrize("ends", ["completes", "is rolled back", "is pending"])
def test_reporting_a_file_that_is_no_data_file_is_refused_for_an_instant_that(
    table: Table, ends: str, name: str
) -> None:
    instant = table.begun()
    if ends == "completes":
        succeeded(table.complete(instant))
    if ends == "is rolled back":
        instant = succeeded(table.roll_back(instant))["rolled_back_by"] or instant
    file = {"partition_path": "", "file_name": name}

    assert table.report(instant, file).status_code in (410, 422)
    sweep = table.http.post(
        f"/v1/tables/{table.name}/instants/{instant}/sweep",
        json={"unswept_since": instant, "late_files": [file]},
    )
    assert sweep.status_code in (409, 422)


def test_a_published_file_is_not_reported_as_deleted(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant))
    succeeded(table.complete(instant, write_stat(instant)))

    problem = refused(table.report(instant, marker(instant)), 422, "invalid-deletion")

    assert "has published" in problem["detail"]


def test_a_file_that_came_late_is_reported_again_after_completion(table: Table, shared_dsn: str) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant), retried(instant))
    succeeded(table.report(instant, retried(instant)))
    completed = succeeded(table.complete(instant, write_stat(instant)))

    succeeded(table.report(instant, retried(instant)))

    assert len(recorded(shared_dsn, table)) == 2
    assert table.deletions(instant) == names(retried(instant))
    assert succeeded(table.http.get(f"/v1/tables/{table.name}/instants/{instant}")) == completed


def test_a_writer_that_lost_its_instant_reports_nothing_of_it(table: Table) -> None:
    instant, gone = table.begun(), table.begun()
    table.marked(instant, marker(instant))
    table.marked(gone, marker(gone))
    table.roll_back(gone)

    refused(table.report(instant, marker(instant), writer="another"), 409, "lease-live")
    refused(table.report(gone, marker(gone)), 410, "instant-rolled-back")
    refused(table.report("20260101000000000", marker(instant)), 404, "instant-not-found")


def test_an_action_without_data_files_has_no_markers(table: Table) -> None:
    instant = table.begun()
    succeeded(table.roll_back(instant, files_to_delete=[marker(instant)["file_name"]]))
    rollback = shown(table, instant)["rolled_back_by"]

    refused(table.mark(rollback, marker(rollback)), 409, "illegal-transition")


@pytest.mark.parametrize("sender", [{}, {"writer": "w"}], ids=["without a writer", "by its writer"])
@pytest.mark.parametrize("markers", ["server", "direct"])
def test_a_staged_file_is_not_reported_as_deleted(table: Table, markers: str, sender: Json) -> None:
    instant = table.begun(markers=markers)
    if markers == "server":
        table.marked(instant, marker(instant), retried(instant))
    version = table.staged(instant, write_stat(instant))

    problem = refused(
        table.report(instant, marker(instant), retried(instant), **sender), 422, "invalid-deletion"
    )

    assert [file["file_name"] for file in problem["context"]["files"]] == names(marker(instant))
    succeeded(table.report(instant, retried(instant), **sender))
    # The driver of a write with direct markers copies them first.
    table.marked(instant, marker(instant))
    assert succeeded(table.complete(instant, staged=[version]))["state"] == "completed"


@pytest.mark.parametrize("sender", [{}, {"writer": "w"}], ids=["without a writer", "by its writer"])
def test_a_file_that_a_stream_has_promised_is_not_reported_as_deleted(
    shared_http: httpx.Client, sender: Json
) -> None:
    stream = StreamOfTable(rest.make_table(shared_http, type="merge_on_read"))
    stream.open(tasks=1)
    instant = stream.instant(-1)
    file, attempt = log_stat(instant), log_stat(instant, number=2)
    stream.table.marked(instant, *(append(stat) for stat in (file, attempt)))
    stream.reported(-1, file)

    refused(stream.table.report(instant, file, **sender), 422, "invalid-deletion")
    succeeded(stream.table.report(instant, attempt, **sender))

    assert stream.completed(1) == [instant]


def test_a_file_that_a_restarted_task_has_dropped_may_be_reported_as_deleted(shared_http: httpx.Client) -> None:
    stream = StreamOfTable(rest.make_table(shared_http, type="merge_on_read"))
    stream.open(tasks=1)
    instant = stream.instant(-1)
    file = log_stat(instant)
    stream.table.marked(instant, append(file))
    stream.reported(-1, file)
    stream.restart("0", None)

    succeeded(stream.table.report(instant, file, writer="w"))


def append(stat: Json) -> Json:
    return {"partition_path": "", "file_name": stat["file_name"], "kind": "APPEND"}
