"""The current time, as an interval."""

from __future__ import annotations

from chronolake_metastore.store import clocks
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.instants import TimeInterval
from chronolake_model.times import Micros, Tick, format_time


async def interval(database: Database) -> TimeInterval:
    """The current time as an interval, as in TrueTime, in 20 digits.

    The earliest end is one millisecond before the wall clock, because a table truncates the times that it
    issues to its tick. After this call no table issues a time at or before that end.
    """
    async with database.autocommit() as connection:
        wall_clock, latest = await clocks.advance_wall_clock(connection)
    earliest = Micros(wall_clock - Tick.MILLISECOND.micros)
    return TimeInterval(format_time(earliest, Tick.MICROSECOND), format_time(latest, Tick.MICROSECOND))
