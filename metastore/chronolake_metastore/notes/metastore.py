"""Notes of the metastore as a whole: the last time that it returned, and its identity after a failover."""

from __future__ import annotations

from chronolake_metastore.domain.context import Context
from chronolake_metastore.store import clocks, identity
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.instants import TimeInterval
from chronolake_model.times import Micros, Tick, format_time


async def return_time(ctx: Context, database: Database) -> TimeInterval:
    """The current time as an interval, as in TrueTime, in 20 digits.

    The earliest end is one millisecond before the wall clock, because a table truncates the times that it
    issues to its tick. After this call no table issues a time at or before that end: the wall clock is stored
    as it was returned, because it may step back (docs/decisions/0002).
    """
    async with database.autocommit() as connection:
        wall_clock, latest = await clocks.advance_wall_clock(connection)
    earliest = Micros(wall_clock - Tick.MILLISECOND.micros)
    return TimeInterval(format_time(earliest, Tick.MICROSECOND), format_time(latest, Tick.MICROSECOND))


async def follow_promotion(ctx: Context, database: Database) -> None:
    """Record that the PostgreSQL of the identity was promoted, for servers that start later."""
    async with database.committing() as connection:
        await identity.follow_promotion(connection)
