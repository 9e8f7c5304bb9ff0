"""Reading the log and following it, for an event loop; as ``_events``, awaited."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator

from chronolake import errors
from chronolake._events import Place, page_after
from chronolake._transport import AsyncTransport
from chronolake.calls.base import Call
from chronolake_model.events import EventPage, LoggedEvent


async def read(
    transport: AsyncTransport, first: Call[EventPage], limit: int | None
) -> AsyncGenerator[LoggedEvent, None]:
    """As ``_events.read``."""
    left = sys.maxsize if limit is None else limit
    call: Call[EventPage] | None = first
    while call is not None and left > 0:
        page = await transport.send(call)
        for event in page.events[:left]:
            yield event
        left -= len(page.events)
        call = page_after(call, page)


async def follow(transport: AsyncTransport, start: Call[LoggedEvent]) -> AsyncGenerator[LoggedEvent, None]:
    """As ``_events.follow``."""
    place = Place(start, transport.endpoint.retry_seconds)
    while True:
        try:
            async with contextlib.aclosing(transport.lines(place.connect())) as lines:
                async for line in lines:
                    if (event := place.take(line)) is not None:
                        yield event
        except (errors.ConnectionFailed, errors.ServerUnavailable) as failure:
            pause = place.pause_after(failure)
            if pause is None:
                raise
        else:
            pause = place.pause_after_end()
        await asyncio.sleep(pause)
