"""Bodies of the REST API for the log: each change of each table, in order, and the outcomes of requests."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class LoggedEvent(msgspec.Struct, frozen=True):
    """One event of the log.

    ``table`` is null for namespaces. ``instant`` is the requested time of the instant that changed, ``time``
    when the event was issued, both in Hudi's digits. ``cursor`` is the place right after this event: a
    reader that stores it in one transaction with its own work handles each event exactly once. Events of one
    ``transaction`` with one ``request_id`` happened at once, at one position of the log; no page ends between
    them.
    """

    cursor: str
    transaction: str
    table: str | None
    table_id: str
    version: int
    type: str
    instant: str | None
    time: str
    issued_at: datetime
    actor: str
    request_id: str
    payload: dict[str, Any]
    hash: str


class CursorTime(msgspec.Struct, frozen=True):
    """The time of a table's last event before a cursor of the log; null if the table has none before it."""

    time: str | None


class EventPage(msgspec.Struct, frozen=True):
    """Events in the order of the log.

    ``cursor`` is the place from which to continue, also if there are no events yet. ``caught_up`` says that the
    log had no further events at the time of the request.
    """

    events: list[LoggedEvent]
    cursor: str
    caught_up: bool


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a request, kept under its idempotency key as long as the log exists.

    ``status`` and ``answer`` are the answer to the request. For a refusal (400 or more), ``answer`` is the
    problem document; it is null if there was no body. ``table`` is the named table, or null. ``version`` is the
    version of its log (for a namespace, of the catalog's) after the request was decided.
    """

    request_id: str
    status: int
    answer: dict[str, Any] | None
    table: str | None
    version: int | None
    recorded_at: datetime | None
