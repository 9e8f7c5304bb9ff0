"""Reading a timeline in Hudi's words: narrow it, then ask for the first, the last, the nth, or all of it.

table.timeline.pending().first()
table.timeline.completed().by_completion_time().before_or_on(time).last()
list(table.timeline.rollbacks().reverse())
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Generic, Self, TypeVar

import msgspec

from chronolake import calls
from chronolake._transport import AsyncTransport, Transport
from chronolake.calls.base import Call
from chronolake.calls.instants import InstantFilter
from chronolake_model.instants import REQUESTED_TIMES_MAX, CompletionTimes, Instant
from chronolake_model.times import Moment, digits_of
from chronolake_model.vocabulary import Action, Direction, Operation, State, TimeOrder

PENDING = (State.REQUESTED, State.INFLIGHT)
_Transport = TypeVar("_Transport", Transport, AsyncTransport)
_Word = TypeVar("_Word", State, Action, Operation)


class _Words(Generic[_Transport]):
    """What narrows a timeline; each word gives another timeline, and nothing is asked yet."""

    def __init__(
        self,
        transport: _Transport,
        table: str,
        wanted: InstantFilter = InstantFilter(),  # noqa: B008  # frozen
    ) -> None:
        self._transport: _Transport = transport
        self._table = table
        self._wanted = wanted

    def where(
        self,
        *,
        state: State | Iterable[State] = (),
        action: Action | Iterable[Action] = (),
        operation: Operation | Iterable[Operation] = (),
        writer: str | None = None,
    ) -> Self:
        """Only these states, actions, operations, this writer's.

        A pending compaction, log compaction or clustering has that action; completed it is a commit, a
        deltacommit, a replacecommit, told by its operation. Raises ``ValueError`` when no instant can be meant.
        """
        was = self._wanted
        if writer is not None and was.writer is not None and writer != was.writer:
            raise ValueError(f"an instant has one writer: not {was.writer!r} and {writer!r} too")
        return self._with(
            state=_both(was.state, words(state)),
            action=_both(was.action, words(action)),
            operation=_both(was.operation, words(operation)),
            writer=was.writer if writer is None else writer,
        )

    def pending(self) -> Self:
        """Only what may still complete: requested and inflight."""
        return self.where(state=PENDING)

    def completed(self) -> Self:
        """Only what has completed."""
        return self.where(state=State.COMPLETED)

    def rollbacks(self) -> Self:
        """Only the rollbacks; ``target`` of each is the instant that it undoes."""
        return self.where(action=Action.ROLLBACK)

    def savepoints(self) -> Self:
        """Only the savepoints that are not released; ``target`` of each is the instant that it pins."""
        return self.where(action=Action.SAVEPOINT, state=State.COMPLETED)

    def by_completion_time(self) -> Self:
        """In the order of completion, and times from here on are completion times; only what has completed."""
        return self._with(order_by=TimeOrder.COMPLETION_TIME)

    def by_requested_time(self) -> Self:
        """In the order in which they were requested, and times from here on are requested times."""
        return self._with(order_by=TimeOrder.REQUESTED_TIME)

    def before_or_on(self, time: Moment) -> Self:
        """Only those at this time or before: by requested time, unless ``by_completion_time`` came before."""
        return self._bounded(self._which("to"), min, time)

    def after(self, time: Moment) -> Self:
        """Only those later than this time, by the same time as ``before_or_on``."""
        return self._bounded(self._which("from"), max, time)

    def reverse(self) -> Self:
        """The other way round: newest first, if it was oldest first."""
        forward = self._wanted.direction is Direction.ASCENDING
        return self._with(direction=Direction.DESCENDING if forward else Direction.ASCENDING)

    def _which(self, end: str) -> str:
        by_completion = self._wanted.order_by is TimeOrder.COMPLETION_TIME
        return f"{'completed' if by_completion else 'requested'}_{end}"

    def _bounded(self, bound: str, narrower: Callable[[Iterable[str]], str], time: Moment) -> Self:
        before: Moment | None = getattr(self._wanted, bound)
        times = [digits_of(one) for one in (time, before) if one is not None]
        return self._with(**{bound: narrower(times)})

    def _with(self, **changes: object) -> Self:
        return type(self)(self._transport, self._table, msgspec.structs.replace(self._wanted, **changes))

    def _nth(self, number: int) -> InstantFilter:
        if number < 0:
            raise ValueError(f"instants are counted from 0, not {number}; reverse() counts from the other end")
        return msgspec.structs.replace(self._wanted, skip=number)


class Timeline(_Words[Transport]):
    """A table's timeline, or a part of it; oldest first unless reversed. Iterating asks page by page."""

    def __iter__(self) -> Iterator[Instant]:
        return self.take(None)

    def take(self, limit: int | None) -> Iterator[Instant]:
        """The first so many; all of them for None."""
        pages = self._transport.pages(calls.instants.list_all(self._table, self._wanted, page_size(limit)))
        return itertools.islice((one for page in pages for one in page.instants), limit)

    def first(self) -> Instant | None:
        """The first; None when there is none."""
        return self.nth(0)

    def last(self) -> Instant | None:
        """The last; None when there is none."""
        return self.reverse().first()

    def nth(self, number: int) -> Instant | None:
        """The one with so many before it; None when there are not so many."""
        found = self._transport.send(calls.instants.list_all(self._table, self._nth(number), 1)).instants
        return found[0] if found else None


class AsyncTimeline(_Words[AsyncTransport]):
    """As ``Timeline``, awaited: ``async for``, ``await timeline.first()``."""

    def __aiter__(self) -> AsyncIterator[Instant]:
        return self.take(None)

    async def take(self, limit: int | None) -> AsyncIterator[Instant]:
        """As ``Timeline.take``."""
        pages = self._transport.pages(calls.instants.list_all(self._table, self._wanted, page_size(limit)))
        left = sys.maxsize if limit is None else limit
        # A limit ends the iteration early, and what it leaves behind must not wait for the garbage collector.
        async with contextlib.aclosing(pages):
            while left > 0 and (page := await anext(pages, None)) is not None:
                for one in page.instants[:left]:
                    yield one
                left -= len(page.instants)

    async def first(self) -> Instant | None:
        """As ``Timeline.first``."""
        return await self.nth(0)

    async def last(self) -> Instant | None:
        """As ``Timeline.last``."""
        return await self.reverse().first()

    async def nth(self, number: int) -> Instant | None:
        """As ``Timeline.nth``."""
        page = await self._transport.send(calls.instants.list_all(self._table, self._nth(number), 1))
        return page.instants[0] if page.instants else None


def words(given: _Word | Iterable[_Word]) -> tuple[_Word, ...]:
    """One word or several, as a tuple."""
    if isinstance(given, State | Action | Operation):
        return (given,)
    return tuple(given)


def completion_calls(table: str, requested_times: Iterable[str]) -> list[Call[CompletionTimes]]:
    """Ask for completion times, as many at once as the server takes."""
    times = list(requested_times)
    return [
        calls.instants.completion_times(table, times[first : first + REQUESTED_TIMES_MAX])
        for first in range(0, len(times), REQUESTED_TIMES_MAX)
    ]


def page_size(limit: int | None) -> int:
    """No more per page than are wanted at all."""
    return calls.base.LIMIT_MAX if limit is None else max(1, min(limit, calls.base.LIMIT_MAX))


def _both(before: tuple[_Word, ...], now: tuple[_Word, ...]) -> tuple[_Word, ...]:
    """The words that pass both choices; no words are no choice."""
    if not before or not now:
        return before or now
    common = tuple(word for word in before if word in now)
    if not common:
        raise ValueError(f"no instant is {' or '.join(before)}, and {' or '.join(now)} too")
    return common
