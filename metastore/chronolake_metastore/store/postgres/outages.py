"""Outages of the database as an operator reads them: a line when one begins, and one when it is over.

An outage breaks many connections at once, and each of them fails when it is used next. The failures of
connections that were open before are part of the outage.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from chronolake_metastore import telemetry

QUIET_SECONDS: Final = 30.0
"""How long after a failure a connection that turns out to be lost still belongs to the same outage."""

_log = telemetry.logger(__name__)


class Outages:
    """The outages that one server process sees. ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_at: float | None = None
        self._last_failure_at = float("-inf")

    def lost(self, reason: str) -> None:
        """A connection that was open is lost."""
        is_late = self._clock() - self._last_failure_at <= QUIET_SECONDS
        self._fail(reason, is_new=not is_late)

    def unreachable(self, reason: str) -> None:
        """A new connection could not be made."""
        self._fail(reason, is_new=True)

    def connected(self) -> None:
        """A new connection was made."""
        if self._began_at is not None:
            _log.info("database available again", seconds=round(self._clock() - self._began_at, 3))
            self._began_at = None

    def _fail(self, reason: str, *, is_new: bool) -> None:
        self._last_failure_at = self._clock()
        if self._began_at is None and is_new:
            self._began_at = self._last_failure_at
            _log.warning("database unavailable; waiting requests are tried again", reason=reason)
