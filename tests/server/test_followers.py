"""No client starves another: streams are bounded; a client that does not read is cut off and loses nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from benchmarks.follower_load import allow_files, large_metadata
from tests.fix_server import ServerProcess
from tests.processes import wait_until
from tests.server import rest
from tests.server.streams import OpenStream, opened
from tests.server.test_metrics import figures


def read(server: ServerProcess, **parameters: Any) -> list[dict[str, Any]]:
    """The log by pages."""
    events: list[dict[str, Any]] = []
    while True:
        query = {"limit": 1_000, **parameters} | ({"after": events[-1]["cursor"]} if events else {})
        page = httpx.get(f"{server.url}/v1/events", params=query, verify=False).raise_for_status().json()
        events += page["events"]
        if page["caught_up"]:
            return events


def append(table: rest.Table, size: int) -> None:
    """Append pairs of events, the second of which have about ``size`` bytes together."""
    for metadata in large_metadata(size):
        rest.succeeded(table.complete(table.begun(), extra_metadata=metadata))


@pytest.fixture
def start(new_server: Callable[..., ServerProcess], dsn: str) -> Callable[..., ServerProcess]:
    """Starts a server with flags over the test's database."""
    return lambda *flags: new_server(dsn, *flags)


def table_of(server: ServerProcess, stack: ExitStack, name: str = "feed.orders") -> rest.Table:
    return rest.make_table(stack.enter_context(rest.connect(server.url)), name)


def test_a_stream_gives_the_events_that_pages_give_from_the_database_and_from_memory(
    server: ServerProcess,
) -> None:
    with ExitStack() as stack:
        table, other = (table_of(server, stack, f"feed.t{number}") for number in range(2))
        append(table, 100_000)
        of_all = stack.enter_context(opened(server.url))
        of_table = stack.enter_context(opened(server.url, table=table.name))
        missed = [len(of_all.read_events(5)), len(of_table.read_events(3))]
        append(other, 50_000)
        append(table, 100_000)

        assert missed == [5, 3]
        assert of_all.read_events(9) == read(server)
        assert of_table.read_events(5) == read(server, table=table.name)


def test_the_streams_of_one_address_are_bounded(start: Callable[..., ServerProcess]) -> None:
    server = start("--followers-per-client-max", "2")
    with ExitStack() as stack:
        table_of(server, stack)
        first, _ = (stack.enter_context(opened(server.url)) for _ in range(2))
        refused = stack.enter_context(opened(server.url)).answer
        elsewhere = stack.enter_context(opened(server.url, "127.0.0.2")).answer
        refused.read()
        first.answer.close()

        rest.refused(refused, 429, "too-many-streams")
        assert refused.headers["Retry-After"] == "1"
        assert elsewhere.status_code == 200
        wait_until(lambda: opened_status(server) == 200)


def opened_status(server: ServerProcess) -> int:
    with opened(server.url) as stream:
        return stream.answer.status_code


def test_the_streams_of_a_server_are_bounded(start: Callable[..., ServerProcess]) -> None:
    server = start("--followers-max", "1")
    with ExitStack() as stack:
        table_of(server, stack)
        stack.enter_context(opened(server.url))
        refused = stack.enter_context(opened(server.url, "127.0.0.2")).answer
        refused.read()

        rest.refused(refused, 503, "overloaded")
        assert figures(server)["chronolake_followers",] == 1


@pytest.mark.parametrize("of_table", [False, True])
def test_a_follower_that_does_not_read_is_cut_off_and_resumes_by_its_cursor(
    start: Callable[..., ServerProcess], of_table: bool
) -> None:
    server = start("--follower-stall-seconds", "1")
    with ExitStack() as stack:
        table = table_of(server, stack)
        parameters: dict[str, Any] = {"table": table.name} if of_table else {}
        stream = stack.enter_context(opened(server.url, little_room=True, **parameters))
        seen = stream.read_events(1)
        append(table, 2_000_000)
        wait_until(lambda: bool(figures(server).get(("chronolake_followers_cut_off_total", "stalled"))))
        wait_until(lambda: not figures(server)["chronolake_followers",])

        seen = stream.read_to_end()
        again = stack.enter_context(opened(server.url, after=seen[-1]["cursor"], **parameters))
        everything = read(server, **parameters)
        assert seen + again.read_events(len(everything) - len(seen)) == everything


def test_a_follower_that_falls_behind_the_ring_resumes_by_its_cursor(
    start: Callable[..., ServerProcess],
) -> None:
    server = start("--ring-bytes", "100000")
    with ExitStack() as stack:
        table = table_of(server, stack)
        stream = stack.enter_context(opened(server.url, little_room=True))
        seen = stream.read_events(2)
        for _ in range(4):
            append(table, 1_000_000)

        seen = stream.read_to_end()
        assert stream.unfinished.endswith(": too far behind; connect again after the last event\r\n")
        again = stack.enter_context(opened(server.url, after=seen[-1]["cursor"]))
        everything = read(server)
        assert len(seen) < len(everything)
        assert seen + again.read_events(len(everything) - len(seen)) == everything
        assert figures(server)["chronolake_followers_cut_off_total", "behind"] >= 1
        assert figures(server)["chronolake_ring_bytes",] < 1_100_000


def test_a_follower_of_a_table_that_is_dropped_gets_its_last_event_and_the_end(server: ServerProcess) -> None:
    with ExitStack() as stack:
        table = table_of(server, stack)
        coming: OpenStream = stack.enter_context(opened(server.url, table=table.name))
        coming.read_events(1)
        table.http.delete(f"/v1/tables/{table.name}").raise_for_status()

        assert [event["type"] for event in coming.read_to_end()] == ["TableCreated", "TableDropped"]
        with opened(server.url, table=table.name) as later:
            later.answer.read()
            rest.refused(later.answer, 404, "table-not-found")


def test_a_server_stops_although_its_followers_do_not_read(start: Callable[..., ServerProcess]) -> None:
    server = start()
    with ExitStack() as stack:
        table = table_of(server, stack)
        streams = [stack.enter_context(opened(server.url, little_room=True)) for _ in range(20)]
        assert [len(stream.read_events(2)) for stream in streams] == [2] * len(streams)
        append(table, 2_000_000)
        wait_until(lambda: figures(server)["chronolake_ring_bytes",] >= 1_900_000)

        server.stop()

        assert "stopped" in server.log()


def test_looking_after_followers_opens_no_files(server: ServerProcess) -> None:
    with ExitStack() as stack:
        table_of(server, stack)
        stack.enter_context(opened(server.url)).read_events(1)
        before = figures(server)["process_open_fds",]
        for _ in range(5):
            with opened(server.url) as stream:
                stream.read_events(1)

        assert figures(server)["process_open_fds",] < before + 10


CONNECTIONS = 1_100
"""More than the backlog of the server."""


def test_a_thousand_connections_without_a_request_keep_no_other_client_out(
    shared_server: ServerProcess,
) -> None:
    allow_files(CONNECTIONS)
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", shared_server.port))
            stack.enter_context(connection).sendall(b"GET /v1/namespaces HTTP/1.1\r\nHost: x\r\n")

        assert httpx.get(f"{shared_server.url}/health", timeout=10).status_code == 200
