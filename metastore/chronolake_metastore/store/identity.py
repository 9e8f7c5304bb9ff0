"""The identity of the metastore: which database may delete files of its tables.

A copied database has the identity of its original, and must not delete files.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chronolake_metastore.store.pending_plans import Place, place_of
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.engine import Reader
from chronolake_metastore.store.postgres.transaction import Query, Rows, read

_GET: Final = (
    "SELECT metastore_id, database = this_database()"
    " AND place IS NOT DISTINCT FROM nullif(current_setting('chronolake.place', true), '')"
    " FROM metastore ORDER BY position DESC LIMIT 1"
)
# Only operators add rows, so there are few.
_ALL: Final = "SELECT metastore_id FROM metastore ORDER BY position"
_RENEW: Final = "INSERT INTO metastore DEFAULT VALUES"
_TABLES: Final = statements.load("tables/live")


class Identity(msgspec.Struct, frozen=True):
    """The present identity; ``is_of_this_database`` says whether it is of the PostgreSQL that was asked."""

    metastore_id: UUID
    is_of_this_database: bool


def find() -> Query[Identity]:
    """The present identity."""
    return Query(_GET, {}, _identity)


def _identity(rows: Rows) -> Identity:
    [[metastore_id, is_of_this_database]] = rows
    return Identity(metastore_id, is_of_this_database)


async def get(connection: Reader) -> Identity:
    """The present identity."""
    return await read(connection, find())


async def all_identities(connection: Reader) -> list[UUID]:
    """All identities that this database had, the oldest first and the present one last."""
    return [metastore_id for (metastore_id,) in await statements.execute(connection, _ALL)]


async def renew(connection: AsyncConnection) -> list[UUID]:
    """Begin a new identity, of the PostgreSQL as it is now; the same as ``known`` afterwards.

    The caller commits, and claims the tables in storage under the new identity.
    """
    await statements.execute(connection, _RENEW)
    return await all_identities(connection)


async def tables(connection: Reader, after: UUID, limit: int) -> list[Place]:
    """Live tables behind ``after``, by table id: those whose storage is claimed."""
    rows = await statements.execute(connection, _TABLES, {"after": after, "limit": limit})
    return [place_of(place) for place in rows]
