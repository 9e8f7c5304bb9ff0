"""Readers: the leases under which they read, which cleans respect. Rows beside the log, as markers are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.advisory_locks import AdvisoryLock
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, no_rows
from chronolake_model.times import Micros

_LOCK: Final = "SELECT pg_advisory_xact_lock(%(lock)s::integer, hashtext(%(table_id)s::uuid::text))"
_LOCK_SHARED: Final = (
    "SELECT pg_advisory_xact_lock_shared(%(lock)s::integer, hashtext(%(table_id)s::uuid::text))"
)
_DELETE_EXPIRED_OF: Final = (
    "DELETE FROM reader WHERE table_id = %(table_id)s::uuid AND expires_at <= moment(%(now)s)"
)
_INSERT: Final = """
    INSERT INTO reader (table_id, lease_id, reader, as_of, follows, lease_seconds, expires_at, taken_by)
    VALUES (
        %(table_id)s, %(lease_id)s, %(reader)s, moment(%(as_of)s::bigint), %(follows)s, %(lease_seconds)s,
        moment(%(expires_at)s), %(taken_by)s
    )
"""
_COUNT: Final = """
    SELECT count(*)
    FROM reader
    WHERE table_id = %(table_id)s AND taken_by = %(taken_by)s AND expires_at > moment(%(now)s)
"""
_RENEW: Final = statements.load("readers/renew")
_DELETE: Final = "DELETE FROM reader WHERE table_id = %(table_id)s AND lease_id = %(lease_id)s"
_DELETE_EXPIRED: Final = statements.load("readers/delete_expired")
_PAGE: Final = statements.load("readers/page")

FIRST: Final = UUID(int=0)
"""Before all leases."""


class Reader(msgspec.Struct, frozen=True):
    """The lease of a reader of a table, and its time; ``expires_at`` is by the steady clock.

    A reader that ``follows`` the changes holds all times from ``as_of`` on.
    """

    lease_id: UUID
    reader: str
    as_of: Micros | None
    follows: bool
    lease_seconds: int
    expires_at: Micros


def lock(table_id: UUID) -> Query[None]:
    """Lock the leases of a table until the transaction ends: none is taken or renewed meanwhile."""
    parameters = {"lock": AdvisoryLock.READERS_OF_TABLE.value, "table_id": table_id}
    return Query(_LOCK, parameters, no_rows)


def delete_expired_of(table_id: UUID, now: Micros) -> Query[None]:
    """Delete the leases of a table that have ended: a lease that a clean has ignored must not be renewed."""
    return Query(_DELETE_EXPIRED_OF, {"table_id": table_id, "now": now}, no_rows)


async def lock_shared(connection: Connection, table_id: UUID) -> None:
    """Share the lock of a table's leases until the transaction ends: no clean is planned meanwhile."""
    await connection.execute(_LOCK_SHARED, {"lock": AdvisoryLock.READERS_OF_TABLE.value, "table_id": table_id})


async def count(connection: Connection, table_id: UUID, taken_by: str, now: Micros) -> int:
    """The leases of a table that a caller has taken and that have not ended."""
    named = {"table_id": table_id, "taken_by": taken_by, "now": now}
    return int((await connection.execute(_COUNT, named)).scalar_one())


async def insert(connection: Connection, table_id: UUID, reader: Reader, taken_by: str) -> None:
    """Take a lease for a caller."""
    named = {"table_id": table_id, **msgspec.structs.asdict(reader), "taken_by": taken_by}
    await connection.execute(_INSERT, named)


async def renew(
    connection: Connection,
    table: Table,
    lease_id: UUID,
    lease_seconds: int | None,
    as_of: Micros | None,
    now: Micros,
) -> Reader | None:
    """Renew a lease from ``now``, also an ended one if its time is still served.

    A lease that follows the changes moves forward to ``as_of``.
    """
    named = {
        "table_id": table.table_id,
        "lease_id": lease_id,
        "lease_seconds": lease_seconds,
        "as_of": as_of,
        "served_from": table.cleaned_before,
        "now": now,
    }
    row = (await connection.execute(_RENEW, named)).one_or_none()
    return None if row is None else _reader(row)


async def delete(connection: Connection, table_id: UUID, lease_id: UUID) -> bool:
    """End a lease; gives whether it existed."""
    rows = await connection.execute(_DELETE, {"table_id": table_id, "lease_id": lease_id})
    return bool(rows.changed)


async def delete_expired(connection: Connection, until: Micros, limit: int) -> None:
    """Delete leases that have ended by a time, of any table."""
    await connection.execute(_DELETE_EXPIRED, {"until": until, "limit": limit})


async def page(connection: Connection, table_id: UUID, now: Micros, after: UUID, limit: int) -> list[Reader]:
    """The first leases of a table after ``after`` that have not ended."""
    rows = await connection.execute(_PAGE, {"table_id": table_id, "now": now, "after": after, "limit": limit})
    return [_reader(row) for row in rows]


def _reader(row: Sequence[Any]) -> Reader:
    lease_id, reader, as_of, follows, lease_seconds, expires_at = row
    time = None if as_of is None else Micros(as_of)
    return Reader(lease_id, reader, time, follows, lease_seconds, Micros(expires_at))
