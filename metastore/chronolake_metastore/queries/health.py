"""The health of tables, page by page."""

from __future__ import annotations

from typing import Final

from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.readable import readable_by
from chronolake_metastore.queries import cursors, publication
from chronolake_metastore.store import catalog, clocks, publication as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.health import HealthPage, TableHealth
from chronolake_model.names import split_table_name

UNPUBLISHED_MAX: Final = 100
"""Tables that the metric names."""


async def page(
    ctx: Context, database: Database, limit: int, cursor: str | None, refusal: str | None
) -> HealthPage:
    """Tables in the order of their names; raises ``InvalidCursor``."""
    after = ("", "") if cursor is None else cursors.decode(cursor, tuple[str, str])
    async with database.reading() as connection:
        tables = await catalog.page_of_tables(connection, None, after, limit + 1, readable_by(ctx.rights))
        is_cut, tables = len(tables) > limit, tables[:limit]
        counts = await stored.counts(connection, [table.table_id for table in tables])
        now = await clocks.now(connection)
        healths = []
        for table in tables:
            progress = await stored.get(connection, table.table_id)
            document = publication.document(table, progress, now)
            healths.append(TableHealth(table.name, document, *counts[table.table_id]))
    next_cursor = cursors.encode(split_table_name(tables[-1].name)) if is_cut else None
    return HealthPage(refusal, healths, next_cursor)


async def unpublished(database: Database) -> list[tuple[str, str]]:
    """The first tables that are not published as they are, each with ``paused`` or ``failing``."""
    async with database.reading() as connection:
        return await stored.unpublished(connection, UNPUBLISHED_MAX)
