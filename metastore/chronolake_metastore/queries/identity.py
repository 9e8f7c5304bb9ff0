"""The identity of the metastore: only the database that claimed it may delete files of its tables."""

from __future__ import annotations

from uuid import UUID

from chronolake_metastore import errors
from chronolake_metastore.store import identity
from chronolake_metastore.store.postgres.engine import Reader


async def refuse_foreign_database(connection: Reader) -> UUID:
    """The metastore's id; raises ``MetastoreMoved`` when the database was copied since it was claimed."""
    present = await identity.get(connection)
    if not present.is_of_this_database:
        raise errors.MetastoreMoved(str(present.metastore_id))
    return present.metastore_id
