"""The clock of a table: time, version and hash of its next event (docs/architecture.md#time)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec

from chronolake_model.times import Micros, Tick

CATALOG_ID: Final = UUID(int=0)
"""The stream of what belongs to no table: namespaces made and dropped."""


class Clock(msgspec.Struct, frozen=True):
    """The head of a table's log: the last time and version issued, and the last event's hash."""

    table_id: UUID
    tick: Tick
    last_time: Micros = Micros(0)
    version: int = 0
    head: bytes = b""


def next_time(clock: Clock, now: Micros) -> Micros:
    """The next time of a table: later than every earlier one, and not before the wall clock ``now``.

    A wall clock that stands still or steps back costs nothing but the truth of the wall: the table's
    clock goes on tick by tick until the wall has caught up.
    """
    tick = clock.tick.micros
    return Micros(max(clock.last_time + tick, now - now % tick))


COMMIT_WAIT_SHARE: Final = 4
"""Groups that may be under way at once for one table: each waits for all of them."""


def drift(clock: Clock, now: Micros) -> int:
    """How far the clock is ahead of the wall, in microseconds; 0 when it is not."""
    return max(0, clock.last_time - now)


def commit_wait(before: Clock, after: Clock, now: Micros, drift_max_us: int) -> int:
    """How long the answer to what moved the clock is held back, in microseconds.

    This slows a clock down that runs ahead because it issues more times than its tick allows. One that is ahead
    because the wall was set back is not made to wait for it: only as long as a few groups at the pace of its
    tick.
    """
    issued = after.last_time - max(before.last_time, now)
    return max(0, min(drift(after, now) - drift_max_us, COMMIT_WAIT_SHARE * issued))
