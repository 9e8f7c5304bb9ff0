"""Markers and write stats are reconciled before an instant completes, and deletions are recorded."""

from __future__ import annotations

from tests.server import rest
from tests.server.reconciling import names, retried, shown
from tests.server.rest import Table, marker, refused, succeeded, write_stat
from tests.server.test_base_paths import deletable, orphans


def test_a_file_without_a_marker_is_refused_by_its_name(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant, 0))

    answer = table.complete(instant, write_stat(instant, 0), write_stat(instant, 1))

    problem = refused(answer, 422, "invalid-write-stat")
    assert problem["detail"].startswith("write_stats[1]: ")
    assert problem["context"]["file_name"] == write_stat(instant, 1)["file_name"]
    assert table.state(instant) == "inflight"


def test_the_file_of_a_failed_attempt_keeps_its_instant_from_completing_until_it_is_deleted(
    table: Table,
) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant), retried(instant))

    problem = refused(table.complete(instant, write_stat(instant)), 409, "unreconciled-markers")
    assert problem["context"] == {
        "unreconciled": 1,
        "files": [{"partition_path": "", "file_name": retried(instant)["file_name"]}],
    }
    succeeded(table.report(instant, retried(instant), writer="w"))
    succeeded(table.complete(instant, write_stat(instant)))

    assert table.markers(instant) == []
    assert table.deletions(instant) == names(retried(instant))


def test_the_first_hundred_files_are_named_of_those_that_are_left(table: Table) -> None:
    instant = table.begun()
    left = [marker(instant, bucket) for bucket in range(120)]
    table.marked(instant, *left)

    context = refused(table.complete(instant), 409, "unreconciled-markers")["context"]

    assert context["unreconciled"] == 120
    assert names(*context["files"]) == names(*left)[:100]


def test_a_file_that_was_reported_as_deleted_is_not_published(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant))
    succeeded(table.report(instant, marker(instant)))

    refused(table.complete(instant, write_stat(instant)), 422, "invalid-write-stat")


def test_staged_files_are_reconciled_with_the_markers_too(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant, 0), marker(instant, 1), retried(instant))
    versions = [table.staged(instant, write_stat(instant, bucket)) for bucket in (0, 1, 2)]

    refused(table.complete(instant, staged=versions), 422, "invalid-write-stat")
    refused(table.complete(instant, staged=versions[:2]), 409, "unreconciled-markers")
    succeeded(table.report(instant, retried(instant)))
    succeeded(table.complete(instant, staged=versions[:2]))

    assert table.markers(instant) == []


def test_of_several_instants_that_complete_together_each_must_add_up(table: Table) -> None:
    whole, half = table.begun(), table.begun()
    table.marked(whole, marker(whole, 0))
    table.marked(half, marker(half, 1), retried(half, 1))
    members = [
        {"table": table.name, "requested_time": time, "write_stats": [write_stat(time, bucket)]}
        for bucket, time in enumerate((whole, half))
    ]

    refused(
        table.http.post("/v1/transactions/complete", json={"instants": members}), 409, "unreconciled-markers"
    )
    assert (table.state(whole), table.state(half)) == ("inflight", "inflight")
    succeeded(table.report(half, retried(half, 1)))
    succeeded(table.http.post("/v1/transactions/complete", json={"instants": members}))
    assert (table.markers(whole), table.markers(half)) == ([], [])


def test_a_published_file_may_not_be_deleted_after_its_marker_is_gone(table: Table) -> None:
    instant = table.begun()
    file = {"partition_path": "", "file_name": marker(instant)["file_name"]}
    late = {"unswept_since": instant, "late_files": [file]}
    table.marked(instant, marker(instant), retried(instant))
    succeeded(table.report(instant, retried(instant)))
    succeeded(table.complete(instant, write_stat(instant)))

    assert table.markers(instant) == []
    assert deletable(table, instant, file) == {file["file_name"]: "live"}
    assert orphans(table, file) == {file["file_name"]: "live"}
    refused(table.report(instant, file), 422, "invalid-deletion")
    refused(
        table.http.post(f"/v1/tables/{table.name}/instants/{instant}/sweep", json=late), 422, "invalid-deletion"
    )
    refused(table.roll_back(instant), 409, "illegal-transition")


def test_a_table_that_requires_markers_publishes_no_file_without(table: Table) -> None:
    strict = rest.make_table(table.http, properties={"markers.required": "true"})
    instant = strict.begun()

    refused(strict.complete(instant, write_stat(instant)), 422, "invalid-write-stat")
    version = strict.staged(instant, write_stat(instant))
    refused(strict.complete(instant, staged=[version]), 422, "invalid-write-stat")
    strict.marked(instant, marker(instant))
    succeeded(strict.complete(instant, write_stat(instant)))
    succeeded(strict.complete(strict.begun()))


def test_required_markers_that_are_direct_are_handed_over_before_the_instant_completes(table: Table) -> None:
    properties = {"markers.required": "true", "markers.type": "direct"}
    body = rest.table_body(f"{table.name}_direct", properties=properties)
    succeeded(table.http.post("/v1/tables", json=body))
    strict = Table(table.http, f"{table.name}_direct")
    instant = strict.begun()
    assert shown(strict, instant)["plan"]["direct_markers"] is True

    refused(strict.complete(instant, write_stat(instant)), 422, "invalid-write-stat")
    strict.marked(instant, marker(instant))
    succeeded(strict.complete(instant, write_stat(instant)))
