"""The files that a plan or a sweep deletes: listed page by page, deleted and reported by a shared protocol.

The protocols are those of ``chronolake_storage.deletions``. The next executor of a plan lists from the
beginning: files that were deleted and reported are not listed again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence, Set
from typing import Final

from chronolake_metastore import errors, telemetry
from chronolake_metastore.domain.deletions import marked_by
from chronolake_metastore.domain.lists import ListName
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.store import deletions, event_lists, instants, markers
from chronolake_metastore.store.markers import FIRST, InstantRef
from chronolake_metastore.store.pending_plans import PendingPlan, Place
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.sweeps import Unswept
from chronolake_metastore.workers.table_storage import TableFiles
from chronolake_model.markers import DeletedFile, file_at, is_file_of
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import Action
from chronolake_storage import deletions as deletions_protocol, protocols
from chronolake_storage.deletions import Source
from chronolake_storage.guard import Deleting
from chronolake_storage.protocols import Protocol

PAGE: Final = 1_000
"""Files of one page: as many as S3 deletes in one request."""
PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of the names of one page."""

_log = telemetry.logger(__name__)

Page = Sequence[DeletedFile]
Pages = AsyncIterator[Page]


class NotOfTarget(Exception):
    """The plan of a rollback names a file that is not a data file of its target."""


class FileDeleter:
    """Executor of a protocol for one instant.

    ``pages`` lists each source; ``report`` reports files as deleted. ``marked_by`` is the instant whose direct
    markers are deleted.
    """

    def __init__(  # one keyword per part of the protocol
        self,
        table: str,
        files: TableFiles,
        deleting: Deleting,
        *,
        pages: Mapping[Source, Pages],
        report: Callable[[Page], Awaitable[None]],
        marked_by: str,
        metrics: Metrics,
    ) -> None:
        self._table = table
        self._files = files
        self._deleting = deleting
        self._pages = pages
        self._report = report
        self._marked_by = marked_by
        self._metrics = metrics

    async def run(self, protocol: Protocol) -> None:
        """Perform the steps to the end of the protocol.

        Raises ``ConfigurationError`` when the storage, or the table's claim, refuses; ``NotOfTarget``; and what
        the report raises.
        """
        await protocols.run(protocol, self)

    async def list_files(self, source: Source) -> Page | None:
        """As ``Executor.list_files``."""
        return await anext(self._pages[source], None)

    async def find_files(self, files: Page) -> Page:
        """As ``Executor.find_files``."""
        return await self._files.find(files)

    async def delete_files(self, files: Page) -> Mapping[str, str]:
        """As ``Executor.delete_files``; counts the files that could not be deleted."""
        try:
            failures = await self._files.delete(self._deleting, files)
        except errors.ConfigurationError:
            self._metrics.deletions_failed.inc(len(files))
            raise
        self._metrics.deletions_failed.inc(len(failures))
        return failures

    async def report_files(self, files: Page) -> None:
        """As ``Executor.report_files``."""
        await self._report(files)

    async def delete_markers(self, files: Iterable[DeletedFile]) -> None:
        """As ``Executor.delete_markers``."""
        await delete_markers(self._files, self._table, self._marked_by, set(files))


def sources_of(plan: PendingPlan) -> list[Source]:
    """Where the files of a plan are listed."""
    return deletions_protocol.sources_of(
        plan.action, is_planned=True, by_markers=plan.plan.by_markers, direct_markers=plan.plan.direct_markers
    )


def pages_of(database: Database, plan: PendingPlan, files: TableFiles) -> dict[Source, Pages]:
    """The files of a plan, in each source; a rollback's may raise ``NotOfTarget``."""
    is_clean = plan.action is Action.CLEAN
    return {
        Source.PLAN: _unreported(database, plan) if is_clean else _named(database, plan),
        Source.MARKERS: _marked(database, plan),
        Source.DIRECT_MARKERS: marked_directly(files, target_of(plan)),
    }


async def deleted_before(database: Database, place: Place, requested_time: Micros) -> Pages:
    """The files of an instant, or of its target, that were reported as deleted and are not published."""
    after = deletions.FIRST
    while True:
        async with database.reading() as connection:
            of = InstantRef(place.table_id, await _marked_by(connection, place, requested_time))
            page = await deletions.page(connection, of, after, PAGE, unpublished=True)
        if not page:
            return
        yield page
        after = page[-1]


async def deleting_for_sweep(database: Database, place: Place, due: Unswept) -> Deleting:
    """The instant and writer for which a sweep deletes files."""
    by = format_time(due.requested_time, place.tick)
    if due.action is Action.CLEAN:
        return Deleting(by, None)
    async with database.reading() as connection:
        return Deleting(by, format_time(await _marked_by(connection, place, due.requested_time), place.tick))


async def _marked_by(connection: Connection, place: Place, requested_time: Micros) -> Micros:
    instant = await instants.get(connection, place.table_id, requested_time)
    assert instant is not None, "instants stay"
    return marked_by(instant)


async def delete_markers(files: TableFiles, table: str, instant: str, reported: Set[DeletedFile]) -> None:
    """Delete the direct markers of ``reported`` files of an instant, as far as the storage permits.

    A marker that was created meanwhile stays: without it, nothing would name its file. Other files in the
    folder stay, and are logged.
    """
    failures: dict[str, str] = {}
    async for marked, others in files.markers(instant):
        deletable = [
            marker for marker in marked if DeletedFile(marker.partition_path, marker.file_name) in reported
        ]
        failures |= await files.delete_markers(instant, deletable)
        failures |= dict.fromkeys(others, "it is not a marker of the instant")
    if failures:
        path, reason = next(iter(failures.items()))
        _log.warning(
            "files stay in the folder of direct markers",
            table=table,
            instant=instant,
            files=len(failures),
            first=f"{path}: {reason}",
        )


async def _unreported(database: Database, pending: PendingPlan) -> Pages:
    """The files in the plan of a clean that are not reported as deleted yet."""
    async for named in _plan_files(database, pending):
        async with database.reading() as connection:
            of = InstantRef(pending.place.table_id, pending.marked_by)
            reported = await deletions.reported(connection, of, named)
        if page := sorted(named.difference(reported)):
            yield page


async def _plan_files(database: Database, pending: PendingPlan) -> AsyncIterator[set[DeletedFile]]:
    """The files that the plan names, page by page."""
    table_id, instant, after = pending.place.table_id, pending.requested_time, -1
    while True:
        async with database.reading() as connection:
            page, is_cut = await event_lists.page(
                connection, table_id, instant, ListName.PLAN_FILES, after, PAGE, PAGE_BYTES_MAX
            )
        if page:
            yield {file_at(entry.name) for _, entry in page}
        if not is_cut:
            return
        after = page[-1][0]


async def _marked(database: Database, pending: PendingPlan) -> Pages:
    """The files that the target of a rollback has marked."""
    of, after = InstantRef(pending.place.table_id, pending.marked_by), FIRST
    while True:
        async with database.reading() as connection:
            page = await markers.page(connection, of, after, PAGE)
        if not page:
            return
        # A file may be marked as two kinds.
        yield sorted({DeletedFile(marker.partition_path, marker.file_name) for marker in page})
        after = page[-1]


async def marked_directly(files: TableFiles, instant: str) -> Pages:
    """The files with direct markers of an instant, named by its requested time."""
    async for marked, _ in files.markers(instant):
        if marked:
            yield sorted({DeletedFile(marker.partition_path, marker.file_name) for marker in marked})


def deleting(pending: PendingPlan, writer: str) -> Deleting:
    """The instant for which ``writer`` deletes the files of a plan."""
    by = format_time(pending.requested_time, pending.place.tick)
    return Deleting(by, None if pending.action is Action.CLEAN else target_of(pending), writer)


def target_of(pending: PendingPlan) -> str:
    """The requested time of the instant whose markers count; of a rollback its target."""
    return format_time(pending.marked_by, pending.place.tick)


async def _named(database: Database, pending: PendingPlan) -> Pages:
    """The files in the plan of a rollback; raises ``NotOfTarget``.

    Reported files too: one may have been reported before the rollback was planned, and written again since.
    """
    # A client has sent these names, and the server may have credentials that the client has not.
    target = target_of(pending)
    # One wrong name stops the whole plan: so all names are checked before the first file is deleted.
    async for named in _plan_files(database, pending):
        for file in sorted(named):
            if not is_file_of(file, target):
                raise NotOfTarget(f"{file.path[:200]!r} is no data file of the instant {target}")
    async for named in _plan_files(database, pending):
        yield sorted(named)
