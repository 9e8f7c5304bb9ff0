"""The leases of readers: taking, renewing and ending them (docs/decisions/0021)."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from chronolake_metastore import errors
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.instants import lease_end
from chronolake_metastore.domain.subjects import bounded_name
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import cleans, tables
from chronolake_metastore.queries.readers import document
from chronolake_metastore.queries.timeline import Answers, across_border
from chronolake_metastore.store import clocks, readers as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.readers import Reader
from chronolake_model import readers as wire
from chronolake_model.times import MICROS_PER_SECOND, Bound, Micros, ReadTime

EXPIRED_KEPT_US: Final = 3_600 * MICROS_PER_SECOND
"""Leases that ended this long ago are deleted when the next reader of any table takes a lease."""
EXPIRED_DELETED_MAX: Final = 100
"""The most leases that one reader deletes."""
LEASES_MAX: Final = 1_000
"""The leases of a table that a caller may have. A few more are taken by requests at the same time."""


@across_border
async def begin(
    answers: Answers,
    ctx: Context,
    database: Database,
    table_name: str,
    body: wire.BeginReading,
    as_of: ReadTime | None,
) -> wire.ReaderLease:
    """Take a lease.

    Raises ``TableNotFound``, ``TooManyLeases``, or ``HistoryCleaned`` when files of that time may be deleted.
    """
    async with _leasing(ctx, database, table_name) as (connection, table):
        if body.follows and as_of is not None and not isinstance(as_of, Bound):
            # Unlike a single time, a range from a time that only a savepoint holds cannot be read.
            cleans.in_range(table, as_of)
        now = await clocks.now(connection)
        await stored.delete_expired(connection, Micros(now.steady - EXPIRED_KEPT_US), EXPIRED_DELETED_MAX)
        caller = bounded_name(ctx.subject, ctx.address)
        if await stored.count(connection, table.table_id, caller, now.steady) >= LEASES_MAX:
            raise errors.TooManyLeases(table_name, LEASES_MAX)
        taken = Reader(
            lease_id=uuid.uuid4(),
            reader=body.reader,
            as_of=await tables.last_completion(answers, connection, table, as_of, None),
            follows=body.follows,
            lease_seconds=body.lease_seconds,
            expires_at=lease_end(now.steady, body.lease_seconds),
        )
        await stored.insert(connection, table.table_id, taken, caller)
    return document(table, taken, now)


async def renew(
    ctx: Context,
    database: Database,
    table_name: str,
    lease_id: UUID,
    body: wire.RenewReading,
    as_of: Micros | None,
) -> wire.ReaderLease:
    """Extend a lease from now, and move it forward to ``as_of``.

    Raises ``TableNotFound``, ``ReaderNotFound``, or ``InvalidParameter`` if the lease holds one time only.
    """
    async with _leasing(ctx, database, table_name) as (connection, table):
        now = await clocks.now(connection)
        renewed = await stored.renew(connection, table, lease_id, body.lease_seconds, as_of, now.steady)
        if renewed is not None and as_of is not None and not renewed.follows:
            raise errors.InvalidParameter(
                "the lease holds one completion time and cannot move: take it with follows", parameter="as_of"
            )
    if renewed is None:
        raise errors.ReaderNotFound(table_name, str(lease_id))
    return document(table, renewed, now)


async def end(ctx: Context, database: Database, table_name: str, lease_id: UUID) -> wire.EndedReading:
    """End a lease; raises ``TableNotFound``."""
    async with database.committing() as connection:
        table = await tables.find(ctx, connection, table_name)
        return wire.EndedReading(await stored.delete(connection, table.table_id, lease_id))


@asynccontextmanager
async def _leasing(
    ctx: Context, database: Database, table_name: str
) -> AsyncIterator[tuple[Connection, Table]]:
    """A transaction during which no clean of the table can be planned, and the table as it is then."""
    async with database.committing() as connection:
        table = await tables.find(ctx, connection, table_name)
        await stored.lock_shared(connection, table.table_id)
        # Read again: another transaction may have planned a clean while this one waited for the lock.
        yield connection, await tables.find(ctx, connection, table_name)
