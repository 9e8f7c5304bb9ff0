"""Groups with many events: the first are sent to PostgreSQL while later commands are decided."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from chronolake_metastore.commands import group, recording
from chronolake_metastore.commands.group import Result
from chronolake_metastore.commands.instants import BeginInstantHandler
from chronolake_metastore.commands.recording import Request
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.instants import BeginInstant
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session
from tests.forked_program import run
from tests.server import database, rest

COUNT = 600
"""More than are sent at once."""


def begin(table: str, writer: str = "w") -> Request:
    """A request to begin many instants."""
    command = BeginInstant(table, writer=writer, count=COUNT)
    return group.request_of(Context("tester", rest.new_key()), command)


def run_group(dsn: str, requests: Sequence[Request]) -> list[Result]:
    """The results of a group on a connection of its own."""

    async def on_connection() -> list[Result]:
        lake = Database(Settings(dsn=dsn))
        session = Session(lake)
        try:
            return (await group.run(session, requests, drift_max_us=1_000_000)).results
        finally:
            await session.close()
            await lake.close()

    return asyncio.run(on_connection())


def payloads(dsn: str) -> list[dict[str, Any]]:
    """How often each writer is in the log, in the order of versions, with the versions that it has."""
    return database.query(
        dsn,
        "SELECT payload ->> 'writer' AS writer, count(*) AS events, min(version) AS first,"
        " max(version) AS last,"
        " bool_and(payload_bytes = octet_length(replace(payload::text, ' ', ''))) AS is_measured"
        " FROM event WHERE type = 'InstantRequested' GROUP BY 1 ORDER BY 3",
    )


def test_events_keep_their_order_and_their_payloads(dsn: str, http: httpx.Client) -> None:
    table = rest.make_table(http).name
    first = database.query(dsn, "SELECT max(version) AS version FROM event JOIN lake_table USING (table_id)")
    version = first[0]["version"]

    results = run_group(dsn, [begin(table, "a"), begin(table, "b"), begin(table, "c")])

    assert [getattr(result, "code", None) for result in results] == [None] * 3
    assert payloads(dsn) == [
        {
            "writer": writer,
            "events": COUNT,
            "first": version + COUNT * number + 1,
            "last": version + COUNT * (number + 1),
            "is_measured": True,
        }
        for number, writer in enumerate("abc")
    ]
    run("verify", "--dsn", dsn).check_returncode()


def test_nothing_is_left_of_a_group_that_fails_after_its_first_events_were_sent(
    dsn: str, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rest.make_table(http).name
    before = database.contents(dsn, "event", "outcome", *database.PROJECTIONS)
    sent: list[int] = []
    append, decide = recording.write_early, BeginInstantHandler.decide

    def counted(*args: Any) -> Any:
        sent.append(len(args[0].changes.events))
        return append(*args)

    def broken(self: BeginInstantHandler, state: Any, command: BeginInstant, *args: Any) -> Any:
        if command.writer == "broken":
            raise ZeroDivisionError
        return decide(self, state, command, *args)

    monkeypatch.setattr(recording, "write_early", counted)
    monkeypatch.setattr(BeginInstantHandler, "decide", broken)

    with pytest.raises(ZeroDivisionError):
        run_group(dsn, [begin(table), begin(table, "broken")])

    assert sent == [COUNT]
    assert database.contents(dsn, "event", "outcome", *database.PROJECTIONS) == before


def test_a_refusal_after_the_first_events_changes_no_other_result(dsn: str, http: httpx.Client) -> None:
    table = rest.make_table(http).name

    results = run_group(dsn, [begin(table, "a"), begin("no.table"), begin(table, "b")])

    assert [getattr(result, "code", None) for result in results] == [
        None,
        "table-not-found",
        None,
    ]
    assert [row["writer"] for row in payloads(dsn)] == ["a", "b"]
    run("verify", "--dsn", dsn).check_returncode()
