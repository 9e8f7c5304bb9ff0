"""Whether a table could be adopted."""

from __future__ import annotations

from chronolake_metastore.domain import adoption, tables
from chronolake_metastore.domain.base_paths import NEIGHBOURS_MAX
from chronolake_metastore.domain.context import Context
from chronolake_metastore.store import base_paths, catalog, clocks, identity
from chronolake_metastore.store.postgres import transaction
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.adoption import AdoptionCheck
from chronolake_model.names import split_table_name


async def check(ctx: Context, database: Database, command: adoption.AdoptTable) -> AdoptionCheck:
    """Raise the error that adopting the table would raise now. Nothing is created or reserved."""
    key = tables.base_path_key(command.creation)
    name = command.definition.name
    async with database.reading() as connection:
        namespace = await catalog.get_namespace(connection, split_table_name(name)[0])
        existing = await catalog.get_table(connection, name)
        former = await transaction.read(connection, catalog.find_former_holders(name))
        neighbours = await transaction.read(connection, base_paths.find_neighbours(key, NEIGHBOURS_MAX + 1))
        dropped = [neighbour.table_id for neighbour in neighbours if neighbour.is_dropped]
        pending = adoption.pending_times(command)
        published_time = await transaction.read(connection, base_paths.find_published_time(dropped, pending))
        now = await clocks.now(connection)
        metastore = await identity.get(connection)
    created = tables.create(namespace, existing, command.creation, neighbours)
    adoption.history(command, created, former, now)
    adoption.refuse_published_time(command, published_time)
    return AdoptionCheck(str(metastore.metastore_id), [str(table_id) for table_id in created.took_over])
