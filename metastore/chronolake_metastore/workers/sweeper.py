"""The sweeper: deletes files again that a task finished after they had been deleted (docs/decisions/0020).

It runs on one replica at a time, beside the deleter. An instant with late files is due again after another
grace period; an instant without late files is swept.
"""

from __future__ import annotations

from typing import Final

from chronolake_metastore import errors, telemetry
from chronolake_metastore.domain.sweeps import RecordSweep
from chronolake_metastore.store import sweeps
from chronolake_metastore.store.pending_plans import Place
from chronolake_metastore.store.postgres import advisory_locks
from chronolake_metastore.store.sweeps import FIRST, Unswept
from chronolake_metastore.workers import files_to_delete
from chronolake_metastore.workers.files_to_delete import FileDeleter, Page
from chronolake_metastore.workers.table_storage import TableFiles, TableStorage
from chronolake_metastore.workers.worker import Resources, Worker, run_periodically, submit
from chronolake_model.times import format_time
from chronolake_storage import deletions
from chronolake_storage.deletions import DeletionResult, Source

NAME: Final = "sweeper"
WRITER: Final = "chronolake-sweeper"
TABLES: Final = 20
"""Maximum number of tables swept per run; others wait for the next run."""
INSTANTS: Final = 100
"""Maximum number of instants of a table swept per run."""

_log = telemetry.logger(__name__)


class Sweeper:
    """The sweeper of one server process."""

    def __init__(self, resources: Resources) -> None:
        self._database = resources.database
        self._service = resources.service
        self._metrics = resources.metrics
        self._interval_seconds = resources.settings.deleter_seconds
        self._storage = TableStorage(resources.database, resources.settings.storage_endpoints)

    async def run(self) -> None:
        """Look periodically, until cancelled."""
        await run_periodically(NAME, self._sweep_until_done, self._interval_seconds, self._metrics)

    async def _sweep_until_done(self) -> None:
        while await self.sweep_due():
            pass

    async def sweep_due(self) -> int:
        """Sweep the instants that are due, if this replica is the leader; gives how many."""
        async with advisory_locks.leadership(self._database, NAME) as ours:
            if ours is None:
                return 0
            swept = 0
            for place, grace_seconds in await sweeps.places(ours, self._storage.tables_in_backoff(), TABLES):
                files = await self._storage.open(place)
                if files is None:
                    continue
                due = await sweeps.page(ours, place.table_id, grace_seconds, FIRST, INSTANTS, leases=True)
                swept += await self._sweep_all(place, files, due)
        return swept

    async def _sweep_all(self, place: Place, files: TableFiles, due: list[Unswept]) -> int:
        swept = 0
        for instant in due:
            try:
                failure = await self._sweep(place, files, instant)
            except errors.ConfigurationError as exc:
                failure = str(exc)
            except (errors.Conflict, errors.NotFound):
                # The table was dropped since the look.
                continue
            if failure:
                self._storage.back_off_after(place, failure)
                return swept
            swept += 1
        self._storage.end_backoff(place.table_id)
        return swept

    async def _sweep(self, place: Place, files: TableFiles, due: Unswept) -> str:
        """Delete late files of one instant; gives why one of them could not be deleted."""
        marked_by = format_time(due.direct_markers_of or due.requested_time, place.tick)
        deleter = FileDeleter(
            place.table,
            files,
            await files_to_delete.deleting_for_sweep(self._database, place, due),
            pages={
                Source.DELETED: files_to_delete.deleted_before(self._database, place, due.requested_time),
                Source.DIRECT_MARKERS: files_to_delete.marked_directly(files, marked_by),
            },
            report=lambda late_files: self._record(place, due, late_files),
            marked_by=marked_by,
            metrics=self._metrics,
        )
        result = DeletionResult()
        await deleter.run(deletions.sweep(result, has_direct_markers=due.direct_markers_of is not None))
        if result.deleted:
            self._metrics.files_deleted.inc(len(result.deleted))
            _log.info(
                "late files deleted",
                table=place.table,
                instant=format_time(due.requested_time, place.tick),
                deleted=len(result.deleted),
            )
        return result.first_failure

    async def _record(self, place: Place, due: Unswept, late_files: Page) -> None:
        command = RecordSweep(place.table, due.requested_time, due.unswept_since, list(late_files))
        await submit(self._service, command, NAME, WRITER)


WORKER: Final = Worker(
    name=NAME,
    does="checks the names of deleted files again, and deletes those that reappeared",
    run=lambda resources: Sweeper(resources).run(),
    setting="deleter_seconds",
    has_leader=True,
)
