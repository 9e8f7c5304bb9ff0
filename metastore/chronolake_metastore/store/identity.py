"""The identity of the metastore: which database may delete files of its tables.

A copied database has the identity of its original, and must not delete files.
"""

from __future__ import annotations

import enum
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.store.pending_plans import Place, place_of
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Rows, read

_GET: Final = statements.load("identity/get")
_FOLLOW_PROMOTION: Final = """
    INSERT INTO promotion (metastore_id)
    SELECT metastore_id FROM metastore ORDER BY position DESC LIMIT 1
    ON CONFLICT DO NOTHING
"""
_TABLES_TO_WATCH: Final = statements.load("identity/tables_to_watch")
# Only operators add rows, so there are few.
_ALL: Final = "SELECT metastore_id FROM metastore ORDER BY position"
_END_LEASES: Final = "UPDATE publication SET lease_expires_at = NULL WHERE lease_expires_at IS NOT NULL"
"""Publishers of the database that was copied are not publishers of this one."""
_RENEW: Final = "INSERT INTO metastore DEFAULT VALUES"
_TABLES: Final = statements.load("tables/live")


class Standing(enum.Enum):
    """Whether the identity is of the PostgreSQL that was asked."""

    OWN = "own"
    PROMOTED = "promoted"
    """It is of an earlier timeline of this PostgreSQL: of a primary, or of the source of a backup."""
    COPIED = "copied"


class LastEvent(msgspec.Struct, frozen=True):
    """The last event of the log, by which an earlier state of the database is recognised."""

    transaction_id: str
    position: int
    hash: bytes


class Identity(msgspec.Struct, frozen=True):
    """The present identity.

    ``last_event`` is that of the log; ``has_last_event`` is false if an event that was given is not in it.
    """

    metastore_id: UUID
    standing: Standing
    last_event: LastEvent | None = None
    has_last_event: bool = True

    @property
    def is_of_this_database(self) -> bool:
        """Whether this database may act under the identity."""
        return self.standing is Standing.OWN


def find(known: LastEvent | None = None) -> Query[Identity]:
    """The present identity; and whether the log has the event that is ``known``."""
    nothing = dict.fromkeys(LastEvent.__struct_fields__)
    named = nothing if known is None else msgspec.structs.asdict(known)
    return Query(_GET, named, _identity)


def _identity(rows: Rows) -> Identity:
    [[metastore_id, own, promoted, transaction_id, position, event_hash, has_last_event]] = rows
    standing = Standing.OWN if own else Standing.PROMOTED if promoted else Standing.COPIED
    last_event = None if position is None else LastEvent(transaction_id, position, event_hash)
    return Identity(metastore_id, standing, last_event, has_last_event)


async def get(connection: Connection, known: LastEvent | None = None) -> Identity:
    """As ``find``."""
    return await read(connection, find(known))


async def follow_promotion(connection: Connection) -> None:
    """Take the PostgreSQL as it is now, after its promotion, for that of the present identity."""
    await connection.execute(_FOLLOW_PROMOTION)


async def tables_to_watch(connection: Connection, each: int) -> list[Place]:
    """Live tables: up to ``each`` that changed last, and up to ``each`` others at random."""
    rows = await connection.execute(_TABLES_TO_WATCH, {"each": each})
    return [place_of(place) for place in rows]


async def all_identities(connection: Connection) -> list[UUID]:
    """All identities that this database had, the oldest first and the present one last."""
    return [metastore_id for (metastore_id,) in await connection.execute(_ALL)]


async def renew(connection: Connection) -> list[UUID]:
    """Begin a new identity, of the PostgreSQL as it is now; the same as ``known`` afterwards.

    The caller commits, and claims the tables in storage under the new identity.
    """
    await connection.execute(_RENEW)
    await connection.execute(_END_LEASES)
    return await all_identities(connection)


async def tables(connection: Connection, after: UUID, limit: int) -> list[Place]:
    """Live tables after ``after``, by table id: those whose storage is claimed."""
    rows = await connection.execute(_TABLES, {"after": after, "limit": limit})
    return [place_of(place) for place in rows]
