"""Access of a worker to the storage of tables, with a backoff for tables whose storage fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID

from chronolake_metastore import errors, telemetry
from chronolake_metastore.object_storage import configuration_errors, refuse_endpoint
from chronolake_metastore.queries import deletable, publication, timeline
from chronolake_metastore.service.service import Service
from chronolake_metastore.store import base_paths, catalog, identity, locations, recorded_events
from chronolake_metastore.store.pending_plans import Place
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.workers.threads import in_thread
from chronolake_metastore.workers.worker import context_of
from chronolake_model.backoff import Backoff
from chronolake_model.deletable import LogHead, RefusedDeletion
from chronolake_model.markers import DeletedFile, Marker, file_at
from chronolake_model.names import split_table_name
from chronolake_model.publication import (
    HistoryFile,
    HistoryRange,
    PublicationStep,
    PublishedFile,
    PublishedHistory,
)
from chronolake_model.storage import options_of
from chronolake_model.tables import DroppedTable
from chronolake_model.times import parse_time
from chronolake_storage import claims, opening, published_history, publishing
from chronolake_storage.claims import Claim, LogState, Owner
from chronolake_storage.errors import StorageError
from chronolake_storage.files import MARKERS_FOLDER, Deletion, Files
from chronolake_storage.guard import Deleting, Guard, marker_of
from chronolake_storage.overlaps import TablePlace
from chronolake_storage.published_history import HistoryListing, HistorySource

BACKOFF: Final = Backoff(first_seconds=1.0, max_seconds=600.0)
CHECK_SECONDS_MAX: Final = 20.0

LISTED_AT_ONCE: Final = 1_000
TABLES_AT_ONCE: Final = 1_000
ANSWER_SECONDS_MAX: Final = 120.0
"""How long a thread waits for the database; its own timeouts are shorter."""

STORAGE_SECONDS_MAX: Final = 120.0
"""How long a part of the work on one table may take."""
FILES_PER_SECOND_MIN: Final = 100.0
"""The rate that is expected of the slowest storage: work on many files may take longer than the limit."""
LISTING_SECONDS_MAX: Final = 600.0
"""How long the listing of a whole table may take."""

_Result = TypeVar("_Result")

_log = telemetry.logger(__name__)


class MetastoreOfThread:
    """The metastore and the log as the guard sees them, for the thread that deletes."""

    def __init__(self, database: Database, place: Place) -> None:
        self._database = database
        self._place = place
        self._loop = asyncio.get_running_loop()

    def owner(self) -> Owner | None:
        """As ``Metastore.owner``."""
        return self._wait_for(self._owner())

    def state(self, recorded: LogHead | None) -> LogState:
        """As ``Log.state``."""
        return self._wait_for(recorded_events.log_state(self._database, self._place.table_id, recorded))

    def tables(self) -> Iterator[TablePlace]:
        """As ``Metastore.tables``, read page by page."""
        after = UUID(int=0)
        while page := self._wait_for(self._tables(after)):
            yield from (TablePlace(str(place.table_id), place.table, place.base_path) for place in page)
            after = page[-1].table_id
        after = UUID(int=0)
        while dropped := self._wait_for(self._dropped(after)):
            yield from (TablePlace(t.table_id, t.name, t.base_path, is_dropped=True) for t in dropped)
            after = UUID(dropped[-1].table_id)

    def needed_files(
        self, deleting: Deleting, paths: Sequence[str], _recorded: LogHead | None
    ) -> Mapping[str, str]:
        """As ``Metastore.needed_files``; ``state`` has compared the event already."""
        refusals = self._wait_for(self._needed(deleting, list(map(file_at, paths))))
        return {file.path: file.why for file in refusals}

    def is_hidden(self) -> bool:
        """As ``Metastore.is_hidden``."""
        ctx = context_of("storage", "chronolake-metastore")
        status = Service(self._database).read(ctx, publication.status, self._place.table)
        return self._wait_for(status).is_hidden

    async def _owner(self) -> Owner | None:
        async with self._database.reading() as connection:
            table = await catalog.get_table(connection, self._place.table)
            if table is None or table.table_id != self._place.table_id:
                return None
            return await owner_of(connection, self._place)

    async def _tables(self, after: UUID) -> list[Place]:
        async with self._database.reading() as connection:
            return await identity.tables(connection, after, TABLES_AT_ONCE)

    async def _dropped(self, after: UUID) -> list[DroppedTable]:
        async with self._database.reading() as connection:
            return await base_paths.dropped(connection, after, TABLES_AT_ONCE)

    async def _needed(self, deleting: Deleting, files: list[DeletedFile]) -> list[RefusedDeletion]:
        assert deleting.by is not None, "a server deletes no orphans"
        await check_location(self._database, self._place)
        requested_time = parse_time(deleting.by)

        async def refused(answers: timeline.Answers) -> list[RefusedDeletion]:
            async with self._database.reading() as connection:
                of = self._place.table_id, requested_time, files, deleting.writer
                return await deletable.refusals(answers, connection, *of)

        return await timeline.answered(self._database, refused)

    def _wait_for(self, query: Coroutine[Any, Any, _Result]) -> _Result:
        try:
            return asyncio.run_coroutine_threadsafe(query, self._loop).result(ANSWER_SECONDS_MAX)
        except (errors.Conflict, errors.ArchiveNotSet, errors.ArchiveUnavailable) as exc:
            # It concerns the whole table: nothing may be deleted until an operator has resolved it.
            raise StorageError(exc.detail) from exc
        except errors.ConfigurationError as exc:
            raise StorageError(str(exc)) from exc


async def owner_of(connection: Connection, place: Place) -> Owner:
    """The owner that the claim of the base path must name."""
    present = await identity.get(connection)
    took_over = await base_paths.took_over(connection, place.table_id)
    return Owner(str(present.metastore_id), str(place.table_id), place.table, list(map(str, took_over)))


async def check_location(database: Database, place: Place) -> None:
    """Raise ``ConfigurationError`` unless the table's namespace may now have tables at its base path."""
    namespace, _ = split_table_name(place.table)
    async with database.reading() as connection:
        allowed = await locations.allowed(database, connection, namespace)
    if allowed.locations is not None:
        # In a thread: the links of the path are resolved.
        await run(lambda: locations.refuse_outside(allowed, place.base_path))


class TableFiles:
    """The files of a table, accessed in threads: nothing blocks the loop. Raises ``ConfigurationError``."""

    def __init__(self, files: Files, guard: Guard) -> None:
        self._files = files
        self._guard = guard

    async def begin_publication(self, files_since: str | None) -> None:
        """Claim the base path for publishing, see ``publishing.begin``."""
        seconds_max = STORAGE_SECONDS_MAX if files_since is None else LISTING_SECONDS_MAX
        await run(lambda: publishing.begin(self._files, self._guard, files_since), seconds_max)

    async def hide_publication(self, *, was_published: bool) -> None:
        """Hide the table from Hudi's readers, see ``publishing.hide``."""
        await run(lambda: publishing.hide(self._files, self._guard, was_published=was_published))

    async def publish(self, steps: Sequence[PublicationStep], *, is_hidden: bool) -> None:
        """Execute steps of a publication."""
        if steps:
            await run(
                lambda: publishing.execute(self._files, self._guard, steps, is_hidden=is_hidden),
                _seconds_max(sum(len(step.writes) for step in steps)),
            )

    async def find_publication(self, owned: publishing.Owned) -> publishing.Comparison:
        """List ``.hoodie``, see ``publishing.find``."""
        return await run(lambda: publishing.find(self._files, owned))

    async def remove_publication(self, paths: Sequence[str]) -> None:
        """Remove files of the publication."""
        await run(lambda: self._guard.remove_published(paths))

    async def put_publication_right(
        self, expected: Sequence[PublishedFile], comparison: publishing.Comparison
    ) -> list[PublishedFile]:
        """Write files that are missing or differ, see ``publishing.put_right``."""
        return await run(
            lambda: publishing.put_right(self._files, expected, comparison.stored), _seconds_max(len(expected))
        )

    async def find_history(self, written: PublishedHistory | None) -> HistoryListing:
        """Compare the history of a publication, see ``published_history.find``."""
        return await run(lambda: published_history.find(self._files, written))

    async def write_history(self, range_: HistoryRange, source: HistorySource) -> HistoryFile:
        """Write a file of the history, see ``published_history.write``."""
        return await run(lambda: published_history.write(self._files, range_, source))

    async def show_history(self, history: PublishedHistory) -> None:
        """Let readers find a history, see ``published_history.show``."""
        await run(lambda: published_history.show(self._files, history))

    async def remove_archived(self, before: str) -> bool:
        """Remove instants from the timeline, see ``published_history.remove_archived``."""
        return await run(lambda: published_history.remove_archived(self._files, self._guard, before))

    async def remove_unused_history(self, history: PublishedHistory) -> None:
        """Remove old files of a history, see ``published_history.remove_unused``."""
        await run(lambda: published_history.remove_unused(self._files, self._guard, history))

    async def check(self) -> None:
        """Raise unless this server can see the table's folder, or its bucket."""
        await run(self._files.check)

    async def delete(self, deleting: Deleting, files: Sequence[DeletedFile]) -> dict[str, str]:
        """Delete files, see ``Guard.delete``; gives the reason for each that could not be deleted, by path."""
        paths = [file.path for file in files]
        return _failures(await run(lambda: list(self._guard.delete(deleting, paths))))

    async def delete_markers(self, instant: str, markers: Iterable[Marker]) -> dict[str, str]:
        """Delete direct markers of an instant; gives the reasons of failures as ``delete``."""
        return _failures(await run(lambda: list(self._guard.delete_markers(instant, markers))))

    async def find(self, files: Sequence[DeletedFile]) -> list[DeletedFile]:
        """The files of ``files`` that exist."""
        sizes = await run(lambda: list(self._files.sizes(file.path for file in files)))
        return [file for file, size in zip(files, sizes, strict=True) if size is not None]

    async def markers(self, instant: str) -> AsyncIterator[tuple[list[Marker], list[str]]]:
        """Pages of the direct markers of an instant, and of the paths of other files in their folder."""
        listing = self._files.listing(f"{MARKERS_FOLDER}/{instant}")
        # A folder may hold more than fits into memory.
        while page := await run(lambda: list(islice(listing, LISTED_AT_ONCE))):
            marker_of_path = [(file.path, marker_of(instant, file.path)) for file in page]
            yield (
                [marker for _, marker in marker_of_path if marker is not None],
                [path for path, marker in marker_of_path if marker is None],
            )


class TableStorage:
    """Opens the storage of tables for one worker. Each failure of a table doubles its backoff."""

    def __init__(
        self, database: Database, storage_endpoints: Collection[str], backoff: Backoff = BACKOFF
    ) -> None:
        self._database = database
        self._storage_endpoints = storage_endpoints
        self._pauses = backoff
        self._backoff: dict[UUID, tuple[float, int]] = {}

    def tables_in_backoff(self) -> list[UUID]:
        """The tables that this worker must not access yet."""
        now = time.monotonic()
        return [table_id for table_id, (until, _) in self._backoff.items() if now < until]

    def back_off(self, place: Place) -> float:
        """Begin a backoff, longer than the last one of the table; gives its seconds."""
        _, failures = self._backoff.get(place.table_id, (0.0, 0))
        seconds = self._pauses.pause_seconds(failures)
        self._backoff[place.table_id] = (time.monotonic() + seconds, failures + 1)
        return seconds

    def end_backoff(self, table_id: UUID) -> None:
        """The table works: its next backoff is short again."""
        self._backoff.pop(table_id, None)

    async def open(self, place: Place) -> TableFiles | None:
        """The files of a table; None, and a backoff, if its storage fails."""
        try:
            return await self.opened(place)
        except errors.ConfigurationError as exc:
            self.back_off_after(place, str(exc))
            return None

    async def opened(self, place: Place) -> TableFiles:
        """The files of a table; raises ``ConfigurationError`` if its storage fails."""
        files, owner, metastore = await self.access(place)
        return TableFiles(files, Guard(files, owner, metastore, log=metastore))

    async def access(self, place: Place) -> tuple[Files, Owner, MetastoreOfThread]:
        """The files of a table, and what a guard of them needs; raises ``ConfigurationError``."""
        files = await self.check(place)
        async with self._database.reading() as connection:
            owner = await owner_of(connection, place)
        return files, owner, MetastoreOfThread(self._database, place)

    async def claim(self, place: Place) -> Claim | None:
        """The claim of the table's base path, see ``claims.find``."""
        files = await self.check(place)
        return await run(lambda: claims.find(files))

    async def check(self, place: Place) -> Files:
        """Raise ``ConfigurationError`` unless this server may use, and sees, the folder or the bucket."""
        await check_location(self._database, place)
        options = options_of(place.properties)
        refuse_endpoint(options, self._storage_endpoints)
        files = await run(lambda: opening.open_files(place.base_path, options))
        try:
            async with asyncio.timeout(CHECK_SECONDS_MAX):
                await run(files.check)
        except TimeoutError as exc:
            raise errors.ConfigurationError(f"{place.base_path} does not answer") from exc
        return files

    def back_off_after(self, place: Place, reason: str) -> None:
        """Begin a backoff after a failure, and log ``reason``."""
        seconds = self.back_off(place)
        _log.warning("table cannot be reached", table=place.table, reason=reason, pause_seconds=seconds)


def _seconds_max(files: int) -> float:
    """How long the work on ``files`` files may take."""
    return STORAGE_SECONDS_MAX + files / FILES_PER_SECOND_MIN


async def run(operation: Callable[[], _Result], seconds_max: float = STORAGE_SECONDS_MAX) -> _Result:
    """Run an operation of a storage in a thread. A timeout keeps a slow storage from delaying other tables."""
    with configuration_errors():
        try:
            async with asyncio.timeout(seconds_max):
                return await in_thread(operation)
        except TimeoutError as exc:
            raise errors.ConfigurationError(
                f"the storage did not answer within {seconds_max:g} seconds"
            ) from exc


def _failures(deletions: Iterable[Deletion]) -> dict[str, str]:
    return {deletion.path: deletion.failure for deletion in deletions if deletion.failure is not None}
