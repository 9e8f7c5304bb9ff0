"""The slices of the file groups that a request names, as a writer asks for them."""

from __future__ import annotations

import httpx
import pytest

from chronolake_model.file_names import bucket_file_id
from tests.server import rest
from tests.server.rest import Json, Table, log_stat, refused, succeeded, write_stat

DAY = "day=2026-01-01"


def asked(table: Table, *buckets: int, **body: object) -> httpx.Response:
    """The answer for these buckets of the day."""
    names = [{"partition_path": DAY, "bucket": number} for number in buckets]
    return table.http.post(f"/v1/tables/{table.name}/file-groups", json={"buckets": names, **body})


def group(file_id: str, partition_path: str = DAY) -> Json:
    return {"partition_path": partition_path, "file_id": file_id}


@pytest.fixture
def days(shared_http: httpx.Client) -> Table:
    """A merge-on-read table with two buckets of a day, the first of them with a log file."""
    table = rest.make_table(shared_http, partition_fields=["day"], type="merge_on_read")
    base, log = table.begun(action="deltacommit"), table.begun(action="deltacommit")
    succeeded(table.complete(base, write_stat(base, 0, DAY), write_stat(base, 3, DAY)))
    succeeded(table.complete(log, log_stat(log) | {"partition_path": DAY}))
    return table


def test_each_file_group_has_its_slice_in_the_order_of_the_request(days: Table) -> None:
    snapshot = succeeded(days.http.get(f"/v1/tables/{days.name}/snapshot"))
    first, second = snapshot["slices"]
    nothing = {"slice": None, "replaced": None}

    names = [group(bucket_file_id(0)), group(bucket_file_id(0)[:8]), group(bucket_file_id(0), "day=2026-01-02")]
    page = succeeded(asked(days, 3, 30, 0, file_groups=names))

    zero, three = ({"slice": file_slice, "replaced": None} for file_slice in (first, second))
    assert page["file_groups"] == [zero, nothing, nothing, three, nothing, zero]
    assert len(first["log_files"]) == 1
    assert (page["as_of"], page["next_cursor"]) == (snapshot["as_of"], None)
    earlier = succeeded(asked(days, 0, as_of=first["base_file"]["completion_time"]))
    assert earlier["file_groups"][0]["slice"]["log_files"] == []
    assert succeeded(asked(days))["file_groups"] == []


def test_pages_are_as_of_one_completion_time(days: Table) -> None:
    first = succeeded(asked(days, 0, 3, 2, limit=2))
    late = days.begun(action="deltacommit")
    succeeded(days.complete(late, write_stat(late, 2, DAY)))
    second = succeeded(asked(days, 0, 3, 2, limit=2, cursor=first["next_cursor"]))

    assert [entry["slice"] is None for page in (first, second) for entry in page["file_groups"]] == [0, 0, 1]
    assert (second["as_of"], second["next_cursor"]) == (first["as_of"], None)
    refused(asked(days, 0, cursor=first["next_cursor"]), 400, "invalid-cursor")


def test_before_the_first_completion_no_group_has_a_slice(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http)

    page = succeeded(asked(table, 0, 1, 2, limit=2))

    assert (page["as_of"], len(page["file_groups"])) == (None, 2)
    last = succeeded(asked(table, 0, 1, 2, limit=2, cursor=page["next_cursor"]))
    assert last["file_groups"] == [{"slice": None, "replaced": None}]


def test_buckets_are_those_of_a_bucket_index(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http, index={"type": "simple"})

    answer = refused(asked(table, 0), 400, "invalid-parameter")

    assert "name its file groups, not buckets" in answer["detail"]
    assert succeeded(asked(table, file_groups=[group("f")]))["file_groups"] == [
        {"slice": None, "replaced": None}
    ]
