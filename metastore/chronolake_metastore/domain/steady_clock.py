"""The steady clock of the database: it measures durations, and a jump of the wall clock does not change it.

It is the wall clock of the database minus an offset. Each server reads both again and again, and compares the
steady clock with its own monotonic clock. When the wall clock has jumped, it corrects the offset by the jump
(docs/decisions/0002-time.md).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from chronolake_model.times import MICROS_PER_SECOND, Micros, to_datetime

AHEAD_MAX_US: Final = 2 * MICROS_PER_SECOND
"""How far the clock may pass the time that was recorded last: as in the function ``steady_us``."""
TOLERANCE_US: Final = MICROS_PER_SECOND // 4
"""A smaller difference from the monotonic clock is no jump: clocks are slewed, too."""
WATCH_SECONDS_MAX: Final = 10.0
"""A server that was silent for longer, or has just started, does not know how much time has passed."""
RECORD_EVERY_US: Final = MICROS_PER_SECOND // 2
"""Several servers record the time no more often than this."""


class Reading(msgspec.Struct, frozen=True):
    """The clocks as the database shows them: the wall clock, and the row of the steady clock."""

    wall: Micros
    last_time: Micros
    wall_offset: int


class Sample(msgspec.Struct, frozen=True):
    """The steady clock at some moment between two times of a server's monotonic clock, in seconds."""

    steady: Micros
    sent: float
    received: float


class Record(msgspec.Struct, frozen=True):
    """The next row of the steady clock, and the jump of the wall clock that a server has seen; 0 if none."""

    last_time: Micros
    wall_offset: int
    jump_us: int


def observe(
    last: Sample | None, reading: Reading, sent: float, received: float
) -> tuple[Sample, Record | None]:
    """The steady clock in a reading, which was asked for at ``sent`` and received at ``received``.

    Also the row to record, if it changes. ``last`` is the last sample of the same server.
    """
    shown = reading.wall - reading.wall_offset
    is_watched = last is not None and sent - last.received <= WATCH_SECONDS_MAX
    if last is not None and is_watched:
        least = last.steady + round(max(sent - last.received, 0.0) * MICROS_PER_SECOND)
        most = last.steady + round((received - last.sent) * MICROS_PER_SECOND)
        # Another server may have recorded a later time since.
        least, most = max(least, reading.last_time), max(most, reading.last_time)
    else:
        least, most = reading.last_time, reading.last_time + AHEAD_MAX_US
    tolerance = TOLERANCE_US if is_watched else 0
    has_jumped = not least - tolerance <= shown <= most + tolerance
    steady = min(max(shown, least), most) if has_jumped else shown
    sample = Sample(Micros(steady), sent, received)
    if not has_jumped and steady - reading.last_time < RECORD_EVERY_US:
        return sample, None
    jump = shown - steady
    record = Record(
        Micros(max(steady, reading.last_time)), reading.wall_offset + jump, jump if is_watched else 0
    )
    return sample, record


def by_wall(steady_time: Micros, wall_offset: int) -> datetime:
    """A time of the steady clock as the wall clock shows it."""
    return to_datetime(Micros(steady_time + wall_offset))
