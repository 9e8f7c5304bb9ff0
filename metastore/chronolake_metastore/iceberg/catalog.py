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
from chronolake_metastore.iceberg import building, chunks, documents, expiry, manifests, partitions
from chronolake_metastore.iceberg.chunks import GroupRange, SnapshotIndex
from chronolake_metastore.iceberg.folders import MetadataFolder
from chronolake_metastore.iceberg.schemas import AmbiguousName
from chronolake_metastore.queries import iceberg as queries
from chronolake_metastore.queries.iceberg import TableStates
from chronolake_metastore.service.service import Service
from chronolake_metastore.store.files import GroupKey
from chronolake_metastore.store.iceberg import BaseFileOfStates, ServedState
from chronolake_model import base_paths
from chronolake_model.base_paths import Kind
from chronolake_model.times import Micros

TABLES_MAX: Final = 1_000
"""The tables whose metadata a server keeps in memory."""
BUILDS_MAX: Final = 2
"""The tables whose metadata a server makes at a time."""
BACKFILL_SECONDS: Final = 5.0
"""How long one request makes snapshots of older states; later requests make the others."""

_log = telemetry.logger(__name__)


OpenFolder = Callable[[Table], Awaitable[MetadataFolder]]


class LoadedTable(msgspec.Struct, frozen=True):
    """A table as the catalog has it now. ``metadata`` has all snapshots, and is at ``location``."""

    location: str
    metadata: dict[str, Any]
    config: dict[str, str]
    digest: str


class _Known(msgspec.Struct):
    """The state of a table in this process; ``snapshots`` are documents by their ids, made by ``types``.

    ``loaded`` is the table at ``version`` of its log; unless it is complete, older snapshots are missing.
    ``unneeded`` are the files that the last look of the expiry found unneeded; ``expired`` are the version, and
    the location of the metadata, that it looked at.
    """

    name: str
    lock: asyncio.Lock
    unneeded: frozenset[str] = frozenset()
    expired: tuple[int, str] | None = None
    folder: MetadataFolder | None = None
    place: tuple[str, dict[str, str]] | None = None
    types: str = ""
    snapshots: dict[int, dict[str, Any]] = {}
    newest: SnapshotIndex | None = None
    version: int = -1
    is_complete: bool = False
    loaded: LoadedTable | None = None


class _Facts:
    """As ``building.Facts``, of one table."""

    def __init__(self, service: Service, ctx: Context, name: str, table: Table) -> None:
        self._service = service
        self._ctx = ctx
        self._name = name
        self._table = table

    async def changed(self, between: tuple[Micros, Micros], limit: int) -> list[GroupKey]:
        return await self._service.read(self._ctx, queries.changed, self._name, self._table, between, limit)

    async def files(
        self, state: ServedState, parent: ServedState | None, ranges: Sequence[GroupRange], limit: int
    ) -> list[BaseFileOfStates]:
        return await self._service.read(
            self._ctx, queries.files, self._name, self._table, state, parent, ranges, limit
        )


class Catalog:
    """The catalog over a service. ``open_folder`` opens the storage of tables."""

    def __init__(self, service: Service, open_folder: OpenFolder, snapshots_max: int) -> None:
        self._service = service
        self._open_folder = open_folder
        self._snapshots_max = snapshots_max
        self._tables: OrderedDict[UUID, _Known] = OrderedDict()
        self._builds = asyncio.Semaphore(BUILDS_MAX)

    async def load(self, ctx: Context, name: str) -> LoadedTable:
        """A table with its snapshots; makes the files of those that are missing.

        Raises ``TableNotFound``, ``IllegalTransition`` while it is being adopted, ``ConfigurationError``, and
        ``schemas.AmbiguousName``.
        """
        table, version = await self._service.read(ctx, queries.find, name)
        table.refuse_unfinished()
        known = self._known(table)
        former = known.loaded
        if former is not None and known.is_complete and known.version >= version:
            return former
        async with known.lock:
            # Another request may have made it while this one waited. Older snapshots are for later ones.
            present = known.loaded
            is_new = known.is_complete or present is not former
            if present is not None and is_new and known.version >= version:
                return present
            async with self._builds:
                try:
                    return await self._load(msgspec.structs.replace(ctx, table_id=table.table_id), name, known)
                except AmbiguousName:
                    # Its snapshots are written, and the next request does not make them again.
                    known.loaded = None
                    raise
                except BaseException:
                    # It may name files that were not written.
                    known.types, known.loaded = "", None
                    raise

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
                found = await self._service.read(ctx, queries.states, known.name, self._snapshots_max)
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
            known = self._tables[table_id] = _Known(table.name, asyncio.Lock())
        known.name = table.name
        self._tables.move_to_end(table_id)
        while len(self._tables) > TABLES_MAX:
            self._tables.popitem(last=False)
        return known

    async def _load(self, ctx: Context, name: str, known: _Known) -> LoadedTable:
        found = await self._service.read(ctx, queries.states, name, self._snapshots_max)
        definition = found.table.definition
        place = definition.base_path, definition.properties
        if known.folder is None or known.place != place:
            known.folder, known.place = await self._open_folder(found.table), place
        spec = partitions.spec_of(definition)
        location = location_of(definition.base_path)
        types = documents.types_digest(found)
        maker = _Maker(
            found,
            known.folder,
            location,
            building.encoding_of(found, spec, location),
            _Facts(self._service, ctx, name, found.table),
        )
        if known.types != types:
            # A table whose base path is another one's is refused before its snapshots are made.
            await known.folder.create(())
            known.types, known.newest = types, None
            known.snapshots = await maker.stored_snapshots(types)
        is_complete = await maker.make_missing(known)
        try:
            metadata = documents.metadata(found, spec, location, maker.listed(known.snapshots), types)
        except AmbiguousName:
            await maker.unwritten.flush()
            raise
        content = msgspec.json.encode(metadata)
        digest = building.digest(content)
        file_name = f"{metadata['last-sequence-number']}-{digest}{expiry.METADATA_SUFFIX}"
        maker.unwritten.metadata(file_name, content)
        await maker.unwritten.flush()
        answered = documents.with_lag(metadata, found)
        known.loaded = LoadedTable(
            f"{location}/{known.folder.path}/{file_name}",
            answered,
            documents.config(found),
            building.digest(msgspec.json.encode(answered)),
        )
        known.version, known.is_complete = found.version, is_complete
        return known.loaded


class _Maker:
    """Makes the snapshots of one table at one version of its log."""

    def __init__(
        self,
        found: TableStates,
        folder: MetadataFolder,
        location: str,
        encoding: building.Encoding,
        facts: building.Facts,
    ) -> None:
        self._found = found
        self._folder = folder
        self._location = f"{location}/{folder.path}"
        self._encoding = encoding
        self._facts = facts
        self.unwritten = building.Unwritten(folder.create)

    async def stored_snapshots(self, types: str) -> dict[int, dict[str, Any]]:
        """The snapshots in the newest metadata in storage that this server, or another one, has made."""
        names = frozenset(await self._folder.names())
        of_metadata = [name for name in names if name.endswith(expiry.METADATA_SUFFIX)]
        newest = max(of_metadata, key=lambda name: (expiry.snapshot_of(name), name), default=None)
        content = None if newest is None else await self._folder.read(newest)
        if content is None:
            return {}
        document = msgspec.json.decode(content)
        if document["properties"].get(documents.TYPES) != types:
            return {}
        # A server that retains fewer snapshots may have removed the lists of older ones.
        lists = {f"{self._location}/{name}" for name in names}
        return {
            snapshot["snapshot-id"]: snapshot
            for snapshot in document["snapshots"]
            if snapshot["manifest-list"] in lists
        }

    async def make_missing(self, known: _Known) -> bool:
        """Make the newest snapshot, then older ones for some time; False if some are still missing."""
        states = self._found.states
        times = {state.time for state in states}
        known.snapshots = {id_: document for id_, document in known.snapshots.items() if id_ in times}
        missing = [at for at, state in enumerate(states) if state.time not in known.snapshots]
        deadline = time.monotonic() + BACKFILL_SECONDS
        neighbour = None
        for at in reversed(missing):
            if at < len(states) - 1 and time.monotonic() > deadline:
                return False
            if neighbour is None or neighbour.state.time != states[min(at + 1, len(states) - 1)].time:
                neighbour = await self._nearest(known, at)
            neighbour = await self._make(known, at, neighbour)
            if at == len(states) - 1:
                known.newest = neighbour
        return True

    async def _nearest(self, known: _Known, at: int) -> SnapshotIndex | None:
        """The index of a snapshot next to a state, or else of the newest one that exists."""
        states = self._found.states
        newest = known.newest
        times = {state.time for state in states}
        if newest is not None and newest.state.time in times and at == len(states) - 1:
            return newest
        beside = [*states[at + 1 : at + 2], *states[:at][::-1]]
        snapshot = next((known.snapshots[s.time] for s in beside if s.time in known.snapshots), None)
        if snapshot is None:
            return None
        content = await self._folder.read(snapshot["manifest-list"].rpartition("/")[2])
        if content is None:
            return None
        return chunks.index_of(content)

    async def _make(self, known: _Known, at: int, neighbour: SnapshotIndex | None) -> SnapshotIndex:
        state = self._found.states[at]
        parent = self._found.states[at - 1] if at else (None if self._found.is_whole else state)
        builder = building.SnapshotBuilder(self._encoding, self._facts, self.unwritten, state, parent)
        index = await builder.build(neighbour)
        parent_id = None if parent is None or parent.time == state.time else parent.time

        def list_of_manifests() -> bytes:
            text = msgspec.json.encode(index)
            return manifests.write_list(index.manifests, self._location, state.time, parent_id, text)

        content = await asyncio.to_thread(list_of_manifests)
        list_name = f"snap-{state.time}-{building.digest(content)}.avro"
        self.unwritten.manifest_list(list_name, content)
        await self.unwritten.flush(building.WRITTEN_AT_ONCE)
        known.snapshots[state.time] = documents.snapshot(self._found, index, f"{self._location}/{list_name}")
        return index

    def listed(self, snapshots: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
        """The snapshots that exist, oldest first."""
        return [snapshots[state.time] for state in self._found.states if state.time in snapshots]


def location_of(base_path: str) -> str:
    """The URI of a table's folder."""
    location = base_paths.parse(base_path)
    path = location.path if location.kind is Kind.FILE else f"/{location.path}"
    return f"{location.kind}://{location.bucket}{path}".rstrip("/")
