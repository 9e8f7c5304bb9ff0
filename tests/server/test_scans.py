"""A scan gives the pages of a snapshot, without the slices that could not match a filter."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pyarrow as pa
import pytest

from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import ARROW
from tests.server import rest
from tests.server.rest import Json, Table, log_stat, refused, succeeded, write_stat

ID, NAME, AT = 1, 3, 4
"""Field ids of the columns of ``rest.SCHEMA``."""


def stats(field_id: int, least: Any, greatest: Any, nulls: int = 0) -> Json:
    return {"field_id": field_id, "min": least, "max": greatest, "nulls": nulls}


def compare(column: str, operator: str, value: Any) -> Json:
    return {"type": "compare", "column": column, "operator": operator, "value": value}


def scanned(table: Table, **body: object) -> httpx.Response:
    return table.http.post(f"/v1/tables/{table.name}/scan", json=body)


def slices_of(table: Table, **body: object) -> list[tuple[str, int]]:
    """Partition path and bucket of each slice of the only page."""
    page = succeeded(scanned(table, **body))
    assert page["next_cursor"] is None
    return [(file_slice["partition_path"], int(file_slice["file_id"][:8])) for file_slice in page["slices"]]


@pytest.fixture
def days(shared_http: httpx.Client) -> Table:
    """Two days of two buckets; ids from 0 to 9 in bucket 0, from 10 to 19 in bucket 1."""
    table = rest.make_table(shared_http, partition_fields=["day"])
    time = table.begun()
    known = [[stats(ID, 0, 9), {"field_id": NAME}], [stats(ID, 10, 19)]]
    files = [
        write_stat(time, bucket, f"day={day}", column_stats=known[bucket])
        for day in ("2026-01-01", "2026-01-02")
        for bucket in (0, 1)
    ]
    succeeded(table.complete(time, *files))
    return table


FIRST, SECOND = "day=2026-01-01", "day=2026-01-02"
ALL: Final = [(FIRST, 0), (FIRST, 1), (SECOND, 0), (SECOND, 1)]


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (compare("id", "<", 10), [(FIRST, 0), (SECOND, 0)]),
        (compare("id", ">", 19), []),
        (compare("day", "=", "2026-01-02"), [(SECOND, 0), (SECOND, 1)]),
        ({"type": "starts_with", "column": "day", "prefix": "2025"}, []),
        ({"type": "is_null", "column": "day"}, []),
        (
            {"type": "and", "filters": [compare("day", "<", "2026-01-02"), compare("id", ">=", 10)]},
            [(FIRST, 1)],
        ),
        (
            {"type": "or", "filters": [compare("day", "<", "2026-01-02"), compare("id", ">=", 10)]},
            [(FIRST, 0), (FIRST, 1), (SECOND, 1)],
        ),
        ({"type": "not", "filter": compare("id", "<", 10)}, [(FIRST, 1), (SECOND, 1)]),
        ({"type": "in", "column": "id", "values": [-1, 12, 99]}, [(FIRST, 1), (SECOND, 1)]),
        (compare("name", "=", "x"), ALL),
        (compare("at", ">", "2026-01-01T00:00:00Z"), ALL),
    ],
)
def test_slices_that_could_not_match_are_left_out(
    days: Table, wanted: Json, kept: list[tuple[str, int]]
) -> None:
    assert slices_of(days, filter=wanted) == kept


def test_without_a_filter_a_scan_is_the_snapshot(days: Table) -> None:
    assert succeeded(scanned(days)) == succeeded(days.http.get(f"/v1/tables/{days.name}/snapshot"))
    assert slices_of(days, partition_paths=[SECOND, "day=none"]) == [(SECOND, 0), (SECOND, 1)]
    assert slices_of(days, partition_paths=[]) == []
    assert slices_of(days, partition_paths=[FIRST], filter=compare("day", "=", "2026-01-02")) == []


def test_the_pages_of_a_scan_are_of_one_completion_time(days: Table) -> None:
    wanted = compare("id", "<", 10)
    first = succeeded(scanned(days, filter=wanted, limit=1))
    time = days.begun()
    succeeded(days.complete(time, write_stat(time, 0, SECOND, column_stats=[stats(ID, 50, 59)])))

    second = succeeded(scanned(days, filter=wanted, limit=1, cursor=first["next_cursor"]))
    third = succeeded(scanned(days, filter=wanted, limit=1, cursor=second["next_cursor"]))

    pages = (first, second, third)
    assert [file_slice["partition_path"] for page in pages for file_slice in page["slices"]] == [FIRST, SECOND]
    assert {page["as_of"] for page in pages} == {first["as_of"]}
    assert slices_of(days, filter=wanted) == [(FIRST, 0)]
    assert slices_of(days, filter=wanted, as_of=first["as_of"]) == [(FIRST, 0), (SECOND, 0)]


def test_a_slice_of_the_past_is_pruned_by_the_stats_that_it_had(days: Table) -> None:
    past = succeeded(scanned(days))["as_of"]
    time = days.begun()
    succeeded(days.complete(time, write_stat(time, 0, SECOND, column_stats=[stats(ID, 50, 59)])))

    wanted = {"filter": compare("id", ">=", 50), "as_of": past}
    assert slices_of(days, filter=wanted["filter"]) == [(SECOND, 0)]
    assert slices_of(days, **wanted) == []
    assert streamed(days, **wanted).num_rows == 0


def test_a_slice_stays_whole_when_only_a_log_file_could_match(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http, type="merge_on_read")
    base, log = table.begun(action="deltacommit"), table.begun(action="deltacommit")
    succeeded(table.complete(base, write_stat(base, column_stats=[stats(ID, 0, 9)])))
    succeeded(table.complete(log, log_stat(log) | {"column_stats": [stats(ID, 20, 29)]}))

    [file_slice] = succeeded(scanned(table, filter=compare("id", "=", 25)))["slices"]

    assert (file_slice["file_id"], file_slice["base_file"] is not None, len(file_slice["log_files"])) == (
        bucket_file_id(0),
        True,
        1,
    )
    assert slices_of(table, filter=compare("id", "=", 15)) == []
    unknown = table.begun(action="deltacommit")
    succeeded(table.complete(unknown, log_stat(unknown, number=2)))
    assert slices_of(table, filter=compare("id", "=", 15)) == [("", 0)]


def test_slices_restored_by_a_restore_are_pruned_as_before(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http)
    first = table.begun()
    succeeded(table.complete(first, write_stat(first, column_stats=[stats(ID, 0, 9)])))
    saved = succeeded(table.http.post(f"/v1/tables/{table.name}/savepoints", json={"writer": "w"}))
    second = table.begun()
    succeeded(table.complete(second, write_stat(second, column_stats=[stats(ID, 10, 19)])))
    assert slices_of(table, filter=compare("id", "<", 10)) == []

    back = {"writer": "w", "savepoint": saved["requested_time"]}
    succeeded(table.http.post(f"/v1/tables/{table.name}/restore", json=back))

    assert slices_of(table, filter=compare("id", "<", 10)) == [("", 0)]
    assert slices_of(table, filter=compare("id", ">=", 10)) == []


def streamed(table: Table, **body: object) -> pa.Table:
    answer = table.http.post(f"/v1/tables/{table.name}/scan", json=body, headers={"Accept": ARROW})
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == ARROW
    return pa.ipc.open_stream(answer.content).read_all()


def paths_of(page: Json) -> list[str]:
    return [
        file["path"]
        for file_slice in page["slices"]
        for file in (*([file_slice["base_file"]] if file_slice["base_file"] else []), *file_slice["log_files"])
    ]


@pytest.mark.parametrize(
    "wanted",
    [
        compare("id", "<", 10),
        compare("day", "=", "2026-01-02"),
        {"type": "or", "filters": [compare("day", "<", "2026-01-02"), compare("id", ">=", 10)]},
        compare("name", "=", "it's %s {0}"),
        {"type": "is_null", "column": "day"},
    ],
)
def test_as_arrow_it_has_the_files_of_the_pages(days: Table, wanted: Json) -> None:
    for narrowed in ({}, {"partition_paths": [SECOND]}, {"partition_paths": [FIRST, SECOND], "limit": 1}):
        arrow_table = streamed(days, filter=wanted, **narrowed)
        shown = succeeded(scanned(days, filter=wanted, **{**narrowed, "limit": 1_000}))
        assert arrow_table["path"].to_pylist() == paths_of(shown)
        assert arrow_table.schema.metadata[b"chronolake.as_of"].decode() == shown["as_of"]
    assert streamed(days).equals(streamed(days, filter={"type": "not", "filter": compare("id", "=", 10**9)}))


def test_as_arrow_a_slice_stays_whole_too_and_is_as_of_a_time(shared_http: httpx.Client) -> None:
    table = rest.make_table(shared_http, type="merge_on_read")
    base, log = table.begun(action="deltacommit"), table.begun(action="deltacommit")
    first = succeeded(table.complete(base, write_stat(base, column_stats=[stats(ID, 0, 9)])))["completion_time"]
    succeeded(table.complete(log, log_stat(log) | {"column_stats": [stats(ID, 20, 29)]}))

    now = streamed(table, filter=compare("id", "=", 25))

    assert now["kind"].to_pylist() == ["base", "log"]
    assert len(set(now["base_instant_time"].to_pylist())) == 1
    assert streamed(table, filter=compare("id", "=", 15)).num_rows == 0
    assert streamed(table, filter=compare("id", "=", 25), as_of=first).num_rows == 0
    assert streamed(table, filter=compare("id", "=", 5), as_of=first)["kind"].to_pylist() == ["base"]


def test_an_error_of_a_scan_as_arrow_is_answered_as_a_problem(table: Table) -> None:
    def scan_as_arrow(**body: object) -> httpx.Response:
        return table.http.post(f"/v1/tables/{table.name}/scan", json=body, headers={"Accept": ARROW})

    refused(scan_as_arrow(filter=compare("amount", "=", 1)), 422, "invalid-filter")
    assert refused(scan_as_arrow(cursor="x"), 400, "invalid-parameter")["context"] == {"parameter": "cursor"}
    refused(scan_as_arrow(partition_paths=["a\0"]), 400, "invalid-request")
    refused(scan_as_arrow(as_of="2026"), 400, "invalid-request")
    assert streamed(table, filter=compare("id", "=", 1)).num_rows == 0


@pytest.mark.parametrize(
    ("wanted", "place"),
    [
        (compare("amount", "=", 1), "filter"),
        ({"type": "not", "filter": compare("id", "=", "1")}, "filter.filter.value"),
        (compare("name", "=", "a\0"), "filter.value"),
        (
            {"type": "or", "filters": [{"type": "starts_with", "column": "id", "prefix": ""}]},
            "filter.filters[0]",
        ),
    ],
)
def test_a_filter_that_does_not_fit_is_refused_with_its_place(table: Table, wanted: Json, place: str) -> None:
    problem = refused(scanned(table, filter=wanted), 422, "invalid-filter")

    assert problem["context"]["place"] == place
