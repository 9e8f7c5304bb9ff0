"""Leases that have ended, and the turn of the replica that looks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from sqlalchemy import func, select, text

from chronolake_metastore.store import schema
from chronolake_metastore.store.engine import Database, Reader
from chronolake_model.times import Micros, Tick
from chronolake_model.vocabulary import Action, State

REAPER: Final = 1667788915
"""The advisory lock of the replica that reaps; next to that of the turns (take_turns.sql)."""
DELETER: Final = 1667788916
"""That of the replica which looks for files to delete."""
SWEEPER: Final = 1667788917
"""That of the replica which looks for late ones."""


class ExpiredLease(msgspec.Struct, frozen=True):
    """A pending instant whose lease has ended."""

    table: str
    tick: Tick
    requested_time: Micros
    action: Action
    state: State
    writer: str
    expired_at: Micros


@asynccontextmanager
async def turn(database: Database, lock: int = REAPER) -> AsyncIterator[Reader | None]:
    """A connection to look with, when it is this replica's turn: one replica at a time has a lock."""
    async with database.autocommit() as connection:
        taken = await connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": lock})
        if not taken.scalar_one():
            yield None
            return
        try:
            yield connection
        except BaseException:
            # Cut off, or cancelled in the middle of a statement: to unlock would fail, and that failure would
            # take the place of this one. A worker must not miss that it is to stop. The lock goes with the
            # connection.
            await connection.invalidate()
            raise
        await connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": lock})


async def expired(connection: Reader, limit: int) -> list[ExpiredLease]:
    """Instants of live tables whose lease has ended by the wall clock, the longest ago first."""
    instant, table = schema.instant.c, schema.lake_table.c
    # Once, as a subquery: a volatile function in the condition would rule the index out.
    now = select(func.moment(func.now_us())).scalar_subquery()
    query = (
        select(
            table.namespace + "." + table.name,
            table.definition["tick"].astext,
            func.micros(instant.requested_time),
            instant.action,
            instant.state,
            instant.writer,
            func.micros(instant.lease_expires_at),
        )
        .join_from(schema.instant, schema.lake_table, table.table_id == instant.table_id)
        .where(instant.lease_expires_at <= now, table.dropped_at.is_(None))
        .order_by(instant.lease_expires_at)
        .limit(limit)
    )
    return [
        ExpiredLease(
            name, Tick(tick), Micros(requested_time), Action(action), State(state), writer, Micros(expired_at)
        )
        for name, tick, requested_time, action, state, writer, expired_at in await connection.execute(query)
    ]
