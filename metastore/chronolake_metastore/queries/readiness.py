"""Whether this server can serve: the database answers, and has the schema that it knows."""

from __future__ import annotations

from chronolake_metastore import errors
from chronolake_metastore.store import engine, event_log, schema
from chronolake_metastore.store.engine import Database


async def check(database: Database) -> None:
    """Raise ``DatabaseUnavailable`` unless the server can serve."""
    async with database.reading() as connection:
        found = await engine.revision(connection)
        from_elsewhere = found == schema.REVISION and await event_log.is_ahead_of_transactions(connection)
    if found != schema.REVISION:
        raise errors.DatabaseUnavailable(
            f"the database has schema {found or 'none'}, this server knows {schema.REVISION}; "
            "run chronolake-metastore migrate, or the server of the same release",
            found=found,
            known=schema.REVISION,
        )
    if from_elsewhere:
        raise errors.DatabaseUnavailable(
            "the log has transactions that this PostgreSQL has yet to reach: it was restored from another one "
            "by a logical dump, and new events would come before old ones in the order of the log; restore a "
            "physical backup, or advance the transaction id (docs/operations.md, Backups)"
        )


async def xmin_age(database: Database) -> int:
    """Transactions since the oldest one that is still open."""
    async with database.reading() as connection:
        return await engine.xmin_age(connection)
