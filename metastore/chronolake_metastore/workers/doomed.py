"""What a plan has still to delete: page by page, one function for each kind of plan.

Whoever goes on after another asks again, from the beginning: what was deleted and reported is listed no more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from typing import Final

from chronolake_metastore.domain.deletions import marked_by
from chronolake_metastore.object_storage import TableFiles
from chronolake_metastore.store import deletions, instants, markers
from chronolake_metastore.store.engine import Database
from chronolake_metastore.store.markers import FIRST, OfInstant
from chronolake_metastore.store.waiting import Place, WaitingPlan
from chronolake_model.file_names import parse_file_name
from chronolake_model.markers import DeletedFile, file_at, is_file_of, parse_marker
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import Action

PAGE: Final = 1_000
"""Files that are deleted, and reported, at once: as many as S3 deletes in one request."""
DIRECT_FOLDER: Final = ".hoodie/.temp"
"""Where direct markers are, below a table's base path: Hudi's own folder; in it one for each instant."""

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
            instant = await instants.get(connection, place.table_id, requested_time)
            assert instant is not None, "instants stay"
            of = OfInstant(place.table_id, marked_by(instant))
            page = await deletions.page(connection, of, after, PAGE, unpublished=True)
        if not page:
            return
        yield page
        after = page[-1]


def first_failure(failures: Mapping[str, str]) -> str:
    """What is said of files that could not be deleted, if there are any."""
    return next((f"{path}: {why}" for path, why in failures.items()), "")


async def forget(waiting: WaitingPlan, files: TableFiles, reported: Set[DeletedFile]) -> None:
    """Delete the direct markers of a plan that was executed, of files that were reported."""
    if waiting.plan.by_markers and waiting.plan.direct_markers:
        await forget_direct(files, _marked_by_target(waiting), reported)


async def forget_direct(files: TableFiles, instant: str, reported: Set[DeletedFile]) -> None:
    """Delete the direct markers of an instant, as far as the store lets us, of files that were reported.

    One that came meanwhile stays: it is all that is known of its file. What is no marker goes too.
    """
    folder = f"{DIRECT_FOLDER}/{instant}"
    async for page in files.listing(folder):
        marked = ((path, _marked_by(path.removeprefix(f"{folder}/"), instant)) for path in page)
        await files.delete_all([path for path, file in marked if file is None or file in reported])


def _kinds(database: Database, waiting: WaitingPlan, files: TableFiles) -> list[Pages]:
    if waiting.action is Action.CLEAN:
        return [_planned(database, waiting)]
    if not waiting.plan.by_markers:
        return [_named(waiting)]
    marked = [_marked(database, waiting)]
    if waiting.plan.direct_markers:
        marked.append(marked_directly(files, _marked_by_target(waiting)))
    return marked


async def _planned(database: Database, waiting: WaitingPlan) -> Pages:
    """What the server's plan of a clean names, and was not reported yet."""
    named = set(map(file_at, waiting.plan.files_to_delete))
    async with database.reading() as connection:
        of = OfInstant(waiting.place.table_id, waiting.marked_by)
        # Nothing else is ever reported of such a clean.
        reported = await deletions.page(connection, of, deletions.FIRST, len(named))
    for page in _in_pages(sorted(named.difference(reported))):
        yield page


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
    folder = f"{DIRECT_FOLDER}/{instant}"
    async for page in files.listing(folder):
        marked = {one for path in page if (one := _marked_by(path.removeprefix(f"{folder}/"), instant))}
        if marked:
            yield sorted(marked)


def _marked_by_target(waiting: WaitingPlan) -> str:
    return format_time(waiting.marked_by, waiting.place.tick)


def _marked_by(name: str, requested_time: str) -> DeletedFile | None:
    """The data file that a direct marker names; none of what is no marker of the instant."""
    try:
        marker = parse_marker(name)
    except ValueError:
        return None
    if parse_file_name(marker.file_name).requested_time != requested_time:
        return None
    return DeletedFile(marker.partition_path, marker.file_name)


async def _named(waiting: WaitingPlan) -> Pages:
    """What whoever asked for the rollback has named; raises ``NotOfTarget``.

    All of it: what was reported before may have been so before it was named, and have been written again.
    """
    # A client says these names, and the server has credentials that the client may not have.
    target = _marked_by_target(waiting)
    named = sorted(set(map(file_at, waiting.plan.files_to_delete)))
    for file in named:
        if not is_file_of(file, target):
            raise NotOfTarget(f"{file.path[:200]!r} is no data file of the instant {target}")
    for page in _in_pages(named):
        yield page


def _in_pages(files: Page) -> Iterator[Page]:
    return (files[at : at + PAGE] for at in range(0, len(files), PAGE))
