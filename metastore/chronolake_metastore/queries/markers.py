"""The markers of an instant."""

from __future__ import annotations

from uuid import UUID

import msgspec

from chronolake_metastore.domain.context import Context
from chronolake_metastore.queries import cursors, instants, paging
from chronolake_metastore.queries.timeline import Answers, across_border
from chronolake_metastore.store import markers as stored
from chronolake_metastore.store.markers import FIRST, InstantRef
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.markers import Marker, MarkerExists, MarkerPage
from chronolake_model.times import Micros, format_time


class _Place(msgspec.Struct, tag="markers", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    requested_time: cursors.Time
    marker: Marker


@across_border
async def page(
    answers: Answers,
    ctx: Context,
    database: Database,
    table_name: str,
    requested_time: Micros,
    limit: int,
    cursor: str | None,
    *,
    unpublished: bool,
) -> MarkerPage:
    """A page of ``limit`` markers; raises ``TableNotFound``, ``InstantNotFound`` or ``InvalidCursor``."""
    async with database.reading() as connection:
        table, _ = await instants.find(answers, ctx, connection, table_name, requested_time)
        place = cursors.in_table(cursor, _Place, table.table_id)
        if place is not None:
            cursors.refuse_unless(place.requested_time == requested_time)
        after = FIRST if place is None else place.marker
        of = InstantRef(table.table_id, requested_time)

        async def fetch(last: Marker | None, number: int) -> list[Marker]:
            return await stored.page(connection, of, last or after, number, unpublished=unpublished)

        markers_of_page, is_cut = await paging.collect(
            fetch, paging.json_bytes, limit, database.page_bytes_max, paging.SMALL_ROWS_AT_ONCE
        )
    next_cursor = (
        cursors.encode(_Place(table.table_id, requested_time, markers_of_page[-1])) if is_cut else None
    )
    return MarkerPage(
        table.name, format_time(requested_time, table.definition.tick), markers_of_page, next_cursor
    )


@across_border
async def find(
    answers: Answers, ctx: Context, database: Database, table_name: str, requested_time: Micros, marker: Marker
) -> MarkerExists:
    """Whether an instant has a marker; raises ``TableNotFound`` or ``InstantNotFound``."""
    async with database.reading() as connection:
        table, _ = await instants.find(answers, ctx, connection, table_name, requested_time)
        created_at = await stored.find(connection, InstantRef(table.table_id, requested_time), marker)
    return MarkerExists(marker.name, created_at is not None, created_at)
