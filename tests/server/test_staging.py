"""Write stats that are staged before their instant completes count as those that come with it, and only then.

The state machine (tests/store/test_timeline_machine.py) tests their completion, beside the same write
stats sent with the request.
"""

from __future__ import annotations

from chronolake_model.file_names import base_file_name, bucket_file_id
from tests.server import rest
from tests.server.rest import Json, Table, refused, succeeded, write_stat


def live(table: Table) -> dict[str, str]:
    """The instants that wrote the base files of the buckets that a snapshot shows, by file id."""
    snapshot = succeeded(table.http.get(f"/v1/tables/{table.name}/snapshot"))
    return {
        file_slice["file_id"][:8]: file_slice["base_file"]["requested_time"]
        for file_slice in snapshot["slices"]
    }


def test_all_parts_count_together(table: Table) -> None:
    begun = table.begun()
    versions = [table.staged(begun, write_stat(begun, bucket)) for bucket in (1, 2, 3)]
    done = succeeded(table.complete(begun, staged=versions))
    assert done["summary"] == {
        "files": 3,
        "size_bytes": 3_000,
        "records": 30,
        "inserts": 30,
        "updates": 0,
        "deletes": 0,
    }
    assert live(table) == {"00000001": begun, "00000002": begun, "00000003": begun}


def test_staged_files_that_complete_does_not_name_never_count(table: Table) -> None:
    begun = table.begun()
    table.staged(begun, write_stat(begun, 1))
    version = table.staged(begun, write_stat(begun, 2))
    succeeded(table.complete(begun, staged=[version]))
    assert live(table) == {"00000002": begun}


def test_the_answer_describes_the_staged_files(table: Table) -> None:
    begun = table.begun()
    staged = succeeded(table.stage(begun, write_stat(begun, 1), write_stat(begun, 2)))
    version = staged.pop("version")
    assert succeeded(table.heartbeat(begun))["version"] == version + 1
    assert staged == {
        "table": table.name,
        "requested_time": begun,
        "summary": {
            "files": 2,
            "size_bytes": 2_000,
            "records": 20,
            "inserts": 20,
            "updates": 0,
            "deletes": 0,
        },
    }


def test_staging_again_under_the_same_key_stages_once(table: Table) -> None:
    begun = table.begun()
    key = rest.new_key()
    first = succeeded(table.stage(begun, write_stat(begun, 1), key=key))
    again = succeeded(table.stage(begun, write_stat(begun, 1), key=key))
    assert again == first
    assert succeeded(table.complete(begun, staged=[first["version"]]))["summary"]["files"] == 1


def test_a_version_that_staged_nothing_is_refused(table: Table) -> None:
    begun = table.begun()
    version = table.staged(begun, write_stat(begun, 1))
    problem = refused(table.complete(begun, staged=[version, 1]), 422, "invalid-write-stat")
    assert problem["context"] == {"version": 1}
    assert table.state(begun) == "inflight"


def test_a_version_that_is_named_twice_is_refused(table: Table) -> None:
    begun = table.begun()
    version = table.staged(begun, write_stat(begun, 1))
    refused(table.complete(begun, staged=[version, version]), 422, "invalid-write-stat")


def test_a_file_that_was_staged_twice_is_refused(table: Table) -> None:
    begun = table.begun()
    versions = [table.staged(begun, write_stat(begun, 1)) for _ in range(2)]
    problem = refused(table.complete(begun, staged=versions), 422, "invalid-write-stat")
    assert problem["context"] == {"partition_path": "", "name": write_stat(begun, 1)["file_name"]}
    succeeded(table.complete(begun, staged=versions[1:]))


def test_two_base_files_of_one_group_are_refused(table: Table) -> None:
    begun = table.begun()
    file_id = bucket_file_id(1)
    attempt = write_stat(begun, 1, file_name=base_file_name(file_id, "0-0-1", begun))
    versions = [table.staged(begun, write_stat(begun, 1)), table.staged(begun, attempt)]
    problem = refused(table.complete(begun, staged=versions), 422, "invalid-write-stat")
    assert problem["context"] == {"partition_path": "", "name": file_id}


def test_some_staged_and_some_not_is_refused(table: Table) -> None:
    begun = table.begun()
    version = table.staged(begun, write_stat(begun, 1))
    refused(table.complete(begun, write_stat(begun, 2), staged=[version]), 422, "invalid-write-stat")


def test_several_instants_that_complete_together_have_not_staged(table: Table) -> None:
    begun = table.begun()
    member: Json = {
        "table": table.name,
        "requested_time": begun,
        "staged": [table.staged(begun, write_stat(begun, 1))],
    }
    answer = table.http.post("/v1/transactions/complete", json={"instants": [member]})
    refused(answer, 422, "invalid-write-stat")


def test_a_conflict_is_reported_while_staging(table: Table) -> None:
    loser, winner = table.begun(), table.begun()
    succeeded(table.complete(winner, write_stat(winner, 1)))
    problem = refused(table.stage(loser, write_stat(loser, 1)), 409, "write-conflict")
    assert problem["context"]["winner"] == winner


def test_an_instant_that_completes_after_the_staging_wins(table: Table) -> None:
    loser, winner = table.begun(), table.begun()
    version = table.staged(loser, write_stat(loser, 1), write_stat(loser, 2))
    succeeded(table.complete(winner, write_stat(winner, 2), write_stat(winner, 3)))
    problem = refused(table.complete(loser, staged=[version]), 409, "write-conflict")
    assert problem["context"]["winner"] == winner
    assert [group["file_id"][:8] for group in problem["context"]["file_groups"]] == ["00000002"]
