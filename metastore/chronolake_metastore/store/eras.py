"""Eras of the log: partitions, the oldest of which lose their rows to an archive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, TypeVar
from uuid import UUID

import msgspec
from psycopg import errors as postgres_errors

from chronolake_metastore import errors
from chronolake_metastore.domain.eras import Era
from chronolake_metastore.domain.events import EraArchived
from chronolake_metastore.store.postgres import engine, statements
from chronolake_metastore.store.postgres.advisory_locks import AdvisoryLock
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Statement, Transaction
from chronolake_model.times import Micros, to_datetime

_KEPT: Final = statements.load("eras/find_kept")
_BEGINNINGS: Final = statements.load("eras/find_beginnings")
_SIZES: Final = statements.load("eras/find_sizes")
_ENDS: Final = statements.load("eras/find_ends")
_IS_USED: Final = statements.load("eras/is_used")
_LOCK: Final = "SELECT pg_try_advisory_xact_lock(%(lock)s)"
_PAUSES: Final = (0.1, 0.2, 0.5, 1, 2, 5, 5)
"""Seconds between two tries to get the locks."""
_RECORDED: Final = """
    SELECT era, archived_before, location, runs FROM chronolake.archived_era ORDER BY era DESC LIMIT 1
"""
_SAVE_ARCHIVED: Final = """
    INSERT INTO archived_era (era, version, archived_before, location, runs)
    VALUES (%(era)s, %(version)s, %(archived_before)s, %(location)s, %(runs)s)
    ON CONFLICT ON CONSTRAINT archived_era_unique DO UPDATE
    SET
        version = excluded.version, archived_before = excluded.archived_before, location = excluded.location,
        runs = excluded.runs
"""


_VERIFIED: Final = (
    "the log is being verified, or another command changes its eras; try again when that has ended"
)
READ: Final = (
    "other sessions read the log all the time, so its partitions could not be changed; end long queries of "
    "auditors and dumps (pg_stat_activity), then try again"
)


_THINNED: Final = """
    SELECT e.era, a.archived_before
    FROM chronolake.era e
    JOIN chronolake.archived_era a ON a.era = e.era
    WHERE e.events_left_at IS NOT NULL
    ORDER BY e.era DESC
    LIMIT 1
"""


ResultT = TypeVar("ResultT")


class _Busy(Exception):
    """Another session keeps the eras as they are."""


class KeptEras(msgspec.Struct, frozen=True):
    """The eras whose answers PostgreSQL has, the oldest first, and the wall clock of the database."""

    eras: list[Era]
    now: Micros


class ThinnedEras(msgspec.Struct, frozen=True):
    """The last era whose events have left, and the transaction before which all of its events are."""

    last_era: int
    border: int


class RecordedArchive(msgspec.Struct, frozen=True):
    """The last era that is archived, the location of the archive, and the digests of its runs that were proved.

    All rows of the era are of transactions before ``archived_before``.
    """

    era: int
    archived_before: int
    location: str
    runs: list[str]


class StoredPart(msgspec.Struct, frozen=True):
    """A partition of the log: the eras ``first`` to ``last``, about how many rows it has, and its bytes.

    ``rows`` are those of answers, lists, write stats and deleted files.
    """

    first: int
    last: int
    began_at: datetime
    ended_at: datetime | None
    answers_left_at: datetime | None
    events_left_at: datetime | None
    events: int
    rows: int
    size_bytes: int


def save_archived(version: int, archived: EraArchived) -> Statement:
    """Save an archived era; ``version`` is that of the event of the catalog."""
    columns = msgspec.structs.asdict(archived)
    return _SAVE_ARCHIVED, {**columns, "version": version}


async def begin(database: Database, era: int) -> None:
    """Begin an era; raises as ``drop_answers``, and ``ConfigurationError`` if it began before."""
    await change(database, lambda tx: _call(tx, "SELECT begin_era(%(era)s)", era))


async def drop_answers(database: Database, era: int) -> None:
    """Drop the outcomes and refusals of an archived era.

    Raises ``DatabaseUnavailable``, and ``ConfigurationError`` while the log is verified, another session
    changes eras, or others go on reading the log for long, and to a login that is not the owner.
    """
    await change(database, lambda tx: _call(tx, "SELECT drop_answers(%(era)s)", era))


async def _call(tx: Transaction, statement: str, era: int) -> None:
    await tx.query(statement, {"era": era})


async def change(database: Database, run: Callable[[Transaction], Awaitable[ResultT]]) -> ResultT:
    """Change the partitions of the log in one transaction, which is tried again while others read the log.

    Raises as ``drop_answers``.
    """
    with engine.database_errors():
        connection = await database.connect()
    reason = READ
    try:
        for pause_seconds in _PAUSES:
            with engine.database_errors():
                try:
                    async with connection.transaction():
                        return await _lock_and_run(Transaction(connection), run)
                except (_Busy, postgres_errors.LockNotAvailable) as exc:
                    reason = _VERIFIED if isinstance(exc, _Busy) else READ
                    await asyncio.sleep(pause_seconds)
                except (postgres_errors.UniqueViolation, postgres_errors.RestrictViolation) as exc:
                    raise errors.ConfigurationError(
                        "another command has changed the eras of the log meanwhile: "
                        f"{exc.diag.message_primary}; run this one again"
                    ) from exc
                except postgres_errors.InsufficientPrivilege as exc:
                    raise errors.ConfigurationError(
                        f"this login may not change the eras of the log: {exc.diag.message_primary}; use the "
                        "login that migrates, which is the owner of the schema chronolake"
                    ) from exc
    finally:
        await connection.close()
    raise errors.ConfigurationError(reason)


async def _lock_and_run(tx: Transaction, run: Callable[[Transaction], Awaitable[ResultT]]) -> ResultT:
    [[is_free]] = await tx.query(_LOCK, {"lock": AdvisoryLock.ERAS.value})
    if not is_free:
        raise _Busy
    return await run(tx)


async def kept(tx: Transaction) -> KeptEras:
    """The eras whose answers PostgreSQL has."""
    rows = await tx.query(_KEPT, {})
    eras = [
        Era(number, Micros(began_at), None if ended_at is None else Micros(ended_at), ended_before)
        for number, began_at, ended_at, ended_before, _ in rows
    ]
    return KeptEras(eras, Micros(rows[-1][-1]))


async def stored_parts(tx: Transaction) -> list[StoredPart]:
    """The partitions of the log and their sizes, the oldest first."""
    return [
        StoredPart(*row[:2], *(time and to_datetime(Micros(time)) for time in row[2:6]), *row[6:])
        for row in await tx.query(_SIZES, {})
    ]


async def is_used(tx: Transaction, own_keys: str) -> bool:
    """Whether the present era has answers, except to commands whose keys begin with ``own_keys``."""
    [[is_used]] = await tx.query(_IS_USED, {"own_keys": own_keys})
    return bool(is_used)


async def ends(tx: Transaction, era: int) -> dict[UUID, int]:
    """By chain of answers, the number of its last outcome of an era."""
    return {chain_id: number for chain_id, number in await tx.query(_ENDS, {"era": era})}


async def beginnings(tx: Transaction) -> dict[UUID, int]:
    """By chain of answers, the number of the first outcome that PostgreSQL has."""
    return {chain_id: number for chain_id, number in await tx.query(_BEGINNINGS, {})}


async def thinned(tx: Transaction) -> ThinnedEras | None:
    """The eras whose events have left; None if none have."""
    rows = await tx.query(_THINNED, {})
    return ThinnedEras(*rows[0]) if rows else None


async def recorded(tx: Transaction) -> RecordedArchive | None:
    """The archive that has the rows which left, as it was recorded last; None if none did."""
    rows = await tx.query(_RECORDED, {})
    return RecordedArchive(*rows[0]) if rows else None
