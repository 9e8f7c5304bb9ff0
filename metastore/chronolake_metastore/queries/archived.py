"""Reads of history across the border: what lies before it is asked of the archive, outside of transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from chronolake_metastore.store import archived, feed
from chronolake_metastore.store.archived import (
    EVENT_BYTES,
    ArchivedEvents,
    ArchivedLog,
    EventPlace,
    LogBorder,
)
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.feed import FeedEntry
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection

_LAST_POSITION: Final = 2**63 - 1
ResultT = TypeVar("ResultT")


async def ask(database: Database, border: LogBorder, read: Callable[[ArchivedLog], ResultT]) -> ResultT:
    """The answer of the archive, which has all before the border.

    Raises ``ArchiveNotSet`` or ``ArchiveUnavailable``.
    """
    async with database.asking():
        return await archived.ask(database, border, read)


async def is_moved(connection: Connection, border: LogBorder) -> bool:
    """Whether rows went to the archive since the border was read, so that an answer of both may lack them."""
    return await archived.border(connection) != border


async def page(database: Database, after: Cursor, limit: int, bytes_max: int) -> tuple[list[FeedEntry], bool]:
    """A page of all tables as ``feed.page`` gives it, of the archive and the database together."""
    place = _place(after)
    while True:
        async with database.reading() as connection:
            border = await archived.border(connection)
            if border is None or not is_before(after, border):
                return await feed.page(connection, after, limit, bytes_max)
        found = await ask(database, border, _in_order(place, border, limit, bytes_max))
        async with database.reading() as connection:
            if await is_moved(connection, border):
                continue
            entries = await archived.entries(connection, found.events)
            if found.is_cut or found.counted == limit:
                return entries, False
            later = feed.page(connection, _after(border), limit - found.counted, bytes_max)
            return _joined(entries, found, await later, bytes_max)


async def page_of_table(
    database: Database, table_id: UUID, version: int, limit: int, bytes_max: int
) -> tuple[list[FeedEntry], bool]:
    """A page of a table as ``feed.page_of_table`` gives it, of the archive and the database together."""
    while True:
        async with database.reading() as connection:
            border = await archived.border(connection)
            until = 0 if border is None else await archived.first_version(connection, table_id, border) - 1
            if border is None or version >= until:
                return await feed.page_of_table(connection, table_id, version, limit, bytes_max)
        found = await ask(database, border, _of_table(table_id, version, until, limit, bytes_max))
        async with database.reading() as connection:
            if await is_moved(connection, border):
                continue
            entries = await archived.entries(connection, found.events)
            if found.is_cut or found.counted == limit:
                return entries, False
            later = feed.page_of_table(connection, table_id, until, limit - found.counted, bytes_max)
            return _joined(entries, found, await later, bytes_max)


def _in_order(
    after: EventPlace, border: LogBorder, limit: int, bytes_max: int
) -> Callable[[ArchivedLog], ArchivedEvents]:
    return lambda log: log.events_in_order(after, border.transaction_id, limit, bytes_max)


def _of_table(
    table_id: UUID, version: int, until: int, limit: int, bytes_max: int
) -> Callable[[ArchivedLog], ArchivedEvents]:
    return lambda log: log.events_of_table(table_id, version, until, limit, bytes_max)


def _joined(
    entries: list[FeedEntry], found: ArchivedEvents, later: tuple[list[FeedEntry], bool], bytes_max: int
) -> tuple[list[FeedEntry], bool]:
    """A page that goes on after the border, cut where one of the database alone would be."""
    size, (of_database, is_last) = found.bytes, later
    for number, entry in enumerate(of_database):
        size += _bytes(entry)
        if size > bytes_max and (entries or number):
            return entries + whole(of_database, number), False
    return entries + of_database, is_last


def whole(entries: list[FeedEntry], count: int) -> list[FeedEntry]:
    """The first entries, with the others of the last one's request."""
    if not count:
        return []
    last = entries[count - 1]
    request = last.transaction_id, last.request_id
    others = (entry for entry in entries[count:] if (entry.transaction_id, entry.request_id) == request)
    return [*entries[:count], *others]


def _bytes(entry: FeedEntry) -> int:
    # The stored payload is canonical JSON, so it has the length of this encoding.
    return len(msgspec.json.encode(entry.payload)) + EVENT_BYTES


async def texts(database: Database, after: Cursor, limit: int, bytes_max: int) -> list[FeedEntry]:
    """Events as ``feed.texts`` gives them; a page of the archive does not go on in the database."""
    while True:
        # Each statement sees a moment of its own: if rows had left before the first, the border had moved.
        async with database.following() as connection:
            found_texts = await feed.texts(connection, after, limit, bytes_max)
            border = await archived.border(connection)
            if border is None or not is_before(after, border):
                return found_texts
        found = await ask(database, border, _in_order(_place(after), border, limit, bytes_max))
        async with database.following() as connection:
            if found.events:
                return await archived.entries(connection, found.events, as_text=True)
            texts_after = await feed.texts(connection, _after(border), limit, bytes_max)
            if not await is_moved(connection, border):
                return texts_after


async def texts_of_table(
    database: Database, table_id: UUID, version: int, limit: int, bytes_max: int
) -> list[FeedEntry]:
    """Events as ``feed.texts_of_table`` gives them; a page of the archive does not go on in the database."""
    async with database.following() as connection:
        found_texts = await feed.texts_of_table(connection, table_id, version, limit, bytes_max)
        border = await archived.border(connection)
        until = 0 if border is None else await archived.first_version(connection, table_id, border) - 1
        if border is None or version >= until:
            return found_texts
    found = await ask(database, border, _of_table(table_id, version, until, limit, bytes_max))
    async with database.following() as connection:
        return await archived.entries(connection, found.events, as_text=True)


async def end_of(database: Database, connection: Connection) -> Cursor:
    """The place after the last event, as ``feed.end`` gives it."""
    end = await feed.end(connection)
    border = await archived.border(connection) if end == Cursor() else None
    if border is None:
        return end
    until = border.transaction_id
    transaction_id, position = await ask(database, border, lambda log: log.last_place(until))
    return Cursor(str(transaction_id), position)


def is_before(cursor: Cursor, border: LogBorder) -> bool:
    """Whether events after a place may be only in the archive."""
    return int(cursor.transaction_id) < border.transaction_id


def _place(cursor: Cursor) -> EventPlace:
    return int(cursor.transaction_id), cursor.position


def _after(border: LogBorder) -> Cursor:
    """The place before the first event of the database."""
    return Cursor(str(border.transaction_id - 1), _LAST_POSITION)
