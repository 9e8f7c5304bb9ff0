"""The clock of a table: time, version and hash of its next event (docs/architecture.md#time)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec

from chronolake_model.times import Micros, Tick

CATALOG_ID: Final = UUID(int=0)
"""The log of the catalog: namespaces that are created and dropped."""


class Now(msgspec.Struct, frozen=True):
    """The present, in microseconds, by both clocks of the database.

    Times of tables follow the ``wall`` clock, which is never earlier than a returned time. Leases and other
    durations end by the ``steady`` clock (docs/decisions/0071-steady-clock.md). ``wall_offset`` is how far the
    database's wall clock is ahead of it. ``transaction_id`` is that of the transaction that read them, if it
    appends to the log.
    """

    wall: Micros
    steady: Micros
    wall_offset: int = 0
    transaction_id: int = 0


class Clock(msgspec.Struct, frozen=True):
    """The head of a table's log: the last time and version issued, and the last event's hash."""

    table_id: UUID
    tick: Tick
    last_time: Micros = Micros(0)
    version: int = 0
    head: bytes = b""


def next_time(clock: Clock, now: Micros) -> Micros:
    """The next time of a table: later than every earlier one, and not before the wall clock ``now``.

    If the wall clock stands still or steps back, the table's clock continues tick by tick until the wall clock
    has caught up.
    """
    tick = clock.tick.micros
    return Micros(max(clock.last_time + tick, now - now % tick))


COMMIT_WAIT_SHARE: Final = 4
"""Groups that may run at the same time for one table: each waits for all of them."""


def drift(clock: Clock, now: Micros) -> int:
    """How far the clock is ahead of the wall, in microseconds; 0 when it is not."""
    return max(0, clock.last_time - now)


def commit_wait(before: Clock, after: Clock, now: Micros, drift_max_us: int) -> int:
    """How long the answer to a command that moved the clock is delayed, in microseconds.

    This slows a clock down that runs ahead because it issues more times than its tick allows. After the wall
    clock was set back, the delay is bounded by the ticks of a few groups.
    """
    issued = after.last_time - max(before.last_time, now)
    return max(0, min(drift(after, now) - drift_max_us, COMMIT_WAIT_SHARE * issued))
