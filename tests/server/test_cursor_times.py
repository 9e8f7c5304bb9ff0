"""Cursors: the times of those of the log, and those of a table that was dropped and made again."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

from tests.fix_server import ServerProcess
from tests.server import database as sql, rest


@pytest.fixture
def table(http: httpx.Client) -> rest.Table:
    return rest.make_table(http, "cursors.orders")


def time_of(table: rest.Table, cursor: str) -> str | None:
    answer = rest.succeeded(table.http.get(f"/v1/tables/{table.name}/cursor-time", params={"after": cursor}))
    time: str | None = answer["time"]
    return time


def refused(table: rest.Table, cursor: str) -> rest.Json:
    answer = table.http.get(f"/v1/tables/{table.name}/cursor-time", params={"after": cursor})
    return rest.refused(answer, 400, "invalid-cursor")


def events(http: httpx.Client, **parameters: Any) -> list[rest.Json]:
    page = rest.succeeded(http.get("/v1/events", params={"limit": 1_000, **parameters}))
    assert page["caught_up"]
    listed: list[rest.Json] = page["events"]
    return listed


def completions(table: rest.Table, after: str | None) -> list[str]:
    """The completion times later than a time, or all."""
    parameters = {"order_by": "completion_time"} | ({} if after is None else {"completed_from": after})
    page = rest.succeeded(table.http.get(f"/v1/tables/{table.name}/instants", params=parameters))
    return [instant["completion_time"] for instant in page["instants"]]


def write_at_once(first: rest.Table, second: rest.Table) -> None:
    """Instants of two tables that overlap, complete in another order, and are rolled back."""
    late, early, gone = first.begun(), first.begun(), first.begun()
    other = second.begun()
    rest.succeeded(first.complete(early))
    rest.succeeded(second.complete(other))
    rest.succeeded(first.roll_back(gone))
    rest.succeeded(first.complete(late))


def test_each_cursor_divides_the_completions_as_the_events(http: httpx.Client, table: rest.Table) -> None:
    other = rest.make_table(http, "cursors.clicks")
    write_at_once(table, other)
    write_at_once(other, table)

    for feed in (events(http), events(http, table=table.name)):
        for number, event in enumerate(feed, start=1):
            behind = [
                later["time"]
                for later in feed[number:]
                if later["table"] == table.name and later["type"] == "InstantCompleted"
            ]
            assert completions(table, time_of(table, event["cursor"])) == behind


def test_a_table_that_is_younger_than_the_cursor_has_everything_behind_it(
    http: httpx.Client, table: rest.Table
) -> None:
    before = rest.succeeded(http.get("/v1/events", params={"after": "latest"}))["cursor"]
    younger = rest.make_table(http, "cursors.clicks")
    rest.succeeded(younger.complete(younger.begun()))

    assert time_of(younger, before) is None
    assert time_of(younger, "WyIwIiwwXQ") is None, "the cursor of an empty log"


@pytest.mark.parametrize(
    "path", ["tables/{name}/cursor-time?", "events?table={name}&", "events/stream?table={name}&"]
)
def test_a_cursor_of_a_dropped_table_is_refused_for_a_table_with_its_name(
    http: httpx.Client, table: rest.Table, path: str
) -> None:
    [event] = events(http, table=table.name)
    assert http.delete(f"/v1/tables/{table.name}").status_code == 204
    rest.make_table(http, table.name)

    answer = http.get(f"/v1/{path.format(name=table.name)}after={event['cursor']}")

    rest.refused(answer, 400, "invalid-cursor")


def test_a_cursor_of_another_metastore_is_refused(http: httpx.Client, table: rest.Table) -> None:
    [*_, event] = events(http)
    transaction, position = json.loads(base64.urlsafe_b64decode(event["cursor"] + "==="))
    [of_table] = events(http, table=table.name)
    tag, table_id, version = json.loads(base64.urlsafe_b64decode(of_table["cursor"] + "==="))

    refused(table, cursor_of([transaction, position + 1]))
    refused(table, cursor_of([str(int(transaction) + 1), position]))
    refused(table, cursor_of([tag, table_id, version + 1]))


def cursor_of(place: list[object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


HOUR_US = 3_600_000_000
NAME = "shop.again"


def recreate(http: httpx.Client) -> rest.Table:
    assert http.delete(f"/v1/tables/{NAME}").status_code == 204
    rest.succeeded(http.post("/v1/tables", json=rest.table_body(NAME, reuse_base_path=True)))
    return rest.Table(http, NAME)


def test_its_times_come_after_those_of_the_table_before(server: ServerProcess, http: httpx.Client) -> None:
    old = rest.make_table(http, NAME).begun()
    # The wall is set back, so that only the dropped table's own clock remembers.
    sql.set_wall_clock(server.dsn, f"(extract(epoch FROM clock_timestamp()) * 1000000)::bigint - {HOUR_US}")
    table = recreate(http)
    assert table.begun() > old
    rest.refused(table.complete(old), 404, "instant-not-found")


@pytest.mark.parametrize("path", ["snapshot", "changes", "instants", "schemas"])
def test_a_cursor_of_the_table_before_is_refused(http: httpx.Client, path: str) -> None:
    table = rest.make_table(http, NAME)
    instant = table.begun()
    rest.succeeded(table.complete(instant, write_stats=[rest.write_stat(instant, bucket) for bucket in (0, 1)]))
    table.begun()
    page = rest.succeeded(http.get(f"/v1/tables/{NAME}/{path}", params={"limit": 1}))
    recreate(http)
    again = http.get(f"/v1/tables/{NAME}/{path}", params={"limit": 1, "cursor": page["next_cursor"]})
    rest.refused(again, 400, "invalid-cursor")
