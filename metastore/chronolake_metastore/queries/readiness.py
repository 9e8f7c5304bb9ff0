"""Whether this server can serve: the database answers, and has the schema that it knows."""

from __future__ import annotations

import asyncio
from typing import Final

from chronolake_metastore import errors
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import event_log
from chronolake_metastore.store.postgres import diagnosis, engine, schema
from chronolake_metastore.store.postgres.engine import Database

ANSWER_SECONDS: Final = 2.0
"""An orchestrator asks, and gives up by itself after a few seconds."""


class Probe:
    """Answers soon whether this server can serve, however long the database takes.

    A caller that comes while a check is under way waits for that check: a frozen database costs one connection.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._checking: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """As ``check``; raises ``DatabaseUnavailable``, too, when that takes longer than ``ANSWER_SECONDS``."""
        if self._checking is None or self._checking.done():
            # Not in the scope of one caller: it goes on for the next one when the first has its answer.
            self._checking = asyncio.create_task(check(self._database))
            self._checking.add_done_callback(_retrieve_exception)
        done, _ = await asyncio.wait({self._checking}, timeout=ANSWER_SECONDS)
        if not done:
            raise errors.DatabaseUnavailable(f"the database did not answer within {ANSWER_SECONDS:g} seconds")
        self._checking.result()

    async def close(self) -> None:
        """Give up a check that is under way."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking})


def _retrieve_exception(checking: asyncio.Task[None]) -> None:
    """Ignore the failure of a check that has no caller any more: the next caller starts another check."""
    if not checking.cancelled():
        checking.exception()


async def check(database: Database, *, writes: bool = True) -> None:
    """Raise ``DatabaseUnavailable`` unless the server can serve, or read at least when it ``writes`` not."""
    async with database.probing() as connection:
        revision = await engine.revision(connection)
        from_elsewhere = revision == schema.REVISION and await event_log.is_ahead_of_transactions(connection)
        is_read_only = writes and await engine.is_read_only(connection)
    if revision != schema.REVISION:
        raise errors.DatabaseUnavailable(diagnosis.of_revision(revision), found=revision, known=schema.REVISION)
    if is_read_only:
        raise errors.DatabaseUnavailable(
            "PostgreSQL is read-only: it is a standby, or default_transaction_read_only is on; let the DSN "
            "lead to the primary, or switch the setting off"
        )
    if from_elsewhere:
        raise errors.DatabaseUnavailable(
            "the log has transactions that this PostgreSQL has yet to reach: it was restored from another one "
            "by a logical dump, and new events would come before old ones in the order of the log; restore a "
            "physical backup, or advance the transaction id (docs/operations.md, Backups)"
        )


async def check_at_start(settings: Settings, *, writes: bool = True) -> None:
    """As ``check``; raises ``ConfigurationError`` too, with what to do."""
    await diagnosis.refuse_unfit(settings)
    database = Database(settings)
    try:
        await check(database, writes=writes)
    finally:
        await database.close()


async def xmin_age(database: Database) -> int:
    """Transactions since the oldest one that is still open."""
    async with database.probing() as connection:
        return await engine.xmin_age(connection)
