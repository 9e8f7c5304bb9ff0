"""Markers and write stats add up before an instant completes, and what is deleted is on record."""

from __future__ import annotations

from typing import Any

import pytest

from chronolake_model.file_names import bucket_file_id
from tests.server import database, rest
from tests.server.rest import Json, Table, keyed, log_stat, marker, new_key, refused, succeeded, write_stat

MERGE_ON_READ = {"type": "merge_on_read"}


def names(*markers: Json) -> list[str]:
    """The names of their data files, in order."""
    return sorted(one["file_name"] for one in markers)


def retried(instant: str, bucket: int = 0) -> Json:
    """The marker of a second attempt at the same file."""
    first = marker(instant, bucket)
    return first | {"file_name": first["file_name"].replace("0-0-0_", "0-0-1_")}


# ---------------------------------------------------------------------------------- on complete


def test_what_an_instant_marks_and_publishes_adds_up(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant, 0), marker(instant, 1))

    succeeded(table.complete(instant, write_stat(instant, 0), write_stat(instant, 1)))


def test_an_instant_that_marks_nothing_is_not_asked(table: Table) -> None:
    instant = table.begun()

    succeeded(table.complete(instant, write_stat(instant)))


def test_a_file_without_a_marker_is_refused_by_its_name(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant, 0))

    answer = table.complete(instant, write_stat(instant, 0), write_stat(instant, 1))

    problem = refused(answer, 422, "invalid-write-stat")
    assert problem["detail"].startswith("write_stats[1]: ")
    assert problem["context"]["file_name"] == write_stat(instant, 1)["file_name"]
    assert table.state(instant) == "inflight"


def test_a_log_file_without_a_marker_is_refused_too(http_table_of_logs: Table) -> None:
    table = http_table_of_logs
    instant = table.begun(action="deltacommit")
    log = log_stat(instant)
    table.marked(instant, marker(instant, 1) | {"file_name": log["file_name"], "kind": "APPEND"})

    refused(table.complete(instant, log, log_stat(instant, 2)), 422, "invalid-write-stat")
    succeeded(table.complete(instant, log))


@pytest.fixture
def http_table_of_logs(table: Table) -> Table:
    return rest.make_table(table.http, **MERGE_ON_READ)


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

    assert names(*table.markers(instant)) == names(marker(instant))
    assert table.deletions(instant) == names(retried(instant))


def test_the_first_hundred_files_are_named_of_those_that_are_left(table: Table) -> None:
    instant = table.begun()
    left = [marker(instant, bucket) for bucket in range(120)]
    table.marked(instant, *left)

    context = refused(table.complete(instant), 409, "unreconciled-markers")["context"]

    assert context["unreconciled"] == 120
    assert names(*context["files"]) == names(*left)[:100]


def test_a_file_of_two_markers_is_reconciled_by_one_write_stat(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant), marker(instant, kind="MERGE"))

    succeeded(table.complete(instant, write_stat(instant)))


def test_a_file_that_was_reported_as_deleted_is_not_published(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant))
    succeeded(table.report(instant, marker(instant)))

    refused(table.complete(instant, write_stat(instant)), 422, "invalid-write-stat")


def test_a_file_that_is_marked_again_after_its_deletion_may_be_written_again(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant))
    succeeded(table.report(instant, marker(instant)))

    assert table.marked(instant, marker(instant)) == ["created"]
    succeeded(table.complete(instant, write_stat(instant)))


def test_what_was_staged_adds_up_with_the_markers_too(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant, 0), marker(instant, 1), retried(instant))
    versions = [table.staged(instant, write_stat(instant, bucket)) for bucket in (0, 1, 2)]

    refused(table.complete(instant, staged=versions), 422, "invalid-write-stat")
    refused(table.complete(instant, staged=versions[:2]), 409, "unreconciled-markers")
    succeeded(table.report(instant, retried(instant)))
    succeeded(table.complete(instant, staged=versions[:2]))

    assert names(*table.markers(instant)) == names(marker(instant, 0), marker(instant, 1))


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


def test_markers_are_required_or_not_and_nothing_else(table: Table) -> None:
    body = rest.table_body(f"{table.name}_odd", properties={"markers.required": "yes"})

    refused(table.http.post("/v1/tables", json=body), 422, "invalid-table")


# ---------------------------------------------------------------------------------- reports


def test_a_report_sent_again_under_its_key_is_recorded_once(table: Table, shared_dsn: str) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant))
    key = new_key()

    first = succeeded(table.report(instant, marker(instant), key=key))
    again = succeeded(table.report(instant, marker(instant), key=key))

    assert first == again
    assert recorded(shared_dsn, table) == [(instant, None, marker(instant)["file_name"], "anonymous", key)]


def recorded(dsn: str, table: Table) -> list[tuple[str, str | None, str, str, str]]:
    """What the auditor's view says was deleted of a table."""
    rows = database.query(
        dsn, "SELECT * FROM audit_deletions WHERE table_name = %s ORDER BY version, file_name", table.name
    )
    return [
        (row["requested_digits"], row["rollback_digits"], row["file_name"], row["actor"], row["request_id"])
        for row in rows
    ]


def test_of_a_report_with_a_file_that_was_never_marked_nothing_is_recorded(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant, 0))

    problem = refused(table.report(instant, marker(instant, 0), marker(instant, 1)), 422, "invalid-deletion")

    assert problem["context"]["files"] == [{"partition_path": "", "file_name": marker(instant, 1)["file_name"]}]
    assert len(table.markers(instant)) == 1


@pytest.mark.parametrize("name", ["0", "a.parquet", ".", "\u20ac", "x" * 1_024])
@pytest.mark.parametrize("ends", ["completes", "is rolled back", "is pending"])
def test_what_is_no_data_file_is_not_reported_as_deleted_of_an_instant_that(
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
        f"/v1/tables/{table.name}/instants/{instant}/sweep", json={"unswept_since": instant, "found": [file]}
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


def test_a_file_that_a_report_names_twice_is_recorded_once(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant))

    assert succeeded(table.report(instant, marker(instant), marker(instant)))["files"] == 1


def test_a_writer_that_lost_its_instant_reports_nothing_of_it(table: Table) -> None:
    instant, gone = table.begun(), table.begun()
    table.marked(instant, marker(instant))
    table.marked(gone, marker(gone))
    table.roll_back(gone)

    refused(table.report(instant, marker(instant), writer="another"), 409, "lease-live")
    refused(table.report(gone, marker(gone)), 410, "instant-rolled-back")
    refused(table.report("20260101000000000", marker(instant)), 404, "instant-not-found")


def test_pages_of_deletions_are_all_of_them(table: Table) -> None:
    instant = table.begun()
    files = [marker(instant, bucket) for bucket in range(5)]
    table.marked(instant, *files)
    succeeded(table.report(instant, *files))
    path = f"/v1/tables/{table.name}/instants/{instant}/deletions"

    first = succeeded(table.http.get(path, params={"limit": 3}))
    second = succeeded(table.http.get(path, params={"limit": 3, "cursor": first["next_cursor"]}))

    assert [one["file_name"] for one in first["files"] + second["files"]] == names(*files)
    assert second["next_cursor"] is None


def test_what_writes_no_data_files_has_no_markers(table: Table) -> None:
    instant = table.begun()
    succeeded(table.roll_back(instant, files_to_delete=[marker(instant)["file_name"]]))
    rollback = shown(table, instant)["rolled_back_by"]

    refused(table.mark(rollback, marker(rollback)), 409, "illegal-transition")


# ---------------------------------------------------------------------------------- rollback


def shown(table: Table, instant: str) -> Json:
    """An instant of the timeline."""
    return succeeded(table.http.get(f"/v1/tables/{table.name}/instants/{instant}"))


def rolled_back(table: Table, *buckets: int, **body: Any) -> tuple[str, str]:
    """An instant with markers that was rolled back, and its rollback."""
    instant = table.begun()
    table.marked(instant, *(marker(instant, bucket) for bucket in buckets))
    rollback: str = succeeded(table.roll_back(instant, **body))["rolled_back_by"]
    return instant, rollback


def test_the_rollback_of_an_instant_without_markers_completes_at_once(table: Table) -> None:
    rollback = succeeded(table.roll_back(table.begun(), execute=False))["rolled_back_by"]

    assert table.state(rollback) == "completed"


def test_a_rollback_completes_when_every_marked_file_was_reported_deleted(table: Table) -> None:
    instant, rollback = rolled_back(table, 0, 1)
    plan = shown(table, rollback)["plan"]
    assert (table.state(rollback), plan["by_markers"], plan["files_to_delete"]) == ("inflight", True, [])

    problem = refused(table.complete(rollback), 409, "unreconciled-markers")
    assert problem["context"]["unreconciled"] == 2
    succeeded(table.report(rollback, marker(instant, 0), writer="w"))
    assert refused(table.complete(rollback), 409, "unreconciled-markers")["context"]["unreconciled"] == 1
    succeeded(table.report(rollback, marker(instant, 1), writer="w"))
    succeeded(table.complete(rollback))

    assert table.markers(instant) == []
    assert (
        table.deletions(rollback) == table.deletions(instant) == names(marker(instant, 0), marker(instant, 1))
    )


def test_the_record_says_which_rollback_deleted_a_file(table: Table, shared_dsn: str) -> None:
    instant, rollback = rolled_back(table, 0)
    key = new_key()
    succeeded(
        table.http.post(
            f"/v1/tables/{table.name}/instants/{rollback}/deletions",
            json={"files": [{"partition_path": "", "file_name": marker(instant)["file_name"]}]},
            headers=keyed(key) | {"Chronolake-Actor": "ann"},
        )
    )

    assert recorded(shared_dsn, table) == [(instant, rollback, marker(instant)["file_name"], "ann", key)]


def test_the_rollback_of_an_instant_with_direct_markers_asks_for_files_that_the_server_cannot_know(
    table: Table,
) -> None:
    instant, other = table.begun(markers="direct"), table.begun(markers="server")
    assert shown(table, other)["plan"] is None
    rollback = succeeded(table.roll_back(instant))["rolled_back_by"]
    plan = shown(table, rollback)["plan"]
    assert (table.state(rollback), plan["by_markers"], plan["direct_markers"]) == ("inflight", True, True)

    problem = refused(table.report(rollback, marker(instant), marker(other)), 422, "invalid-deletion")
    assert problem["context"]["files"] == [{"partition_path": "", "file_name": marker(other)["file_name"]}]
    succeeded(table.report(rollback, marker(instant)))
    succeeded(table.complete(rollback))

    assert table.deletions(instant) == names(marker(instant))


def test_a_restore_leaves_the_files_of_pending_writes_to_rollbacks_that_wait(table: Table) -> None:
    saved = table.begun()
    succeeded(table.complete(saved, write_stat(saved)))
    savepoint = succeeded(table.http.post(f"/v1/tables/{table.name}/savepoints", json={"writer": "w"}))
    completed, marked, unmarked, direct = (
        table.begun(),
        table.begun(),
        table.begun(),
        table.begun(markers="direct"),
    )
    succeeded(table.complete(completed, write_stat(completed, 1)))
    table.marked(marked, marker(marked))

    body = {"writer": "ann", "savepoint": savepoint["requested_time"], "reason": "oops"}
    restored = succeeded(table.http.post(f"/v1/tables/{table.name}/restore", json=body))

    assert restored["plan"]["instants"] == [unmarked, completed]
    states = [table.state(one) for one in (saved, completed, marked, unmarked, direct)]
    assert states == ["completed", *["rolled_back"] * 4]
    waiting = shown(table, shown(table, marked)["rolled_back_by"])
    assert (waiting["state"], waiting["target"], waiting["plan"]["by_markers"]) == ("requested", marked, True)
    assert shown(table, shown(table, direct)["rolled_back_by"])["state"] == "requested"
    assert shown(table, marked)["rollback_reason"] == "oops"
    refused(table.mark(marked, marker(marked, 1)), 410, "instant-rolled-back")


def test_files_that_were_named_are_the_plan_and_markers_are_not(table: Table) -> None:
    instant = table.begun()
    table.marked(instant, marker(instant))
    named = [log_stat(instant, 1)["file_name"], f"day=1/{marker(instant, 2)['file_name']}"]

    rollback = succeeded(table.roll_back(instant, files_to_delete=named))["rolled_back_by"]

    plan = shown(table, rollback)["plan"]
    assert (plan["by_markers"], plan["files_to_delete"]) == (False, named)
    succeeded(table.complete(rollback))


@pytest.mark.parametrize(
    "path",
    [
        *("a.parquet", "{theirs}", "../{own}", "/{own}", "day=1//{own}", "day=1/../{own}", ".hoodie/{own}"),
        ".hoodie/.temp/{instant}/{own}.marker.CREATE",
        "x" * 1_000 + "/{own}",
    ],
)
def test_a_rollback_that_names_what_is_no_data_file_of_its_target_is_refused(table: Table, path: str) -> None:
    """Nobody would delete it, and the rollback would wait for ever."""
    other, instant = table.begun(), table.begun()
    own, theirs = marker(instant)["file_name"], marker(other)["file_name"]
    named = path.format(own=own, theirs=theirs, instant=instant)

    problem = refused(table.roll_back(instant, files_to_delete=[own, named, "b"]), 422, "invalid-plan")

    assert problem["context"] == {"files_in_question": 2, "file": named}
    assert named[:200] in problem["detail"]
    assert table.state(instant) == "inflight"


def test_what_the_plan_of_a_rollback_names_is_reported_without_a_marker(table: Table) -> None:
    instant = table.begun()
    named, unnamed = marker(instant, 0), marker(instant, 1)
    path = named["file_name"]
    rollback = succeeded(table.roll_back(instant, files_to_delete=[path]))["rolled_back_by"]

    answer = refused(table.report(rollback, named, unnamed), 422, "invalid-deletion")
    assert [one["file_name"] for one in answer["context"]["files"]] == names(unnamed)
    succeeded(table.report(rollback, named))

    assert table.deletions(rollback) == names(named)


@pytest.mark.parametrize("folder", ["", "day=1"])
def test_a_rollback_records_no_deletion_of_what_another_has_written(table: Table, folder: str) -> None:
    """A server would delete it, as a file that came late."""
    other, instant = table.begun(), table.begun()
    theirs = marker(other) | {"partition_path": folder}
    named = [marker(instant)["file_name"]]
    rollback = succeeded(table.roll_back(instant, files_to_delete=named))["rolled_back_by"]

    refused(table.report(rollback, theirs), 422, "invalid-deletion")

    assert table.deletions(rollback) == []


def test_a_rollback_that_nobody_executes_waits_for_whoever_takes_it(table: Table) -> None:
    instant, rollback = rolled_back(table, 0, execute=False)
    waiting = shown(table, rollback)
    assert (waiting["state"], waiting["lease_expires_at"]) == ("requested", None)

    refused(table.report(rollback, marker(instant)), 409, "illegal-transition")
    taken = table.http.post(f"/v1/tables/{table.name}/instants/{rollback}/inflight", json={"writer": "cleaner"})
    succeeded(taken)
    succeeded(table.report(rollback, marker(instant), writer="cleaner"))
    assert succeeded(table.complete(rollback, writer="cleaner"))["state"] == "completed"


def test_a_writer_that_was_rolled_back_reports_its_late_files_to_the_rollback(table: Table) -> None:
    instant, rollback = rolled_back(table, 0, 1, execute=False)
    refused(table.report(instant, marker(instant, 0)), 410, "instant-rolled-back")
    succeeded(table.http.post(f"/v1/tables/{table.name}/instants/{rollback}/inflight", json={"writer": "w"}))
    succeeded(table.report(rollback, marker(instant, 0), marker(instant, 1), writer="w"))
    succeeded(table.complete(rollback, writer="w"))

    asked = table.http.post(
        f"/v1/tables/{table.name}/instants/{instant}/deletable",
        json={"files": [{name: marker(instant)[name] for name in ("partition_path", "file_name")}]},
    )
    late = table.report(rollback, marker(instant, 0), writer="w")

    assert succeeded(asked)["refused"] == []
    assert succeeded(late)


def test_who_asks_next_goes_on_with_the_plan_of_the_one_who_went_silent(table: Table) -> None:
    instant, rollback = rolled_back(table, 0, 1)
    succeeded(table.report(rollback, marker(instant, 0)))
    succeeded(table.http.post(f"/v1/tables/{table.name}/instants/{rollback}/requested", json={"writer": "w"}))

    answer = succeeded(table.roll_back(instant, writer="second"))

    assert (answer["rolled_back_by"], shown(table, rollback)["writer"]) == (rollback, "second")
    assert names(*table.markers(instant)) == names(marker(instant, 1))
    succeeded(table.report(rollback, marker(instant, 1), writer="second"))
    succeeded(table.complete(rollback))


def test_markers_are_the_list_of_a_rollback_as_long_as_it_is_pending(table: Table) -> None:
    instant, rollback = rolled_back(table, 0)

    refused(table.delete_markers(instant), 409, "illegal-transition")
    succeeded(table.report(rollback, marker(instant)))
    succeeded(table.complete(rollback))
    assert succeeded(table.delete_markers(instant)) == {"deleted": 0}


def test_the_late_file_of_a_rolled_back_writer_is_recorded_after_the_rollback(
    table: Table, shared_dsn: str
) -> None:
    instant, rollback = rolled_back(table, 0)
    succeeded(table.report(rollback, marker(instant)))
    succeeded(table.complete(rollback))

    succeeded(table.report(rollback, marker(instant), writer="sweeper"))

    assert len(recorded(shared_dsn, table)) == 2
    assert table.state(rollback) == "completed"


def test_a_rollback_reports_no_files_of_other_instants(table: Table) -> None:
    other = table.begun()
    table.marked(other, marker(other, 3))
    _, rollback = rolled_back(table, 0)

    refused(table.report(rollback, marker(other, 3)), 422, "invalid-deletion")


def test_a_compaction_that_failed_half_way_deletes_what_its_first_execution_left(table: Table) -> None:
    first = table.begun()
    succeeded(table.complete(first, write_stat(first)))
    group = {"partition_path": "", "file_id": bucket_file_id(0)}
    plan = table.begun(action="clustering", plan={"file_groups": [group]})
    left = marker(plan, 7)
    table.marked(plan, left)
    succeeded(table.http.post(f"/v1/tables/{table.name}/instants/{plan}/requested", json={"writer": "w"}))
    succeeded(table.inflight(plan))

    refused(table.complete(plan, replaced_file_groups=[group]), 409, "unreconciled-markers")
    succeeded(table.report(plan, left))
    succeeded(table.complete(plan, replaced_file_groups=[group]))
