"""The publisher: brings ``.hoodie`` of tables to the heads of their logs (docs/decisions/0041-publication.md).

Every replica may have one. The lease of a table decides which of them publishes it. New events wake it, so its
work depends on the tables that change, and not on the number of tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import time
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.batching.sequencer import Notifier
from chronolake_metastore.domain.context import Context
from chronolake_metastore.notes import publication as notes
from chronolake_metastore.notes.publication import Lease
from chronolake_metastore.queries import publication as queries
from chronolake_metastore.queries.publication import Target
from chronolake_metastore.service.service import Service
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.pending_plans import Place
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.publication import Changed
from chronolake_metastore.workers import held_tables
from chronolake_metastore.workers.held_tables import HeldTables
from chronolake_metastore.workers.publication_execution import Counts, PublicationExecution
from chronolake_metastore.workers.table_storage import TableFiles, TableStorage, check_location
from chronolake_metastore.workers.worker import context_of
from chronolake_model.backoff import Backoff
from chronolake_model.publication import (
    PUBLICATION_LEASE_SECONDS_MAX,
    TakePublicationLease,
)
from chronolake_storage import protocols, publications
from chronolake_storage.errors import FolderMissing

AT_ONCE: Final = 8
"""Tables that are published at a time."""
ARCHIVE_AT_ONCE: Final = 2
"""Tables that read the archive of the log at a time, beside the others. Each takes a thread meanwhile."""
LEASE_SECONDS: Final = 60
"""How long other publishers wait if this one dies. After it was fenced, it takes the longest lease."""
EVENTS_MAX: Final = 10_000
"""Maximum number of new events, of all tables, read per run."""
REST: Final = Backoff(first_seconds=0.1, max_seconds=1.0)
"""The pauses between two runs, so that one run serves commands in quick succession.

A run and a publication cost nearly the same for one event and for a hundred. The pauses are longer while runs
find only changes of tables that are held.
"""
SEARCH_SECONDS: Final = 60.0
"""How often all tables are searched for work that was left, by this server or another one."""
CHECK_SECONDS: Final = 600.0
"""How often ``.hoodie`` of a table that changes is compared with what is published."""
LOOK_INTERVALS: Final = 10
"""Number of intervals after which a hidden table that changes is checked again: it may be visible in storage.

One that does not change is checked by each search."""
RECORDED_A_SECOND: Final = 5
"""Missing folders that are recorded in a second."""
OPEN_MAX: Final = 256
"""Tables whose storage stays open."""

_NOT_HERE: Final = (errors.InstantsArchived, errors.ArchiveNotSet, errors.ArchiveUnavailable)
"""Rows that the next step needs have left the database, and cannot be read."""
_log = telemetry.logger(__name__)


class Opened(msgspec.Struct, frozen=True):
    """The storage of a table, and the place for which it was opened."""

    place: Place
    files: TableFiles


class ServerPublisher:
    """The publisher of one server. Of its ``name`` only one runs at a time."""

    def __init__(
        self, database: Database, notifier: Notifier, counts: Counts, settings: Settings, name: str
    ) -> None:
        self._database = database
        self._service = Service(database)
        self._notifier = notifier
        self._counts = counts
        self._settings = msgspec.structs.replace(settings, lanes=1)
        self._interval_seconds = settings.publisher_seconds
        self._storage = TableStorage(database, settings.storage_endpoints)
        self._held = HeldTables()
        self._opened: dict[UUID, Opened] = {}
        self._end = Cursor()
        self._searched_at = -SEARCH_SECONDS
        self._waiting: dict[UUID, None] = {}
        self._running: dict[UUID, asyncio.Task[None]] = {}
        self._altered: set[UUID] = set()
        self._unreachable: dict[UUID, tuple[Place, str]] = {}
        """Tables whose storage failed, and why."""
        self._missing: dict[UUID, Place] = {}
        """Tables whose folder is missing, and that may be new: see ``_record_missing``."""
        self._recorded_at = -math.inf
        self._checked: dict[UUID, float] = {}
        self._looked: dict[UUID, float] = {}
        """When a table was hidden, or its storage was looked at since."""
        self._fenced: set[UUID] = set()
        """Tables that another publisher took over while this one worked on them.

        This one may have written or removed ``hoodie.properties`` afterwards, so it puts that right."""
        self._unarchived: dict[UUID, float] = {}
        """Tables that are published, but whose checks or history could not read the archive, and when."""
        self._free = asyncio.Semaphore(AT_ONCE)
        self._archive_free = asyncio.Semaphore(ARCHIVE_AT_ONCE)
        database.asking = self._asking
        self.name = name

    @staticmethod
    def new_name() -> str:
        """A name that no other publisher has."""
        return f"chronolake-publisher@{socket.gethostname()[:200]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"

    async def run(self) -> None:
        """Publish changes until cancelled. While the database is unavailable, it is retried."""
        idle = 0
        async with asyncio.TaskGroup() as tasks:
            while True:
                waiting = asyncio.ensure_future(self._notifier.wait(self._interval_seconds))
                try:
                    await asyncio.sleep(0)
                    idle = 0 if await self._look(tasks) else idle + 1
                    await asyncio.sleep(REST.pause_seconds(idle))
                    await waiting
                except errors.Unavailable as exc:
                    if not isinstance(exc, errors.ConnectionLost):
                        _log.warning("publisher could not look", reason=exc.context.get("reason", exc.detail))
                    await asyncio.sleep(self._interval_seconds)
                except Exception:
                    # The edge of a worker: a failure must not end the server, and the next look may succeed.
                    _log.exception("publisher failed")
                    await asyncio.sleep(self._interval_seconds)
                finally:
                    waiting.cancel()

    async def _look(self, tasks: asyncio.TaskGroup) -> bool:
        """Find the tables with work, and publish those not under way. Gives whether any is published."""
        changed = await self._changed()
        self._waiting |= dict.fromkeys([*changed, *self._held.due()])
        for table_id in [*self._waiting]:
            if table_id in self._running:
                continue
            del self._waiting[table_id]
            if not self._held.holds(table_id):
                self._running[table_id] = tasks.create_task(self._publish(table_id))
        await self._record_missing()
        self._held.write_warnings()
        return bool(self._running)

    async def _record_missing(self) -> None:
        """Record some of the missing folders, a few a second, so that a thousand of them take little time.

        A new table has no folder until it has a file: that is no failure.
        """
        now = time.monotonic()
        if now - self._recorded_at < 1.0:
            return
        self._recorded_at = now
        for table_id, place in [*islice(self._missing.items(), RECORDED_A_SECOND)]:
            # Its folder may have been found while another one was recorded.
            if self._missing.pop(table_id, None) is None:
                continue
            failure = None if await queries.is_new(self._database, table_id) else _folder_missing(place)
            if failure is not None:
                self._warn(place, failure)
            with contextlib.suppress(errors.NotFound):
                await self._service.note(self._context(), notes.fail, place.table, self.name, failure)

    async def _changed(self) -> Iterable[UUID]:
        if time.monotonic() - self._searched_at >= SEARCH_SECONDS:
            # The end before the search: what happens during it is read as a new event.
            self._end = await queries.end_of_log(self._database)
            tables_with_work = await queries.find_work(self._database)
            self._searched_at = time.monotonic()
            return tables_with_work
        changed: dict[UUID, None] = {}
        while True:
            page = await queries.changed_tables(self._database, self._end, EVENTS_MAX)
            self._end = page.end
            changed |= dict.fromkeys(page.table_ids)
            self._wake(page)
            if page.events < EVENTS_MAX:
                return changed

    def _wake(self, page: Changed) -> None:
        for table_id in page.progressed:
            self._held.wake(table_id, is_altered=False)
        for table_id in page.altered:
            if table_id in self._running:
                # The run under way may fail because of the state before the change.
                self._altered.add(table_id)
            else:
                self._try_again(table_id)

    def _try_again(self, table_id: UUID) -> None:
        """Forget why the table failed: its definition has changed."""
        self._held.wake(table_id, is_altered=True)
        self._unreachable.pop(table_id, None)

    async def _publish(self, table_id: UUID) -> None:
        """Publish one table. If it fails, it is tried again after a backoff."""
        try:
            async with self._free:
                await self._publish_steps(table_id)
        except (errors.NotFound, errors.LeaseLive, errors.PublicationFenced) as exc:
            if isinstance(exc, errors.PublicationFenced):
                # Its page took longer than its lease: two servers must not fence each other again and again.
                self._fenced.add(table_id)
                self._waiting[table_id] = None
            # It was dropped or renamed, or another publisher has it. New events bring it back.
            self._opened.pop(table_id, None)
        except errors.Unavailable:
            self._waiting[table_id] = None
        except Exception as exc:
            # The edge of a worker, as above.
            self._held.hold(table_id, held_tables.UNREACHABLE)
            if self._held.warn(table_id, str(table_id), repr(exc)):
                _log.exception("publication failed", table_id=str(table_id))
        finally:
            del self._running[table_id]
            if table_id in self._altered:
                self._altered.discard(table_id)
                self._try_again(table_id)

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        """Let other tables be published while one waits for the archive."""
        if asyncio.current_task() not in self._running.values():
            yield
            return
        self._free.release()
        try:
            async with self._archive_free:
                yield
        finally:
            await self._free.acquire()

    async def _publish_steps(self, table_id: UUID) -> None:
        """Publish the steps of a table. If some are left, the table is held."""
        target = await self._due(table_id)
        if target is None:
            return
        place = target.place
        try:
            if target.needs_storage:
                await self._execute(place, await self._open(place))
            else:
                # It is recorded as paused.
                await self._take_lease(place)
        except _NOT_HERE as exc:
            await self._fail_without_archive(place, exc)
        except errors.NotPublished as exc:
            self._held.hold(table_id, held_tables.PAUSED if target.needs_storage else held_tables.UNTIL_ALTERED)
            self._held.warn(table_id, place.table, exc.detail)
        except errors.LeaseLive:
            if table_id not in self._fenced:
                raise
            self._held.hold(table_id, held_tables.PAUSED)
        except errors.ConfigurationError as exc:
            await self._fail(place, exc)
        else:
            self._held.release(table_id)

    async def _due(self, table_id: UUID) -> Target | None:
        """The table, if it is to be published now."""
        if not await self._is_reachable(table_id):
            return None
        target = await queries.target(self._database, table_id)
        if target is None:
            self._forget(table_id)
        elif not self._is_due(target):
            self._leave_alone(target)
            return None
        return target

    async def _is_reachable(self, table_id: UUID) -> bool:
        """False if the storage of a table fails for the same reason as before. The database is not asked."""
        if table_id not in self._unreachable:
            return True
        place, reason = self._unreachable[table_id]
        try:
            await self._storage.check(place)
        except errors.ConfigurationError as exc:
            if str(exc) == reason:
                self._hold(place, exc)
                self._counts.failures += self._held.is_warned_of(table_id)
                return False
        return True

    def _forget(self, table_id: UUID) -> None:
        """Keep nothing of a dropped table."""
        self._opened.pop(table_id, None)
        self._held.release(table_id)
        self._unreachable.pop(table_id, None)
        self._missing.pop(table_id, None)
        self._checked.pop(table_id, None)
        self._looked.pop(table_id, None)
        self._fenced.discard(table_id)
        self._unarchived.pop(table_id, None)

    def _is_due(self, target: Target) -> bool:
        """Whether there is work, or the storage is to be looked at: see ``_fenced`` and ``LOOK_INTERVALS``."""
        if target.has_work or not target.is_of_server:
            return target.has_work
        table_id = target.place.table_id
        looked_at = self._looked.get(table_id, float("-inf"))
        is_old = time.monotonic() - looked_at > LOOK_INTERVALS * self._interval_seconds
        return table_id in self._fenced or (target.is_hidden and is_old)

    def _leave_alone(self, target: Target) -> None:
        """There is no work."""
        self._held.release(target.place.table_id)
        if target.waits_for_change:
            self._held.hold(target.place.table_id, held_tables.UNTIL_ALTERED)

    def _hold(self, place: Place, failure: errors.ConfigurationError) -> None:
        """Try a table again after a pause, because its storage fails."""
        if not isinstance(failure.__cause__, FolderMissing):
            self._held.hold(place.table_id, held_tables.UNREACHABLE)
            return
        self._held.hold(place.table_id, held_tables.MISSING)
        if not self._held.is_warned_of(place.table_id):
            self._missing[place.table_id] = place

    async def _fail(self, place: Place, failure: errors.ConfigurationError) -> None:
        self._opened.pop(place.table_id, None)
        self._hold(place, failure)
        if place.table_id not in self._missing:
            is_missing = isinstance(failure.__cause__, FolderMissing)
            await self._record(place, _folder_missing(place) if is_missing else str(failure))

    async def _fail_without_archive(self, place: Place, failure: errors.TimelineError) -> None:
        """Hold a table whose rows are only in the archive, unless its check or its history failed."""
        if place.table_id not in self._unarchived:
            self._held.hold(place.table_id, held_tables.UNREACHABLE)
        await self._record(place, failure.detail)

    async def _record(self, place: Place, reason: str) -> None:
        """Record why a table could not be published; its lease ends."""
        self._warn(place, reason)
        await self._service.note(self._context(), notes.fail, place.table, self.name, reason)

    def _warn(self, place: Place, reason: str) -> None:
        self._counts.failures += 1
        self._held.warn(place.table_id, place.table, reason)

    async def _open(self, place: Place) -> TableFiles:
        opened = self._opened.get(place.table_id)
        try:
            if opened is not None and opened.place == place:
                await check_location(self._database, place)
                return opened.files
            files = await self._storage.opened(place)
        except errors.ConfigurationError as exc:
            self._unreachable[place.table_id] = (place, str(exc))
            raise
        self._unreachable.pop(place.table_id, None)
        self._missing.pop(place.table_id, None)
        if len(self._opened) >= OPEN_MAX:
            self._opened.pop(next(iter(self._opened)))
        self._opened[place.table_id] = Opened(place, files)
        return files

    async def _take_lease(self, place: Place) -> Lease:
        is_slow = place.table_id in self._fenced
        seconds = PUBLICATION_LEASE_SECONDS_MAX if is_slow else LEASE_SECONDS
        body = TakePublicationLease(self.name, seconds)
        return await self._service.note(self._context(), notes.take_lease, place.table, body)

    def _context(self) -> Context:
        return context_of("publisher", self.name)

    async def _execute(self, place: Place, files: TableFiles) -> None:
        lease = notes.document_of_lease(await self._take_lease(place))
        execution = PublicationExecution(self._database, self._settings, self._counts, place, files)
        checked_at = self._checked.get(place.table_id, 0.0)
        is_check_due = time.monotonic() - checked_at > CHECK_SECONDS or place.table_id in self._fenced
        if self._is_unarchived(place.table_id):
            is_check_due = False
            lease = msgspec.structs.replace(lease, is_new=False, has_history=False, history_is_due=False)
        try:
            await protocols.run(publications.publish(lease, is_check_due=is_check_due), execution)
        except _NOT_HERE:
            if execution.is_published:
                self._unarchived[place.table_id] = time.monotonic()
            raise
        except errors.NotPublished:
            await execution.report_pause(lease)
            raise
        if place.table_id not in self._unarchived:
            self._fenced.discard(place.table_id)
        if execution.is_history_left:
            self._waiting[place.table_id] = None
        if lease.hides:
            self._looked[place.table_id] = time.monotonic()
        if execution.is_checked:
            self._checked[place.table_id] = time.monotonic()

    def _is_unarchived(self, table_id: UUID) -> bool:
        """Whether the checks and the history of a table could not read the archive a short while ago."""
        failed_at = self._unarchived.pop(table_id, -math.inf)
        if time.monotonic() - failed_at >= held_tables.UNREACHABLE.max_seconds:
            return False
        self._unarchived[table_id] = failed_at
        return True


def _folder_missing(place: Place) -> str:
    return f"the folder {place.base_path} does not exist yet, or this server does not see it"
