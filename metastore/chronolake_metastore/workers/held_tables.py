"""The tables that a publisher could not publish: each has a backoff of its own, and one warning for each cause.

A table that stays unreachable, or that Hudi's readers cannot read, costs next to nothing, however often it
changes.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import telemetry
from chronolake_model.backoff import Backoff

UNREACHABLE: Final = Backoff(first_seconds=1.0, max_seconds=300.0)
"""The pauses of a table whose storage fails."""
MISSING: Final = Backoff(first_seconds=30.0, max_seconds=300.0)
"""The pauses of a table whose folder is missing. Writers make it before a first commit, which ends a pause."""
PAUSED: Final = Backoff(first_seconds=1.0, max_seconds=60.0)
"""The pauses of a table whose publication pauses, or is of another publisher."""
UNTIL_ALTERED: Final = Backoff(first_seconds=math.inf, max_seconds=math.inf)
"""The pauses of a table that is not published, or whose definition Hudi's readers cannot read.

Only a change of the table ends one."""
WARNING_SECONDS: Final = 60.0
"""Between two warnings. The tables that fail in between share one."""
NAMED_MAX: Final = 5
"""Tables that one warning names."""

_log = telemetry.logger(__name__)


class _Hold(msgspec.Struct):
    """When the table is tried again, and how it may be woken earlier."""

    due_at: float
    pause_seconds: float
    tries: int
    woken_at: float = -math.inf


class HeldTables:
    """The tables that are left alone for a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._holds: dict[UUID, _Hold] = {}
        self._due: list[tuple[float, UUID]] = []
        """A heap. An entry whose time is not that of its hold is of an earlier hold."""
        self._reasons: dict[UUID, str] = {}
        self._unlogged: dict[UUID, tuple[str, str]] = {}
        self._logged_at = -math.inf

    def hold(self, table_id: UUID, backoff: Backoff) -> None:
        """Leave a table alone, twice as long as the last time."""
        hold = self._holds.setdefault(table_id, _Hold(0.0, 0.0, 0))
        hold.pause_seconds = backoff.pause_seconds(hold.tries)
        hold.due_at = self._clock() + hold.pause_seconds
        hold.tries += 1
        if backoff is not UNTIL_ALTERED:
            heapq.heappush(self._due, (hold.due_at, table_id))

    def release(self, table_id: UUID) -> None:
        """A table works, or is gone: its next hold is short again."""
        self._holds.pop(table_id, None)
        self._reasons.pop(table_id, None)
        self._unlogged.pop(table_id, None)

    def holds(self, table_id: UUID) -> bool:
        """Whether the table is left alone now."""
        hold = self._holds.get(table_id)
        return hold is not None and self._clock() < hold.due_at

    def due(self) -> list[UUID]:
        """The tables whose hold has ended since the last call."""
        now, table_ids = self._clock(), []
        while self._due and self._due[0][0] <= now:
            due_at, table_id = heapq.heappop(self._due)
            hold = self._holds.get(table_id)
            if hold is not None and hold.due_at == due_at:
                table_ids.append(table_id)
        return table_ids

    def wake(self, table_id: UUID, *, is_altered: bool) -> None:
        """End the hold of a table that has changed in a way that may help.

        A change of its definition ends it in any case. Others come with each write: they end as many holds as
        the clock does.
        """
        hold = self._holds.get(table_id)
        if hold is None:
            return
        now = self._clock()
        may_help = hold.pause_seconds < math.inf and now - hold.woken_at >= hold.pause_seconds
        if is_altered or may_help:
            hold.woken_at = hold.due_at = now

    def warn(self, table_id: UUID, table: str, reason: str) -> bool:
        """Warn of a table, unless it was for the same reason before; gives whether the reason is new."""
        is_new = self._reasons.get(table_id) != reason
        self._reasons[table_id] = reason
        if is_new:
            self._unlogged[table_id] = (table, reason)
        return is_new

    def is_warned_of(self, table_id: UUID) -> bool:
        """Whether the table has failed, and is not only new."""
        return table_id in self._reasons

    def write_warnings(self) -> None:
        """Write the warnings as one line, at most one a minute."""
        if not self._unlogged or self._clock() - self._logged_at < WARNING_SECONDS:
            return
        tables = [table for table, _ in self._unlogged.values()]
        _, reason = next(iter(self._unlogged.values()))
        _log.warning(
            "tables cannot be published",
            tables=len(tables),
            first=tables[:NAMED_MAX],
            reason_of_the_first=reason,
            see="chronolake health",
        )
        self._unlogged.clear()
        self._logged_at = self._clock()
