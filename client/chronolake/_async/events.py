"""Reading the log of events, and following it."""

from __future__ import annotations

import contextlib
import sys

from chronolake import errors
from chronolake._async.transport import AsyncTransport
from chronolake._concurrency import awaiting as concurrency
from chronolake._event_stream import StreamPosition, page_after
from chronolake.calls.base import Call
from chronolake_model.events import EventPage, LoggedEvent


async def read(
    transport: AsyncTransport, first: Call[EventPage], limit: int | None
) -> concurrency.Stream[LoggedEvent]:
    """The events from the page ``first`` on, up to the present end of the log."""
    remaining = sys.maxsize if limit is None else limit
    call: Call[EventPage] | None = first
    while call is not None and remaining > 0:
        page = await transport.send(call)
        for event in page.events[:remaining]:
            yield event
        remaining -= len(page.events)
        call = page_after(call, page)


async def follow(transport: AsyncTransport, start: Call[LoggedEvent]) -> concurrency.Stream[LoggedEvent]:
    """The events of the stream ``start``, as they come. It ends only by an error, or when it is closed."""
    position = StreamPosition(start, transport.endpoint)
    while True:
        try:
            async with contextlib.aclosing(transport.lines(position.connect())) as lines:
                async for line in lines:
                    if (event := position.take(line)) is not None:
                        yield event
        except (errors.ConnectionFailed, errors.ServerUnavailable) as failure:
            pause = position.pause_after(failure)
            if pause is None:
                raise
        else:
            pause = position.pause_after_end()
        await concurrency.sleep(pause)
