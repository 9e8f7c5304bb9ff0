"""The position of a follower in the stream of events. No I/O.

Each event is delivered exactly once, by its cursor: after a lost connection the next one starts behind the last
event that was delivered.
"""

from __future__ import annotations

import sys
import time

import msgspec

from chronolake import calls, errors
from chronolake._http import Retries
from chronolake.calls.base import Call
from chronolake_model.events import EventPage, LoggedEvent

_LIVED_SECONDS = 5.0
"""After a connection that lasted so long, retries are counted anew."""


class Position:
    """Where a follower is: behind the last event that arrived completely."""

    def __init__(self, start: Call[LoggedEvent], retry_seconds: float) -> None:
        self._call = start
        self._retry_seconds = retry_seconds
        self._retries: Retries | None = None
        self._connected_at = 0.0
        self._parts: list[str] = []

    def connect(self) -> Call[LoggedEvent]:
        """The call that goes on from here; an event that has arrived in part is forgotten."""
        self._parts.clear()
        self._connected_at = time.monotonic()
        return self._call

    def take(self, line: str) -> LoggedEvent | None:
        """Read a line of the stream; gives the event that it completes."""
        self._retries = None
        field, _, value = line.partition(":")
        if field == "data":
            self._parts.append(value.removeprefix(" "))
        if line:
            return None
        # An empty line ends an event; without data it is a sign of life.
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
            self._retries = Retries(self._retry_seconds)
        return self._retries.pause_after(failure)

    def pause_after_end(self) -> float:
        """Seconds until the next try after the server ended the stream, as it does when it is stopped."""
        ended = errors.ConnectionFailed("the server ended the stream of events at each attempt")
        pause = self.pause_after(ended)
        if pause is None:
            raise ended
        return pause


def page_after(call: Call[EventPage], page: EventPage) -> Call[EventPage] | None:
    """The call for the page behind ``page``; None when that was the last page for now."""
    return None if page.caught_up else call.with_query(after=page.cursor)


def page_size(limit: int | None) -> int:
    """The entries of one page: not more than ``limit``."""
    return max(1, min(sys.maxsize if limit is None else limit, calls.base.LIMIT_MAX))


def _event_of(text: str) -> LoggedEvent:
    try:
        return msgspec.json.decode(text, type=LoggedEvent)
    except msgspec.DecodeError as exc:
        raise errors.ServerError(f"the stream of events has a message that is not an event: {exc}") from exc
