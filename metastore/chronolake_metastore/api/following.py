"""A stream of events to one follower: earlier events from the database, then new ones from the ring.

The stream is sent in small chunks. The next one is sent when the connection has accepted the one before: a
client that does not read costs a chunk, the server's buffers of its connection, and a page at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

from litestar import Request
from litestar.response import Stream
from litestar.response.streaming import ASGIStreamingResponse
from litestar.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.domain.readable import Readable, readable_by
from chronolake_metastore.domain.rights import Rights
from chronolake_metastore.event_ring import FellBehind, RingReading
from chronolake_metastore.followers import Follower, Followers
from chronolake_metastore.queries.following import CatchingUp, FeedPosition

CHUNK_BYTES: Final = 8 * 1024
QUIET_SECONDS: Final = 15.0
"""The time without an event after which a stream sends a comment: proxies cut silent connections."""
KEEP_ALIVE: Final = b": nothing new\r\n\r\n"
"""Without data, or else followers would take it for an event."""
DATABASE_AWAY: Final = b": the server cannot reach its database; the stream goes on when it can\r\n\r\n"
# The first line break ends the line of an event that is cut off in its middle, without ending that event.
TOO_FAR_BEHIND: Final = b"\r\n: too far behind; connect again after the last event\r\n"
UNAVAILABLE: Final = b"\r\n: the server cannot reach its database; connect again after the last event\r\n"
MEDIA_TYPE: Final = "text/event-stream"
_HEADERS: Final = {"Cache-Control": "no-cache", "Connection": "keep-alive", "X-Accel-Buffering": "no"}
LOOK_SECONDS: Final = 1.0
"""The time after which the rights of a caller that may not do everything are looked up again."""
_START_SECONDS: Final = 0.2
"""How long a follower waits for the ring before it reads the database again."""


class Following:
    """The stream of one follower."""

    def __init__(
        self,
        followers: Followers,
        catching_up: CatchingUp,
        follower: Follower,
        position: FeedPosition,
        rights: Callable[[], Awaitable[Rights]] | None = None,
    ) -> None:
        """``rights`` are those of the caller at a time; without them it may read everything."""
        self._rights = rights
        self._known: Rights | None = None
        self._readable: Readable | None = None
        self._clock = asyncio.get_running_loop().time
        self._sent_at = self._clock()
        self._followers = followers
        self._catching_up = catching_up
        self._follower = follower
        self._position = position
        self._reading: RingReading | None = None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Chunks of the stream; it ends with the server, the table, or a client that is too slow."""
        # Before that the operating system would take megabytes that the client does not read.
        await self._follower.has_socket_options.wait()
        try:
            async with aclosing(self._catch_up()) as chunks_missed:
                async for chunk in chunks_missed:
                    yield chunk
            async for chunk in self._follow_ring():
                yield chunk
        except FellBehind:
            self._followers.count_disconnected("behind")
            yield TOO_FAR_BEHIND
        except errors.Unavailable:
            yield UNAVAILABLE

    async def _catch_up(self) -> AsyncGenerator[bytes, None]:
        """Events up to those in the ring; then there is a place to read in the ring, unless it is over."""
        ring = self._followers.ring
        while not self._followers.is_closed and await self._may_follow():
            if self._position.table_id is None and ring.covers(self._position.place):
                place = self._position.place
                self._reading = RingReading(ring.number_after(place), None, after=place)
                return
            # Taken first: what the ring has up to here was committed before the page is read.
            head = ring.head if ring.is_running else None
            async with self._catching_up.page(self._position, self._readable) as page:
                self._followers.start_send_deadline(self._follower, len(page.text))
                for start in range(0, len(page.text), CHUNK_BYTES):
                    yield page.text[start : start + CHUNK_BYTES]
                self._follower.send_deadline = None
                self._position = page.end
                is_empty, is_last, is_hidden = page.is_empty, page.is_last, page.is_hidden
            if is_hidden and (comment := self._comment()):
                yield comment
            if not is_hidden:
                self._sent_at = self._clock()
            if is_last:
                return
            if is_empty and head is not None and ring.covers(head):
                table_id, version, *_ = self._position
                self._reading = RingReading(ring.number_after(head), table_id, version)
                return
            if is_empty:
                await self._followers.wait_for_event(self._position.table_id, _START_SECONDS)

    async def _follow_ring(self) -> AsyncGenerator[bytes, None]:
        """Events from the ring, as they come."""
        reading = self._reading
        while reading is not None and not reading.has_ended and not self._followers.is_closed:
            if chunk := await self._next_chunk(reading):
                self._followers.start_send_deadline(self._follower, len(chunk))
                yield chunk
                self._follower.send_deadline = None
                self._sent_at = self._clock()

    async def _next_chunk(self, reading: RingReading) -> bytes:
        """The next bytes to send; empty if the stream is over, or is to look again."""
        try:
            reading.has_ended = not await self._may_follow()
        except errors.Unavailable:
            # Events that are in the ring still are not sent before the rights are known.
            await asyncio.sleep(LOOK_SECONDS)
            return self._comment()
        ring = self._followers.ring
        chunk = ring.read(reading, CHUNK_BYTES)
        if chunk or reading.has_ended:
            return chunk
        if reading.number < ring.next_number:
            await asyncio.sleep(0)
            return b""
        seconds = QUIET_SECONDS if self._rights is None else LOOK_SECONDS
        reading.number = await self._followers.wait_for_event(reading.table_id, seconds)
        if reading.number < ring.next_number or self._followers.is_closed:
            return b""
        return self._comment()

    def _comment(self) -> bytes:
        """The text of a quiet stream; empty if hidden events woke it a short time after it sent something."""
        if self._rights is not None and self._clock() - self._sent_at < QUIET_SECONDS:
            return b""
        self._sent_at = self._clock()
        return DATABASE_AWAY if self._followers.database_is_away else KEEP_ALIVE

    async def _may_follow(self) -> bool:
        """Look the rights of the caller up: whether it may follow; raises ``Unavailable``."""
        if self._rights is None:
            return True
        rights = await self._rights()
        if rights is not self._known:
            self._known, self._readable = rights, readable_by(rights)
        reading, readable = self._reading, self._readable
        table_id, table = self._position.table_id, self._position.table
        if reading is not None:
            reading.may_read = None if readable is None else readable.has_event
            table = reading.table or table
        return table_id is None or readable is None or readable.has(table, table_id)


class FollowerStream(Stream):
    """The answer to a follower. When it ends, for any reason, the follower is removed."""

    def __init__(self, following: Following, leave: Callable[[], None]) -> None:
        super().__init__(following.chunks, media_type=MEDIA_TYPE, headers=dict(_HEADERS))
        self._leave = leave

    @override
    def to_asgi_response(  # type: ignore[override]  # any ASGI application will do
        self, app: Any, request: Request[Any, Any, Any], **options: Any
    ) -> ASGIApp:
        """As of any stream, with what is to be done at its end."""
        answer = super().to_asgi_response(app, request, **options)
        assert isinstance(answer, ASGIStreamingResponse)
        chunks = answer.iterator
        assert isinstance(chunks, AsyncGenerator)

        async def answering(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                async with aclosing(chunks):
                    await answer(scope, receive, send)
            finally:
                self._leave()

        return answering
