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
from weakref import WeakValueDictionary

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.subjects import SERVER
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.iceberg import building, documents, expiry, partitions
from chronolake_metastore.iceberg.encoding import Encoding
from chronolake_metastore.iceberg.folders import AbsentFolder, BasePathAbsent, MetadataFolder
from chronolake_metastore.iceberg.partitions import Spec
from chronolake_metastore.iceberg.schemas import AmbiguousName
from chronolake_metastore.iceberg.snapshots import MadeSnapshots, SnapshotMaker, location_of
from chronolake_metastore.queries import iceberg as queries
from chronolake_metastore.queries.iceberg import TableStates
from chronolake_metastore.service.service import Service
from chronolake_metastore.store.files import GroupKey
from chronolake_metastore.store.iceberg import BaseFileOfStates, ChangedGroups, ServedState
from chronolake_model import base_paths
from chronolake_model.backoff import Backoff
from chronolake_model.storage import options_of
from chronolake_model.times import Micros

TABLES_MAX: Final = 1_000
"""The tables whose metadata a server keeps in memory."""
CACHE_BYTES_MAX: Final = 256 * 1024 * 1024
"""About the memory for them. The last table that was loaded is kept, however large it is."""
_SNAPSHOT_BYTES: Final = 2_000
_MANIFEST_BYTES: Final = 1_300
_NAME_BYTES: Final = 120
_STATE_BYTES: Final = 250
_COLUMN_BYTES: Final = 300
REQUEST_SECONDS: Final = 20.0
"""The longest that a request waits for a table. Clients of HTTP give up after 30 seconds."""
WAITING_MAX: Final = 200
"""The tables whose metadata requests may wait for at a time."""
WAITING_OF_STORAGE_MAX: Final = 100
"""The same of one storage: tables of a storage that does not answer must not use up the number of all."""
BUILDS_MAX: Final = 3
"""The tables whose metadata a server makes at a time."""
BUILDS_OF_STORAGE_MAX: Final = 2
"""The same of one storage."""
BACKOFF: Final = Backoff(first_seconds=1.0, max_seconds=30.0)
"""The pauses after failures of a table's storage, in which requests get the last error at once."""
SLICE_SECONDS: Final = 0.5
"""How long snapshots of older states are made before the metadata lists them."""
FOLLOWED_SECONDS: Final = 3_600.0
"""How long snapshots of a table are made ahead after a client has loaded it."""
STATES_MAX: Final = 10_000
"""The most states that a server shows. Each server keeps the metadata of these, whatever it shows itself."""

_log = telemetry.logger(__name__)


OpenFolder = Callable[[Table], Awaitable[MetadataFolder]]
Storage = tuple[str, str, str]
"""A storage that may be slow or fail by itself: its kind, bucket and endpoint."""


class NotReady(Exception):
    """A table has no snapshot of its newest state yet; the server goes on with it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the snapshot of the newest state of {name} is not ready: try again")


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
    that wait for ``building``, which makes the newest snapshot. ``size_bytes`` is about the memory of all this.
    The storage has had ``failures`` in a row, the last one of them ``failure``, and is not used before
    ``paused_until`` (monotonic).
    ``unneeded`` are the files that the last look of the expiry found unneeded; ``expired`` are the version, and
    the location of the metadata, that it looked at.
    """

    table_id: UUID
    name: str
    storage: Storage
    lock: asyncio.Lock
    requested: float
    failures: int = 0
    failure: errors.ConfigurationError | None = None
    paused_until: float = 0.0
    waiting: int = 0
    building: asyncio.Task[None] | None = None
    size_bytes: int = 0
    unneeded: frozenset[str] = frozenset()
    expired: tuple[int, str] | None = None
    folder: MetadataFolder | None = None
    place: tuple[str, str, dict[str, str]] | None = None
    made: MadeSnapshots = msgspec.field(default_factory=MadeSnapshots)
    version: int = -1
    found: TableStates | None = None
    is_complete: bool = False
    loaded: LoadedTable | None = None

    @property
    def is_building(self) -> bool:
        """Whether the newest snapshot is being made for a request."""
        return self.building is not None and not self.building.done()

    def back_off(self, failure: errors.ConfigurationError) -> None:
        """Begin a pause after a failure of the storage."""
        self.paused_until = time.monotonic() + BACKOFF.pause_seconds(self.failures)
        self.failures, self.failure = self.failures + 1, failure

    def measure(self) -> None:
        """Set ``size_bytes``."""
        answers = 0 if self.loaded is None else len(self.loaded.answer) + len(self.loaded.answer_of_refs)
        manifests = 0 if self.made.newest is None else len(self.made.newest.manifests)
        in_memory = len(self.made.documents) * _SNAPSHOT_BYTES + manifests * _MANIFEST_BYTES
        if self.found is not None:
            columns = sum(len(schema.fields) for schema in self.found.schemas)
            in_memory += len(self.found.states) * _STATE_BYTES + columns * _COLUMN_BYTES
        self.size_bytes = answers + in_memory + len(self.unneeded) * _NAME_BYTES


class _Facts:
    """As ``building.Facts``, of one table."""

    def __init__(self, service: Service, ctx: Context, name: str, table: Table) -> None:
        self._service = service
        self._ctx = ctx
        self._name = name
        self._table = table

    async def changes(
        self,
        state: ServedState,
        parent: ServedState,
        between: tuple[Micros, Micros],
        limits: tuple[int, int],
    ) -> ChangedGroups | None:
        of = self._table, state, parent, between, limits
        return await self._service.read(self._ctx, queries.changes, self._name, *of)

    async def files(
        self, state: ServedState, parent: ServedState | None, after: GroupKey, limit: int
    ) -> list[BaseFileOfStates]:
        return await self._service.read(
            self._ctx, queries.files, self._name, self._table, state, parent, after, limit
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
        self._kept = building.KeptManifests()
        self._builds = asyncio.Semaphore(BUILDS_MAX)
        self._builds_by_storage: WeakValueDictionary[Storage, asyncio.Semaphore] = WeakValueDictionary()
        self._running: dict[asyncio.Task[None], Storage] = {}

    async def load(self, ctx: Context, name: str) -> LoadedTable:
        """A table with its snapshots; makes the newest if it is missing, and those since the last one.

        Snapshots of older states are left to ``follow``. Raises ``TableNotFound``, ``IllegalTransition`` while
        it is being adopted, ``ConfigurationError``, and ``schemas.AmbiguousName``; ``NotReady`` after
        ``REQUEST_SECONDS``, after which the server goes on, so that a later request finds the table.
        """
        table, version = await self._service.read(ctx, queries.find, name)
        table.refuse_unfinished()
        known = self._known(table)
        known.requested = time.monotonic()
        until = known.requested + REQUEST_SECONDS
        known.waiting += 1
        try:
            # What another request began may be of an older version.
            while (loaded := known.loaded) is None or known.version < version:
                task = self._building(ctx, known)
                await asyncio.wait({task}, timeout=max(until - time.monotonic(), 0.0))
                if not task.done():
                    raise NotReady(name)
                task.result()
            return loaded
        finally:
            known.waiting -= 1

    async def close(self) -> None:
        """End what requests have begun."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def follow(self, ctx: Context) -> bool:
        """Make the snapshots of new states of the tables that clients have loaded, then some of older ones.

        Of each table as a request would; False if nothing is left to this method.
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
            if known.loaded is None or known.is_building:
                # It failed, and a request will say so; or a request makes it.
                continue
            try:
                async with known.lock:
                    await self._make(ctx, known, 0.0 if id_ in stale else SLICE_SECONDS)
            except errors.NotFound:
                self._tables.pop(id_, None)
            except (AmbiguousName, errors.ConfigurationError, errors.Conflict, errors.HistoryCleaned) as exc:
                _log.warning("snapshots for Iceberg are missing", table=known.name, reason=str(exc))
        return any(
            # A request that makes a table notifies when it has ended.
            known.loaded is not None and not known.is_complete and not known.is_building
            for known in followed.values()
        )

    async def expire(self, ctx: Context) -> None:
        """Remove files that no retained state of a table needs, and that the call before found unneeded too.

        Metadata that the catalog answers with, and that another server has removed, is made again.

        Only of tables that this process has loaded. The time between two calls is for clients that have loaded
        the table before, and for another server that makes a snapshot from one that has just expired.
        """
        for table_id, known in list(self._tables.items()):
            folder = known.folder
            if folder is None or time.monotonic() < known.paused_until:
                continue
            try:
                ctx = msgspec.structs.replace(ctx, table_id=table_id)
                _, version = await self._service.read(ctx, queries.find, known.name)
                await folder.check_location()
                now = version, "" if known.loaded is None else known.loaded.location
                served = now[1].rpartition("/")[2]
                if served and await folder.read(served, 0) is None:
                    # A server that shows fewer snapshots may have removed it. The next build writes it again.
                    known.version, known.found = -1, None
                if known.expired == now and not known.unneeded:
                    continue
                found = await self._service.read(ctx, queries.states, known.name, STATES_MAX)
                unneeded = await expiry.find_unneeded(folder, found, served)
                if gone := sorted(unneeded & known.unneeded):
                    await folder.remove(gone)
                known.unneeded, known.expired = unneeded - set(gone), now
                known.measure()
            except errors.NotFound:
                # It was dropped or renamed: the next load, under its name, takes it up again.
                self._tables.pop(table_id, None)
            except errors.ConfigurationError as exc:
                _log.warning("metadata for Iceberg could not expire", table=known.name, reason=str(exc))

    def _known(self, table: Table) -> _Known:
        table_id, storage = table.table_id, storage_of(table)
        known = self._tables.get(table_id)
        if known is None:
            known = _Known(table_id, table.name, storage, asyncio.Lock(), time.monotonic())
            self._tables[table_id] = known
        known.name, known.storage = table.name, storage
        self._tables.move_to_end(table_id)
        self._forget()
        return known

    def _forget(self) -> None:
        """Forget the tables that clients loaded longest ago, if there are too many."""
        size_bytes = sum(known.size_bytes for known in self._tables.values())
        while len(self._tables) > TABLES_MAX or (size_bytes > CACHE_BYTES_MAX and len(self._tables) > 1):
            _, known = self._tables.popitem(last=False)
            size_bytes -= known.size_bytes

    def _building(self, ctx: Context, known: _Known) -> asyncio.Task[None]:
        """The task that makes a table's newest snapshot. All requests share it, and it may outlive them."""
        if known.building is None or known.building.done():
            if time.monotonic() < known.paused_until and known.failure is not None:
                raise known.failure.with_traceback(None)
            of_storage = sum(storage == known.storage for storage in self._running.values())
            if len(self._running) >= WAITING_MAX or of_storage >= WAITING_OF_STORAGE_MAX:
                raise NotReady(known.name)
            # All callers share it: it must not fail with the rights of the first one. Each one's were checked.
            of_server = msgspec.structs.replace(ctx, subject=SERVER)
            known.building = asyncio.create_task(self._make_newest(of_server, known), name=known.name)
            self._running[known.building] = known.storage
            known.building.add_done_callback(self._ended)
        return known.building

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        # The requests that began it may have ended.
        if not task.cancelled() and (failure := task.exception()) is not None:
            _log.warning(
                "the newest snapshot for Iceberg could not be made",
                table=task.get_name(),
                reason=str(failure),
                kind=type(failure).__name__,
            )

    async def _make_newest(self, ctx: Context, known: _Known) -> None:
        async with known.lock:
            await self._make(ctx, known, 0.0)
        if not known.is_complete:
            self._notify()

    async def _make(self, ctx: Context, known: _Known, older_seconds: float) -> None:
        """Load a table anew, and make snapshots of older states for some seconds."""
        # Another table may have the name by now: then this one is not found.
        ctx = msgspec.structs.replace(ctx, table_id=known.table_id)
        absent: AbsentFolder | None = None
        try:
            if known.folder is None:
                # A storage that does not answer must not keep other tables waiting.
                table, _ = await self._service.read(ctx, queries.find, known.name)
                try:
                    await self._folder(known, table)
                except BasePathAbsent as exc:
                    absent = AbsentFolder(exc.path)
            async with self._builds_of(known.storage), self._builds:
                await self._load(ctx, known, older_seconds, absent)
            known.failures, known.paused_until = 0, 0.0
        except AmbiguousName:
            known.failures = 0
            # Its snapshots are written, and the next request does not make them again.
            known.loaded = None
            raise
        except BaseException as exc:
            # It may name files that were not written.
            known.made, known.loaded = MadeSnapshots(), None
            if isinstance(exc, errors.ConfigurationError):
                known.back_off(exc)
                # The next try opens it again, outside of the places for builds.
                known.folder = None
            raise
        finally:
            known.measure()
        self._forget()

    def _builds_of(self, storage: Storage) -> asyncio.Semaphore:
        """The semaphore of a storage, which exists as long as a build uses it."""
        return self._builds_by_storage.setdefault(storage, asyncio.Semaphore(BUILDS_OF_STORAGE_MAX))

    async def _folder(self, known: _Known, table: Table) -> MetadataFolder:
        """The folder of a table; it is opened again when its place has changed."""
        # Its namespace says where it may be.
        place = table.name, table.definition.base_path, table.definition.properties
        if known.folder is None or known.place != place:
            known.folder = None
            known.folder, known.place = await self._open_folder(table), place
        else:
            await known.folder.check_location()
        return known.folder

    async def _load(
        self, ctx: Context, known: _Known, older_seconds: float, absent: AbsentFolder | None
    ) -> None:
        name = known.name
        found = await self._service.read(ctx, queries.states, name, self._snapshots_max, known.found)
        if known.loaded is not None and not older_seconds and found.is_like(known.found):
            # Instants have begun, or ended without a state.
            known.version = found.version
            return
        definition = found.table.definition
        unwritten = absent if found.last_completion is None else None
        folder: MetadataFolder = unwritten or await self._folder(known, found.table)
        spec = partitions.spec_of(definition)
        location = location_of(definition.base_path)
        types = documents.types_digest(found)
        maker = SnapshotMaker(
            found,
            folder,
            location,
            Encoding(found, spec, location),
            _Facts(self._service, ctx, name, found.table),
            self._kept,
        )
        made = known.made
        if made.types != types:
            # A table whose base path is another one's is refused before its snapshots are made.
            await folder.create(())
            made = known.made = MadeSnapshots(types, await maker.stored_snapshots(types))
        await maker.make_newest(made)
        if older_seconds:
            # From now on: what comes before may take longer.
            until = time.monotonic() + older_seconds
            await maker.make_older(made, until, lambda: known.waiting > 0)
        uri = f"{location}/{folder.path}"
        try:
            file_name, content, loaded = await asyncio.to_thread(
                _loaded, found, spec, location, uri, maker.existing(made.documents), types
            )
        except AmbiguousName:
            await maker.files.flush()
            raise
        maker.files.metadata(file_name, content)
        await maker.files.flush()
        known.loaded = loaded
        known.found, known.version = found, found.version
        known.is_complete = not maker.missing(made)
        if unwritten is not None:
            # The claim is checked, and stored snapshots are read, once the folder exists.
            known.made = MadeSnapshots()


def storage_of(table: Table) -> Storage:
    """The storage of a table."""
    try:
        location = base_paths.parse(table.definition.base_path)
    except ValueError:  # An earlier release accepted it; the table cannot be opened.
        return "", table.definition.base_path, ""
    endpoint = options_of(table.definition.properties).get("endpoint_override", "")
    return location.kind, location.bucket, endpoint


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
