"""A reader gets the requested range: no parameter is ignored, and no range includes later completions."""

from __future__ import annotations

import httpx
import psycopg
import pytest

from tests.server import rest

FAR = "29990101000000000"
EARLY = "20000101000000000"


def changes(http: httpx.Client, table: rest.Table, **between: str) -> rest.Json:
    return rest.succeeded(http.get(f"/v1/tables/{table.name}/changes", params=between))


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/v1/tables/{table}/snapshot?asof=20000101000000000", "did you mean as_of"),
        ("/v1/tables/{table}/instants?states=inflight", "did you mean state"),
        ("/v1/tables/{table}?verbose=1", "it takes none"),
        ("/v1/time?zone=UTC", "it takes none"),
        ("/v1/health?limit=1&limit=2", "limit is given twice"),
        ("/v1/tables/{table}/changes?from=0&from=0", "from is given twice"),
        ("/v1/health?limit=1.0", "limit is a whole number"),
        ("/v1/tables/{table}/instants?skip=null", "skip is a whole number"),
    ],
)
def test_a_parameter_that_is_unknown_or_ambiguous_is_refused(
    shared_http: httpx.Client, table: rest.Table, path: str, advice: str
) -> None:
    refused = rest.refused(shared_http.get(path.format(table=table.name)), 400, "invalid-parameter")
    assert advice in refused["detail"]


def test_a_range_that_ends_before_it_begins_is_refused(shared_http: httpx.Client, table: rest.Table) -> None:
    answer = shared_http.get(f"/v1/tables/{table.name}/changes", params={"from": FAR, "to": EARLY})
    rest.refused(answer, 400, "invalid-parameter")


def test_a_range_ahead_of_the_table_continues_at_the_end_of_the_table(
    shared_http: httpx.Client, table: rest.Table
) -> None:
    first = table.begun()
    completed = rest.succeeded(table.complete(first))["completion_time"]
    seen = changes(shared_http, table, **{"from": FAR})
    assert (seen["to"], seen["instants"]) == (completed, [])
    second = table.begun()
    rest.succeeded(table.complete(second, rest.write_stat(second)))
    [instant] = changes(shared_http, table, **{"from": completed})["instants"]
    assert instant["requested_time"] == second


def test_an_empty_range_continues_at_its_end(shared_http: httpx.Client, table: rest.Table) -> None:
    written = table.begun()
    completed = rest.succeeded(table.complete(written, rest.write_stat(written)))["completion_time"]
    rest.succeeded(table.roll_back(table.begun()))
    rest.succeeded(shared_http.post(f"/v1/tables/{table.name}/savepoints", json={"writer": "w"}))
    seen = changes(shared_http, table, **{"from": completed})
    assert (seen["from"], seen["instants"], seen["file_groups"]) == (completed, [], [])
    assert seen["to"] > completed


def test_active_only_leaves_out_instants_of_the_archive_and_needs_no_archive(
    dsn: str, http: httpx.Client
) -> None:
    table = rest.make_table(http)
    first, second = table.begun(), table.begun()
    rest.succeeded(table.complete(first))
    path = f"/v1/tables/{table.name}/instants"
    both = rest.succeeded(http.get(path, params={"active_only": "true"}))["instants"]
    assert [instant["requested_time"] for instant in both] == [first, second]

    with psycopg.connect(dsn) as owner:
        owner.execute("SET search_path = chronolake")
        owner.execute("UPDATE era SET events_left_at = now()")
        owner.execute("INSERT INTO archived_era VALUES (1, 1, 1, 'https://nowhere.invalid/', '{}')")
        owner.execute(
            "INSERT INTO first_event SELECT table_id, version, version, requested_time, requested_time "
            "FROM instant WHERE state <> 'completed'"
        )

    [active] = rest.succeeded(http.get(path, params={"active_only": "true"}))["instants"]
    assert active == both[1]
    assert rest.succeeded(http.get(path, params={"pending": "true"}))["instants"] == [active]
    assert http.get(path).json()["code"] in {"archive-not-set", "archive-unavailable"}
