"""Pages of the log: the events after a cursor, of one table or of all tables."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from chronolake_metastore.queries import cursors, tables
from chronolake_metastore.store import feed
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.feed import Entry
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.events import EventPage, LoggedEvent
from chronolake_model.times import Bound, Tick, format_time, to_datetime

_BIGINT_MAX = 2**63 - 1


class LogPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The place after the event of this transaction and position."""

    transaction_id: Annotated[str, Meta(pattern=r"^[0-9]{1,19}\Z")]
    position: Annotated[int, Meta(ge=0, le=_BIGINT_MAX)]


class TablePlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="v"):
    """The place after this version of one table's log."""

    version: Annotated[int, Meta(ge=0, le=_BIGINT_MAX)]


# Not defaults of the fields: a cursor without one of the fields must be refused.
_BEGINNING = LogPlace(transaction_id="0", position=0)
_BEGINNING_OF_TABLE = TablePlace(version=0)


async def page(database: Database, table_name: str | None, after: str | None, limit: int) -> EventPage:
    """A page of the events after ``after``: by default from the beginning of the log; ``LATEST`` is its end.

    Raises ``TableNotFound`` or ``InvalidCursor``.
    """
    if table_name is None:
        return await _page_of_all(database, after, limit)
    return await _page_of_table(database, table_name, after, limit)


async def _page_of_all(database: Database, after: str | None, limit: int) -> EventPage:
    async with database.reading() as connection:
        if after == Bound.LATEST:
            end = await feed.end(connection)
            place = LogPlace(end.transaction_id, end.position)
        else:
            place = place_in_log(after)
        cursor = Cursor(place.transaction_id, place.position)
        entries, caught_up = await feed.page(connection, cursor, limit, database.page_bytes_max)
    places = [place_of(entry) for entry in entries]
    return _answer(entries, places, place, caught_up=caught_up)


async def _page_of_table(database: Database, table_name: str, after: str | None, limit: int) -> EventPage:
    async with database.reading() as connection:
        table = await tables.find(connection, table_name)
        if after == Bound.LATEST:
            place = TablePlace(await feed.end_of_table(connection, table.table_id))
        else:
            place = place_in_table(after)
        entries, caught_up = await feed.page_of_table(
            connection, table.table_id, place.version, limit, database.page_bytes_max
        )
    places = [place_in_table_of(entry) for entry in entries]
    return _answer(entries, places, place, caught_up=caught_up)


def _answer(
    entries: list[Entry], places: list[LogPlace] | list[TablePlace], start: object, *, caught_up: bool
) -> EventPage:
    events = [document(entry, cursors.encode(place)) for entry, place in zip(entries, places, strict=True)]
    cursor = events[-1].cursor if events else cursors.encode(start)
    return EventPage(events, cursor, caught_up)


def place_in_log(after: str | None) -> LogPlace:
    """The place that a cursor over all tables stands for; raises ``InvalidCursor``."""
    return _BEGINNING if after is None else cursors.decode(after, LogPlace)


def place_in_table(after: str | None) -> TablePlace:
    """The place that a cursor over one table stands for; raises ``InvalidCursor``."""
    return _BEGINNING_OF_TABLE if after is None else cursors.decode(after, TablePlace)


def place_of(entry: Entry) -> LogPlace:
    """The place after ``entry`` in the log of all tables."""
    return LogPlace(entry.transaction_id, entry.position)


def place_in_table_of(entry: Entry) -> TablePlace:
    """The place after ``entry`` in the log of its table."""
    return TablePlace(entry.version)


def document(entry: Entry, cursor: str) -> LoggedEvent:
    """The event as clients get it, with the ``cursor`` of the place after it."""
    tick = entry.tick or Tick.MILLISECOND
    return LoggedEvent(
        cursor=cursor,
        transaction=entry.transaction_id,
        table=entry.table,
        table_id=str(entry.table_id),
        version=entry.version,
        type=entry.type,
        instant=None if entry.instant is None else format_time(entry.instant, tick),
        time=format_time(entry.time, tick),
        issued_at=to_datetime(entry.time),
        actor=entry.actor,
        request_id=entry.request_id,
        payload=_payload(entry.payload),
        hash=entry.hash,
    )


def _payload(payload: dict[str, Any] | str) -> Any:
    # A payload that is text already is not parsed: it may be large, and it was valid when it was stored.
    return msgspec.Raw(payload.encode()) if isinstance(payload, str) else payload
