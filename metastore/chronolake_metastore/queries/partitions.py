"""The partitions of a table."""

from __future__ import annotations

from uuid import UUID

import msgspec

from chronolake_metastore.domain.context import Context
from chronolake_metastore.queries import cursors, paging, tables
from chronolake_metastore.queries.timeline import Answers, across_border
from chronolake_metastore.store import partitions as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.slices import Partition, Partitions
from chronolake_model.times import ReadTime, format_time


class _Place(msgspec.Struct, tag="partitions", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    as_of: cursors.Time
    partition_path: str


@across_border
async def page(
    answers: Answers,
    ctx: Context,
    database: Database,
    table_name: str,
    as_of: ReadTime | None,
    limit: int,
    cursor: str | None,
) -> Partitions:
    """A page of ``limit`` partition paths with their totals.

    Raises ``TableNotFound``, ``HistoryCleaned`` or ``InvalidCursor``.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        place = cursors.in_table(cursor, _Place, table.table_id)
        time = await tables.last_completion(
            answers, connection, table, as_of, None if place is None else place.as_of
        )
        after = None if place is None else place.partition_path
        if time is None:
            return Partitions(table.name, None, [], None)

        async def fetch(last: Partition | None, number: int) -> list[Partition]:
            behind = after if last is None else last.partition_path
            return await stored.page(connection, table.table_id, time, behind, number)

        totals, is_cut = await paging.collect(
            fetch, paging.json_bytes, limit, database.page_bytes_max, paging.SMALL_ROWS_AT_ONCE
        )
    next_cursor = cursors.encode(_Place(table.table_id, time, totals[-1].partition_path)) if is_cut else None
    return Partitions(table.name, format_time(time, table.definition.tick), totals, next_cursor)
