"""Leader election: of the servers that share a database, one at a time does a periodic task."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.advisory_locks import AdvisoryLock
from chronolake_metastore.store.postgres.engine import Database, Reader

_TRY_LOCK: Final = "SELECT pg_try_advisory_lock(%(lock)s::integer, hashtext(%(worker)s::text))"
_UNLOCK: Final = "SELECT pg_advisory_unlock(%(lock)s::integer, hashtext(%(worker)s::text))"


@asynccontextmanager
async def leadership(database: Database, worker: str) -> AsyncIterator[Reader | None]:
    """A connection of the leader among the workers of a name; None when another server is the leader."""
    lock = {"lock": AdvisoryLock.WORKER.value, "worker": worker}
    async with database.autocommit() as connection:
        locked = await statements.execute(connection, _TRY_LOCK, lock)
        if not locked.scalar_one():
            yield None
            return
        try:
            yield connection
        except BaseException:
            # The connection is lost, or a statement was cancelled: unlocking would fail, and its error would
            # hide this one. A worker must not miss that it is to stop. The lock ends with the connection.
            await connection.invalidate()
            raise
        await statements.execute(connection, _UNLOCK, lock)
