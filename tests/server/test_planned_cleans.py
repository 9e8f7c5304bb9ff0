"""Cleans that the server plans: the files to delete, by policy, and the files that are still needed."""

from __future__ import annotations

import httpx
import psycopg
import pytest

from tests.fix_server import ServerProcess
from tests.server.rest import Json, Table, keyed, refused, succeeded, write_stat


def write(table: Table, *buckets: int, replaced: tuple[int, ...] = (), action: str = "commit") -> Json:
    """A commit that wrote a file into each of these buckets."""
    requested = table.begun(action=action)
    files = [write_stat(requested, bucket) for bucket in buckets or (0,)]
    groups = [
        {"partition_path": "", "file_id": write_stat(requested, bucket)["file_id"]} for bucket in replaced
    ]
    return succeeded(table.complete(requested, *files, replaced_file_groups=groups))


def name_of(instant: Json, bucket: int = 0) -> str:
    """The file that a commit wrote into a bucket."""
    name: str = write_stat(instant["requested_time"], bucket)["file_name"]
    return name


def clean(table: Table, **policy: object) -> Json | None:
    """The clean that was planned, or is pending; it retains one commit unless ``policy`` says otherwise."""
    body = {"writer": "w", "retain_commits": 1} | policy
    planned: Json | None = succeeded(post(table, "cleans", body))["clean"]
    return planned


def cleaned(table: Table, **policy: object) -> Json:
    """The clean that was planned."""
    planned = clean(table, **policy)
    assert planned is not None
    return planned


def post(table: Table, resource: str, body: Json, key: str | None = None) -> httpx.Response:
    headers = {} if key is None else keyed(key)
    return table.http.post(f"/v1/tables/{table.name}/{resource}", json=body, headers=headers)


def preview(table: Table, **policy: object) -> Json:
    return succeeded(post(table, "clean-plans", dict(policy)))


def names(planned: Json) -> list[Json]:
    """The files of a plan, as they are reported."""
    paths = [path.rpartition("/") for path in planned["plan"]["files_to_delete"]]
    return [{"partition_path": folder, "file_name": name} for folder, _, name in paths]


def executed(table: Table, planned: Json) -> Json:
    """The clean once its files are reported and it has completed."""
    succeeded(table.report(planned["requested_time"], *names(planned)))
    return succeeded(table.complete(planned["requested_time"]))


def reading(table: Table, **body: object) -> Json:
    return succeeded(post(table, "readers", {"reader": "r"} | body))


def snapshot(table: Table, as_of: str) -> list[str]:
    """The paths of the files as of a completion time."""
    answer = succeeded(table.http.get(f"/v1/tables/{table.name}/snapshot", params={"as_of": as_of}))
    return [file_slice["base_file"]["path"] for file_slice in answer["slices"]]


def gone(table: Table, as_of: str) -> Json:
    response = table.http.get(f"/v1/tables/{table.name}/snapshot", params={"as_of": as_of})
    return refused(response, 410, "history-cleaned")


def test_files_superseded_by_the_last_retained_commit_are_deleted(table: Table) -> None:
    done = [write(table) for _ in range(4)]

    planned = cleaned(table, retain_commits=2)

    assert planned["plan"]["files_to_delete"] == [name_of(done[0]), name_of(done[1])]
    assert planned["plan"]["cleaned_before"] == done[2]["completion_time"]
    assert (planned["action"], planned["state"], planned["writer"]) == ("clean", "inflight", "w")


def test_a_clean_retains_ten_commits_by_default(table: Table) -> None:
    done = [write(table) for _ in range(11)]

    assert cleaned(table, retain_commits=None)["plan"]["files_to_delete"] == [name_of(done[0])]


def test_a_clean_by_versions_keeps_that_many_slices_of_each_file_group(table: Table) -> None:
    first, second = write(table, 0, 1), write(table, 0)
    third = write(table, 0)

    planned = cleaned(table, retain_commits=None, retain_versions=2)

    assert planned["plan"]["files_to_delete"] == [name_of(first, 0)]
    assert planned["plan"]["cleaned_before"] == second["completion_time"]
    assert snapshot(table, second["completion_time"]) == [name_of(second, 0), name_of(first, 1)]
    executed(table, planned)
    next_one = cleaned(table, retain_commits=None, retain_versions=1)
    assert next_one["plan"]["cleaned_before"] == third["completion_time"]


def test_by_versions_nothing_is_kept_of_a_group_that_was_replaced(table: Table) -> None:
    first = write(table, 0)
    write(table, 1, replaced=(0,), action="replacecommit")

    assert clean(table, retain_commits=2) is None
    assert cleaned(table, retain_commits=None, retain_versions=5)["plan"]["files_to_delete"] == [
        name_of(first, 0)
    ]


def test_a_preview_lists_the_files_to_delete_and_changes_nothing(table: Table) -> None:
    first, second = write(table), write(table)

    seen = preview(table, retain_commits=1)

    assert seen["files_to_delete"] == [name_of(first)]
    assert (seen["cleaned_before"], seen["size_bytes"], seen["has_more"]) == (
        second["completion_time"],
        1_000,
        False,
    )
    assert succeeded(table.http.get(f"/v1/tables/{table.name}"))["cleaned_before"] is None


def test_with_nothing_to_clean_no_executor_has_work(table: Table) -> None:
    write(table)

    assert [clean(table), clean(table)] == [None, None]
    listed = succeeded(table.http.get(f"/v1/tables/{table.name}/instants", params={"action": "clean"}))
    assert [instant["state"] for instant in listed["instants"]] == ["completed"], "one empty clean"


@pytest.mark.parametrize(
    "policy",
    [
        {"retain_commits": 1, "retain_hours": 1},
        {"retain_hours": 1, "retain_versions": 1},
        {"retain_commits": 0},
        {"retain_versions": -1},
        {"retain_hours": 10**9},
        {"retain": 1},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(table: Table, policy: Json) -> None:
    refused(post(table, "cleans", {"writer": "w"} | policy), 400, "invalid-request")
    refused(post(table, "clean-plans", policy), 400, "invalid-request")


def test_files_of_a_reader_are_kept_and_served_until_its_lease_ends(table: Table) -> None:
    first = write(table)
    lease = reading(table)
    second = write(table)
    write(table)

    planned = cleaned(table)

    assert lease["as_of"] == first["completion_time"]
    assert planned["plan"]["files_to_delete"] == [name_of(second)]
    assert snapshot(table, lease["as_of"]) == [name_of(first)]
    gone(table, second["completion_time"])
    executed(table, planned)
    at = f"/v1/tables/{table.name}/readers/{lease['lease_id']}"
    assert succeeded(table.http.delete(at)) == {"released": True}
    assert succeeded(table.http.delete(at)) == {"released": False}
    gone(table, first["completion_time"])
    assert cleaned(table)["plan"]["files_to_delete"] == [name_of(first)]


def test_from_its_plan_on_the_table_is_served_from_there_only(table: Table) -> None:
    first, second = write(table), write(table)

    planned = cleaned(table, execute=False)

    assert (planned["state"], planned["lease_expires_at"]) == ("requested", None)
    problem = gone(table, first["completion_time"])
    assert problem["context"]["first_servable_time"] == second["completion_time"]
    body = {"writer": "w", "instant": first["requested_time"]}
    refused(post(table, "savepoints", body), 410, "history-cleaned")
    refused(post(table, "readers", {"reader": "r", "as_of": first["completion_time"]}), 410, "history-cleaned")
    before = table.http.get(
        f"/v1/tables/{table.name}/snapshot", params={"before_or_on": first["requested_time"]}
    )
    refused(before, 410, "history-cleaned")


def test_a_clean_that_is_planned_cannot_be_rolled_back(table: Table) -> None:
    write(table)
    write(table)
    planned = cleaned(table)

    refused(table.roll_back(planned["requested_time"]), 409, "illegal-transition")

    executed(table, planned)


def test_a_clean_completes_when_each_of_its_files_is_reported(table: Table) -> None:
    write(table, 0, 1)
    write(table, 0, 1)
    planned = cleaned(table)
    first, second = names(planned)

    succeeded(table.report(planned["requested_time"], first))
    problem = refused(table.complete(planned["requested_time"]), 409, "undeleted-files")
    assert problem["context"] == {"undeleted": 1, "file": second["file_name"]}
    # The same report again, as from an interrupted executor.
    succeeded(table.report(planned["requested_time"], first, second))
    done = succeeded(table.complete(planned["requested_time"]))

    assert done["state"] == "completed"
    assert table.deletions(planned["requested_time"]) == sorted([first["file_name"], second["file_name"]])


def test_a_joint_completion_requires_the_deletions_of_a_clean_too(table: Table) -> None:
    write(table)
    write(table)
    planned = cleaned(table)
    members = {"instants": [{"table": table.name, "requested_time": planned["requested_time"]}]}

    refused(table.http.post("/v1/transactions/complete", json=members), 409, "undeleted-files")
    succeeded(table.report(planned["requested_time"], *names(planned)))
    succeeded(table.http.post("/v1/transactions/complete", json=members))


def test_a_file_that_the_plan_does_not_name_is_not_reported(table: Table) -> None:
    write(table)
    last = write(table)
    planned = cleaned(table)
    live = {"partition_path": "", "file_name": name_of(last)}

    refused(table.report(planned["requested_time"], *names(planned), live), 422, "invalid-deletion")

    assert table.deletions(planned["requested_time"]) == []


def test_completing_a_planned_clean_refuses_a_second_boundary(table: Table) -> None:
    write(table)
    last = write(table)
    planned = cleaned(table)
    succeeded(table.report(planned["requested_time"], *names(planned)))

    refused(
        table.complete(planned["requested_time"], cleaned_before=last["completion_time"]), 422, "invalid-plan"
    )


def test_a_second_request_to_clean_resumes_the_pending_clean(table: Table) -> None:
    write(table)
    write(table)
    waiting = cleaned(table, execute=False)

    assert cleaned(table, execute=False) == waiting
    taken = cleaned(table, writer="one")
    assert taken["requested_time"] == waiting["requested_time"]
    assert (taken["state"], taken["writer"], taken["plan"]) == ("inflight", "one", waiting["plan"])
    refused(post(table, "cleans", {"writer": "two"}), 409, "lease-live")
    assert cleaned(table, writer="one")["requested_time"] == waiting["requested_time"]
    refused(table.report(waiting["requested_time"], *names(waiting), writer="two"), 409, "lease-live")
    executed(table, taken)


def test_a_planned_clean_beside_a_manual_one_is_a_new_instant(table: Table) -> None:
    write(table)
    last = write(table)
    by_hand = table.begun(action="clean")

    planned = cleaned(table)

    assert planned["requested_time"] != by_hand
    succeeded(table.complete(by_hand, cleaned_before=last["completion_time"]))
    executed(table, planned)


def test_sql_shows_which_clean_deleted_a_file(shared_server: ServerProcess, table: Table) -> None:
    write(table)
    write(table)
    planned = cleaned(table)
    executed(table, planned)

    with psycopg.connect(shared_server.dsn) as connection:
        rows = connection.execute(
            "SELECT requested_digits, file_name, rollback_digits FROM chronolake.audit_deletions"
            " WHERE table_name = %s",
            [table.name],
        ).fetchall()
    assert rows == [(planned["requested_time"], names(planned)[0]["file_name"], None)]
