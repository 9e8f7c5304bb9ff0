"""Makes the snapshots of a table in its folder, and the metadata that lists them."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from chronolake_metastore.iceberg import building, chunks, documents, expiry, manifests
from chronolake_metastore.iceberg.chunks import SnapshotIndex
from chronolake_metastore.iceberg.encoding import Encoding
from chronolake_metastore.iceberg.folders import METADATA_BYTES_MAX, MetadataFolder
from chronolake_metastore.queries.iceberg import TableStates
from chronolake_model import base_paths
from chronolake_model.base_paths import Kind

GAP_MAX: Final = 20
"""With more states since the last snapshot, a request makes that of the newest alone."""
GAP_SECONDS: Final = 1.0
"""After this time too: those that it leaves out are made later, as older ones."""


class MadeSnapshots(msgspec.Struct):
    """The snapshots of a table that exist: documents by their ids, made by ``types``, and the newest index."""

    types: str = ""
    documents: dict[int, dict[str, Any]] = {}
    newest: SnapshotIndex | None = None


class SnapshotMaker:
    """Makes the snapshots of one table at one version of its log."""

    def __init__(
        self,
        found: TableStates,
        folder: MetadataFolder,
        location: str,
        encoding: Encoding,
        facts: building.Facts,
        kept: building.KeptManifests,
    ) -> None:
        self._found = found
        self._folder = folder
        self._location = f"{location}/{folder.path}"
        self._encoding = encoding
        self._facts = facts
        self.files = building.MetadataFiles(folder, kept)
        before = [] if found.before is None else [found.before]
        states = sorted([*found.states, *before], key=lambda state: state.time)
        self._parents = {state.time: parent for parent, state in itertools.pairwise([None, *states]) if state}

    async def stored_snapshots(self, types: str) -> dict[int, dict[str, Any]]:
        """The snapshots in the newest metadata in storage that servers have made."""
        sizes = await self._folder.sizes()
        # Another server may have removed a list together with its state.
        lists = {f"{self._location}/{name}" for name in sizes}
        # A server that shows fewer snapshots may not have known the parents of some, or known earlier ones.
        parents = {time: parent.time for time, parent in self._parents.items() if parent is not None}
        stored: dict[int, dict[str, Any]] = {}
        for name in expiry.newest_metadata(sizes):
            content = await self._folder.read(name, METADATA_BYTES_MAX)
            for snapshot in await asyncio.to_thread(documents.snapshots_of, content or b"", types):
                id_, parent_id = snapshot["snapshot-id"], snapshot.get("parent-snapshot-id", 0)
                is_state = id_ in self._parents and parent_id >= parents.get(id_, 0)
                if is_state and snapshot["manifest-list"] in lists:
                    stored[id_] = snapshot
        return stored

    def missing(self, made: MadeSnapshots) -> list[int]:
        """The positions of the states without a snapshot; snapshots of former states are forgotten."""
        states = self._found.states
        times = {state.time for state in states}
        made.documents = {id_: document for id_, document in made.documents.items() if id_ in times}
        return [at for at, state in enumerate(states) if state.time not in made.documents]

    async def make_newest(self, made: MadeSnapshots) -> None:
        """Make the newest snapshot, and those since the last one that exists, if they are few."""
        last = len(self._found.states) - 1
        missing = self.missing(made)
        if not missing or missing[-1] != last:
            return
        gap = [at for number, at in enumerate(reversed(missing)) if at == last - number]
        is_first = len(gap) == len(self._found.states)
        chosen = [last] if is_first or len(gap) > GAP_MAX else sorted(gap)
        neighbour = None
        until = time.monotonic() + GAP_SECONDS
        for at in chosen:
            if at == last or time.monotonic() < until:
                neighbour = await self._make(made, at, neighbour or await self._nearest(made, at))
        made.newest = neighbour

    async def make_older(self, made: MadeSnapshots, until: float, is_awaited: Callable[[], bool]) -> None:
        """Make older snapshots, the newest first, until a time (monotonic), or until a request waits."""
        states = self._found.states
        neighbour = None
        for at in reversed(self.missing(made)):
            if time.monotonic() > until or is_awaited():
                return
            if neighbour is None or neighbour.state.time != states[min(at + 1, len(states) - 1)].time:
                neighbour = await self._nearest(made, at)
            neighbour = await self._make(made, at, neighbour)

    async def _nearest(self, made: MadeSnapshots, at: int) -> SnapshotIndex | None:
        """The index of a snapshot next to a state, or else of the newest before it that exists."""
        states = self._found.states
        beside = [*states[at + 1 : at + 2], *states[:at][::-1]]
        time = next((state.time for state in beside if state.time in made.documents), None)
        if time is None:
            return None
        if made.newest is not None and made.newest.state.time == time:
            return made.newest
        content = await self.files.manifest_list_of(made.documents[time]["manifest-list"].rpartition("/")[2])
        return None if content is None else await asyncio.to_thread(chunks.index_of, content)

    async def _make(self, made: MadeSnapshots, at: int, neighbour: SnapshotIndex | None) -> SnapshotIndex:
        state = self._found.states[at]
        parent = self._parents[state.time] or (None if self._found.is_whole else state)
        builder = building.SnapshotBuilder(self._encoding, self._facts, self.files, state, parent)
        index = await builder.build(neighbour)
        parent_id = None if parent is None or parent.time == state.time else parent.time

        def list_of_manifests() -> bytes:
            text = msgspec.json.encode(index)
            return manifests.write_list(index.manifests, self._location, state.time, parent_id, text)

        content = await asyncio.to_thread(list_of_manifests)
        list_name = f"snap-{state.time}-{building.digest(content)}.avro"
        self.files.manifest_list(list_name, content)
        await self.files.flush(building.WRITTEN_AT_ONCE)
        made.documents[state.time] = documents.snapshot(self._found, index, f"{self._location}/{list_name}")
        return index

    def existing(self, snapshots: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
        """The snapshots that exist, oldest first."""
        return [snapshots[state.time] for state in self._found.states if state.time in snapshots]


def location_of(base_path: str) -> str:
    """The URI of a table's folder."""
    location = base_paths.parse(base_path)
    path = location.path if location.kind is Kind.FILE else f"/{location.path}"
    return f"{location.kind}://{location.bucket}{path}".rstrip("/")
