"""Reading the log and following it: what blocks, and what blocking and awaiting followers share.

Exactly once by the cursor: a stream that broke goes on behind the last event that was given out, so an event
is given neither twice nor never, however often the connection is lost.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Iterator

import msgspec

from chronolake import calls, errors
from chronolake._transport import Patience, Transport
from chronolake.calls.base import Call
from chronolake_model.events import EventPage, LoggedEvent

_LIVED_SECONDS = 5.0
"""A stream that lived so long was a good one, even if nothing happened meanwhile."""


def read(transport: Transport, first: Call[EventPage], limit: int | None) -> Iterator[LoggedEvent]:
    """Events from the page ``first`` on, until there are no more for now."""
    return itertools.islice((event for page in _pages(transport, first) for event in page.events), limit)


def follow(transport: Transport, start: Call[LoggedEvent]) -> Iterator[LoggedEvent]:
    """Events of the stream ``start``, as they come; ends only by an error or with its caller's patience."""
    place = Place(start, transport.endpoint.retry_seconds)
    while True:
        try:
            with contextlib.closing(transport.lines(place.connect())) as lines:
                for line in lines:
                    if (event := place.take(line)) is not None:
                        yield event
        except (errors.ConnectionFailed, errors.ServerUnavailable) as failure:
            pause = place.pause_after(failure)
            if pause is None:
                raise
        else:
            pause = place.pause_after_end()
        time.sleep(pause)


class Place:
    """Where a follower is: behind the last event that arrived whole. No I/O."""

    def __init__(self, start: Call[LoggedEvent], retry_seconds: float) -> None:
        self._call = start
        self._retry_seconds = retry_seconds
        self._patience: Patience | None = None
        self._connected_at = 0.0
        self._parts: list[str] = []

    def connect(self) -> Call[LoggedEvent]:
        """What to ask for to go on; what had arrived of an event before is forgotten."""
        self._parts.clear()
        self._connected_at = time.monotonic()
        return self._call

    def take(self, line: str) -> LoggedEvent | None:
        """Take in a line of the stream; gives the event that it ends."""
        self._patience = None
        field, _, value = line.partition(":")
        if field == "data":
            self._parts.append(value.removeprefix(" "))
        if line:
            return None
        # An empty line ends an event; one without data only shows that the stream lives.
        text = "\n".join(self._parts)
        self._parts.clear()
        if not text:
            return None
        event = _event_of(text)
        self._call = self._call.with_query(after=event.cursor)
        return event

    def pause_after(self, failure: errors.ConnectionFailed | errors.ServerUnavailable) -> float | None:
        """Seconds until the next try; None when it has been tried for long enough."""
        if self._patience is None or time.monotonic() - self._connected_at > _LIVED_SECONDS:
            self._patience = Patience(self._retry_seconds)
        return self._patience.pause_after(failure)

    def pause_after_end(self) -> float:
        """Seconds until the next try after the server ended the stream, as one does that is told to stop."""
        ended = errors.ConnectionFailed("the server ended the stream of events again and again")
        pause = self.pause_after(ended)
        if pause is None:
            raise ended
        return pause


def page_after(call: Call[EventPage], page: EventPage) -> Call[EventPage] | None:
    """The page behind ``page``; None when that was the last for now."""
    return None if page.caught_up else call.with_query(after=page.cursor)


def size_of_pages(limit: int | None) -> int:
    """No more per page than are wanted at all."""
    return max(1, min(sys.maxsize if limit is None else limit, calls.base.LIMIT_MAX))


def _pages(transport: Transport, first: Call[EventPage]) -> Iterator[EventPage]:
    call: Call[EventPage] | None = first
    while call is not None:
        page = transport.send(call)
        yield page
        call = page_after(call, page)


def _event_of(text: str) -> LoggedEvent:
    try:
        return msgspec.json.decode(text, type=LoggedEvent)
    except msgspec.DecodeError as exc:
        raise errors.ServerError(f"the stream of events holds what is no event: {exc}") from exc
