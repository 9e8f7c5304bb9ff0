"""Whether this server can serve: the database answers, and has the schema that it knows."""

from __future__ import annotations

from chronolake_metastore import errors
from chronolake_metastore.store import engine, schema
from chronolake_metastore.store.engine import Database


async def check(database: Database) -> None:
    """Raise ``DatabaseUnavailable`` unless the server can serve."""
    async with database.reading() as connection:
        found = await engine.revision(connection)
    if found != schema.REVISION:
        raise errors.DatabaseUnavailable(
            f"the database has schema {found or 'none'}, this server knows {schema.REVISION}; "
            "run chronolake-metastore migrate, or the server of the same release",
            found=found,
            known=schema.REVISION,
        )


async def xmin_age(database: Database) -> int:
    """Transactions since the oldest one that is still open."""
    async with database.reading() as connection:
        return await engine.xmin_age(connection)
