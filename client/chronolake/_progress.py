"""What a write knows of itself, whether it waits by blocking or by awaiting; no I/O."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from chronolake import _calls, errors
from chronolake._calls import Call
from chronolake._transport import new_key
from chronolake_model.files import WriteStat
from chronolake_model.instants import CompleteInstant, Heartbeat, Instant, RollbackInstant
from chronolake_model.vocabulary import State

_REASON_CHARS_MAX = 4_096

BEST_EFFORT_SECONDS = 10.0
"""How long a rollback is tried for that is only a courtesy: the lease ends in any case."""


class Progress:
    """An instant as last heard of, the files it wrote, and the commands that are still without an answer."""

    def __init__(self, instant: Instant) -> None:
        self._lock = threading.Lock()
        self._instant = instant
        self._stats: list[WriteStat] = []
        self._unanswered: dict[Call[Any], str] = {}
        self.rolled_back_here = False

    @property
    def instant(self) -> Instant:
        """The instant as last heard of."""
        return self._instant

    @property
    def stats(self) -> tuple[WriteStat, ...]:
        """The write stats added so far."""
        with self._lock:
            return tuple(self._stats)

    def add(self, stat: WriteStat) -> None:
        """Remember a written file."""
        with self._lock:
            self._stats.append(stat)

    def learn(self, instant: Instant) -> Instant:
        """Take in an answer, unless a later one is known."""
        # The answer to a heartbeat may arrive after that to complete.
        with self._lock:
            if instant.version >= self._instant.version:
                self._instant = instant
        return instant

    def key_of(self, call: Call[Any]) -> str:
        """The idempotency key of a command, its own until the server has answered it.

        So the caller may repeat what ended in ``ConnectionFailed``: it is the same command, not a second.
        """
        with self._lock:
            return self._unanswered.setdefault(call, new_key())

    def answered(self, call: Call[Any]) -> None:
        """The server answered ``call``, yes or no: the next one like it is another command."""
        with self._lock:
            self._unanswered.pop(call, None)

    def is_settled(self) -> bool:
        """Whether there is nothing left to complete: it has completed, or the caller himself gave it up."""
        return self._instant.state is State.COMPLETED or self.rolled_back_here

    def is_gone(self, exc: BaseException, lost: errors.RequestRefused | None) -> bool:
        """Whether there is nothing left to roll back after ``exc``."""
        known = lost is not None or isinstance(exc, errors.InstantRolledBack)
        return known or not self._instant.state.is_pending

    def inflight_call(self) -> Call[Instant]:
        """Go to inflight."""
        return _calls.to_inflight(self._instant.table, self._instant.requested_time)

    def complete_call(
        self, write_stats: Iterable[WriteStat], extra_metadata: Mapping[str, str] | None
    ) -> Call[Instant]:
        """Publish what was added, and ``write_stats``."""
        body = CompleteInstant([*self.stats, *write_stats], dict(extra_metadata or {}))
        return _calls.complete_instant(self._instant.table, self._instant.requested_time, body)

    def rollback_call(self, reason: str) -> Call[Instant]:
        """Give the instant up, in its writer's name: so the writer's own lease does not stand in the way."""
        # A reason is often the text of an exception, and that may hold anything, even what JSON cannot.
        storable = reason.encode(errors="replace").decode().replace("\0", "?")
        body = RollbackInstant(self._instant.writer, storable[:_REASON_CHARS_MAX])
        return _calls.rollback_instant(self._instant.table, self._instant.requested_time, body)

    def heartbeat_call(self, lease_seconds: int | None) -> Call[Instant]:
        """Renew the lease."""
        body = Heartbeat(lease_seconds)
        return _calls.heartbeat(self._instant.table, self._instant.requested_time, body)

    def refresh_call(self) -> Call[Instant]:
        """Ask how it stands."""
        return _calls.instant(self._instant.table, self._instant.requested_time)

    def note_on(self, exc: BaseException, failure: errors.ChronolakeError) -> None:
        """Say with ``exc``, which caused it, that the rollback failed."""
        which = f"instant {self._instant.requested_time} of {self._instant.table}"
        exc.add_note(f"chronolake: {which} was not rolled back: {failure}")
