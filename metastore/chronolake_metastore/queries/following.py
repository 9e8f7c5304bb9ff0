"""Following the log: events as followers get them, for the tail of the log and for streams that catch up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from chronolake_metastore.event_ring import LAST_OF_TABLE, EncodedEvent, Place
from chronolake_metastore.queries import cursors, events, tables
from chronolake_metastore.store import feed
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.feed import Entry
from chronolake_metastore.store.postgres.engine import Database

EVENTS_OF_PAGE: Final = 200
PAGE_BYTES: Final = 32 * 1024
"""The size of a page for a stream that catches up. Only a larger event makes a larger page."""
TAIL_BYTES: Final = 1024 * 1024
"""What the tail reads at a time, but one event at least."""
CATCH_UP_READERS_MAX: Final = 2
"""Pages that are read at a time; there is a connection for each."""


class Position(NamedTuple):
    """The place of a stream that catches up: after a version of a table, or in the log of all tables."""

    table_id: UUID | None = None
    version: int = 0
    place: Place = Place()

    def behind(self, event: EncodedEvent) -> Position:
        """The position behind ``event``."""
        return Position(self.table_id, event.version, event.place)


class CatchUpPage(msgspec.Struct, frozen=True):
    """Events that follow a position; none at the end of the log. ``text`` is what is sent of them."""

    text: bytes
    end: Position
    is_last: bool
    """Whether the table that is followed ends here."""

    @property
    def is_empty(self) -> bool:
        """Whether there were no events."""
        return not self.text


class CatchingUp:
    """Reads the log for followers that are behind the ring: few at a time, with few large events in memory."""

    def __init__(self, database: Database, bytes_max: int) -> None:
        self._database = database
        self._reading = asyncio.Semaphore(CATCH_UP_READERS_MAX)
        self._room = _MemoryBudget(bytes_max)

    async def begin(self, table_name: str | None, after: str | None) -> Position:
        """The position that a request names; raises ``TableNotFound`` or ``InvalidCursor``."""
        if table_name is None:
            place = events.place_in_log(after)
            return Position(place=Place(int(place.transaction_id), place.position))
        version = events.place_in_table(after).version
        async with self._reading, self._database.following() as connection:
            return Position((await tables.find(connection, table_name)).table_id, version)

    @asynccontextmanager
    async def page(self, position: Position) -> AsyncIterator[CatchUpPage]:
        """The page behind ``position``. A large one waits for room, which it has until the block ends."""
        page = await self._read(position)
        if len(page.text) <= PAGE_BYTES:
            yield page
            return
        # Events do not change: it is read again when there is room for it, and not kept until then.
        size = len(page.text)
        del page
        async with self._room.taken(size):
            yield await self._read(position)

    async def _read(self, position: Position) -> CatchUpPage:
        async with self._reading:
            events = await page(self._database, position, EVENTS_OF_PAGE, PAGE_BYTES)
        return _page_of(position, events)


def _page_of(position: Position, events: list[EncodedEvent]) -> CatchUpPage:
    """As many events as fit, one at least."""
    frames: list[bytes] = []
    size = 0
    is_last = False
    for event in events:
        frame = event.frame(of_table=position.table_id is not None)
        size += len(frame)
        if frames and size > PAGE_BYTES:
            break
        frames.append(frame)
        position = position.behind(event)
        is_last = position.table_id is not None and event.type == LAST_OF_TABLE
    return CatchUpPage(b"".join(frames), position, is_last)


async def page(database: Database, position: Position, limit: int, bytes_max: int) -> list[EncodedEvent]:
    """Events behind ``position``, at most ``limit`` and about ``bytes_max`` bytes, but one at least."""
    async with database.following() as connection:
        if position.table_id is not None:
            of_table = position.table_id, position.version
            entries = await feed.texts_of_table(connection, *of_table, limit, bytes_max)
        else:
            after = Cursor(str(position.place.transaction_id), position.place.position)
            entries = await feed.texts(connection, after, limit, bytes_max)
    return [_encoded(entry) for entry in entries]


async def end(database: Database) -> Place:
    """Behind the last event of all that no open transaction can still precede."""
    async with database.following() as connection:
        last = await feed.end(connection)
    return Place(int(last.transaction_id), last.position)


async def is_held_back(database: Database) -> bool:
    """Whether there are events that an open transaction keeps from being given out."""
    async with database.following() as connection:
        return await feed.is_held_back(connection)


def _encoded(entry: Entry) -> EncodedEvent:
    # Without its cursor, the first of its fields, an event is the same for all followers.
    document = msgspec.json.encode(events.document(entry, ""))
    return EncodedEvent(
        place=Place(int(entry.transaction_id), entry.position),
        table_id=entry.table_id,
        version=entry.version,
        type=entry.type,
        cursor=cursors.encode(events.place_of(entry)),
        cursor_of_table=cursors.encode(events.place_in_table_of(entry)),
        body=document.removeprefix(b'{"cursor":""'),
    )


class _MemoryBudget:
    """A budget of bytes. A request for more than are left waits, in the order of arrival."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._taken = 0
        self._turn = asyncio.Lock()
        self._given_back = asyncio.Event()

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Take ``size`` bytes, all that there are if it is more, until the block ends."""
        wanted = min(size, self._bytes_max)
        async with self._turn:
            while self._taken + wanted > self._bytes_max:
                self._given_back.clear()
                await self._given_back.wait()
            self._taken += wanted
        try:
            yield
        finally:
            self._taken -= wanted
            self._given_back.set()
