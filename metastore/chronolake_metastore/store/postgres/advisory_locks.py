"""The numbers of all advisory locks that Chronolake takes in its database, and the leader that one elects.

Other programs may use the same database, so the numbers are large and unusual. PostgreSQL separates locks with
one key from locks with two keys, but the numbers differ anyway.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import chronolake_migrations
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection

_FIRST: Final = 1667788914
_NAMES: Final = 1_024
_TRY_LOCK: Final = "SELECT pg_try_advisory_xact_lock(%(lock)s::integer, hashtext(%(worker)s::text))"
LEADER_IDLE_TIMEOUT_MS: Final = 10 * 60_000
"""How long the transaction of a leader may be idle: a server that froze is the leader no longer than this."""
_LEAD: Final = f"SET LOCAL idle_in_transaction_session_timeout = {LEADER_IDLE_TIMEOUT_MS}"


@enum.unique
class AdvisoryLock(enum.IntEnum):
    """Locks, each with the work that it protects; (n) is a lock with a second key."""

    MIGRATION = chronolake_migrations.ADVISORY_LOCK
    """One migration at a time."""
    TABLE_NAME = _FIRST
    """(``key_of_name``) Commands on the tables of these names."""
    MARKERS_OF_TABLE = _FIRST + 1
    """(``key_of_name``) Transactions that read the markers of a table before they create some."""
    READERS_OF_TABLE = _FIRST + 2
    """(hash of the table's id) Shared: a reader's lease is taken or renewed. Exclusive: a clean is planned."""
    WORKER = _FIRST + 3
    """(hash of a worker's name) The leader among the workers of this name."""
    ERAS = _FIRST + 4
    """Shared: the log is verified. Exclusive: an era begins, or rows of one leave."""
    THINNING = _FIRST + 5
    """One command at a time copies the events that are needed of ended eras."""


def key_of_name(name: str) -> int:
    """The second key of the lock on a name, whether there is such a table or not.

    Names share 1,024 keys, so that PostgreSQL has room for the locks of any group of commands.
    """
    return zlib.crc32(name.encode()) % _NAMES


@asynccontextmanager
async def leadership(database: Database, worker: str) -> AsyncIterator[Connection | None]:
    """A connection for the leader among the workers of a name; None when another server is the leader.

    The lock ends with its transaction, so with the connection too, also where a pooler does not keep sessions.
    If the transaction ends early, two leaders may work at a time; what they do must allow that.
    """
    lock = {"lock": AdvisoryLock.WORKER.value, "worker": worker}
    async with database.electing() as election:
        locked = await election.execute(_TRY_LOCK, lock)
        if not locked.scalar_one():
            yield None
            return
        # A statement keeps its snapshot until the next one, and then VACUUM would have to keep old rows.
        await election.execute(_LEAD)
        try:
            async with database.autocommit() as connection:
                yield connection
        except BaseException:
            # The connection may be lost: rolling back would fail, and its error would hide this one. A worker
            # must not miss that it is to stop.
            await election.close()
            raise
