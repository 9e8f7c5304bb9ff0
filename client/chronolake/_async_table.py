"""The table for an event loop: the same names and the same calls as ``_table``, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING

from chronolake import _arrow, calls
from chronolake._async_stored_table import AsyncStoredTable
from chronolake._async_write import AsyncWrite
from chronolake._table import with_schema, write_action
from chronolake._timeline import PENDING, AsyncTimeline, completion_calls, words
from chronolake._transport import default_writer
from chronolake.calls.instants import InstantFilter
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
    TakeInflight,
)
from chronolake_model.markers import MarkersType
from chronolake_model.schemas import ChangeSchema, SchemaChange, TableSchema
from chronolake_model.slices import FileGroupHistory, Partitions, PendingFileGroups, ReplacedFileGroups
from chronolake_model.times import Moment
from chronolake_model.vocabulary import Action, Direction, Operation, State, TimeOrder, View

if TYPE_CHECKING:
    import pyarrow as pa


class AsyncTable(AsyncStoredTable):
    """A table of the metastore; as ``Table``, awaited."""

    async def reload(self) -> AsyncTable:
        """Fetch the definition again; returns this table. Raises ``TableNotFound``."""
        self._definition = await self._transport.send(calls.tables.get(self.name))
        return self

    async def change_schema(
        self, changes: Iterable[SchemaChange], *, expected_schema_version: int | None = None
    ) -> TableSchema:
        """As ``Table.change_schema``."""
        call = calls.schemas.change(self.name, ChangeSchema(list(changes), expected_schema_version))
        schema = await self._transport.send(call)
        self._definition = with_schema(self._definition, schema)
        return schema

    async def schemas(self) -> AsyncIterator[TableSchema]:
        """As ``Table.schemas``."""
        async for page in self._transport.pages(calls.schemas.list_all(self.name)):
            for one in page.schemas:
                yield one

    async def schema(self, schema_version: int) -> TableSchema:
        """As ``Table.schema``."""
        return await self._transport.send(calls.schemas.get(self.name, schema_version))

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
            markers=markers,
        )
        return self._as_write(await self._transport.send(calls.instants.begin(self.name, body)))

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
            markers=markers,
        )
        begun = await self._transport.send(calls.instants.begin_many(self.name, body))
        return [self._as_write(instant) for instant in begun.instants]

    async def plan(
        self,
        action: Action,
        file_groups: Iterable[FileGroupName] = (),
        details: Mapping[str, str] | None = None,
        *,
        writer: str | None = None,
        markers: MarkersType | None = None,
    ) -> Instant:
        """As ``Table.plan``."""
        body = BeginInstant(
            writer or default_writer(),
            action,
            inflight=False,
            plan=Plan(list(file_groups), dict(details or {})),
            markers=markers,
        )
        return await self._transport.send(calls.instants.begin(self.name, body))

    async def execute(
        self,
        requested_time: str,
        *,
        writer: str | None = None,
        lease_seconds: int | None = None,
    ) -> AsyncWrite:
        """As ``Table.execute``: ``async with await table.execute(requested_time) as write``."""
        body = TakeInflight(writer or default_writer(), lease_seconds)
        call = calls.instants.to_inflight(self.name, requested_time, body)
        return self._as_write(await self._transport.send(call))

    async def savepoint(
        self, instant: str | None = None, comment: str = "", *, writer: str | None = None
    ) -> Instant:
        """As ``Table.savepoint``."""
        body = CreateSavepoint(writer or default_writer(), instant, comment)
        return await self._transport.send(calls.savepoints.create(self.name, body))

    async def release_savepoint(
        self, requested_time: str, reason: str = "", *, writer: str | None = None
    ) -> Instant:
        """As ``Table.release_savepoint``."""
        body = ReleaseSavepoint(writer or default_writer(), reason)
        return await self._transport.send(calls.savepoints.release(self.name, requested_time, body))

    async def restore(self, savepoint: str, reason: str = "", *, writer: str | None = None) -> Instant:
        """As ``Table.restore``."""
        body = RestoreTable(writer or default_writer(), savepoint, reason)
        return await self._transport.send(calls.savepoints.restore(self.name, body))

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
        call = calls.files.snapshot(self.name, as_of, partition_path, view, before_or_on)
        return calls.files.merge_snapshot([page async for page in self._transport.pages(call)])

    def snapshot_batches(
        self, as_of: Moment | None = None, partition_path: str | None = None
    ) -> AsyncIterator[pa.RecordBatch]:
        """As ``Table.snapshot_batches``; each batch has the schema with its metadata."""
        return _arrow.async_batches(self._transport, calls.files.snapshot(self.name, as_of, partition_path))

    async def snapshot_arrow(self, as_of: Moment | None = None, partition_path: str | None = None) -> pa.Table:
        """As ``Table.snapshot_arrow``."""
        return await _arrow.async_table(self._transport, calls.files.snapshot(self.name, as_of, partition_path))

    async def scan(
        self,
        filter: Filter,
        as_of: Moment | None = None,
        partition_paths: Iterable[str] | None = None,
    ) -> Snapshot:
        """As ``Table.scan``."""
        call = calls.files.scan(self.name, as_of, partition_paths, filter)
        return calls.files.merge_snapshot([page async for page in self._transport.pages(call)])

    def scan_batches(
        self, filter: Filter, as_of: Moment | None = None, partition_paths: Iterable[str] | None = None
    ) -> AsyncIterator[pa.RecordBatch]:
        """As ``Table.scan_batches``; each batch has the schema with its metadata."""
        return _arrow.async_batches(
            self._transport, calls.files.scan(self.name, as_of, partition_paths, filter)
        )

    async def scan_arrow(
        self, filter: Filter, as_of: Moment | None = None, partition_paths: Iterable[str] | None = None
    ) -> pa.Table:
        """As ``Table.scan_arrow``."""
        call = calls.files.scan(self.name, as_of, partition_paths, filter)
        return await _arrow.async_table(self._transport, call)

    async def file_group(
        self, file_id: str, partition_path: str = "", as_of: Moment | None = None
    ) -> FileGroupHistory:
        """As ``Table.file_group``."""
        call = calls.files.file_group(self.name, file_id, partition_path, as_of)
        return calls.base.merge_pages([page async for page in self._transport.pages(call)], "slices")

    async def partitions(self, as_of: Moment | None = None) -> Partitions:
        """As ``Table.partitions``."""
        call = calls.files.partitions(self.name, as_of)
        return calls.base.merge_pages([page async for page in self._transport.pages(call)], "partitions")

    async def replaced_file_groups(self, as_of: Moment | None = None) -> ReplacedFileGroups:
        """As ``Table.replaced_file_groups``."""
        call = calls.files.replaced_file_groups(self.name, as_of)
        return calls.base.merge_pages([page async for page in self._transport.pages(call)], "file_groups")

    async def pending_file_groups(self, as_of: Moment | None = None) -> PendingFileGroups:
        """As ``Table.pending_file_groups``."""
        call = calls.files.pending_file_groups(self.name, as_of)
        return calls.base.merge_pages([page async for page in self._transport.pages(call)], "file_groups")

    async def changes(self, from_: Moment | None = None, to: Moment | None = None) -> Changes:
        """As ``Table.changes``."""
        call = calls.files.changes(self.name, from_, to)
        return calls.files.merge_changes([page async for page in self._transport.pages(call)])

    def changes_batches(
        self, from_: Moment | None = None, to: Moment | None = None
    ) -> AsyncIterator[pa.RecordBatch]:
        """As ``Table.changes_batches``; each batch has the schema with its metadata."""
        return _arrow.async_batches(self._transport, calls.files.changes(self.name, from_, to))

    async def changes_arrow(self, from_: Moment | None = None, to: Moment | None = None) -> pa.Table:
        """As ``Table.changes_arrow``."""
        return await _arrow.async_table(self._transport, calls.files.changes(self.name, from_, to))
