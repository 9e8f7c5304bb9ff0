"""The sweeper: looks once more for files that were deleted; a task may finish one late (docs/decisions/0023).

Beside the deleter, one replica at a time. What it finds it deletes and reports again, and looks once more after
another grace period; an instant of which nothing was found is swept.
"""

from __future__ import annotations

from typing import Final

from chronolake_metastore import errors, telemetry
from chronolake_metastore.batching.sequencer import Sequencer
from chronolake_metastore.domain.sweeps import RecordSweep
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import leader_election, sweeps
from chronolake_metastore.store.advisory_locks import AdvisoryLock
from chronolake_metastore.store.engine import Database
from chronolake_metastore.store.sweeps import FIRST, Unswept
from chronolake_metastore.store.waiting import Place
from chronolake_metastore.workers import doomed
from chronolake_metastore.workers.doomed import Pages
from chronolake_metastore.workers.looking import again_and_again
from chronolake_metastore.workers.reaching import Reach, TableFiles
from chronolake_metastore.workers.submitting import submit
from chronolake_model import sweeps as wire
from chronolake_model.markers import DeletedFile
from chronolake_model.times import format_time

WRITER: Final = "chronolake-sweeper"
TABLES: Final = 20
"""Tables that one look takes on; the rest waits for the next."""
INSTANTS: Final = 100
"""Instants of a table that are swept together."""

_log = telemetry.logger(__name__)


class Sweeper:
    """The sweeper of one server process."""

    def __init__(self, database: Database, sequencer: Sequencer, metrics: Metrics, settings: Settings) -> None:
        self._database = database
        self._sequencer = sequencer
        self._metrics = metrics
        self._interval_seconds = settings.deleter_seconds
        self._reach = Reach(database, settings.storage_endpoints)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        await again_and_again("sweeper", self._look_until_done, self._interval_seconds)

    async def _look_until_done(self) -> None:
        while await self.look():
            pass

    async def look(self) -> int:
        """Sweep what is due, if it is this replica's turn; gives how many instants."""
        async with leader_election.leadership(self._database, AdvisoryLock.SWEEPER) as ours:
            if ours is None:
                return 0
            swept = 0
            for place, grace_seconds in await sweeps.places(ours, self._reach.paused(), TABLES):
                files = await self._reach.open(place)
                if files is None:
                    continue
                due = await sweeps.page(ours, place.table_id, grace_seconds, FIRST, INSTANTS, leases=True)
                swept += await self._sweep_all(place, files, due)
        return swept

    async def _sweep_all(self, place: Place, files: TableFiles, due: list[Unswept]) -> int:
        swept = 0
        for one in due:
            try:
                failure = await self._sweep(place, files, one)
            except errors.ConfigurationError as exc:
                failure = str(exc)
            except (errors.Conflict, errors.NotFound):
                # The table was dropped since we looked.
                continue
            if failure:
                self._reach.refused(place, failure)
                return swept
            swept += 1
        self._reach.end_pause(place)
        return swept

    async def _sweep(self, place: Place, files: TableFiles, due: Unswept) -> str:
        """Look for the files of one instant; gives why one that is there could not be deleted."""
        found: set[DeletedFile] = set()
        failure = ""
        deleting = await doomed.deleting_late(self._database, place, due)
        async for page in self._late(place, files, due):
            failures = await doomed.delete(files, deleting, page, self._metrics)
            gone = [one for one in page if one.path not in failures]
            if gone:
                await self._record(place, due, gone)
            found.update(gone)
            failure = failure or doomed.first_failure(failures)
        if due.direct_markers_of is not None:
            marking = format_time(due.direct_markers_of, place.tick)
            await doomed.forget_direct(files, place.table, marking, found)
        if found:
            self._metrics.files_deleted.inc(len(found))
            said = {"table": place.table, "instant": format_time(due.requested_time, place.tick)}
            _log.info("late files deleted", **said, deleted=len(found))
        elif not failure:
            await self._record(place, due, [])
        return failure

    async def _late(self, place: Place, files: TableFiles, due: Unswept) -> Pages:
        """Files that are there although they were deleted, or were marked in storage after that."""
        async for page in doomed.deleted_before(self._database, place, due.requested_time):
            there = await files.find(page)
            if there:
                yield there
        if due.direct_markers_of is not None:
            marking = format_time(due.direct_markers_of, place.tick)
            # Those too that are not there yet: their names are known from now on.
            async for page in doomed.marked_directly(files, marking):
                yield page

    async def _record(self, place: Place, due: Unswept, found: list[DeletedFile]) -> None:
        request = wire.RecordSweep(format_time(due.unswept_since, place.tick), found)
        command = RecordSweep(place.table, due.requested_time, request)
        await submit(self._sequencer, command, "sweeper", WRITER)
