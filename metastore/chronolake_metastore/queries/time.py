"""Telling the time."""

from __future__ import annotations

from chronolake_metastore.store import clocks
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.instants import TimeInterval
from chronolake_model.times import Micros, Tick, format_time


async def interval(database: Database) -> TimeInterval:
    """The TrueTime interval, in 20 digits.

    Its earliest end is a tick before the wall clock, because a time issued within the running tick is that
    tick's beginning. From now on no table issues a time at or before it.
    """
    async with database.autocommit() as connection:
        latest_told, latest = await clocks.advance_wall_clock(connection)
    earliest = Micros(latest_told - Tick.MILLISECOND.micros)
    return TimeInterval(format_time(earliest, Tick.MICROSECOND), format_time(latest, Tick.MICROSECOND))
