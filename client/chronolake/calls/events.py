"""Calls of the log of events."""

from __future__ import annotations

from chronolake.calls import base
from chronolake.calls.base import Call, query
from chronolake_model.events import CursorTime, EventPage, LoggedEvent
from chronolake_model.names import split_table_name


def list_all(after: str | None, of_table: str | None, limit: int = base.LIMIT_MAX) -> Call[EventPage]:
    """A page of the log, after a cursor."""
    return Call("GET", "/v1/events", EventPage, query(**_feed(after, of_table), limit=limit))


def follow(after: str | None, of_table: str | None) -> Call[LoggedEvent]:
    """The log as a stream: the answer is of one event of it."""
    return Call("GET", "/v1/events/stream", LoggedEvent, query(**_feed(after, of_table)))


def time_of_cursor(of_table: str, cursor: str) -> Call[CursorTime]:
    """The time of a table's last event before a cursor."""
    return Call("GET", f"{base.table_path(of_table)}/cursor-time", CursorTime, query(after=cursor))


def _feed(after: str | None, of_table: str | None) -> dict[str, str | None]:
    if of_table is not None:
        split_table_name(of_table)
    return {"after": after, "table": of_table}
