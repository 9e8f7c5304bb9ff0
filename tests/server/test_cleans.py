"""Cleaned history is refused, and ``earliest`` and ``latest`` name the ends of the served history."""

from __future__ import annotations

import httpx
import pytest

from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import ARROW
from tests.server.rest import Json, Table, refused, succeeded, write_stat

HISTORY = f"file-groups/history?file_id={bucket_file_id(0)}"
AS_OF = (
    "snapshot",
    "snapshot?view=latest",
    "snapshot?view=read_optimised",
    "snapshot?before_or_on=29990101000000000",
    HISTORY,
    "partitions",
    "replaced-file-groups",
    "pending-file-groups",
)


def written(table: Table, *buckets: int) -> str:
    """The completion time of a commit that wrote a file into each of these buckets."""
    requested = table.begun()
    files = [write_stat(requested, bucket) for bucket in buckets or (0,)]
    completed: str = succeeded(table.complete(requested, *files))["completion_time"]
    return completed


def cleaned(table: Table, before: str) -> str:
    """The requested time of a clean that has completed."""
    clean = table.begun(action="clean")
    succeeded(table.complete(clean, cleaned_before=before))
    return clean


def get(table: Table, resource: str, **parameters: str | int) -> httpx.Response:
    return table.http.get(_path(table, resource, parameters))


def stream(table: Table, resource: str, **parameters: str | int) -> httpx.Response:
    return table.http.get(_path(table, resource, parameters), headers={"Accept": ARROW})


def _path(table: Table, resource: str, parameters: dict[str, str | int]) -> httpx.URL:
    return httpx.URL(f"/v1/tables/{table.name}/{resource}").copy_merge_params(parameters)


def scan(table: Table, arrow: bool = False, **body: object) -> httpx.Response:
    path = f"/v1/tables/{table.name}/scan"
    return table.http.post(path, json=body, headers={"Accept": ARROW} if arrow else {})


def gone(response: httpx.Response, first: str) -> Json:
    """The refusal that names the first time that is served."""
    problem = refused(response, 410, "history-cleaned")
    assert problem["context"]["first_servable_time"] == first
    assert first in problem["detail"]
    return problem


@pytest.fixture
def times(table: Table) -> list[str]:
    """The completion times of three commits to one bucket, of which the second is the first that is served."""
    completions = [written(table) for _ in range(3)]
    cleaned(table, completions[1])
    return completions


@pytest.mark.parametrize("resource", AS_OF)
def test_a_read_as_of_a_cleaned_time_is_refused_with_the_earliest_time(
    table: Table, times: list[str], resource: str
) -> None:
    gone(get(table, resource, as_of=times[0]), times[1])
    succeeded(get(table, resource, as_of=times[1]))
    succeeded(get(table, resource, as_of="earliest"))
    succeeded(get(table, resource, as_of="latest"))
    succeeded(get(table, resource))


def test_scans_and_streams_of_cleaned_times_are_refused_too(table: Table, times: list[str]) -> None:
    gone(scan(table, as_of=times[0]), times[1])
    gone(scan(table, arrow=True, as_of=times[0]), times[1])
    gone(stream(table, "snapshot", as_of=times[0]), times[1])
    gone(stream(table, "changes", **{"from": times[0]}), times[1])
    assert succeeded(scan(table, as_of="earliest"))["as_of"] == times[1]
    assert stream(table, "snapshot", as_of="earliest").is_success


def test_a_range_that_begins_or_ends_in_cleaned_history_is_refused(table: Table, times: list[str]) -> None:
    gone(get(table, "changes", **{"from": times[0]}), times[1])
    gone(get(table, "changes", to=times[0]), times[1])

    earliest = succeeded(get(table, "changes", **{"from": "earliest"}))

    assert earliest["from"] == times[1]
    assert [instant["completion_time"] for instant in earliest["instants"]] == [times[2]]
    # From the beginning nothing is needed that is gone: there was nothing before.
    whole = succeeded(get(table, "changes"))
    assert [instant["completion_time"] for instant in whole["instants"]] == times
    assert [file_group["before"] for file_group in whole["file_groups"]] == [None]


def test_pages_begun_before_the_clean_are_refused(table: Table) -> None:
    first = written(table, 0, 1, 2)
    pages = [get(table, resource, limit=1) for resource in ("snapshot", "snapshot?view=latest", "changes")]
    cursors = [succeeded(page)["next_cursor"] for page in (*pages, scan(table, limit=1))]
    second = written(table, 0, 1, 2)
    assert len(succeeded(get(table, "snapshot", limit=1, cursor=cursors[0]))["slices"]) == 1

    cleaned(table, second)

    gone(get(table, "snapshot", limit=1, cursor=cursors[0]), second)
    gone(get(table, "snapshot?view=latest", limit=1, cursor=cursors[1]), second)
    gone(get(table, "changes", limit=1, cursor=cursors[2]), second)
    gone(scan(table, limit=1, cursor=cursors[3]), second)
    assert first < second


def test_a_table_that_was_not_cleaned_serves_from_its_beginning(table: Table) -> None:
    assert succeeded(get(table, "snapshot", as_of="earliest"))["as_of"] is None
    assert succeeded(get(table, "changes", **{"from": "latest"}))["to"] is None
    completions = [written(table), written(table, 1)]

    everything = succeeded(get(table, "changes", **{"from": "earliest", "to": "latest"}))

    assert everything == succeeded(get(table, "changes"))
    assert [instant["completion_time"] for instant in everything["instants"]] == completions
    assert succeeded(get(table, "snapshot", as_of="earliest"))["slices"] == []
    assert succeeded(get(table, "snapshot", as_of="latest")) == succeeded(get(table, "snapshot"))
    nothing = succeeded(get(table, "changes", **{"from": "latest"}))
    assert (nothing["from"], nothing["to"], nothing["instants"]) == (completions[1], completions[1], [])
    refused(get(table, "changes", **{"from": "latest", "to": "earliest"}), 400, "invalid-parameter")


def test_a_pinned_time_stays_served_until_its_savepoint_is_released(table: Table) -> None:
    pinned = written(table)
    saved = succeeded(table.http.post(f"/v1/tables/{table.name}/savepoints", json={"writer": "w"}))
    last = written(table)
    before = succeeded(get(table, "snapshot", as_of=pinned))
    cleaned(table, last)

    assert succeeded(get(table, "snapshot", as_of=pinned)) == before
    assert succeeded(scan(table, as_of=pinned)) == before
    release = f"/v1/tables/{table.name}/savepoints/{saved['requested_time']}/release"
    succeeded(table.http.post(release, json={"writer": "w"}))

    gone(get(table, "snapshot", as_of=pinned), last)


def test_after_a_clean_a_table_is_restored_to_a_savepoint_all_the_same(table: Table) -> None:
    written(table)
    saved = succeeded(table.http.post(f"/v1/tables/{table.name}/savepoints", json={"writer": "w"}))
    before = succeeded(get(table, "snapshot"))["slices"]
    last = written(table)
    cleaned(table, last)

    back = {"writer": "w", "savepoint": saved["requested_time"]}
    restored = succeeded(table.http.post(f"/v1/tables/{table.name}/restore", json=back))

    assert succeeded(get(table, "snapshot"))["slices"] == before
    # The last write is all there, though the clean went further: so it may be pinned anew.
    cleaned(table, restored["completion_time"])
    release = f"/v1/tables/{table.name}/savepoints/{saved['requested_time']}/release"
    succeeded(table.http.post(release, json={"writer": "w"}))
    again = succeeded(table.http.post(f"/v1/tables/{table.name}/savepoints", json={"writer": "w"}))
    assert again["target"] == saved["target"]


def test_a_cleaned_time_cannot_be_pinned(table: Table, times: list[str]) -> None:
    [first, *_] = succeeded(get(table, "instants"))["instants"]
    body = {"writer": "w", "instant": first["requested_time"]}

    gone(table.http.post(f"/v1/tables/{table.name}/savepoints", json=body), times[1])


def test_a_cleaned_time_is_never_served_again(table: Table, times: list[str]) -> None:
    assert succeeded(table.http.get(f"/v1/tables/{table.name}"))["cleaned_before"] == times[1]

    cleaned(table, times[0])

    assert succeeded(table.http.get(f"/v1/tables/{table.name}"))["cleaned_before"] == times[1]


def test_the_earliest_served_time_is_the_last_change_of_the_files(table: Table) -> None:
    written(table)
    first = written(table)
    idle = cleaned(table, first)
    between = succeeded(get(table, f"instants/{idle}"))["completion_time"]

    cleaned(table, between)

    assert succeeded(get(table, "snapshot", as_of="earliest"))["as_of"] == first


def test_a_clean_reaches_no_further_than_the_last_completion(table: Table) -> None:
    clean = table.begun(action="clean")
    nothing = refused(table.complete(clean, cleaned_before="20000101000000000"), 422, "invalid-plan")
    assert "nothing has completed" in nothing["detail"]
    last = written(table)

    later = refused(table.complete(clean, cleaned_before="29990101000000000"), 422, "invalid-plan")

    assert last in later["detail"]
    # A time before the first completion cleans nothing.
    succeeded(table.complete(clean, cleaned_before="20000101000000000"))
    assert succeeded(table.http.get(f"/v1/tables/{table.name}"))["cleaned_before"] is None


def test_a_pending_instant_beside_a_clean_is_no_change(table: Table) -> None:
    written(table)
    clean, commit = table.begun(action="clean"), table.begun()
    member = {"table": table.name, "requested_time": clean, "cleaned_before": "20000101000000000"}
    members = {"instants": [member, {"table": table.name, "requested_time": commit}]}

    succeeded(table.http.post("/v1/transactions/complete", json=members))

    assert succeeded(table.http.get(f"/v1/tables/{table.name}"))["cleaned_before"] is None


def test_nothing_but_a_clean_cleans(table: Table) -> None:
    time = written(table)
    commit = table.begun()

    refused(table.complete(commit, write_stat(commit), cleaned_before=time), 422, "invalid-plan")
    members = {"instants": [{"table": table.name, "requested_time": commit, "cleaned_before": time}]}
    refused(table.http.post("/v1/transactions/complete", json=members), 422, "invalid-plan")
    clean = table.begun(action="clean")
    members = {"instants": [{"table": table.name, "requested_time": clean, "cleaned_before": time}]}
    succeeded(table.http.post("/v1/transactions/complete", json=members))

    assert succeeded(table.http.get(f"/v1/tables/{table.name}"))["cleaned_before"] == time
