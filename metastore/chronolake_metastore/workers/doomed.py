"""What a plan has still to delete: page by page, one function for each kind of plan.

Whoever goes on after another asks again, from the beginning: what was deleted and reported is listed no more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence, Set
from typing import Final

from chronolake_metastore import errors, telemetry
from chronolake_metastore.domain.deletions import marked_by
from chronolake_metastore.domain.lists import ListName
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.store import deletions, event_lists, instants, markers
from chronolake_metastore.store.engine import Database, Reader
from chronolake_metastore.store.markers import FIRST, OfInstant
from chronolake_metastore.store.sweeps import Unswept
from chronolake_metastore.store.waiting import Place, WaitingPlan
from chronolake_metastore.workers.reaching import TableFiles
from chronolake_model.markers import DeletedFile, file_at, is_file_of
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import Action
from chronolake_storage.guard import Deleting

PAGE: Final = 1_000
"""Files that are deleted, and reported, at once: as many as S3 deletes in one request."""
PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of the names of files that are read at once."""

_log = telemetry.logger(__name__)

Page = Sequence[DeletedFile]
Pages = AsyncIterator[Page]


class NotOfTarget(Exception):
    """A rollback names what is no data file of the instant that it undoes."""


async def of(database: Database, waiting: WaitingPlan, files: TableFiles) -> Pages:
    """The files that the plan has still to delete; raises ``NotOfTarget`` or ``ConfigurationError``."""
    for kind in _kinds(database, waiting, files):
        async for page in kind:
            yield page


async def deleted_before(database: Database, place: Place, requested_time: Micros) -> Pages:
    """What was deleted of an instant, or by it of its target, and is not published: to be looked for again."""
    after = deletions.FIRST
    while True:
        async with database.reading() as connection:
            of = OfInstant(place.table_id, await _marked_by(connection, place, requested_time))
            page = await deletions.page(connection, of, after, PAGE, unpublished=True)
        if not page:
            return
        yield page
        after = page[-1]


async def deleting_late(database: Database, place: Place, due: Unswept) -> Deleting:
    """In whose name late files of an instant are deleted."""
    by = format_time(due.requested_time, place.tick)
    if due.action is Action.CLEAN:
        return Deleting(by, None)
    async with database.reading() as connection:
        return Deleting(by, format_time(await _marked_by(connection, place, due.requested_time), place.tick))


async def _marked_by(connection: Reader, place: Place, requested_time: Micros) -> Micros:
    instant = await instants.get(connection, place.table_id, requested_time)
    assert instant is not None, "instants stay"
    return marked_by(instant)


async def delete(files: TableFiles, deleting: Deleting, page: Page, metrics: Metrics) -> dict[str, str]:
    """Delete a page of files, and count those that stay: why they do, by path.

    Raises ``ConfigurationError`` when the storage, or the table's claim, refuses the whole page.
    """
    try:
        failures = await files.delete(deleting, page)
    except errors.ConfigurationError:
        metrics.deletions_failed.inc(len(page))
        raise
    metrics.deletions_failed.inc(len(failures))
    return failures


def first_failure(failures: Mapping[str, str]) -> str:
    """What is said of files that could not be deleted, if there are any."""
    return next((f"{path}: {why}" for path, why in failures.items()), "")


async def forget(waiting: WaitingPlan, files: TableFiles, reported: Set[DeletedFile]) -> None:
    """Delete the direct markers of a plan that was executed, of files that were reported."""
    if waiting.plan.by_markers and waiting.plan.direct_markers:
        await forget_direct(files, waiting.place.table, _target(waiting), reported)


async def forget_direct(files: TableFiles, table: str, instant: str, reported: Set[DeletedFile]) -> None:
    """Delete the direct markers of an instant, as far as the store lets us, of files that were reported.

    One that came meanwhile stays: it is all that is known of its file. What is no marker stays, and is logged.
    """
    stays: dict[str, str] = {}
    async for marked, others in files.markers(instant):
        gone = [one for one in marked if DeletedFile(one.partition_path, one.file_name) in reported]
        stays |= await files.delete_markers(instant, gone)
        stays |= dict.fromkeys(others, "it is no marker of the instant")
    if stays:
        _log.warning(
            "files stay in the folder of direct markers",
            table=table,
            instant=instant,
            files=len(stays),
            first=first_failure(stays),
        )


def _kinds(database: Database, waiting: WaitingPlan, files: TableFiles) -> list[Pages]:
    if waiting.action is Action.CLEAN:
        return [_planned(database, waiting)]
    if not waiting.plan.by_markers:
        return [_named(database, waiting)]
    marked = [_marked(database, waiting)]
    if waiting.plan.direct_markers:
        marked.append(marked_directly(files, _target(waiting)))
    return marked


async def _planned(database: Database, waiting: WaitingPlan) -> Pages:
    """What the server's plan of a clean names, and was not reported yet."""
    async for named in _plan_files(database, waiting):
        async with database.reading() as connection:
            of = OfInstant(waiting.place.table_id, waiting.marked_by)
            reported = await deletions.reported(connection, of, named)
        if page := sorted(named.difference(reported)):
            yield page


async def _plan_files(database: Database, waiting: WaitingPlan) -> AsyncIterator[set[DeletedFile]]:
    """The files that the plan names, page by page."""
    table_id, instant, after = waiting.place.table_id, waiting.requested_time, -1
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


async def _marked(database: Database, waiting: WaitingPlan) -> Pages:
    """What the target of a rollback has marked."""
    of, after = OfInstant(waiting.place.table_id, waiting.marked_by), FIRST
    while True:
        async with database.reading() as connection:
            page = await markers.page(connection, of, after, PAGE)
        if not page:
            return
        # A file may be marked as two kinds.
        yield sorted({DeletedFile(one.partition_path, one.file_name) for one in page})
        after = page[-1]


async def marked_directly(files: TableFiles, instant: str) -> Pages:
    """What an instant, named by its requested time, has marked in storage: the server saw nothing of it."""
    async for marked, _ in files.markers(instant):
        if marked:
            yield sorted({DeletedFile(one.partition_path, one.file_name) for one in marked})


def deleting(waiting: WaitingPlan, writer: str) -> Deleting:
    """In whose name ``writer`` deletes the files of a plan."""
    by = format_time(waiting.requested_time, waiting.place.tick)
    return Deleting(by, None if waiting.action is Action.CLEAN else _target(waiting), writer)


def _target(waiting: WaitingPlan) -> str:
    return format_time(waiting.marked_by, waiting.place.tick)


async def _named(database: Database, waiting: WaitingPlan) -> Pages:
    """What whoever asked for the rollback has named; raises ``NotOfTarget``.

    All of it: what was reported before may have been so before it was named, and have been written again.
    """
    # A client says these names, and the server has credentials that the client may not have.
    target = _target(waiting)
    # Nothing is deleted of a plan with one such name: so all of it is looked at first.
    async for named in _plan_files(database, waiting):
        for file in sorted(named):
            if not is_file_of(file, target):
                raise NotOfTarget(f"{file.path[:200]!r} is no data file of the instant {target}")
    async for named in _plan_files(database, waiting):
        yield sorted(named)
