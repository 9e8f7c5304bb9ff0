"""Promise 3: a cursor over events never skips one that commits later, and gives each exactly once."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest

from tests.fix_server import ServerProcess
from tests.server import database as sql, rest

WRITERS = 12
CYCLES = 8
PATIENCE_SECONDS = 30.0


@pytest.fixture
def table(http: httpx.Client) -> rest.Table:
    return rest.make_table(http, "feed.orders")


def read(http: httpx.Client, **parameters: Any) -> dict[str, Any]:
    return rest.succeeded(http.get("/v1/events", params=parameters))


def read_all(http: httpx.Client, **parameters: Any) -> list[dict[str, Any]]:
    """Every event, by pages of three."""
    events: list[dict[str, Any]] = []
    page = read(http, limit=3, **parameters)
    while page["events"]:
        events += page["events"]
        page = read(http, limit=3, **(parameters | {"after": page["cursor"]}))
    return events


def logged(dsn: str) -> list[tuple[str, int]]:
    """Table id and version of every event, in the order across tables."""
    ordered = "SELECT table_id, version FROM chronolake.event ORDER BY transaction_id, position"
    return [(str(row["table_id"]), row["version"]) for row in sql.query(dsn, ordered)]


def test_the_feed_is_the_log_in_its_order(server: ServerProcess, http: httpx.Client, table: rest.Table) -> None:
    instant = table.begun()
    rest.succeeded(table.complete(instant))
    events = read_all(http)
    assert [(event["table_id"], event["version"]) for event in events] == logged(server.dsn)
    assert [event["type"] for event in events] == [
        "NamespaceCreated",
        "TableCreated",
        "InstantRequested",
        "InstantCompleted",
    ]
    assert [event["table"] for event in events] == [None, *[table.name] * 3]
    assert events[-1]["instant"] == instant


def test_a_feed_that_is_caught_up_continues_from_its_cursor(http: httpx.Client, table: rest.Table) -> None:
    seen = read(http)
    assert seen["caught_up"]
    assert read(http, after=seen["cursor"])["events"] == []
    instant = table.begun()
    [event] = read(http, after=seen["cursor"])["events"]
    assert (event["type"], event["instant"]) == ("InstantRequested", instant)


def test_a_table_has_a_feed_of_its_own(http: httpx.Client, table: rest.Table) -> None:
    other = rest.make_table(http, "feed.clicks")
    table.begun()
    other.begun()
    events = read_all(http, table=other.name)
    assert [(event["table"], event["version"]) for event in events] == [(other.name, 1), (other.name, 2)]


def test_an_open_transaction_holds_the_feed_back_and_is_not_skipped(
    server: ServerProcess, http: httpx.Client, table: rest.Table
) -> None:
    seen = read(http)["cursor"]
    with psycopg.connect(server.dsn) as slow:
        # It has an id already, and may yet append events that come before those of younger transactions.
        slow.execute("SELECT pg_current_xact_id()")
        instant = table.begun()
        assert read(http, after=seen)["events"] == []
    [event] = read(http, after=seen)["events"]
    assert event["instant"] == instant


def test_followers_of_busy_writers_see_every_event_once_and_in_order(
    server: ServerProcess, http: httpx.Client
) -> None:
    tables = [rest.make_table(http, f"feed.t{number}") for number in range(3)]

    async def write(client: httpx.AsyncClient, number: int) -> None:
        path = f"/v1/tables/{tables[number % len(tables)].name}/instants"
        for _ in range(CYCLES):
            begun = await client.post(path, json={"writer": f"w{number}"})
            instant = begun.json()["requested_time"]
            done = await client.post(f"{path}/{instant}/complete", json={})
            assert done.status_code == 200

    async def follow(client: httpx.AsyncClient, writing: asyncio.Future[Any]) -> list[tuple[str, int]]:
        events: list[tuple[str, int]] = []
        cursor: dict[str, str] = {}
        while True:
            done = writing.done()
            page = (await client.get("/v1/events", params={"limit": 7, **cursor})).json()
            events += [(event["table_id"], event["version"]) for event in page["events"]]
            cursor = {"after": page["cursor"]}
            if done and page["caught_up"]:
                return events

    async def both() -> list[list[tuple[str, int]]]:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            writing = asyncio.ensure_future(
                asyncio.gather(*(write(client, number) for number in range(WRITERS)))
            )
            seen = await asyncio.gather(*(follow(client, writing) for _ in range(2)))
            await writing
            return list(seen)

    first, second = asyncio.run(both())
    assert first == second == logged(server.dsn)


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("of_table", [False, True])
def test_no_page_ends_between_the_events_of_one_request(http: httpx.Client, limit: int, of_table: bool) -> None:
    table = rest.make_table(http)
    of_one = {"table": table.name} if of_table else {}
    pending = [table.begun() for _ in range(2)]
    seen = read(http, **of_one)["cursor"]
    table.begun()
    members = [{"table": table.name, "requested_time": time} for time in pending]
    rest.succeeded(http.post("/v1/transactions/complete", json={"instants": members}))
    rest.succeeded(table.roll_back(table.begun()))
    pages = []
    while True:
        page = read(http, limit=limit, after=seen, **of_one)
        if not page["events"]:
            break
        pages.append([(event["request_id"], event["type"]) for event in page["events"]])
        seen = page["cursor"]
    for before, behind in itertools.pairwise(pages):
        assert before[-1][0] != behind[0][0], "a request ends with its page"
    assert [event_type for page in pages for _, event_type in page] == [
        "InstantRequested",
        *["InstantCompleted"] * 2,
        "InstantRequested",
        "InstantRequested",
        "InstantRolledBack",
        "InstantCompleted",
    ]


@pytest.mark.parametrize("path", ["/v1/events", "/v1/events/stream"])
def test_the_feed_of_an_unknown_table_is_refused(shared_http: httpx.Client, path: str) -> None:
    rest.refused(shared_http.get(path, params={"table": "feed.nothing"}), 404, "table-not-found")
    rest.refused(shared_http.get(path, params={"table": "nothing"}), 400, "invalid-parameter")


def followed(server: ServerProcess, headers: dict[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """Events of the stream as they come; it ends when the server closes it."""
    with httpx.stream(
        "GET", f"{server.url}/v1/events/stream", headers=headers, timeout=PATIENCE_SECONDS
    ) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def test_a_stream_sends_events_as_they_arrive_and_resumes_after_a_break(
    server: ServerProcess, table: rest.Table
) -> None:
    stream = followed(server)
    assert [next(stream)["type"] for _ in range(2)] == ["NamespaceCreated", "TableCreated"]
    first = table.begun()
    event = next(stream)
    assert event["instant"] == first
    stream.close()  # type: ignore[attr-defined]  # a generator

    second = table.begun()
    again = followed(server, {"Last-Event-ID": event["cursor"]})
    assert next(again)["instant"] == second


def test_an_empty_last_event_id_is_refused_and_does_not_begin_anew(
    server: ServerProcess, table: rest.Table
) -> None:
    answer = httpx.get(
        f"{server.url}/v1/events/stream", params={"table": table.name}, headers={"Last-Event-ID": ""}
    )

    rest.refused(answer, 400, "invalid-cursor")


def test_a_stopping_server_ends_its_streams(server: ServerProcess, table: rest.Table) -> None:
    stream = followed(server)
    next(stream)
    server.signal(signal.SIGTERM)
    rest_of_it = list(stream)
    assert [event["table"] for event in rest_of_it] == [table.name]


def test_a_read_from_the_end_of_the_log_gives_only_later_events(http: httpx.Client, table: rest.Table) -> None:
    table.begun()
    all_of_them, of_table = read(http, after="latest"), read(http, after="latest", table=table.name)
    assert (all_of_them["events"], of_table["events"]) == ([], [])

    later = table.begun()

    assert [event["instant"] for event in read(http, after=all_of_them["cursor"])["events"]] == [later]
    events = read(http, after=of_table["cursor"], table=table.name)["events"]
    assert [event["instant"] for event in events] == [later]
    rest.refused(http.get("/v1/events/stream", params={"after": "latest"}), 400, "invalid-cursor")


def test_the_end_of_the_log_is_before_the_events_of_open_transactions(
    server: ServerProcess, http: httpx.Client, table: rest.Table
) -> None:
    with psycopg.connect(server.dsn) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        meanwhile = table.begun()
        end = read(http, after="latest")["cursor"]

    assert [event["instant"] for event in read(http, after=end)["events"]] == [meanwhile]
