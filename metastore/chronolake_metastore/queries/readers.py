"""The leases of readers."""

from __future__ import annotations

from uuid import UUID

import msgspec

from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.events import Now
from chronolake_metastore.domain.instants import format_if
from chronolake_metastore.domain.steady_clock import by_wall
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import cursors, tables
from chronolake_metastore.store import clocks, readers as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.readers import FIRST, Reader
from chronolake_model import readers as wire


class _Place(msgspec.Struct, tag="readers", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    lease_id: UUID


async def page(
    ctx: Context, database: Database, table_name: str, limit: int, cursor: str | None
) -> wire.ReaderPage:
    """A page of the leases that have not ended; raises ``TableNotFound`` or ``InvalidCursor``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        place = cursors.in_table(cursor, _Place, table.table_id)
        after = FIRST if place is None else place.lease_id
        now = await clocks.now(connection)
        leases = await stored.page(connection, table.table_id, now.steady, after, limit)
    next_cursor = cursors.encode(_Place(table.table_id, leases[-1].lease_id)) if len(leases) == limit else None
    return wire.ReaderPage(table.name, [document(table, lease, now) for lease in leases], next_cursor)


def document(table: Table, reader: Reader, now: Now) -> wire.ReaderLease:
    """A lease as the REST API shows it."""
    return wire.ReaderLease(
        table=table.name,
        lease_id=str(reader.lease_id),
        reader=reader.reader,
        as_of=format_if(reader.as_of, table.definition.tick),
        follows=reader.follows,
        lease_seconds=reader.lease_seconds,
        expires_at=by_wall(reader.expires_at, now.wall_offset),
    )
