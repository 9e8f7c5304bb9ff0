"""Consistent cuts: the states of many tables at one position of the log."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import psycopg
import pytest

from tests.fix_server import ServerProcess
from tests.server import database as sql, rest
from tests.server.rest import Table, make_table, succeeded
from tests.server.test_cursor_times import cursor_of

WRITES = 25
UNREACHED = cursor_of(["c", ["9000000000", 1], True, "00000000-0000-0000-0000-000000000000"])
"""The cursor of a cut at a position that the log has not reached."""


@pytest.fixture
def shop(http: httpx.Client) -> list[Table]:
    return [make_table(http, f"shop.{name}") for name in ("orders", "items")]


def cut(http: httpx.Client, **parameters: str | int) -> rest.Json:
    return succeeded(http.get("/v1/cut", params=parameters))


def states(taken: rest.Json) -> dict[str, rest.Json]:
    return {state["table"]: state for state in taken["tables"]}


def write(table: Table) -> str:
    completion_time: str = succeeded(table.complete(table.begun()))["completion_time"]
    return completion_time


def commits(table: Table, as_of: str) -> int:
    parameters = {"completed_to": as_of, "limit": "1000"}
    return len(succeeded(table.http.get(f"/v1/tables/{table.name}/instants", params=parameters))["instants"])


@contextmanager
def open_transaction(dsn: str) -> Iterator[None]:
    """A transaction that holds the end of the log back, as one that appends an event before it commits."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        yield
        connection.rollback()


def write_in_turn(tables: list[Table], done: threading.Event) -> None:
    for _ in range(WRITES):
        for table in tables:
            write(table)
    done.set()


def write_beside(url: str, name: str, done: threading.Event) -> None:
    with rest.connect(url) as http:
        while not done.is_set():
            write(Table(http, name))


def hold_back(dsn: str, done: threading.Event) -> None:
    while not done.is_set():
        with open_transaction(dsn):
            done.wait(0.01)


def take_cuts(url: str, done: threading.Event) -> list[rest.Json]:
    taken = []
    with rest.connect(url) as http:
        while not done.is_set():
            taken.append(cut(http, tables="race.a,race.b"))
    return taken


def test_no_cut_has_a_commit_without_the_earlier_commit_of_another_table(
    shared_dsn: str, clients: list[httpx.Client]
) -> None:
    first, second = make_table(clients[0], "race.a"), make_table(clients[0], "race.b")
    make_table(clients[1], "race.beside")
    urls = [str(client.base_url) for client in clients]
    done = threading.Event()

    with ThreadPoolExecutor(5) as pool:
        running = [
            pool.submit(write_in_turn, [first, second], done),
            pool.submit(write_beside, urls[1], "race.beside", done),
            pool.submit(hold_back, shared_dsn, done),
        ]
        readers = [pool.submit(take_cuts, url, done) for url in urls]
        for part in running:
            part.result()

    counted = set()
    for state in (states(taken) for reader in readers for taken in reader.result()):
        counted.add((commits(first, state["race.a"]["as_of"]), commits(second, state["race.b"]["as_of"])))
    assert len(counted) > WRITES // 4
    assert all(of_first - of_second in (0, 1) for of_first, of_second in counted), counted


def test_the_position_is_a_cursor_after_which_the_log_has_what_the_cut_lacks(
    server: ServerProcess, http: httpx.Client, shop: list[Table]
) -> None:
    orders, items = shop
    times = [write(orders), write(items)]
    with open_transaction(server.dsn):
        later = write(orders)
        taken = cut(http, namespace="shop")
        lacking = succeeded(http.get("/v1/events", params={"after": taken["position"]}))
    after = succeeded(http.get("/v1/events", params={"after": taken["position"]}))["events"]

    assert (taken["caught_up"], lacking["events"]) == (False, [])
    assert {name: (state["as_of"], state["version"]) for name, state in states(taken).items()} == {
        orders.name: (times[0], 3),
        items.name: (times[1], 3),
    }
    assert [(event["table"], event["time"]) for event in after][-1] == (orders.name, later)
    caught_up = cut(http, namespace="shop")
    assert (caught_up["caught_up"], states(caught_up)[orders.name]["as_of"]) == (True, later)


def test_a_table_in_which_nothing_has_completed_is_empty_as_of_the_cut(
    http: httpx.Client, shop: list[Table]
) -> None:
    [orders, _] = shop
    orders.begun()
    as_of = states(cut(http, namespace="shop"))[orders.name]["as_of"]
    instant = orders.begun()
    succeeded(orders.complete(instant, rest.write_stat(instant)))

    shown = succeeded(http.get(f"/v1/tables/{orders.name}/snapshot", params={"as_of": as_of}))

    assert (shown["as_of"], shown["slices"]) == (None, [])


def test_all_pages_are_at_one_position(http: httpx.Client, shop: list[Table]) -> None:
    before = {table.name: write(table) for table in shop}
    first = cut(http, namespace="shop", limit=1)
    for table in shop:
        write(table)
    make_table(http, "shop.later")
    succeeded(
        http.post(
            f"/v1/tables/{shop[0].name}/schema",
            json={"changes": [{"change": "add", "name": "more", "type": "string"}]},
        )
    )
    pages = [first]
    while (cursor := pages[-1]["next_cursor"]) is not None:
        pages.append(cut(http, namespace="shop", limit=1, cursor=cursor))

    assert {page["position"] for page in pages} == {first["position"]}
    shown = {name: state for page in pages for name, state in states(page).items()}
    assert {name: state["as_of"] for name, state in shown.items()} == before
    assert {state["schema_version"] for state in shown.values()} == {1}
    assert states(cut(http, tables=shop[0].name))[shop[0].name]["schema_version"] == 2


def test_auditors_see_the_state_at_each_position(
    server: ServerProcess, http: httpx.Client, shop: list[Table]
) -> None:
    orders, items = shop
    write(orders)
    pending = items.begun()
    write(orders)
    succeeded(items.complete(pending))
    assert http.delete(f"/v1/tables/{items.name}").status_code == 204
    log = succeeded(http.get("/v1/events", params={"limit": 1_000}))["events"]

    expected: dict[str, tuple[int, str]] = {}
    for event in log:
        name = event["table"]
        if event["type"] == "TableDropped":
            del expected[items.name]
        elif name is not None:
            of_completion = event["type"] in ("TableCreated", "InstantCompleted")
            has_completed = expected.get(name, (0, ""))[0] >= 3
            as_of = event["time"] if of_completion or not has_completed else expected[name][1]
            expected[name] = event["version"], as_of
        assert states_at(server.dsn, event["cursor"]) == expected
    assert states_at(server.dsn, None) == expected
    assert states_at(server.dsn, "WyIwIiwwXQ") == {}


def states_at(dsn: str, position: str | None) -> dict[str, tuple[int, str]]:
    """The version of each table at a position, and the time to read it as of, as an auditor sees them."""
    with sql.connected(dsn) as connection:
        connection.execute("SET ROLE chronolake_auditor")
        rows = connection.execute("SELECT * FROM chronolake.state_at(%s)", [position])
        return {row["table_name"]: (row["version"], row["as_of_digits"]) for row in rows}


@pytest.mark.parametrize("position", ["", "x", "e30", "WyIxIl0", "WyJhIiwxXQ", "WyI5OTk5OTkiLDFd", "-1", "ééé"])
def test_auditors_get_no_state_at_what_is_no_position(shared_dsn: str, position: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="position"):
        states_at(shared_dsn, position)


@pytest.mark.parametrize(
    ("parameters", "status", "code"),
    [
        ({"namespace": "none"}, 404, "namespace-not-found"),
        ({"namespace": "a.b"}, 400, "invalid-parameter"),
        ({"tables": "shop.none"}, 404, "table-not-found"),
        ({"tables": "shop"}, 400, "invalid-parameter"),
        ({"tables": ""}, 400, "invalid-parameter"),
        ({"tables": "shop.orders", "namespace": "shop"}, 400, "invalid-parameter"),
        ({"tables": ",".join(f"shop.t{number}" for number in range(101))}, 400, "invalid-parameter"),
        ({"limit": "0"}, 400, "invalid-parameter"),
        ({"cursor": "WyIwIiwwXQ"}, 400, "invalid-cursor"),
        ({"cursor": UNREACHED}, 400, "invalid-cursor"),
    ],
)
def test_wrong_requests_are_refused(
    shared_http: httpx.Client, parameters: dict[str, str], status: int, code: str
) -> None:
    rest.refused(shared_http.get("/v1/cut", params=parameters), status, code)
