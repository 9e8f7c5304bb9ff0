"""The queue of waiting requests, and the choice of the next batch.

The larger a batch is, the less each of its requests costs. So a lane takes all waiting requests, and no other
lane starts while it runs. Only if a batch takes long (another server has locked one of its tables, or a disk
stalls), another lane starts with requests that share no key with a running batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, Protocol, TypeVar

import msgspec

from chronolake_metastore import errors


class Entry(Protocol):
    """A request that waits: its keys, such as the tables it names, its number of files, and its bytes."""

    @property
    def keys(self) -> frozenset[str]: ...

    @property
    def files(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of the queue (``length_max`` entries, ``bytes_max``), and of one batch."""

    length_max: int
    bytes_max: int
    group_max: int
    group_bytes_max: int
    files_max: int


EntryT = TypeVar("EntryT", bound=Entry)


class BatchQueue(Generic[EntryT]):
    """One queue for any number of lanes. A key is in one running batch at a time."""

    def __init__(self, bounds: Bounds, *, overdue_seconds: float) -> None:
        self._bounds = bounds
        self._bytes = 0
        self._overdue_seconds = overdue_seconds
        self._waiting: deque[EntryT] = deque()
        self._running: list[list[EntryT]] = []
        self._idle: deque[asyncio.Future[None]] = deque()
        self._is_called = False
        self._fresh: list[EntryT] | None = None
        self._overdue: asyncio.TimerHandle | None = None

    def put(self, entry: EntryT) -> None:
        """Add ``entry`` to the end. Raises ``Overloaded`` if too many wait."""
        bounds = self._bounds
        if len(self._waiting) >= bounds.length_max:
            raise errors.Overloaded(f"{bounds.length_max} commands are waiting already; send it again later")
        if self._waiting and self._bytes + entry.size_bytes > bounds.bytes_max:
            raise errors.Overloaded(
                f"commands of {self._bytes} bytes are waiting already, and {bounds.bytes_max} may; send it "
                "again later"
            )
        self._waiting.append(entry)
        self._bytes += entry.size_bytes
        self._call_next()

    async def take(self) -> list[EntryT]:
        """The next batch: all waiting requests that share no key with a running batch, up to the bounds.

        It has at least one request. The caller must call ``done`` with it.
        """
        turn = asyncio.get_running_loop().create_future()
        self._idle.append(turn)
        self._call_next()
        while True:
            await turn
            self._is_called = False
            if group := self._next_group():
                self._begin(group)
                return group
            # All waiting requests share a key with a running batch; ``done`` wakes this lane.
            turn = asyncio.get_running_loop().create_future()
            self._idle.append(turn)

    def done(self, group: list[EntryT]) -> None:
        """The batch has ended: its keys are free again."""
        self._running = [other for other in self._running if other is not group]
        if self._fresh is group:
            self._no_longer_fresh(group)
        self._call_next()

    def disband(self) -> list[EntryT]:
        """All requests that wait or are in a batch, removed from the queue."""
        left = [entry for group in self._running for entry in group] + list(self._waiting)
        self._running.clear()
        self._waiting.clear()
        self._bytes = 0
        return left

    def _call_next(self) -> None:
        # The batch is made when the lane wakes, so requests that arrive until then join it.
        if not self._waiting or self._is_called or self._fresh is not None:
            return
        while self._idle:
            turn = self._idle.popleft()
            if not turn.done():  # cancelled
                self._is_called = True
                turn.set_result(None)
                return

    def _begin(self, group: list[EntryT]) -> None:
        self._running.append(group)
        self._fresh = group
        loop = asyncio.get_running_loop()
        self._overdue = loop.call_later(self._overdue_seconds, self._let_others_begin, group)

    def _let_others_begin(self, group: list[EntryT]) -> None:
        if self._fresh is group:
            self._no_longer_fresh(group)
            self._call_next()

    def _no_longer_fresh(self, group: list[EntryT]) -> None:
        assert self._fresh is group and self._overdue is not None
        self._overdue.cancel()
        self._fresh = self._overdue = None

    def _next_group(self) -> list[EntryT]:
        taken = {key for group in self._running for entry in group for key in entry.keys}
        group: list[EntryT] = []
        passed_over: list[EntryT] = []
        files = size_bytes = 0
        while self._waiting and len(group) < self._bounds.group_max:
            entry = self._waiting[0]
            if taken and not taken.isdisjoint(entry.keys):
                # No later request with one of its keys goes first; otherwise it could wait for ever.
                taken |= entry.keys
                passed_over.append(self._waiting.popleft())
                continue
            files += entry.files
            size_bytes += entry.size_bytes
            if group and (files > self._bounds.files_max or size_bytes > self._bounds.group_bytes_max):
                break
            group.append(self._waiting.popleft())
        self._waiting.extendleft(reversed(passed_over))
        self._bytes -= sum(entry.size_bytes for entry in group)
        return group
