"""Feeds have the events of the tables that a caller may read: all of them, and nothing else."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from chronolake_metastore.api.following import LOOK_SECONDS
from chronolake_metastore.service.callers_rights import RIGHTS_SECONDS
from tests.server import access, rest
from tests.server.access import AccessServer, Caller
from tests.server.rest import Json, Table, refused, succeeded
from tests.server.streams import OpenStream, opened

IN_TIME = RIGHTS_SECONDS + LOOK_SECONDS + 1.0


@pytest.fixture(scope="module")
def server(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccessServer]:
    with access.running(shared_dsn, tmp_path_factory.mktemp("feeds")) as server:
        yield server


@pytest.fixture
def mine(server: AccessServer) -> Table:
    return rest.make_table(server.admin)


@pytest.fixture
def hidden(server: AccessServer) -> Table:
    return rest.make_table(server.admin)


def reader_of(server: AccessServer, *patterns: str) -> Caller:
    caller = server.caller(f"caller-{uuid.uuid4()}")
    for pattern in patterns:
        caller.grant("reader", pattern)
    return caller


def namespace_of(table: Table) -> str:
    return table.name.partition(".")[0]


def end_of_log(caller: Caller) -> str:
    cursor: str = succeeded(caller.http.get("/v1/events", params={"after": "latest"}))["cursor"]
    return cursor


def pages(http: Any, limit: int, after: str | None = None) -> list[Json]:
    """The pages of the feed up to the end of the log."""
    read: list[Json] = []
    while not read or not read[-1]["caught_up"]:
        parameters = {"limit": limit} | ({} if after is None else {"after": after})
        read.append(succeeded(http.get("/v1/events", params=parameters)))
        after = read[-1]["cursor"]
    return read


def events_of(read: list[Json], *tables: Table) -> list[Json]:
    """The events of these tables, of all if there are none."""
    names = [table.name for table in tables]
    return [event for page in read for event in page["events"] if not names or event["table"] in names]


def stream(server: AccessServer, caller: Caller, **parameters: Any) -> AbstractContextManager[OpenStream]:
    return opened(server.process.url, token=caller.token, **parameters)


@pytest.mark.parametrize("limit", [1, 3, 1_000])
def test_pages_have_all_events_of_readable_tables_and_no_others(
    server: AccessServer, mine: Table, hidden: Table, limit: int
) -> None:
    caller = reader_of(server, namespace_of(mine))
    for table in (mine, hidden, hidden, mine, hidden):
        table.begun()
    everything = pages(server.admin, 1_000)

    read = pages(caller.http, limit)

    assert events_of(read) == events_of(everything, mine)
    assert hidden.name not in json.dumps(read)
    assert all(len(page["events"]) <= limit for page in read)


def test_a_page_passes_over_hidden_events_whatever_its_limit(server: AccessServer, hidden: Table) -> None:
    caller = reader_of(server)
    start = end_of_log(caller)
    for _ in range(5):
        hidden.begun()

    [page] = pages(caller.http, 1, start)

    assert page == {"events": [], "cursor": end_of_log(caller), "caught_up": True}


def test_t54_a_follower_beside_hidden_events_misses_nothing_and_learns_nothing(
    server: AccessServer, mine: Table, hidden: Table
) -> None:
    caller = reader_of(server, namespace_of(mine))
    for table in (hidden, mine, hidden):
        table.begun()
    with stream(server, caller) as following, stream(server, caller, table=mine.name) as of_table:
        caught_up = following.read_events(2)
        for table in [hidden, mine] * 10 + [hidden] * 3 + [mine]:
            table.begun()
        wanted = events_of(pages(server.admin, 1_000), mine)
        seen, seen_of_table = following.read_events(len(wanted)), of_table.read_events(len(wanted))

    assert len(caught_up) >= 2
    assert seen == wanted
    assert [event["version"] for event in seen_of_table] == [event["version"] for event in wanted]
    assert {event["table"] for event in seen_of_table} == {mine.name}


def test_t54_a_stream_of_a_table_ends_soon_after_the_role_is_revoked(server: AccessServer, mine: Table) -> None:
    caller = reader_of(server, namespace_of(mine))
    with stream(server, caller, table=mine.name) as following:
        following.read_events(1)
        caller.revoke(namespace_of(mine))
        revoked_at = time.monotonic()
        events = following.read_to_end()
        ended_after = time.monotonic() - revoked_at

    assert ended_after < IN_TIME
    assert [event["type"] for event in events] == ["TableCreated"]


def test_t54_a_stream_of_all_tables_narrows_soon_after_a_role_is_revoked(
    server: AccessServer, mine: Table, hidden: Table
) -> None:
    caller = reader_of(server, namespace_of(mine), namespace_of(hidden))
    with stream(server, caller, after=end_of_log(caller)) as following:
        hidden.begun()
        following.read_events(1)
        before = len(following.events)
        caller.revoke(namespace_of(hidden))
        time.sleep(IN_TIME)
        for table in (hidden, mine, hidden, mine):
            table.begun()
        own = events_of(pages(server.admin, 1_000), mine)[1:]
        later = following.read_events(before + len(own))[before:]

    assert later == own


def test_t54_a_stream_of_a_table_ends_when_its_new_name_is_hidden(
    server: AccessServer, mine: Table, hidden: Table
) -> None:
    caller = reader_of(server, namespace_of(mine))
    with stream(server, caller, table=mine.name) as following:
        following.read_events(1)
        renamed = f"{namespace_of(hidden)}.renamed"
        succeeded(server.admin.patch(f"/v1/tables/{mine.name}", json={"name": renamed}))
        events = following.read_to_end()

    assert "renamed" not in json.dumps(events)
    assert refused(caller.http.get("/v1/events", params={"table": renamed}), 404, "table-not-found")


def test_the_cursor_of_all_tables_after_a_hidden_event_gives_a_time_of_a_readable_table(
    server: AccessServer, mine: Table, hidden: Table
) -> None:
    caller = reader_of(server, namespace_of(mine))
    mine.begun()
    before = pages(caller.http, 100)[-1]["events"][-1]
    hidden.begun()
    cursor = end_of_log(caller)

    times = {
        path: succeeded(caller.http.get(f"/v1/tables/{mine.name}/cursor-time", params={"after": path}))
        for path in (before["cursor"], cursor)
    }
    assert {time["time"] for time in times.values()} == {before["time"]}
    answer = caller.http.get(f"/v1/tables/{hidden.name}/cursor-time", params={"after": cursor})
    refused(answer, 404, "table-not-found")


@pytest.mark.parametrize(
    "spelling",
    ["{0}.%6frders", "{0}%2Eorders", "{0}.orders%00", "{0}.orders.", "{0}.ORDERS", "x/..;/{0}.orders"],
)
def test_t59_no_spelling_of_a_hidden_name_is_answered_otherwise_than_a_missing_one(
    server: AccessServer, hidden: Table, spelling: str
) -> None:
    caller = reader_of(server)
    shown = [
        caller.http.get("/v1/tables/" + spelling.format(name))
        for name in (namespace_of(hidden), "no_where_123")
    ]

    assert shown[0].status_code in (400, 404)
    assert shown[0].status_code == shown[1].status_code
    assert shown[0].json()["code"] == shown[1].json()["code"]


def test_t60_a_grant_on_a_table_shows_no_event_of_a_new_table_of_its_name(
    server: AccessServer, mine: Table
) -> None:
    caller = reader_of(server, mine.name)
    time.sleep(RIGHTS_SECONDS)
    old = events_of(pages(caller.http, 100))
    server.admin.delete(f"/v1/tables/{mine.name}").raise_for_status()
    new = rest.make_table(server.admin, mine.name, base_path=f"/lake/{uuid.uuid4()}")
    new.begun()
    time.sleep(RIGHTS_SECONDS)

    assert [event["type"] for event in old] == ["TableCreated"]
    assert events_of(pages(caller.http, 100)) == []
    refused(caller.http.get(f"/v1/tables/{mine.name}"), 404, "table-not-found")
