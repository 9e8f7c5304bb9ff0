"""A rollback completes when the files of its plan were reported as deleted."""

from __future__ import annotations

import pytest

from chronolake_model.file_names import bucket_file_id
from tests.server.reconciling import names, recorded, rolled_back, shown
from tests.server.rest import Table, keyed, log_stat, marker, new_key, refused, succeeded, write_stat


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


def test_the_record_names_the_rollback_that_deleted_a_file(table: Table, shared_dsn: str) -> None:
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


def test_the_rollback_of_direct_markers_accepts_files_unknown_to_the_server(
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
    states = [table.state(instant) for instant in (saved, completed, marked, unmarked, direct)]
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
def test_a_rollback_that_names_no_data_file_of_its_target_is_refused(table: Table, path: str) -> None:
    """No server would delete it, and the rollback would wait for ever."""
    other, instant = table.begun(), table.begun()
    own, theirs = marker(instant)["file_name"], marker(other)["file_name"]
    named = path.format(own=own, theirs=theirs, instant=instant)

    problem = refused(table.roll_back(instant, files_to_delete=[own, named, "b"]), 422, "invalid-plan")

    assert problem["context"] == {"files_in_question": 2, "file": named}
    assert named[:200] in problem["detail"]
    assert table.state(instant) == "inflight"


def test_a_file_in_the_plan_of_a_rollback_is_reported_without_a_marker(table: Table) -> None:
    instant = table.begun()
    named, unnamed = marker(instant, 0), marker(instant, 1)
    path = named["file_name"]
    rollback = succeeded(table.roll_back(instant, files_to_delete=[path]))["rolled_back_by"]

    answer = refused(table.report(rollback, named, unnamed), 422, "invalid-deletion")
    assert [file["file_name"] for file in answer["context"]["files"]] == names(unnamed)
    succeeded(table.report(rollback, named))

    assert table.deletions(rollback) == names(named)


@pytest.mark.parametrize("folder", ["", "day=1"])
def test_a_rollback_records_no_deletion_of_a_file_of_another_instant(table: Table, folder: str) -> None:
    """A server would delete it, as a file that came late."""
    other, instant = table.begun(), table.begun()
    theirs = marker(other) | {"partition_path": folder}
    named = [marker(instant)["file_name"]]
    rollback = succeeded(table.roll_back(instant, files_to_delete=named))["rolled_back_by"]

    refused(table.report(rollback, theirs), 422, "invalid-deletion")

    assert table.deletions(rollback) == []


def test_an_unexecuted_rollback_waits_for_an_executor(table: Table) -> None:
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

    response = table.http.post(
        f"/v1/tables/{table.name}/instants/{instant}/deletable",
        json={"files": [{name: marker(instant)[name] for name in ("partition_path", "file_name")}]},
    )
    late = table.report(rollback, marker(instant, 0), writer="w")

    assert succeeded(response)["refused"] == []
    assert succeeded(late)


def test_the_next_caller_resumes_the_plan_of_a_silent_executor(table: Table) -> None:
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


def test_a_failed_compaction_deletes_the_files_of_its_first_execution(table: Table) -> None:
    first = table.begun()
    succeeded(table.complete(first, write_stat(first, records=0, inserts=0)))
    group = {"partition_path": "", "file_id": bucket_file_id(0)}
    plan = table.begun(action="clustering", plan={"file_groups": [group]})
    left = marker(plan, 7)
    table.marked(plan, left)
    succeeded(table.http.post(f"/v1/tables/{table.name}/instants/{plan}/requested", json={"writer": "w"}))
    succeeded(table.inflight(plan))

    refused(table.complete(plan, replaced_file_groups=[group]), 409, "unreconciled-markers")
    succeeded(table.report(plan, left))
    succeeded(table.complete(plan, replaced_file_groups=[group]))
