"""The identity of the metastore: only the database that claimed it may act for its tables."""

from __future__ import annotations

from uuid import UUID

from chronolake_metastore import errors
from chronolake_metastore.store import identity, recorded_events
from chronolake_metastore.store.identity import Identity, LastEvent
from chronolake_metastore.store.pending_plans import Place
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.deletable import LogHead


async def present(database: Database, known: LastEvent | None) -> Identity:
    """The present identity, and whether the log has an event that is ``known``."""
    async with database.reading() as connection:
        return await identity.get(connection, known)


async def tables_to_watch(database: Database, each: int) -> list[Place]:
    """As ``identity.tables_to_watch``."""
    async with database.reading() as connection:
        return await identity.tables_to_watch(connection, each)


async def refuse_earlier_state(database: Database, table_id: UUID, recorded: LogHead | None) -> None:
    """Raise ``MetastoreMoved`` when the table's log lacks the event that a claim records."""
    if recorded is None or (await recorded_events.log_state(database, table_id, recorded)).has_recorded:
        return
    async with database.reading() as connection:
        present = await identity.get(connection)
    reason = f"the claim of a table records its event {recorded.version}, which this database lacks"
    raise errors.MetastoreMoved(str(present.metastore_id), f"its database is an earlier state: {reason}")


async def refuse_foreign_database(connection: Connection) -> UUID:
    """The metastore's id; raises ``MetastoreMoved`` when the database was copied since it was claimed."""
    present = await identity.get(connection)
    if not present.is_of_this_database:
        raise errors.MetastoreMoved(str(present.metastore_id), "its database was copied, restored or promoted")
    return present.metastore_id
