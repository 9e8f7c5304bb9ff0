"""Following the log: what happened behind a cursor, of one table or of all."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_metastore.queries import cursors, tables
from chronolake_metastore.store import feed
from chronolake_metastore.store.engine import Database
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.feed import Entry
from chronolake_model.events import EventPage, LoggedEvent
from chronolake_model.times import Bound, Tick, format_time, to_datetime

_BIGINT_MAX = 2**63 - 1


class _Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Behind the event of this transaction and position."""

    transaction_id: Annotated[str, Meta(pattern=r"^[0-9]{1,19}$")] = "0"
    position: Annotated[int, Meta(ge=0, le=_BIGINT_MAX)] = 0


class _TablePlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="v"):
    """Behind this version of one table's log."""

    version: Annotated[int, Meta(ge=0, le=_BIGINT_MAX)] = 0


async def page(database: Database, table_name: str | None, after: str | None, limit: int) -> EventPage:
    """A page of events behind ``after``, the log's beginning unless given; ``LATEST`` is its end.

    Raises ``TableNotFound`` or ``InvalidCursor``.
    """
    if table_name is None:
        return await _page_of_all(database, after, limit)
    return await _page_of_table(database, table_name, after, limit)


async def _page_of_all(database: Database, after: str | None, limit: int) -> EventPage:
    async with database.reading() as connection:
        if after == Bound.LATEST:
            end = await feed.end(connection)
            place = _Place(end.transaction_id, end.position)
        else:
            place = _Place() if after is None else cursors.decode(after, _Place)
        found = await feed.page(connection, Cursor(place.transaction_id, place.position), limit)
    places = [_Place(entry.transaction_id, entry.position) for entry in found]
    return _answer(found, places, place, limit)


async def _page_of_table(database: Database, table_name: str, after: str | None, limit: int) -> EventPage:
    async with database.reading() as connection:
        table = await tables.find(connection, table_name)
        if after == Bound.LATEST:
            place = _TablePlace(await feed.end_of_table(connection, table.table_id))
        else:
            place = _TablePlace() if after is None else cursors.decode(after, _TablePlace)
        found = await feed.page_of_table(connection, table.table_id, place.version, limit)
    places = [_TablePlace(entry.version) for entry in found]
    return _answer(found, places, place, limit)


def _answer(
    found: list[Entry], places: list[_Place] | list[_TablePlace], start: object, limit: int
) -> EventPage:
    events = [_document(entry, cursors.encode(place)) for entry, place in zip(found, places, strict=True)]
    cursor = events[-1].cursor if events else cursors.encode(start)
    return EventPage(events, cursor, caught_up=len(events) < limit)


def _document(entry: Entry, cursor: str) -> LoggedEvent:
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
        payload=entry.payload,
        hash=entry.hash,
    )
