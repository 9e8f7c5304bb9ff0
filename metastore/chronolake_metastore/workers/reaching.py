"""The tables whose storage this server reaches; those that it does not are left to others for a while."""

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
from chronolake_metastore.queries import deletable
from chronolake_metastore.store import base_paths, catalog, identity
from chronolake_metastore.store.engine import Database, Reader
from chronolake_metastore.store.pending_plans import Place
from chronolake_metastore.workers.threads import in_thread
from chronolake_model.deletable import RefusedDeletion
from chronolake_model.markers import DeletedFile, Marker, file_at
from chronolake_model.storage import options_of
from chronolake_model.times import parse_time
from chronolake_storage import opening
from chronolake_storage.claims import Owner
from chronolake_storage.errors import StorageError
from chronolake_storage.files import Deletion, Files
from chronolake_storage.guard import MARKERS_FOLDER, Deleting, Guard, marker_of
from chronolake_storage.overlaps import TablePlace

PAUSE_SECONDS: Final = 1.0
PAUSE_SECONDS_MAX: Final = 600.0
CHECK_SECONDS_MAX: Final = 20.0

LISTED_AT_ONCE: Final = 1_000
TABLES_AT_ONCE: Final = 1_000
ANSWER_SECONDS_MAX: Final = 120.0
"""How long a thread waits for the database; its own timeouts are shorter."""

STORAGE_SECONDS_MAX: Final = 120.0
"""How long a part of the work on one table may take."""

_Result = TypeVar("_Result")

_log = telemetry.logger(__name__)


class Asked:
    """The metastore, as the guard asks it from the thread that deletes."""

    def __init__(self, database: Database, place: Place) -> None:
        self._database = database
        self._place = place
        self._loop = asyncio.get_running_loop()

    def owner(self) -> Owner | None:
        """As ``Metastore.owner``."""
        return self._wait_for(self._owner())

    def tables(self) -> Iterator[TablePlace]:
        """As ``Metastore.tables``, read page by page."""
        after = UUID(int=0)
        while page := self._wait_for(self._tables(after)):
            yield from (TablePlace(str(one.table_id), one.table, one.base_path) for one in page)
            after = page[-1].table_id

    def needed(self, deleting: Deleting, paths: Sequence[str]) -> Mapping[str, str]:
        """As ``Metastore.needed``."""
        refused = self._wait_for(self._refused(deleting, list(map(file_at, paths))))
        return {one.path: f"it may not be deleted: {one.reason}" for one in refused}

    async def _owner(self) -> Owner | None:
        async with self._database.reading() as connection:
            table = await catalog.get_table(connection, self._place.table)
            if table is None or table.table_id != self._place.table_id:
                return None
            return await owner_of(connection, self._place)

    async def _tables(self, after: UUID) -> list[Place]:
        async with self._database.reading() as connection:
            return await identity.tables(connection, after, TABLES_AT_ONCE)

    async def _refused(self, deleting: Deleting, files: list[DeletedFile]) -> list[RefusedDeletion]:
        assert deleting.by is not None, "a server deletes no orphans"
        requested_time = parse_time(deleting.by)
        async with self._database.reading() as connection:
            return await deletable.refused(
                connection, self._place.table_id, requested_time, files, deleting.writer
            )

    def _wait_for(self, asked: Coroutine[Any, Any, _Result]) -> _Result:
        try:
            return asyncio.run_coroutine_threadsafe(asked, self._loop).result(ANSWER_SECONDS_MAX)
        except errors.Conflict as exc:
            # Of the whole table: nothing may be deleted here until an operator has looked at it.
            raise StorageError(exc.detail) from exc


async def owner_of(connection: Reader, place: Place) -> Owner:
    """Whose claim the base path must have."""
    present = await identity.get(connection)
    took_over = await base_paths.took_over(connection, place.table_id)
    return Owner(str(present.metastore_id), str(place.table_id), place.table, list(map(str, took_over)))


class TableFiles:
    """The files of a table, reached by threads: nothing blocks the loop. Raises ``ConfigurationError``."""

    def __init__(self, files: Files, guard: Guard) -> None:
        self._files = files
        self._guard = guard

    async def check(self) -> None:
        """Raise unless the table's folder, or its bucket, can be seen from here."""
        await _asked(self._files.check)

    async def delete(self, deleting: Deleting, files: Sequence[DeletedFile]) -> dict[str, str]:
        """Delete files, see ``Guard.delete``: why some could not be deleted, by path."""
        paths = [one.path for one in files]
        return _failures(await _asked(lambda: list(self._guard.delete(deleting, paths))))

    async def delete_markers(self, instant: str, markers: Iterable[Marker]) -> dict[str, str]:
        """Delete direct markers of an instant: why some could not be deleted, by path."""
        return _failures(await _asked(lambda: list(self._guard.delete_markers(instant, markers))))

    async def find(self, files: Sequence[DeletedFile]) -> list[DeletedFile]:
        """Those of ``files`` that are there."""
        sizes = await _asked(lambda: list(self._files.sizes(one.path for one in files)))
        return [one for one, size in zip(files, sizes, strict=True) if size is not None]

    async def markers(self, instant: str) -> AsyncIterator[tuple[list[Marker], list[str]]]:
        """The direct markers of an instant, and the paths of what is none in their folder, part by part."""
        listing = self._files.listing(f"{MARKERS_FOLDER}/{instant}")
        # A folder may hold more than fits into memory: it is read part by part.
        while part := await _asked(lambda: list(islice(listing, LISTED_AT_ONCE))):
            found = [(one.path, marker_of(instant, one.path)) for one in part]
            yield (
                [marker for _, marker in found if marker is not None],
                [path for path, marker in found if marker is None],
            )


class Reach:
    """What one worker reaches: a table that failed is left alone for a while, each time for twice as long."""

    def __init__(self, database: Database, storage_endpoints: Collection[str]) -> None:
        self._database = database
        self._storage_endpoints = storage_endpoints
        self._until: dict[UUID, tuple[float, float]] = {}

    def paused(self) -> list[UUID]:
        """The tables that are left alone at this moment."""
        now = time.monotonic()
        return [table_id for table_id, (until, _) in self._until.items() if now < until]

    def pause(self, place: Place) -> float:
        """Leave a table alone for longer than the last time; gives for how many seconds."""
        _, last = self._until.get(place.table_id, (0.0, 0.0))
        seconds = min(max(last * 2, PAUSE_SECONDS), PAUSE_SECONDS_MAX)
        self._until[place.table_id] = (time.monotonic() + seconds, seconds)
        return seconds

    def end_pause(self, place: Place) -> None:
        """The table gives no trouble."""
        self._until.pop(place.table_id, None)

    async def open(self, place: Place) -> TableFiles | None:
        """The files of a table, if they can be reached from here; else the table is left alone."""
        try:
            files = await self._opened(place)
            async with asyncio.timeout(CHECK_SECONDS_MAX):
                await files.check()
        except (errors.ConfigurationError, TimeoutError) as exc:
            self.refused(place, str(exc) or f"{place.base_path} does not answer")
            return None
        return files

    async def _opened(self, place: Place) -> TableFiles:
        options = options_of(place.properties)
        refuse_endpoint(options, self._storage_endpoints)
        files = await _asked(lambda: opening.open_files(place.base_path, options))
        async with self._database.reading() as connection:
            owner = await owner_of(connection, place)
        return TableFiles(files, Guard(files, owner, Asked(self._database, place)))

    def refused(self, place: Place, reason: str) -> None:
        """Leave a table alone whose storage refuses."""
        seconds = self.pause(place)
        _log.warning("table cannot be reached", table=place.table, reason=reason, pause_seconds=seconds)


async def _asked(ask: Callable[[], _Result]) -> _Result:
    """The answer of a storage. One that does not answer is given up, so that it holds up no other table."""
    with configuration_errors():
        try:
            async with asyncio.timeout(STORAGE_SECONDS_MAX):
                return await in_thread(ask)
        except TimeoutError as exc:
            raise errors.ConfigurationError(
                f"the storage did not answer within {STORAGE_SECONDS_MAX:g} seconds"
            ) from exc


def _failures(deletions: Iterable[Deletion]) -> dict[str, str]:
    return {one.path: one.failure for one in deletions if one.failure is not None}
