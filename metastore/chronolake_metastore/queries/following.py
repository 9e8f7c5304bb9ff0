"""Encoded events for followers: for the tail of the log, and for streams that catch up with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.readable import Readable
from chronolake_metastore.event_ring import LAST_OF_TABLE, EncodedEvent, RingPlace
from chronolake_metastore.queries import archived, cursors, events, tables
from chronolake_metastore.store import feed
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.feed import FeedEntry
from chronolake_metastore.store.postgres.engine import Database

EVENTS_OF_PAGE: Final = 200
PAGE_BYTES: Final = 32 * 1024
"""The size of a page for a stream that catches up. Only a larger event makes a larger page."""
TAIL_BYTES: Final = 1024 * 1024
"""The bytes that the tail reads at a time; it reads at least one event."""
CATCH_UP_READERS_MAX: Final = 2
"""Pages that are read at the same time; there is a connection for each."""


class FeedPosition(NamedTuple):
    """The place of a stream that catches up: after a version of a table, or in the log of all tables.

    ``table`` is the name of the table, as it was last read.
    """

    table_id: UUID | None = None
    version: int = 0
    place: RingPlace = RingPlace()
    table: str | None = None

    def behind(self, event: EncodedEvent) -> FeedPosition:
        """The position after ``event``."""
        return FeedPosition(self.table_id, event.version, event.place, event.table)


class CatchUpPage(msgspec.Struct, frozen=True):
    """The events after a position, none at the end of the log. ``text`` is their encoding for the stream.

    It lacks those that the caller may not read.
    """

    text: bytes
    end: FeedPosition
    is_last: bool
    """Whether this page has the last event of the followed table."""
    is_empty: bool
    """Whether there were no events, to be read or not."""

    @property
    def is_hidden(self) -> bool:
        """Whether there were only events that the caller may not read."""
        return not self.text and not self.is_empty


class CatchingUp:
    """Reads the log for followers whose next event is not in the ring any more.

    It bounds the pages that are read at the same time, and the bytes of large events in memory.
    """

    def __init__(self, database: Database, bytes_max: int) -> None:
        self._database = database
        self.reading = asyncio.Semaphore(CATCH_UP_READERS_MAX)
        """One is held by each reader."""
        self._room = _MemoryBudget(bytes_max)

    @asynccontextmanager
    async def page(
        self, position: FeedPosition, readable: Readable | None = None
    ) -> AsyncIterator[CatchUpPage]:
        """The page after ``position``, of readable tables or of all.

        A large page waits for memory, and holds it until the block ends.
        """
        page = await self._read(position, readable)
        if len(page.text) <= PAGE_BYTES:
            yield page
            return
        # The page is dropped and read again when the budget has room: events do not change.
        size = len(page.text)
        del page
        async with self._room.taken(size):
            yield await self._read(position, readable)

    async def _read(self, position: FeedPosition, readable: Readable | None) -> CatchUpPage:
        async with self.reading:
            events = await page(self._database, position, EVENTS_OF_PAGE, PAGE_BYTES)
        return _page_of(position, events, readable)


def _page_of(position: FeedPosition, events: list[EncodedEvent], readable: Readable | None) -> CatchUpPage:
    """The page of the first ``events`` that fit into ``PAGE_BYTES``, at least one."""
    frames: list[bytes] = []
    size = 0
    is_last = False
    for event in events:
        if readable is not None and not readable.has_event(event.table, event.table_id, event.type):
            position = position.behind(event)
            continue
        frame = event.frame(of_table=position.table_id is not None)
        size += len(frame)
        if frames and size > PAGE_BYTES:
            break
        frames.append(frame)
        position = position.behind(event)
        is_last = position.table_id is not None and event.type == LAST_OF_TABLE
    return CatchUpPage(b"".join(frames), position, is_last, not events)


async def begin(
    ctx: Context, database: Database, table_name: str | None, after: str | None, catching_up: CatchingUp
) -> FeedPosition:
    """The position that a follower names; raises ``TableNotFound`` or ``InvalidCursor``."""
    if table_name is None:
        place = events.place_in_log(after)
        return FeedPosition(place=RingPlace(int(place.transaction_id), place.position))
    async with catching_up.reading, database.following() as connection:
        table_id = (await tables.find(ctx, connection, table_name)).table_id
    return FeedPosition(table_id, events.place_in_table(after, table_id).version, table=table_name)


async def page(database: Database, position: FeedPosition, limit: int, bytes_max: int) -> list[EncodedEvent]:
    """The events after ``position``, at most ``limit`` and about ``bytes_max`` bytes, but at least one."""
    if position.table_id is not None:
        of_table = position.table_id, position.version
        entries = await archived.texts_of_table(database, *of_table, limit, bytes_max)
    else:
        after = Cursor(str(position.place.transaction_id), position.place.position)
        entries = await archived.texts(database, after, limit, bytes_max)
    return [_encoded(entry) for entry in entries]


async def end(database: Database) -> RingPlace:
    """The place after the last event that followers may get: no open transaction can still append before it."""
    async with database.following() as connection:
        last = await archived.end_of(database, connection)
    return RingPlace(int(last.transaction_id), last.position)


async def is_held_back(database: Database) -> bool:
    """Whether followers do not get some events yet, because an older transaction is still open."""
    async with database.following() as connection:
        return await feed.is_held_back(connection)


def _encoded(entry: FeedEntry) -> EncodedEvent:
    # Only the cursor, the first field, differs between followers. The body is the document without it.
    document = msgspec.json.encode(events.document(entry, ""))
    return EncodedEvent(
        place=RingPlace(int(entry.transaction_id), entry.position),
        table_id=entry.table_id,
        version=entry.version,
        type=entry.type,
        cursor=cursors.encode(events.place_of(entry)),
        cursor_of_table=cursors.encode(events.place_in_table_of(entry)),
        body=document.removeprefix(b'{"cursor":""'),
        table=entry.table,
    )


class _MemoryBudget:
    """A budget of bytes. A request for more than the free bytes waits. Waiting requests form a queue."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._taken = 0
        self._turn = asyncio.Lock()
        self._released = asyncio.Event()

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Hold ``size`` bytes, at most the whole budget, until the block ends."""
        held = min(size, self._bytes_max)
        async with self._turn:
            while self._taken + held > self._bytes_max:
                self._released.clear()
                await self._released.wait()
            self._taken += held
        try:
            yield
        finally:
            self._taken -= held
            self._released.set()
