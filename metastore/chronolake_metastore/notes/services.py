"""How far a round of clustering has looked at a table, for the next round."""

from __future__ import annotations

from chronolake_metastore.domain.context import Context
from chronolake_metastore.queries import tables
from chronolake_metastore.queries.services import SavedLook
from chronolake_metastore.store import services as stored
from chronolake_metastore.store.postgres.engine import Database


async def save_look(ctx: Context, database: Database, table_name: str, saved: SavedLook) -> None:
    """Remember a look; raises ``TableNotFound``."""
    async with database.committing() as connection:
        table = await tables.find(ctx, connection, table_name)
        await stored.save_look(connection, table.table_id, saved.policy, saved.look)
