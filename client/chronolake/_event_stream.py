"""The position of a follower in the stream of events. No I/O.

Each event is delivered exactly once: after a lost connection the next connection starts after the cursor of the
last delivered event.
"""

from __future__ import annotations

import sys
import time

import msgspec

from chronolake import calls, errors
from chronolake._http import Endpoint, Retries
from chronolake.calls.base import Call
from chronolake_model import decoding
from chronolake_model.events import EventPage, LoggedEvent

_LIVED_SECONDS = 5.0
"""After a connection that lasted this long, retries are counted from 0 again."""


class StreamPosition:
    """The position of a follower: after the last event that it received completely."""

    def __init__(self, start: Call[LoggedEvent], endpoint: Endpoint) -> None:
        self._call = start
        self._endpoint = endpoint
        self._retries: Retries | None = None
        self._connected_at = 0.0
        self._parts: list[str] = []

    def connect(self) -> Call[LoggedEvent]:
        """The call that continues from here; an incomplete event is discarded."""
        self._parts.clear()
        self._connected_at = time.monotonic()
        return self._call

    def take(self, line: str) -> LoggedEvent | None:
        """Read a line of the stream; returns an event if the line completes one."""
        self._retries = None
        field, _, value = line.partition(":")
        if field == "data":
            self._parts.append(value.removeprefix(" "))
        if line:
            return None
        # An empty line ends an event; without data it is a keep-alive.
        text = "\n".join(self._parts)
        self._parts.clear()
        if not text:
            return None
        event = _event_of(text)
        self._call = self._call.with_query(after=event.cursor)
        return event

    def pause_after(self, failure: errors.ConnectionFailed | errors.ServerUnavailable) -> float | None:
        """Seconds until the next try; None when the retries are used up."""
        if self._retries is None or time.monotonic() - self._connected_at > _LIVED_SECONDS:
            self._retries = Retries(self._endpoint)
        return self._retries.pause_after(failure)

    def pause_after_end(self) -> float:
        """Seconds until the next try after the server ended the stream, as a stopping server does."""
        ended = errors.ConnectionFailed("the server ended the stream of events at every attempt")
        pause = self.pause_after(ended)
        if pause is None:
            raise ended
        return pause


def page_after(call: Call[EventPage], page: EventPage) -> Call[EventPage] | None:
    """The call for the page after ``page``; None at the present end of the log."""
    return None if page.caught_up else call.with_query(after=page.cursor)


def page_size(limit: int | None) -> int:
    """The number of entries to request for a page, at most ``limit``."""
    return max(1, min(sys.maxsize if limit is None else limit, calls.base.LIMIT_MAX))


def _event_of(text: str) -> LoggedEvent:
    try:
        return decoding.decode(text, LoggedEvent)
    except msgspec.DecodeError as exc:
        raise errors.ServerError(f"the stream of events has a message that is not an event: {exc}") from exc
