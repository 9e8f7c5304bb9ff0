"""The readiness check of the server: it reaches the database, and the archive that it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from chronolake_metastore import errors
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import archived, event_log
from chronolake_metastore.store.postgres import diagnosis, engine, schema, sessions
from chronolake_metastore.store.postgres.engine import Database

ANSWER_SECONDS: Final = 2.0
"""The time limit of a readiness probe: an orchestrator gives up after a few seconds anyway."""


class Probe:
    """Answers within ``ANSWER_SECONDS`` whether this server can serve, however slow the database is.

    Concurrent callers share one check, so a frozen database costs one connection.
    """

    def __init__(
        self,
        database: Database,
        refuse: Callable[[], None] = lambda: None,
        *,
        tells_reasons: bool = True,
    ) -> None:
        """``refuse`` raises while this server takes no commands. Reasons may name tables and files."""
        self._tells_reasons = tells_reasons
        self._database = database
        self._refuse = refuse
        self._checking: asyncio.Task[None] | None = None
        self._reads_archive = False

    async def check(self) -> None:
        """As ``check``; also raises ``DatabaseUnavailable`` if it takes longer than ``ANSWER_SECONDS``.

        Raises ``MetastoreMoved`` if the server may not act for its metastore, and ``ArchiveNotSet`` or
        ``ArchiveUnavailable`` if it cannot tell which commands were executed before.
        """
        try:
            await self._check_in_time()
        except errors.TimelineError as exc:
            if self._tells_reasons:
                raise
            raise errors.of_code(exc.code, exc.code.title, {}) from exc

    async def _check_in_time(self) -> None:
        checking = self._checking
        if checking is None or checking.done():
            # The task is not bound to one caller: it continues for the next one after the first gave up.
            checking = self._checking = asyncio.create_task(self._check())
            checking.add_done_callback(_retrieve_exception)
        done, _ = await asyncio.wait({checking}, timeout=ANSWER_SECONDS)
        if not done and self._reads_archive:
            raise errors.ArchiveUnavailable(
                "the server still reads the keys of old answers from the archive of the log, and decides no "
                "command before"
            )
        if not done:
            raise errors.DatabaseUnavailable(f"the database did not answer within {ANSWER_SECONDS:g} seconds")
        # Meanwhile another caller may have begun the next check.
        checking.result()
        self._refuse()

    async def _check(self) -> None:
        await check(self._database)
        async with self._database.probing() as connection:
            border = await archived.border_of_answers(connection)
        if border is None:
            return
        log = archived.log_of(self._database)
        if log is None or not border.is_archived(log):
            self._reads_archive = True
            try:
                await archived.ask(self._database, border, lambda log: log.end, of_outcomes=True)
            finally:
                self._reads_archive = False

    def refusal(self) -> str | None:
        """Why the server takes no commands now; None if it does."""
        try:
            self._refuse()
        except (errors.MetastoreMoved, errors.Unavailable) as exc:
            return exc.detail
        return None

    async def close(self) -> None:
        """Cancel a running check."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking})


def _retrieve_exception(checking: asyncio.Task[None]) -> None:
    """Ignore the failure of a check without a caller: the next caller starts another check."""
    if not checking.cancelled():
        checking.exception()


async def check(database: Database, *, writes: bool = True) -> None:
    """Raise ``DatabaseUnavailable`` unless the server can serve: reads and writes, or only reads."""
    async with database.probing() as connection:
        if not await engine.keeps_session(connection):
            raise errors.DatabaseUnavailable(sessions.NOT_KEPT)
        revision = await engine.revision(connection)
        is_ahead = revision == schema.REVISION and await event_log.is_ahead_of_transactions(connection)
    if revision != schema.REVISION:
        raise errors.DatabaseUnavailable(diagnosis.of_revision(revision), found=revision, known=schema.REVISION)
    if writes and await engine.is_read_only(database):
        raise errors.DatabaseUnavailable(
            "PostgreSQL is read-only: it is a standby, or default_transaction_read_only is on; point the DSN "
            "to the primary, or switch the setting off"
        )
    if is_ahead:
        raise errors.DatabaseUnavailable(
            "the log has transaction ids above the current one of this PostgreSQL: the database was restored "
            "from a logical dump of another PostgreSQL, and new events would sort before old ones; restore a "
            "physical backup, or advance the transaction id (docs/backups.md)"
        )


async def check_at_start(settings: Settings, *, writes: bool = True) -> None:
    """As ``check``; also raises ``ConfigurationError``, which says what to do."""
    await diagnosis.refuse_unfit(settings, writes=writes)
    database = Database(settings)
    try:
        await database.refuse_lost_sessions()
        with diagnosis.missing_rights(settings.role, writes=writes):
            await check(database, writes=writes)
    finally:
        await database.close()


async def xmin_age(database: Database) -> int:
    """Transactions since the oldest one that is still open."""
    async with database.probing() as connection:
        return await engine.xmin_age(connection)
