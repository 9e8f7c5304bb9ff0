"""A timeline with filters named as in Hudi: narrow it, then fetch the first, the last, the nth instant, or all.

await table.timeline.pending().first()
await table.timeline.completed().by_completion_time().before_or_on(time).last()
[instant async for instant in table.timeline.rollbacks().reverse()]
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from chronolake import calls
from chronolake._async.transport import AsyncTransport
from chronolake._event_stream import page_size
from chronolake._timeline_filter import TimelineFilter
from chronolake_model.instants import Instant


class AsyncTimeline(TimelineFilter[AsyncTransport]):
    """A table's timeline, or a part of it; oldest first unless reversed. Iteration fetches page by page."""

    def __aiter__(self) -> AsyncIterator[Instant]:
        return self.take(None)

    def take(self, limit: int | None) -> AsyncIterator[Instant]:
        """The first ``limit`` instants; all of them for None."""
        call = calls.timeline.list_instants(self._table, self._filter, page_size(limit))
        return self._transport.entries(call, lambda page: page.instants, limit)

    async def first(self) -> Instant | None:
        """The first instant; None if there is none."""
        return await self.nth(0)

    async def last(self) -> Instant | None:
        """The last instant; None if there is none."""
        return await self.reverse().first()

    async def nth(self, number: int) -> Instant | None:
        """The instant with index ``number``, counted from 0; None if there are fewer instants."""
        call = calls.timeline.list_instants(self._table, self._filter_of_nth(number), 1)
        page = await self._transport.send(call)
        return page.instants[0] if page.instants else None
