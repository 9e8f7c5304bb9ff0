"""The watch of the archive of the log: how far the log is ahead of it, and how long old answers have waited.

It takes in the keys of new runs, so that commands need not wait for them when the answers leave the database.
Every server watches, because each has its own access to storage.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from chronolake_metastore import errors, object_storage, telemetry
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.store import archived
from chronolake_metastore.store.archived import ArchiveLag
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers.worker import Worker, run_periodically

NAME: Final = "archive-watch"
INTERVAL_SECONDS: Final = 30.0

_log = telemetry.logger(__name__)


class ArchiveWatch:
    """The watch of one server process. ``location`` is that of the archive, if it is not the recorded one."""

    def __init__(self, database: Database, metrics: Metrics, location: str | None) -> None:
        self._database = database
        self._metrics = metrics
        self._location = location
        self._failure = ""
        self._end = 0
        self._read_at = time.monotonic()

    async def run(self) -> None:
        """Watch at once, and then periodically, until cancelled."""
        await run_periodically(NAME, self.look, INTERVAL_SECONDS, self._metrics, at_once=True)

    async def look(self) -> None:
        """Read the ends of archive and log once."""
        async with self._database.probing() as connection:
            border = await archived.border_of_answers(connection)
        location = self._location or (border and border.location)
        if location:
            await asyncio.to_thread(self._read_end, location)
        async with self._database.probing() as connection:
            # While the archive cannot be read, it has at least what it had, and what has left the database.
            lag = await archived.lag(connection, max(self._end, border.transaction_id if border else 0))
        self._show(lag, is_known=bool(location))

    def _read_end(self, location: str) -> None:
        """Read the end of the archive, and the keys before it, if they can be read."""
        try:
            self._end = ArchiveStorage(object_storage.open_location(location)).existing_manifest().end
            log = archived.log_of(self._database)
            if log is not None and log.end < self._end:
                log.refresh(location)
        except errors.ConfigurationError as exc:
            self._metrics.archive_failures.inc()
            if self._failure != str(exc):
                _log.warning("the archive of the log cannot be read", location=location, reason=str(exc))
            self._failure = str(exc)
            return
        self._failure, self._read_at = "", time.monotonic()

    def _show(self, lag: ArchiveLag, *, is_known: bool) -> None:
        self._metrics.oldest_ended_era.set(lag.oldest_era_seconds)
        if is_known:
            self._metrics.archive_end.set(self._end)
            # What is written after an end that was read long ago may be in no archive at all.
            unread_seconds = time.monotonic() - self._read_at if self._failure else 0.0
            self._metrics.archive_lag.set(max(lag.seconds, unread_seconds))
            self._metrics.archive_lag_transactions.set(lag.transactions)


WORKER: Final = Worker(
    name=NAME,
    does="reads where the archive of the log ends, for the metrics",
    run=lambda resources: ArchiveWatch(resources.database, resources.metrics, resources.settings.archive).run(),
    acts=False,
)
