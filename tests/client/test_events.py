"""Promise 3 at the client: a follower gets each event once, through any number of lost connections."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import httpx
import msgspec
import pytest
from hypothesis import given, strategies as st

import chronolake
from chronolake import LoggedEvent, _event_stream, _http, calls, errors
from chronolake._sync import events
from chronolake._sync.transport import Transport
from chronolake.cli import output
from tests.client.conftest import SCHEMA, Cli
from tests.client.test_writes import publish
from tests.fix_server import ServerProcess

PATIENCE_SECONDS = 30.0


def test_events_are_those_of_the_log_in_its_order(client: chronolake.Client, table: chronolake.Table) -> None:
    done = publish(table)

    events = list(client.events(table=table.name))

    assert [event.type for event in events] == ["TableCreated", "InstantRequested", "InstantCompleted"]
    assert [event.version for event in events] == [1, 2, 3]
    assert events[-1].instant == done.requested_time
    assert {event.table for event in events} == {table.name}
    assert [event for event in client.events() if event.table == table.name] == [
        msgspec.structs.replace(filtered, cursor=unfiltered.cursor)
        for filtered, unfiltered in zip(
            events, (event for event in client.events() if event.table == table.name), strict=True
        )
    ]


def test_events_start_after_a_cursor_and_stop_at_a_limit(
    client: chronolake.Client, table: chronolake.Table
) -> None:
    first, second = client.events(table=table.name, limit=1), publish(table)
    cursor = next(first).cursor

    assert list(first) == []
    assert [event.version for event in client.events(cursor, table.name)] == [2, 3]
    assert list(client.events(limit=0)) == []
    assert [event.instant for event in client.events(cursor, table.name, limit=1)] == [second.requested_time]


@pytest.mark.parametrize("read", ["events", "follow"])
def test_a_wrong_parameter_is_reported(client: chronolake.Client, table: chronolake.Table, read: str) -> None:
    call: Callable[..., Iterator[LoggedEvent]] = getattr(client, read)

    with pytest.raises(ValueError, match=r"namespace\.table"):
        call(table="orders")
    with pytest.raises(errors.TableNotFound):
        next(call(table=f"{table.name}_more"))
    with pytest.raises(errors.InvalidRequest):
        next(call("not a cursor"))


def test_a_follower_gets_existing_and_later_events(client: chronolake.Client, table: chronolake.Table) -> None:
    following = client.follow(table=table.name)

    assert next(following).type == "TableCreated"
    begun = table.begin()
    assert next(following).instant == begun.requested_time


def test_a_page_in_place_of_a_stream_is_an_error() -> None:
    answer = httpx.Response(200, headers={"Content-Type": "text/html"}, content=b"<h1>Welcome</h1>")
    transport = Transport(_http.Endpoint("http://lake", 1, 0))
    transport._http = httpx.Client(
        base_url="http://lake", transport=httpx.MockTransport(lambda request: answer)
    )

    with pytest.raises(errors.ServerError, match="is it a Chronolake server"):
        next(events.follow(transport, calls.catalog.follow_events(None, None)))


def test_a_follower_reports_a_server_that_stays_unreachable() -> None:
    with (
        chronolake.connect("http://127.0.0.1:9", retry_seconds=0.3) as client,
        pytest.raises(errors.ConnectionFailed),
    ):
        next(client.follow())


def test_a_line_separator_of_python_alone_ends_no_event(
    client: chronolake.Client, table: chronolake.Table
) -> None:
    writer = "a\u2028b\x85c\x1cd\r\ne"
    table.begin(writer=writer)

    events = list(itertools.islice(client.follow(table=table.name), 2))

    assert events == list(client.events(table=table.name))
    assert events[1].payload["writer"] == writer


@pytest.fixture
def mortal(new_server: Callable[..., ServerProcess], dsn: str) -> ServerProcess:
    """A server that a test may kill."""
    return new_server(dsn)


@pytest.fixture
def patient(mortal: ServerProcess) -> Iterator[chronolake.Client]:
    with chronolake.connect(mortal.url, retry_seconds=PATIENCE_SECONDS) as client:
        client.create_namespace("shop")
        client.create_table("shop.orders", base_path="file:///o", schema=SCHEMA, record_key_fields=["id"])
        yield client


def die_twice_while_writing(server: ServerProcess, client: chronolake.Client) -> None:
    table = client.table("shop.orders")
    for _ in range(2):
        publish(table)
        server.kill()
        server.start()
        publish(table)


def test_a_follower_of_a_server_that_dies_twice_gets_each_event_once(
    mortal: ServerProcess, patient: chronolake.Client
) -> None:
    writing = threading.Thread(target=die_twice_while_writing, args=(mortal, patient))
    writing.start()
    following = patient.follow()
    try:
        seen = list(itertools.islice(following, 2 + 2 * 4))
    finally:
        writing.join(PATIENCE_SECONDS)

    assert seen == list(patient.events())


@pytest.mark.anyio
async def test_an_awaiting_follower_of_a_server_that_dies_twice_gets_each_event_once(
    mortal: ServerProcess, patient: chronolake.Client
) -> None:
    async with (
        asyncio.timeout(2 * PATIENCE_SECONDS),
        chronolake.connect_async(mortal.url, retry_seconds=PATIENCE_SECONDS) as client,
        asyncio.TaskGroup() as tasks,
        contextlib.aclosing(client.follow()) as following,
    ):
        tasks.create_task(asyncio.to_thread(die_twice_while_writing, mortal, patient))
        seen = [await anext(following) for _ in range(2 + 2 * 4)]

        assert seen == [event async for event in client.events()]
        assert seen[:3] == [event async for event in client.events(limit=3)]
        assert seen[3:] == [event async for event in client.events(seen[2].cursor)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# ---------------------------------------------------------------------------------- streams that break anywhere


def event(number: int) -> LoggedEvent:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return LoggedEvent(
        str(number),
        "1",
        None,
        "id",
        number,
        "Type",
        None,
        "20260101000000000",
        at,
        "é",
        "k",
        {"a": "\n\r\x0b\x85\u2028"},
        "h",
    )


EVENTS = [event(number) for number in range(6)]


def stream_behind(cursor: int) -> str:
    """The stream that a server sends to a client that has seen the events up to ``cursor``."""
    return ": nothing new\r\ndata: \r\n\r\n: nothing new\r\n\r\n" + "".join(
        f"id: {event.cursor}\r\nevent: {event.type}\r\ndata: {msgspec.json.encode(event).decode()}\r\n\r\n"
        for event in EVENTS[cursor + 1 :]
    )


@given(cuts=st.lists(st.floats(0, 1), max_size=10), size=st.integers(1, 2_000))
def test_a_stream_cut_anywhere_gives_each_event_once(cuts: list[float], size: int) -> None:
    place = _event_stream.StreamPosition(
        calls.catalog.follow_events("-1", None), _http.Endpoint("http://lake", 1, 60)
    )
    seen: list[LoggedEvent] = []

    for cut in [*cuts, 1.0]:
        whole = stream_behind(int(dict(place.connect().query)["after"]))
        arrived = whole[: int(len(whole) * cut)]
        splitter = _http.LineSplitter()
        pieces = [arrived[at : at + size] for at in range(0, len(arrived), size)]
        lines = [line for piece in pieces for line in splitter.lines_in(piece)]
        seen += [event for line in lines if (event := place.take(line)) is not None]

    assert seen == EVENTS


@pytest.mark.anyio
async def test_a_follower_from_now_on_gets_no_earlier_events(
    server_url: str, client: chronolake.Client, table: chronolake.Table
) -> None:
    publish(table)
    end = client.end_of_log(table.name)
    async with chronolake.connect_async(server_url) as awaited:
        assert await awaited.end_of_log(table.name) == end
    second = publish(table)

    assert {event.instant for event in client.events(end, table.name)} == {second.requested_time}


def begin_until(ended: threading.Event, table: chronolake.Table) -> None:
    while not ended.wait(0.05):
        table.begin()


def test_the_command_line_follows_from_now_on(cli: Cli, table: chronolake.Table) -> None:
    before = publish(table).version
    ended = threading.Event()
    writer = threading.Thread(target=begin_until, args=(ended, table))
    writer.start()
    try:
        shown = cli("events", table.name, "--follow", "--from-now", "--limit", "1", "--json")
    finally:
        ended.set()
        writer.join()

    assert shown.json["version"] > before
    assert cli("events", table.name, "--from-now").code == output.USAGE
    assert cli("events", table.name, "--follow", "--from-now", "--after", "x").code == output.USAGE
