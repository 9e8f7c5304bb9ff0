"""The last events of the log, encoded once for all followers, in a ring that is bounded in bytes and in events.

One task fills the ring (``workers.tail``). Followers read from it and hold no reference to an event between two
chunks: an event that leaves the ring leaves memory, however many followers have not taken it yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

EVENTS_MAX: Final = 50_000
"""Events in a ring at most, however small they are."""
EVENT_OVERHEAD_BYTES: Final = 500
"""Memory of an event beside its text."""
LAST_OF_TABLE: Final = "TableDropped"
"""No event of a table follows this one."""
PASSED_AT_ONCE: Final = 5_000
"""Events that a follower passes over before other tasks have their turn."""


class RingPlace(NamedTuple):
    """The place after the event of this transaction and position, in the order across tables."""

    transaction_id: int = 0
    position: int = 0


class EncodedEvent(msgspec.Struct, frozen=True):
    """An event as followers get it. ``body`` is its JSON after the cursor, which differs for one table."""

    place: RingPlace
    table_id: UUID
    version: int
    type: str
    cursor: str
    cursor_of_table: str
    body: bytes
    table: str | None = None
    """The name of the table when the event was read."""

    def frame(self, *, of_table: bool) -> bytes:
        """The event as a server-sent event, with the cursor that such a follower goes on from."""
        return self._head(of_table) + self.body + _END

    def piece(self, offset: int, bytes_max: int, *, of_table: bool) -> bytes:
        """At most ``bytes_max`` bytes of the frame from ``offset`` on, without a copy of all of it."""
        head = self._head(of_table)
        start = offset - len(head)
        if start >= 0:
            return (self.body[start : start + bytes_max] + _END[max(0, start - len(self.body)) :])[:bytes_max]
        taken = head[offset : offset + bytes_max]
        left = bytes_max - len(taken)
        return (taken + self.body[:left] + (_END if len(self.body) <= left else b""))[:bytes_max]

    def size(self, *, of_table: bool) -> int:
        """Bytes of the frame."""
        return len(self._head(of_table)) + len(self.body) + len(_END)

    @property
    def cost_bytes(self) -> int:
        """The memory that the event needs in the ring."""
        return len(self.body) + EVENT_OVERHEAD_BYTES

    def _head(self, of_table: bool) -> bytes:
        cursor = self.cursor_of_table if of_table else self.cursor
        return f'id: {cursor}\r\nevent: {self.type}\r\ndata: {{"cursor":"{cursor}"'.encode()


_END: Final = b"\r\n\r\n"


class FellBehind(Exception):
    """The next event of a follower has left the ring."""


class RingReading:
    """The place of a follower in a ring: the event of this number, and this byte of it.

    Another server may have sent the follower more events than the ring has: an event that is not after
    ``after``, or not after ``after_version`` of its table, is skipped.
    """

    def __init__(
        self, number: int, table_id: UUID | None, after_version: int = 0, after: RingPlace | None = None
    ) -> None:
        self.may_read: Callable[[str | None, UUID, str], bool] | None = None
        """Whether the caller may read an event, by its table and type; none if it may read all."""
        self.table: str | None = None
        """The name of the followed table at the last event that was passed, if there was one."""
        self.number = number
        self.offset = 0
        self.table_id = table_id
        self.after_version = after_version
        self.after = RingPlace() if after is None else after
        self.has_ended = False
        """Whether the table that is followed was dropped, and its last event was read."""

    def wants(self, event: EncodedEvent) -> bool:
        """Whether the follower gets ``event``: always, if it has a part of it already."""
        if self.table_id is None:
            is_followed = event.place > self.after
        else:
            is_followed = event.table_id == self.table_id and event.version > self.after_version
        if not is_followed or self.may_read is None or self.offset:
            return is_followed
        return self.may_read(event.table, event.table_id, event.type)

    def pass_event(self, event: EncodedEvent) -> None:
        """Continue after ``event``."""
        if self.table_id == event.table_id:
            self.has_ended = event.type == LAST_OF_TABLE
            self.table = event.table
        self.number += 1
        self.offset = 0


class EventRing:
    """Events without a gap, in the order across tables. Each has a number; numbers are dense and only grow."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._events: dict[int, EncodedEvent] = {}
        self._first = 0
        self._floor = RingPlace()
        self.next_number = 0
        """The number that the next event gets."""
        self.head = RingPlace()
        """Every event up to here was in the ring, or was before its beginning."""
        self.bytes = 0
        self.is_running = False

    def start(self, head: RingPlace) -> None:
        """Begin after ``head``, without events. There must not be any readers."""
        self.stop()
        self._floor = self.head = head
        self.is_running = True

    def stop(self) -> None:
        """Forget all events."""
        self._events.clear()
        self._first = self.next_number
        self.bytes = 0
        self.is_running = False

    def append(self, events: Iterable[EncodedEvent]) -> None:
        """Add ``events``, which follow ``head`` without a gap; the oldest leave, never the newest."""
        for event in events:
            assert event.place > self.head, "events come in the order of the log"
            self._events[self.next_number] = event
            self.next_number += 1
            self.head = event.place
            self.bytes += event.cost_bytes
            while len(self._events) > 1 and (self.bytes > self._bytes_max or len(self._events) > EVENTS_MAX):
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = self._events.pop(self._first)
        self._first += 1
        self._floor = oldest.place
        self.bytes -= oldest.cost_bytes

    def covers(self, place: RingPlace) -> bool:
        """Whether every event after ``place`` is in the ring or is not appended yet."""
        return self.is_running and place >= self._floor

    def number_after(self, place: RingPlace) -> int:
        """The number of the first event after ``place``, which the ring covers; else ``next_number``."""
        low, high = self._first, self.next_number
        while low < high:
            middle = (low + high) // 2
            if self._events[middle].place > place:
                high = middle
            else:
                low = middle + 1
        return low

    def read(self, reading: RingReading, bytes_max: int) -> bytes:
        """The next bytes of ``reading``, at most ``bytes_max``; empty when it has read all events.

        They are empty too after it has passed over many. Raises ``FellBehind``.
        """
        of_table = reading.table_id is not None
        parts: list[bytes] = []
        left = bytes_max
        until = min(self.next_number, reading.number + PASSED_AT_ONCE)
        while left and reading.number < until and not reading.has_ended:
            event = self._events.get(reading.number)
            if event is None:
                raise FellBehind
            if not reading.wants(event):
                reading.pass_event(event)
                continue
            part = event.piece(reading.offset, left, of_table=of_table)
            parts.append(part)
            left -= len(part)
            reading.offset += len(part)
            if reading.offset == event.size(of_table=of_table):
                reading.pass_event(event)
        return b"".join(parts)
