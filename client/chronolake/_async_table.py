"""The table for an event loop: the same names and the same calls as ``_table``, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING

from chronolake import _arrow, _calls
from chronolake._async_write import AsyncWrite
from chronolake._calls import InstantFilter
from chronolake._markers import DirectMarkers, Location
from chronolake._table import completion_calls, default_writer, with_schema, write_action
from chronolake._timeline import PENDING, AsyncTimeline, words
from chronolake._transport import AsyncTransport
from chronolake_model import tables as model
from chronolake_model.files import Changes, FileGroupName, Snapshot
from chronolake_model.filters import Filter
from chronolake_model.instants import (
    LEASE_SECONDS_DEFAULT,
    BeginInstant,
    CreateSavepoint,
    Instant,
    Plan,
    ReleaseSavepoint,
    RestoreTable,
    RollbackInstant,
    TakeInflight,
)
from chronolake_model.markers import CreateMarkers, DeletedFile, Marker, MarkerOutcome, MarkersType
from chronolake_model.schemas import ChangeSchema, SchemaChange, TableSchema
from chronolake_model.slices import FileGroupHistory, Partitions, PendingFileGroups, ReplacedFileGroups
from chronolake_model.times import Moment
from chronolake_model.vocabulary import Action, Direction, Operation, State, TimeOrder, View

if TYPE_CHECKING:
    import pyarrow as pa


class AsyncTable:
    """A table of the metastore; as ``Table``, awaited."""

    def __init__(
        self,
        transport: AsyncTransport,
        definition: model.Table,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._transport = transport
        self._definition = definition
        self._location = Location(definition, storage_options)

    @property
    def name(self) -> str:
        """``namespace.table``."""
        return self._definition.name

    @property
    def definition(self) -> model.Table:
        """The table's definition, as last fetched."""
        return self._definition

    async def reload(self) -> AsyncTable:
        """Fetch the definition again; returns this table. Raises ``TableNotFound``."""
        self._definition = await self._transport.send(_calls.table(self.name))
        return self

    async def change_schema(
        self, changes: Iterable[SchemaChange], *, expected_schema_version: int | None = None
    ) -> TableSchema:
        """As ``Table.change_schema``."""
        call = _calls.change_schema(self.name, ChangeSchema(list(changes), expected_schema_version))
        schema = await self._transport.send(call)
        self._definition = with_schema(self._definition, schema)
        return schema

    async def schemas(self) -> AsyncIterator[TableSchema]:
        """As ``Table.schemas``."""
        async for page in self._transport.pages(_calls.list_schemas(self.name)):
            for one in page.schemas:
                yield one

    async def schema(self, schema_version: int) -> TableSchema:
        """As ``Table.schema``."""
        return await self._transport.send(_calls.schema(self.name, schema_version))

    async def begin(
        self,
        *,
        action: Action | None = None,
        operation: Operation = Operation.UNKNOWN,
        writer: str | None = None,
        lease_seconds: int = LEASE_SECONDS_DEFAULT,
        inflight: bool = True,
        plan: Plan | None = None,
        markers: MarkersType | None = None,
    ) -> AsyncWrite:
        """As ``Table.begin``: ``async with await table.begin() as write``."""
        body = BeginInstant(
            writer or default_writer(),
            action or write_action(self.definition.type),
            operation,
            lease_seconds,
            inflight,
            plan,
        )
        return self._as_write(await self._transport.send(_calls.begin_instant(self.name, body)), markers)

    async def begin_many(
        self,
        count: int,
        *,
        action: Action | None = None,
        operation: Operation = Operation.UNKNOWN,
        writer: str | None = None,
        lease_seconds: int = LEASE_SECONDS_DEFAULT,
        inflight: bool = True,
        markers: MarkersType | None = None,
    ) -> list[AsyncWrite]:
        """As ``Table.begin_many``."""
        body = BeginInstant(
            writer or default_writer(),
            action or write_action(self.definition.type),
            operation,
            lease_seconds,
            inflight,
            count=count,
        )
        begun = await self._transport.send(_calls.begin_instants(self.name, body))
        return [self._as_write(instant, markers) for instant in begun.instants]

    async def plan(
        self,
        action: Action,
        file_groups: Iterable[FileGroupName] = (),
        details: Mapping[str, str] | None = None,
        *,
        writer: str | None = None,
    ) -> Instant:
        """As ``Table.plan``."""
        body = BeginInstant(
            writer or default_writer(),
            action,
            inflight=False,
            plan=Plan(list(file_groups), dict(details or {})),
        )
        return await self._transport.send(_calls.begin_instant(self.name, body))

    async def execute(
        self,
        requested_time: str,
        *,
        writer: str | None = None,
        lease_seconds: int | None = None,
        markers: MarkersType | None = None,
    ) -> AsyncWrite:
        """As ``Table.execute``: ``async with await table.execute(requested_time) as write``."""
        body = TakeInflight(writer or default_writer(), lease_seconds)
        call = _calls.to_inflight(self.name, requested_time, body)
        return self._as_write(await self._transport.send(call), markers)

    async def write(self, requested_time: str, *, markers: MarkersType | None = None) -> AsyncWrite:
        """As ``Table.write``."""
        return self._as_write(await self.instant(requested_time), markers)

    async def instant(self, requested_time: str) -> Instant:
        """One instant of the timeline. Raises ``InstantNotFound``."""
        return await self._transport.send(_calls.instant(self.name, requested_time))

    async def rollback(
        self,
        requested_time: str,
        reason: str = "",
        *,
        writer: str | None = None,
        files_to_delete: Iterable[str] = (),
        execute: bool = True,
    ) -> Instant:
        """As ``Table.rollback``."""
        files = list(files_to_delete)
        body = RollbackInstant(writer or default_writer(), reason, files, execute=execute)
        return await self._transport.send(_calls.rollback_instant(self.name, requested_time, body))

    async def savepoint(
        self, instant: str | None = None, comment: str = "", *, writer: str | None = None
    ) -> Instant:
        """As ``Table.savepoint``."""
        body = CreateSavepoint(writer or default_writer(), instant, comment)
        return await self._transport.send(_calls.create_savepoint(self.name, body))

    async def release_savepoint(
        self, requested_time: str, reason: str = "", *, writer: str | None = None
    ) -> Instant:
        """As ``Table.release_savepoint``."""
        body = ReleaseSavepoint(writer or default_writer(), reason)
        return await self._transport.send(_calls.release_savepoint(self.name, requested_time, body))

    async def restore(self, savepoint: str, reason: str = "", *, writer: str | None = None) -> Instant:
        """As ``Table.restore``."""
        body = RestoreTable(writer or default_writer(), savepoint, reason)
        return await self._transport.send(_calls.restore_table(self.name, body))

    async def create_markers(
        self, requested_time: str, markers: Iterable[Marker], *, writer: str | None = None
    ) -> list[MarkerOutcome]:
        """As ``Table.create_markers``; direct ones, here and below, are reached by threads."""
        if (direct := self._direct_markers(requested_time)) is not None:
            return await asyncio.to_thread(direct.create, markers)
        call = _calls.create_markers(self.name, requested_time, CreateMarkers(list(markers), writer))
        return (await self._transport.send(call)).outcomes

    async def markers(self, requested_time: str, *, unpublished: bool = False) -> AsyncIterator[Marker]:
        """As ``Table.markers``."""
        if (direct := self._direct_markers(requested_time)) is not None:
            for one in await asyncio.to_thread(direct.listed, unpublished):
                yield one
            return
        async for page in self._transport.pages(_calls.list_markers(self.name, requested_time, unpublished)):
            for one in page.markers:
                yield one

    async def has_marker(self, requested_time: str, marker: Marker) -> bool:
        """As ``Table.has_marker``."""
        if (direct := self._direct_markers(requested_time)) is not None:
            return await asyncio.to_thread(direct.check, marker)
        return (await self._transport.send(_calls.find_marker(self.name, requested_time, marker))).exists

    async def delete_markers(self, requested_time: str) -> int:
        """As ``Table.delete_markers``."""
        if (direct := self._direct_markers(requested_time)) is not None:
            return await asyncio.to_thread(direct.delete_all)
        return (await self._transport.send(_calls.delete_markers(self.name, requested_time))).deleted

    async def deletions(self, requested_time: str) -> AsyncIterator[DeletedFile]:
        """As ``Table.deletions``."""
        async for page in self._transport.pages(_calls.list_deletions(self.name, requested_time)):
            for one in page.files:
                yield one

    @property
    def timeline(self) -> AsyncTimeline:
        """As ``Table.timeline``: ``await table.timeline.completed().last()``."""
        return AsyncTimeline(self._transport, self.name)

    def instants(  # noqa: PLR0913  # one keyword per filter of the timeline
        self,
        *,
        state: State | Iterable[State] = (),
        action: Action | Iterable[Action] = (),
        pending: bool = False,
        operation: Operation | Iterable[Operation] = (),
        writer: str | None = None,
        requested_from: Moment | None = None,
        requested_to: Moment | None = None,
        completed_from: Moment | None = None,
        completed_to: Moment | None = None,
        order_by: TimeOrder = TimeOrder.REQUESTED_TIME,
        direction: Direction = Direction.ASCENDING,
        limit: int | None = None,
    ) -> AsyncIterator[Instant]:
        """As ``Table.instants``."""
        wanted = InstantFilter(
            state=words(state) + (PENDING if pending else ()),
            action=words(action),
            operation=words(operation),
            writer=writer,
            requested_from=requested_from,
            requested_to=requested_to,
            completed_from=completed_from,
            completed_to=completed_to,
            order_by=order_by,
            direction=direction,
        )
        return AsyncTimeline(self._transport, self.name, wanted).take(limit)

    async def completion_times(self, requested_times: Iterable[str]) -> list[str | None]:
        """As ``Table.completion_times``."""
        pages = [await self._transport.send(call) for call in completion_calls(self.name, requested_times)]
        return [time for page in pages for time in page.completion_times]

    async def snapshot(
        self,
        as_of: Moment | None = None,
        partition_path: str | None = None,
        *,
        view: View = View.MERGED,
        before_or_on: Moment | None = None,
    ) -> Snapshot:
        """As ``Table.snapshot``."""
        call = _calls.snapshot(self.name, as_of, partition_path, view, before_or_on)
        return _calls.merge_snapshot([page async for page in self._transport.pages(call)])

    def snapshot_batches(
        self, as_of: Moment | None = None, partition_path: str | None = None
    ) -> AsyncIterator[pa.RecordBatch]:
        """As ``Table.snapshot_batches``; each batch has the schema with its metadata."""
        return _arrow.async_batches(self._transport, _calls.snapshot(self.name, as_of, partition_path))

    async def snapshot_arrow(self, as_of: Moment | None = None, partition_path: str | None = None) -> pa.Table:
        """As ``Table.snapshot_arrow``."""
        return await _arrow.async_table(self._transport, _calls.snapshot(self.name, as_of, partition_path))

    async def scan(
        self,
        filter: Filter,
        as_of: Moment | None = None,
        partition_paths: Iterable[str] | None = None,
    ) -> Snapshot:
        """As ``Table.scan``."""
        call = _calls.scan(self.name, as_of, partition_paths, filter)
        return _calls.merge_snapshot([page async for page in self._transport.pages(call)])

    def scan_batches(
        self, filter: Filter, as_of: Moment | None = None, partition_paths: Iterable[str] | None = None
    ) -> AsyncIterator[pa.RecordBatch]:
        """As ``Table.scan_batches``; each batch has the schema with its metadata."""
        return _arrow.async_batches(self._transport, _calls.scan(self.name, as_of, partition_paths, filter))

    async def scan_arrow(
        self, filter: Filter, as_of: Moment | None = None, partition_paths: Iterable[str] | None = None
    ) -> pa.Table:
        """As ``Table.scan_arrow``."""
        call = _calls.scan(self.name, as_of, partition_paths, filter)
        return await _arrow.async_table(self._transport, call)

    async def file_group(
        self, file_id: str, partition_path: str = "", as_of: Moment | None = None
    ) -> FileGroupHistory:
        """As ``Table.file_group``."""
        call = _calls.file_group(self.name, file_id, partition_path, as_of)
        return _calls.merge_pages([page async for page in self._transport.pages(call)], "slices")

    async def partitions(self, as_of: Moment | None = None) -> Partitions:
        """As ``Table.partitions``."""
        call = _calls.partitions(self.name, as_of)
        return _calls.merge_pages([page async for page in self._transport.pages(call)], "partitions")

    async def replaced_file_groups(self, as_of: Moment | None = None) -> ReplacedFileGroups:
        """As ``Table.replaced_file_groups``."""
        call = _calls.replaced_file_groups(self.name, as_of)
        return _calls.merge_pages([page async for page in self._transport.pages(call)], "file_groups")

    async def pending_file_groups(self, as_of: Moment | None = None) -> PendingFileGroups:
        """As ``Table.pending_file_groups``."""
        call = _calls.pending_file_groups(self.name, as_of)
        return _calls.merge_pages([page async for page in self._transport.pages(call)], "file_groups")

    async def changes(self, from_: Moment | None = None, to: Moment | None = None) -> Changes:
        """As ``Table.changes``."""
        call = _calls.changes(self.name, from_, to)
        return _calls.merge_changes([page async for page in self._transport.pages(call)])

    def changes_batches(
        self, from_: Moment | None = None, to: Moment | None = None
    ) -> AsyncIterator[pa.RecordBatch]:
        """As ``Table.changes_batches``; each batch has the schema with its metadata."""
        return _arrow.async_batches(self._transport, _calls.changes(self.name, from_, to))

    async def changes_arrow(self, from_: Moment | None = None, to: Moment | None = None) -> pa.Table:
        """As ``Table.changes_arrow``."""
        return await _arrow.async_table(self._transport, _calls.changes(self.name, from_, to))

    def _direct_markers(self, requested_time: str, markers: MarkersType | None = None) -> DirectMarkers | None:
        return self._location.direct_markers(requested_time, markers)

    def _as_write(self, instant: Instant, markers: MarkersType | None) -> AsyncWrite:
        return AsyncWrite(self._transport, instant, self._direct_markers(instant.requested_time, markers))
