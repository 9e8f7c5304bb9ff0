"""The Iceberg catalog of one server process: a table with its snapshots, made when it is loaded.

All files are immutable and named by their content, so servers never overwrite each other's. A file exists
before another one names it: manifests, then the list of the snapshot, then the metadata.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.iceberg import building, documents, expiry, partitions
from chronolake_metastore.iceberg.encoding import Encoding
from chronolake_metastore.iceberg.folders import MetadataFolder
from chronolake_metastore.iceberg.partitions import Spec
from chronolake_metastore.iceberg.schemas import AmbiguousName
from chronolake_metastore.iceberg.snapshots import MadeSnapshots, SnapshotMaker, location_of
from chronolake_metastore.queries import iceberg as queries
from chronolake_metastore.queries.iceberg import TableStates
from chronolake_metastore.service.service import Service
from chronolake_metastore.store.files import GroupKey
from chronolake_metastore.store.iceberg import BaseFileOfStates, ServedState
from chronolake_model.times import Micros

TABLES_MAX: Final = 1_000
"""The tables whose metadata a server keeps in memory."""
BUILDS_MAX: Final = 2
"""The tables whose metadata a server makes at a time."""
SLICE_SECONDS: Final = 0.5
"""How long snapshots of older states are made before the metadata lists them."""
FOLLOWED_SECONDS: Final = 3_600.0
"""How long snapshots of a table are made ahead after a client has loaded it."""
STATES_MAX: Final = 10_000
"""The most states that a server shows. Each server keeps the metadata of these, whatever it shows itself."""

_log = telemetry.logger(__name__)


OpenFolder = Callable[[Table], Awaitable[MetadataFolder]]


class LoadedTable(msgspec.Struct, frozen=True):
    """A table as the catalog has it now: answers to requests, as JSON, so that no request encodes them again.

    ``answer`` has all snapshots, ``answer_of_refs`` those that a branch or a tag names. The metadata with all
    snapshots is at ``location``.
    """

    location: str
    answer: bytes
    answer_of_refs: bytes
    digest: str

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata with all snapshots."""
        answer: dict[str, dict[str, Any]] = msgspec.json.decode(self.answer)
        return answer["metadata"]


class _Known(msgspec.Struct):
    """The state of a table in this process.

    ``loaded`` is the table at ``version`` of its log, whose facts are ``found``; unless it is complete, older
    snapshots are missing. ``requested`` is when a client loaded it last (monotonic), ``waiting`` the requests
    that wait for the lock.
    ``unneeded`` are the files that the last look of the expiry found unneeded; ``expired`` are the version, and
    the location of the metadata, that it looked at.
    """

    table_id: UUID
    name: str
    lock: asyncio.Lock
    requested: float
    waiting: int = 0
    unneeded: frozenset[str] = frozenset()
    expired: tuple[int, str] | None = None
    folder: MetadataFolder | None = None
    place: tuple[str, dict[str, str]] | None = None
    made: MadeSnapshots = msgspec.field(default_factory=MadeSnapshots)
    version: int = -1
    found: TableStates | None = None
    is_complete: bool = False
    loaded: LoadedTable | None = None


class _Facts:
    """As ``building.Facts``, of one table."""

    def __init__(self, service: Service, ctx: Context, name: str, table: Table) -> None:
        self._service = service
        self._ctx = ctx
        self._name = name
        self._table = table

    async def changed(self, between: tuple[Micros, Micros], limit: int) -> list[GroupKey] | None:
        return await self._service.read(self._ctx, queries.changed, self._name, self._table, between, limit)

    async def files(
        self, state: ServedState, parent: ServedState | None, after: GroupKey, limit: int
    ) -> list[BaseFileOfStates]:
        return await self._service.read(
            self._ctx, queries.files, self._name, self._table, state, parent, after, limit
        )

    async def files_of(
        self, state: ServedState, parent: ServedState | None, groups: Sequence[GroupKey], limit: int
    ) -> list[BaseFileOfStates]:
        return await self._service.read(
            self._ctx, queries.files_of, self._name, self._table, state, parent, groups, limit
        )


class Catalog:
    """The catalog over a service. ``open_folder`` opens the storage of tables.

    ``notify`` is called when a request leaves snapshots of older states to ``follow``.
    """

    def __init__(
        self,
        service: Service,
        open_folder: OpenFolder,
        snapshots_max: int,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        self._service = service
        self._open_folder = open_folder
        self._snapshots_max = snapshots_max
        self._notify = notify
        self._tables: OrderedDict[UUID, _Known] = OrderedDict()
        self._builds = asyncio.Semaphore(BUILDS_MAX)

    async def load(self, ctx: Context, name: str) -> LoadedTable:
        """A table with its snapshots; makes the newest if it is missing, and those since the last one.

        Snapshots of older states are left to ``follow``. Raises ``TableNotFound``, ``IllegalTransition`` while
        it is being adopted, ``ConfigurationError``, and ``schemas.AmbiguousName``.
        """
        table, version = await self._service.read(ctx, queries.find, name)
        table.refuse_unfinished()
        known = self._known(table)
        known.requested = time.monotonic()
        if known.loaded is not None and known.version >= version:
            return known.loaded
        known.waiting += 1
        try:
            await known.lock.acquire()
        finally:
            known.waiting -= 1
        try:
            # Another request may have made it while this one waited.
            if known.loaded is None or known.version < version:
                await self._make(ctx, known, 0.0)
            assert known.loaded is not None
            return known.loaded
        finally:
            known.lock.release()
            if not known.is_complete:
                self._notify()

    async def follow(self, ctx: Context) -> bool:
        """Make the snapshots of new states of the tables that clients have loaded, then some of older ones.

        Of each table as a request would; False if nothing was missing.
        """
        since = time.monotonic() - FOLLOWED_SECONDS
        followed = {id_: known for id_, known in self._tables.items() if known.requested > since}
        if not followed:
            return False
        versions = await self._service.read(ctx, queries.versions, list(followed))
        stale = {id_ for id_, known in followed.items() if known.version < versions.get(id_, -1)}
        missing = [id_ for id_, known in followed.items() if id_ in stale or not known.is_complete]
        for id_ in sorted(missing, key=lambda id_: id_ not in stale):
            known = followed[id_]
            if known.loaded is None:
                # It failed, and a request will say so.
                continue
            try:
                async with known.lock:
                    await self._make(ctx, known, 0.0 if id_ in stale else SLICE_SECONDS)
            except errors.NotFound:
                self._tables.pop(id_, None)
            except (AmbiguousName, errors.ConfigurationError, errors.Conflict, errors.HistoryCleaned) as exc:
                _log.warning("snapshots for Iceberg are missing", table=known.name, reason=str(exc))
        return any(known.loaded is not None and not known.is_complete for known in followed.values())

    async def expire(self, ctx: Context) -> None:
        """Remove files that no retained state of a table needs, and that the call before found unneeded too.

        Only of tables that this process has loaded. The time between two calls is for clients that have loaded
        the table before, and for another server that makes a snapshot from one that has just expired.
        """
        for table_id, known in list(self._tables.items()):
            if known.folder is None:
                continue
            try:
                ctx = msgspec.structs.replace(ctx, table_id=table_id)
                _, version = await self._service.read(ctx, queries.find, known.name)
                now = version, "" if known.loaded is None else known.loaded.location
                if known.expired == now and not known.unneeded:
                    continue
                found = await self._service.read(ctx, queries.states, known.name, STATES_MAX)
                unneeded = await expiry.find_unneeded(known.folder, found)
                if gone := sorted(unneeded & known.unneeded):
                    await known.folder.remove(gone)
                known.unneeded, known.expired = unneeded - set(gone), now
            except errors.NotFound:
                # It was dropped or renamed: the next load, under its name, takes it up again.
                self._tables.pop(table_id, None)
            except errors.ConfigurationError as exc:
                _log.warning("metadata for Iceberg could not expire", table=known.name, reason=str(exc))

    def _known(self, table: Table) -> _Known:
        table_id = table.table_id
        known = self._tables.get(table_id)
        if known is None:
            known = self._tables[table_id] = _Known(table_id, table.name, asyncio.Lock(), time.monotonic())
        known.name = table.name
        self._tables.move_to_end(table_id)
        while len(self._tables) > TABLES_MAX:
            self._tables.popitem(last=False)
        return known

    async def _make(self, ctx: Context, known: _Known, older_seconds: float) -> None:
        """Load a table anew, and make snapshots of older states for some seconds."""
        async with self._builds:
            try:
                await self._load(ctx, known, older_seconds)
            except AmbiguousName:
                # Its snapshots are written, and the next request does not make them again.
                known.loaded = None
                raise
            except BaseException:
                # It may name files that were not written.
                known.made, known.loaded = MadeSnapshots(), None
                raise

    async def _load(self, ctx: Context, known: _Known, older_seconds: float) -> None:
        name = known.name
        # Another table may have the name by now: then this one is not found.
        ctx = msgspec.structs.replace(ctx, table_id=known.table_id)
        found = await self._service.read(ctx, queries.states, name, self._snapshots_max)
        if known.loaded is not None and not older_seconds and found.is_like(known.found):
            # Instants have begun, or ended without a state.
            known.version = found.version
            return
        definition = found.table.definition
        place = definition.base_path, definition.properties
        if known.folder is None or known.place != place:
            known.folder, known.place = await self._open_folder(found.table), place
        spec = partitions.spec_of(definition)
        location = location_of(definition.base_path)
        types = documents.types_digest(found)
        maker = SnapshotMaker(
            found,
            known.folder,
            location,
            Encoding(found, spec, location),
            _Facts(self._service, ctx, name, found.table),
        )
        made = known.made
        if made.types != types:
            # A table whose base path is another one's is refused before its snapshots are made.
            await known.folder.create(())
            made = known.made = MadeSnapshots(types, await maker.stored_snapshots(types))
        await maker.make_newest(made)
        if older_seconds:
            # From now on: what comes before may take longer.
            until = time.monotonic() + older_seconds
            await maker.make_older(made, until, lambda: known.waiting > 0)
        folder = f"{location}/{known.folder.path}"
        try:
            file_name, content, loaded = await asyncio.to_thread(
                _loaded, found, spec, location, folder, maker.existing(made.documents), types
            )
        except AmbiguousName:
            await maker.files.flush()
            raise
        maker.files.metadata(file_name, content)
        await maker.files.flush()
        known.loaded = loaded
        known.found, known.version = found, found.version
        known.is_complete = not maker.missing(made)


def _loaded(
    found: TableStates,
    spec: Spec,
    location: str,
    folder: str,
    snapshots: Sequence[dict[str, Any]],
    types: str,
) -> tuple[str, bytes, LoadedTable]:
    """The name and content of the metadata with these snapshots, and the table; raises ``AmbiguousName``."""
    listed = documents.unambiguous(found, snapshots)
    metadata = documents.metadata(found, spec, location, listed, types)
    content = msgspec.json.encode(metadata)
    file_name = f"{metadata['last-sequence-number']}-{building.digest(content)}{expiry.METADATA_SUFFIX}"
    answered = documents.with_lag(metadata, found)

    def answer(document: dict[str, Any]) -> bytes:
        return msgspec.json.encode(
            {
                "metadata-location": f"{folder}/{file_name}",
                "metadata": document,
                "config": documents.config(found),
                "storage-credentials": [],
            }
        )

    whole = answer(answered)
    of_refs = answer(documents.only_of_refs(answered))
    loaded = LoadedTable(f"{folder}/{file_name}", whole, of_refs, building.digest(whole))
    return file_name, content, loaded
