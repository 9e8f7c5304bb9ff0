"""The files of an instant that were reported deleted, page by page."""

from __future__ import annotations

from uuid import UUID

import msgspec

from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.deletions import marked_by
from chronolake_metastore.queries import cursors, markers, paging
from chronolake_metastore.store import deletions as stored
from chronolake_metastore.store.deletions import FIRST
from chronolake_metastore.store.markers import InstantRef
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.markers import DeletedFile, DeletedFilePage
from chronolake_model.times import Micros, format_time


class _Place(msgspec.Struct, tag="deletions", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    requested_time: cursors.Time
    file: DeletedFile


async def page(
    ctx: Context,
    database: Database,
    table_name: str,
    requested_time: Micros,
    limit: int,
    cursor: str | None,
    *,
    unpublished: bool,
) -> DeletedFilePage:
    """A page of ``limit`` files; raises ``TableNotFound``, ``InstantNotFound`` or ``InvalidCursor``."""
    async with database.reading() as connection:
        table, instant = await markers.find_instant(ctx, connection, table_name, requested_time)
        place = cursors.in_table(cursor, _Place, table.table_id)
        if place is not None:
            cursors.refuse_unless(place.requested_time == requested_time)
        after = FIRST if place is None else place.file
        of = InstantRef(table.table_id, marked_by(instant))

        async def fetch(last: DeletedFile | None, number: int) -> list[DeletedFile]:
            return await stored.page(connection, of, last or after, number, unpublished=unpublished)

        files, is_cut = await paging.collect(
            fetch, paging.json_bytes, limit, database.page_bytes_max, paging.SMALL_ROWS_AT_ONCE
        )
    next_cursor = cursors.encode(_Place(table.table_id, requested_time, files[-1])) if is_cut else None
    return DeletedFilePage(table.name, format_time(requested_time, table.definition.tick), files, next_cursor)
