"""Readers: the leases under which they read, which cleans respect. Rows beside the log, as markers are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import statements
from chronolake_metastore.store.transaction import Statement
from chronolake_model.times import Micros

_LOCK: Final = 1667788917
"""The advisory locks between readers and cleans; next to that of markers (markers.py)."""
_HOLD_BACK: Final = f"SELECT pg_advisory_xact_lock({_LOCK}, hashtext(%(table_id)s::uuid::text))"
_HOLD_OFF: Final = text(
    f"SELECT pg_advisory_xact_lock_shared({_LOCK}, hashtext(CAST(:table_id AS uuid)::text))"
)
_FORGET_EXPIRED: Final = (
    "DELETE FROM reader WHERE table_id = %(table_id)s::uuid AND expires_at <= moment(%(now)s)"
)
_INSERT: Final = text(
    "INSERT INTO reader (table_id, lease_id, reader, as_of, lease_seconds, expires_at) VALUES"
    " (:table_id, :lease_id, :reader, moment(CAST(:as_of AS bigint)), :lease_seconds, moment(:expires_at))"
)
_RENEW: Final = text(statements.load("renew_reader"))
_DELETE: Final = text("DELETE FROM reader WHERE table_id = :table_id AND lease_id = :lease_id")
_DELETE_EXPIRED: Final = text(statements.load("delete_expired_readers"))
_PAGE: Final = text(statements.load("readers"))

FIRST: Final = UUID(int=0)
"""Before all leases."""


class Reader(msgspec.Struct, frozen=True):
    """Who reads a table, and as of when; ``expires_at`` is by the wall clock."""

    lease_id: UUID
    reader: str
    as_of: Micros | None
    lease_seconds: int
    expires_at: Micros


def hold_back(table_id: UUID) -> Statement:
    """Wait for those who take and renew leases, and keep others back until the transaction ends."""
    return _HOLD_BACK, {"table_id": table_id}


def forget_expired(table_id: UUID, now: Micros) -> Statement:
    """Delete the leases of a table that have ended: what a clean has passed over is not renewed."""
    return _FORGET_EXPIRED, {"table_id": table_id, "now": now}


async def hold_off(connection: AsyncConnection, table_id: UUID) -> None:
    """Wait for a clean that is being planned, and keep others from it until the transaction ends."""
    await connection.execute(_HOLD_OFF, {"table_id": table_id})


async def insert(connection: AsyncConnection, table_id: UUID, reader: Reader) -> None:
    """Take a lease."""
    await connection.execute(_INSERT, {"table_id": table_id, **msgspec.structs.asdict(reader)})


async def renew(
    connection: AsyncConnection,
    table: Table,
    lease_id: UUID,
    lease_seconds: int | None,
    now: Micros,
) -> Reader | None:
    """Renew a lease from ``now``, if it is there, or ended and its time is served all the same."""
    named = {
        "table_id": table.table_id,
        "lease_id": lease_id,
        "lease_seconds": lease_seconds,
        "served_from": table.cleaned_before,
        "now": now,
    }
    row = (await connection.execute(_RENEW, named)).one_or_none()
    return None if row is None else _reader(row)


async def delete(connection: AsyncConnection, table_id: UUID, lease_id: UUID) -> bool:
    """Give a lease up; whether it was there."""
    return bool((await connection.execute(_DELETE, {"table_id": table_id, "lease_id": lease_id})).rowcount)


async def delete_expired(connection: AsyncConnection, until: Micros, limit: int) -> None:
    """Delete leases that have ended by a time, of any table."""
    await connection.execute(_DELETE_EXPIRED, {"until": until, "limit": limit})


async def page(
    connection: AsyncConnection, table_id: UUID, now: Micros, after: UUID, limit: int
) -> list[Reader]:
    """The first leases of a table behind ``after`` that have not ended."""
    rows = await connection.execute(_PAGE, {"table_id": table_id, "now": now, "after": after, "limit": limit})
    return [_reader(row) for row in rows]


def _reader(row: Sequence[Any]) -> Reader:
    lease_id, reader, as_of, lease_seconds, expires_at = row
    return Reader(lease_id, reader, None if as_of is None else Micros(as_of), lease_seconds, Micros(expires_at))
