"""A table's side of its storage for an event loop: ``_stored_table``, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping

from chronolake import _sweeps, calls
from chronolake._async_write import AsyncWrite, finish_clean, finish_rollback
from chronolake._markers import DirectMarkers, Location
from chronolake._needed import Server, by_loop, in_thread
from chronolake._reading import AsyncReading, begin_call
from chronolake._stored_table import asked_clean
from chronolake._timeline import AsyncTimeline
from chronolake._transport import AsyncTransport, default_writer
from chronolake_model import tables as model
from chronolake_model.cleans import CleanPolicy, CleanPreview
from chronolake_model.deletable import AskDeletable, AskOrphans, Deletable
from chronolake_model.instants import LEASE_SECONDS_DEFAULT, Instant, RollbackInstant
from chronolake_model.markers import CreateMarkers, DeletedFile, Marker, MarkerOutcome, MarkersType
from chronolake_model.readers import ReaderLease
from chronolake_model.sweeps import Swept
from chronolake_model.times import Moment


class AsyncStoredTable:
    """What ``AsyncTable`` has of a table in storage."""

    def __init__(
        self,
        transport: AsyncTransport,
        definition: model.Table,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._transport = transport
        self._definition = definition
        self._location = Location(definition, storage_options, Server(by_loop(transport), definition))

    @property
    def name(self) -> str:
        """``namespace.table``."""
        return self._definition.name

    @property
    def definition(self) -> model.Table:
        """The table's definition, as last fetched."""
        return self._definition

    async def write(self, requested_time: str) -> AsyncWrite:
        """As ``Table.write``."""
        return self._as_write(await self.instant(requested_time))

    async def instant(self, requested_time: str) -> Instant:
        """One instant of the timeline. Raises ``InstantNotFound``."""
        return await self._transport.send(calls.instants.get(self.name, requested_time))

    async def rollback(
        self,
        requested_time: str,
        reason: str = "",
        *,
        writer: str | None = None,
        files_to_delete: Iterable[str] = (),
        execute: bool | None = None,
    ) -> Instant:
        """As ``Table.rollback``."""
        execute = self._location.executes if execute is None else execute
        asked = RollbackInstant(writer or default_writer(), reason, list(files_to_delete), execute=execute)
        undone = await self._transport.send(calls.instants.rollback(self.name, requested_time, asked))
        if execute:
            await finish_rollback(self._transport, self._location, undone, asked.writer)
        return undone

    async def finish_rollbacks(self, *, writer: str | None = None) -> list[Instant]:
        """As ``Table.finish_rollbacks``."""
        asked = RollbackInstant(writer or default_writer())
        done: list[Instant] = []
        for waiting in [one async for one in self.timeline.rollbacks().pending()]:
            assert waiting.target is not None
            undone = await self._transport.send(calls.instants.rollback(self.name, waiting.target, asked))
            if await finish_rollback(self._transport, self._location, undone, asked.writer):
                done.append(await self.instant(waiting.requested_time))
        return done

    async def clean(
        self,
        *,
        retain_commits: int | None = None,
        retain_hours: int | None = None,
        retain_versions: int | None = None,
        writer: str | None = None,
        execute: bool | None = None,
    ) -> list[Instant]:
        """As ``Table.clean``."""
        policy = CleanPolicy(retain_commits, retain_hours, retain_versions)
        execute = self._location.executes if execute is None else execute
        call = calls.cleans.plan(self.name, asked_clean(policy, writer, execute))
        done: list[Instant] = []
        while (clean := (await self._transport.send(call)).clean) is not None:
            if not execute:
                return [clean]
            done.append(await finish_clean(self._transport, self._location, clean))
        return done

    async def preview_clean(
        self,
        *,
        retain_commits: int | None = None,
        retain_hours: int | None = None,
        retain_versions: int | None = None,
    ) -> CleanPreview:
        """As ``Table.preview_clean``."""
        policy = CleanPolicy(retain_commits, retain_hours, retain_versions)
        return await self._transport.send(calls.cleans.preview(self.name, policy))

    async def reading(
        self,
        as_of: Moment | None = None,
        *,
        reader: str | None = None,
        lease_seconds: int = LEASE_SECONDS_DEFAULT,
    ) -> AsyncReading:
        """As ``Table.reading``: ``async with await table.reading() as reading``."""
        lease = await self._transport.send(begin_call(self.name, as_of, reader, lease_seconds))
        return AsyncReading(self._transport, lease)

    async def readers(self) -> AsyncIterator[ReaderLease]:
        """As ``Table.readers``."""
        async for page in self._transport.pages(calls.readers.list_all(self.name)):
            for one in page.readers:
                yield one

    async def create_markers(
        self, requested_time: str, markers: Iterable[Marker], *, writer: str | None = None
    ) -> list[MarkerOutcome]:
        """As ``Table.create_markers``; direct ones, here and below, are reached by threads."""
        if (direct := self._direct_markers(requested_time)) is not None:
            return await in_thread(direct.create, markers)
        await in_thread(self._location.claim_if_present)
        call = calls.markers.create(self.name, requested_time, CreateMarkers(list(markers), writer))
        return (await self._transport.send(call)).outcomes

    async def markers(self, requested_time: str, *, unpublished: bool = False) -> AsyncIterator[Marker]:
        """As ``Table.markers``."""
        if (direct := self._direct_markers(requested_time)) is not None:
            for one in await in_thread(direct.listed, unpublished):
                yield one
            return
        async for page in self._transport.pages(calls.markers.list_all(self.name, requested_time, unpublished)):
            for one in page.markers:
                yield one

    async def has_marker(self, requested_time: str, marker: Marker) -> bool:
        """As ``Table.has_marker``."""
        if (direct := self._direct_markers(requested_time)) is not None:
            return await in_thread(direct.check, marker)
        return (await self._transport.send(calls.markers.find(self.name, requested_time, marker))).exists

    async def delete_markers(self, requested_time: str) -> int:
        """As ``Table.delete_markers``."""
        if (direct := self._direct_markers(requested_time)) is not None:
            return await in_thread(direct.delete_all)
        return (await self._transport.send(calls.markers.delete(self.name, requested_time))).deleted

    async def sweep(self, *, grace_seconds: int | None = None) -> Swept:
        """As ``Table.sweep``; storage is reached by threads."""
        return await _sweeps.sweep_async(self._transport, self._location, self.name, grace_seconds)

    async def deletions(self, requested_time: str) -> AsyncIterator[DeletedFile]:
        """As ``Table.deletions``."""
        async for page in self._transport.pages(calls.deletions.list_all(self.name, requested_time)):
            for one in page.files:
                yield one

    async def deletable(
        self, requested_time: str, files: Iterable[DeletedFile], *, writer: str | None = None
    ) -> Deletable:
        """As ``Table.deletable``."""
        asked = AskDeletable(list(files), writer)
        return await self._transport.send(calls.deletions.deletable(self.name, requested_time, asked))

    async def deletable_orphans(
        self, files: Iterable[DeletedFile], *, unknown_instants: bool = False
    ) -> Deletable:
        """As ``Table.deletable_orphans``."""
        asked = AskOrphans(list(files), unknown_instants)
        return await self._transport.send(calls.deletions.deletable_orphans(self.name, asked))

    @property
    def timeline(self) -> AsyncTimeline:
        """As ``Table.timeline``: ``await table.timeline.completed().last()``."""
        return AsyncTimeline(self._transport, self.name)

    async def claim_storage(self) -> None:
        """As ``Table.claim_storage``."""
        await in_thread(self._location.claim)

    def _direct_markers(self, requested_time: str) -> DirectMarkers | None:
        if self._location.markers_type is MarkersType.SERVER:
            return None
        return self._location.direct_markers(requested_time)

    def _as_write(self, instant: Instant) -> AsyncWrite:
        return AsyncWrite(self._transport, instant, self._location)
