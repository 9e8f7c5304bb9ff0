"""Followers of the log in this process: bounded in number, woken a few at a time, disconnected if too slow."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.event_ring import EncodedEvent, EventRing
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Settings

WAKE_AT_A_TIME: Final = 16
"""Followers that are woken before other tasks of the loop have their turn."""
CLOSING_SECONDS: Final = 0.5
"""How long streams have to end by themselves when the server stops."""
BYTES_PER_SECOND_MIN: Final = 64 * 1024
"""A follower that takes less than this of the bytes that it is sent is disconnected."""


class Client(msgspec.Struct, frozen=True):
    """The other end of a connection, with the caller as bounds count it."""

    address: str
    port: int
    caller: str


class Follower:
    """One stream. It is sending while it waits for its connection to take the bytes given to it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.has_socket_options = asyncio.Event()
        """Set when its socket has the options of a follower's."""
        self.is_disconnected = False
        self.send_deadline: float | None = None
        """The time (monotonic) by which the client must have taken the sent bytes; None while none are sent."""


class _Waiter:
    """A follower that has read all that there is; ``number`` is that of the event which came then."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self.number: int | None = None


class Followers:
    """The followers of one process, and the ring that they read from."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.ring = EventRing(settings.ring_bytes)
        self._closed_at: float | None = None
        self.database_is_away = False
        """Whether the tail cannot reach the database: new events are not known."""
        self.all: set[Follower] = set()
        self._settings = settings
        self._metrics = metrics
        self._of_caller: Counter[str] = Counter()
        self._arrived = asyncio.Event()
        self._new = asyncio.Event()
        self._waiting: dict[UUID | None, set[_Waiter]] = {}
        self._waking: list[_Waiter] = []
        self._to_wake = asyncio.Event()

    @property
    def is_closed(self) -> bool:
        """Whether the server stops."""
        return self._closed_at is not None

    def admit(self, client: Client) -> Follower:
        """A new follower, which leaves by ``leave``. Raises ``TooManyStreams`` or ``Overloaded``."""
        per_client = self._settings.followers_per_client_max
        if self._of_caller[client.caller] >= per_client:
            raise errors.TooManyStreams(
                f"{client.caller} already has {per_client} streams open at this server, the most that one "
                "caller may have; close some, or share one stream between several followers",
                streams_max=per_client,
            )
        if len(self.all) >= self._settings.followers_max:
            raise errors.Overloaded(
                f"this server already has {self._settings.followers_max} streams open, the most that it "
                "accepts; try another server, or again later with the cursor of the last event",
                streams_max=self._settings.followers_max,
            )
        follower = Follower(client)
        self.all.add(follower)
        self._of_caller[client.caller] += 1
        self._metrics.followers.set(len(self.all))
        self._arrived.set()
        self._new.set()
        return follower

    def leave(self, follower: Follower) -> None:
        """The stream has ended. May be called again."""
        if follower not in self.all:
            return
        self.all.remove(follower)
        self._of_caller[follower.client.caller] -= 1
        if not self._of_caller[follower.client.caller]:
            del self._of_caller[follower.client.caller]
        self._metrics.followers.set(len(self.all))
        if not self.all:
            self._arrived.clear()

    async def wait_for_follower(self) -> None:
        """Wait until there is a follower."""
        await self._arrived.wait()

    async def wait_for_event(self, table_id: UUID | None, seconds_max: float) -> int:
        """Wait for an event, of one table or of any, ``seconds_max`` at most or until the server stops.

        The caller has read all that is in the ring. Gives the number of the event to go on from.
        """
        waiter = _Waiter()
        self._waiting.setdefault(table_id, set()).add(waiter)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds_max):
                    await waiter.woken.wait()
        finally:
            # After an event the waiter is not in the set any more, and the set is a new one.
            others = self._waiting.get(table_id, set())
            others.discard(waiter)
            if not others:
                self._waiting.pop(table_id, None)
        return self.ring.next_number if waiter.number is None else waiter.number

    def publish(self, events: list[EncodedEvent]) -> None:
        """Put ``events`` into the ring, and wake the streams that wait for them."""
        for event in events:
            for followed in (None, event.table_id):
                for waiter in self._waiting.pop(followed, ()):
                    waiter.number = self.ring.next_number
                    self._waking.append(waiter)
            self.ring.append([event])
        self._metrics.ring_bytes.set(self.ring.bytes)
        if self._waking:
            self._to_wake.set()

    async def wake(self) -> None:
        """Wake the followers that are due, until cancelled; it takes at most half of the time."""
        while True:
            await self._to_wake.wait()
            self._to_wake.clear()
            started = time.monotonic()
            while self._waking:
                batch, self._waking = self._waking[:WAKE_AT_A_TIME], self._waking[WAKE_AT_A_TIME:]
                for waiter in batch:
                    waiter.woken.set()
                await asyncio.sleep(0)
            await asyncio.sleep(time.monotonic() - started)

    def start_send_deadline(self, follower: Follower, size: int) -> None:
        """Set the time by which the client must have taken ``size`` bytes."""
        allowed = self._settings.follower_stall_seconds + size / BYTES_PER_SECOND_MIN
        follower.send_deadline = time.monotonic() + allowed

    async def wait_for_new_follower(self, seconds_max: float) -> None:
        """Wait until there is a new follower, for ``seconds_max`` at most."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._new.wait(), seconds_max)
        self._new.clear()

    def without_socket_options(self) -> list[Follower]:
        """New followers, whose sockets have no options yet."""
        return [follower for follower in self.all if not follower.has_socket_options.is_set()]

    def stalled_clients(self) -> list[Client]:
        """Connections to close: of clients that do not read, or that stay while the server stops."""
        if self._closed_at is not None:
            is_over = time.monotonic() > self._closed_at + CLOSING_SECONDS
            return [follower.client for follower in self.all if is_over]
        now = time.monotonic()
        late = [
            follower
            for follower in self.all
            if follower.send_deadline is not None and follower.send_deadline < now
        ]
        for follower in late:
            if not follower.is_disconnected:
                follower.is_disconnected = True
                self.count_disconnected("stalled")
        return [follower.client for follower in late]

    def count_disconnected(self, reason: str) -> None:
        """Count a follower that was cut off, as ``stalled`` or ``behind``."""
        self._metrics.followers_cut_off.labels(reason).inc()

    def close(self) -> None:
        """The server stops: streams are to end."""
        self._closed_at = time.monotonic()
        for waiting in self._waiting.values():
            for waiter in waiting:
                waiter.woken.set()
        self._arrived.set()
