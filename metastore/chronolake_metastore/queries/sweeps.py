"""The instants that are due for a sweep, page by page."""

from __future__ import annotations

from uuid import UUID

import msgspec

from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.instants import format_if
from chronolake_metastore.queries import cursors, tables
from chronolake_metastore.store import sweeps as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.sweeps import FIRST
from chronolake_model.sweeps import UnsweptInstant, UnsweptPage
from chronolake_model.times import format_time


class _Place(msgspec.Struct, tag="unswept", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    grace_began_at: cursors.Time
    requested_time: cursors.Time


async def page(
    ctx: Context, database: Database, table_name: str, grace_seconds: int | None, limit: int, cursor: str | None
) -> UnsweptPage:
    """A page of the instants that are due.

    ``grace_seconds`` replaces both the grace period of the table and the leases of the instants. Raises
    ``TableNotFound`` or ``InvalidCursor``.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        place = cursors.in_table(cursor, _Place, table.table_id)
        after = FIRST if place is None else _after(place)
        grace = table.grace_seconds if grace_seconds is None else grace_seconds
        instants = await stored.page(
            connection, table.table_id, grace, after, limit, leases=grace_seconds is None
        )
    next_cursor = None
    if len(instants) == limit:
        last = instants[-1]
        next_cursor = cursors.encode(_Place(table.table_id, last.grace_began_at, last.requested_time))
    tick = table.definition.tick
    listed = [
        UnsweptInstant(
            format_time(instant.requested_time, tick),
            instant.action,
            instant.state,
            format_time(instant.unswept_since, tick),
            format_if(instant.direct_markers_of, tick),
        )
        for instant in instants
    ]
    return UnsweptPage(table.name, listed, next_cursor)


def _after(place: _Place) -> stored.Unswept:
    return msgspec.structs.replace(
        FIRST, grace_began_at=place.grace_began_at, requested_time=place.requested_time
    )
