"""A table: its definition, its timeline, its snapshots and changes, and the begin of writes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

import msgspec

from chronolake import calls, errors
from chronolake._async.stream_writer import AsyncStreamWriter
from chronolake._async.table_writes import AsyncTableWrites
from chronolake._async.timeline import AsyncTimeline
from chronolake._definitions import (
    needs_former_schemas,
    warn_of_changes,
    with_schema,
)
from chronolake._http import default_writer
from chronolake._timeline_filter import PENDING, as_tuple, completion_calls
from chronolake.calls.timeline import InstantFilter
from chronolake_model import operations
from chronolake_model.checks import CheckResult
from chronolake_model.cuts import AsOf
from chronolake_model.instants import (
    LEASE_SECONDS_DEFAULT,
    CreateSavepoint,
    Instant,
    ReleaseSavepoint,
    RestoreTable,
)
from chronolake_model.publication import PUBLISH_PROPERTY
from chronolake_model.schemas import ChangeSchema, SchemaChange, TableSchema
from chronolake_model.streams import OpenStream, Stream
from chronolake_model.tables import AlterTable
from chronolake_model.times import Moment
from chronolake_model.vocabulary import Action, Direction, Operation, State, TimeOrder


class AsyncTable(AsyncTableWrites):
    """A table of the metastore. Tasks of one event loop may share it."""

    async def reload(self) -> AsyncTable:
        """Fetch the definition again; returns this table. Raises ``TableNotFound``."""
        self._adopt(await self._transport.send(calls.call(operations.catalog.GET_TABLE, self.name)))
        return self

    async def alter(
        self, *, name: str | None = None, set: Mapping[str, str] | None = None, unset: Iterable[str] = ()
    ) -> AsyncTable:
        """Rename the table, set and unset properties, in one command; returns this table.

        ``name`` is ``namespace.table``. The table keeps its files and its timeline. Writes that began before
        continue under the new name: open them again by ``write``. Raises ``TableExists``,
        ``NamespaceNotFound``, ``InvalidTable``, and ``IllegalTransition`` when pending instants depend on a
        property or on the name; its ``context`` lists them.
        """
        if isinstance(unset, str):
            raise TypeError(f"unset is a list of names, not a name: unset=[{unset!r}]")
        body = AlterTable(name, dict(set or {}), list(unset))
        altered = await self._transport.send(calls.call(operations.catalog.ALTER_TABLE, self.name, body=body))
        self._adopt(msgspec.structs.replace(altered, took_over=self._definition.took_over))
        if PUBLISH_PROPERTY in body.set and self._location.is_client_publisher:
            # If it is off now, the table is hidden.
            from chronolake._async import publishing  # noqa: PLC0415  # slow

            await publishing.publish_if_possible(self._transport, self._location, self.name)
        return self

    async def change_schema(
        self, changes: Iterable[SchemaChange], *, expected_schema_version: int | None = None
    ) -> TableSchema:
        """Change columns: all ``changes``, or none; ``definition`` has the new schema afterwards.

        ``expected_schema_version`` must be the present version, if given. No file is changed. A warning is
        logged before if Hudi's readers will not see the table afterwards, with the reason. Raises
        ``IncompatibleSchema``, which gives the reason and the allowed changes, ``SchemaChanged``,
        ``InvalidTable``.
        """
        body = ChangeSchema(list(changes), expected_schema_version)
        needs_former = needs_former_schemas(self._definition, body.changes)
        former = [schema.fields async for schema in self.schemas()] if needs_former else []
        warn_of_changes(self._definition, body.changes, former)
        schema = await self._transport.send(calls.call(operations.catalog.CHANGE_SCHEMA, self.name, body=body))
        self._definition = with_schema(self._definition, schema)
        return schema

    def schemas(self) -> AsyncIterator[TableSchema]:
        """All versions of the schema, oldest first."""
        return self._transport.entries(calls.catalog.list_schemas(self.name), lambda page: page.schemas)

    async def schema(self, schema_version: int) -> TableSchema:
        """One version of the schema. Raises ``SchemaNotFound``."""
        return await self._transport.send(calls.call(operations.catalog.GET_SCHEMA, self.name, schema_version))

    async def open_stream(
        self,
        name: str,
        *,
        writer: str | None = None,
        tasks: int | None = None,
        restored_checkpoint: int | None = None,
        lease_seconds: int = LEASE_SECONDS_DEFAULT,
        reason: str = "",
    ) -> AsyncStreamWriter:
        """Open a stream for a streaming job, with its next epoch: earlier ones are refused from then on.

        ``tasks`` is how many tasks write; the end of the input needs it. A job that continues from a checkpoint
        names it as ``restored_checkpoint``, and then calls ``complete`` with it: what was written after it is
        rolled back, and everything without it. Files of what was rolled back are deleted, unless the table's
        property ``deletions.executor`` leaves that to the server; those that cannot be deleted now stay on
        the list of ``finish_rollbacks``. These rollbacks get the ``reason``; without it, that the stream was
        opened. ``writer`` is user@host:pid unless given. See ``AsyncStreamWriter``.
        """
        body = OpenStream(writer or default_writer(), lease_seconds, tasks, restored_checkpoint, reason)
        opened = await self._transport.send(
            calls.call(operations.streams.OPEN_STREAM, self.name, name, body=body)
        )
        if self._location.is_client_executor:
            with contextlib.suppress(errors.StorageFailed):
                await self.finish_rollbacks(writer=body.writer)
        return AsyncStreamWriter(self._transport, self._location, self.name, name, opened.epoch, lease_seconds)

    def stream(self, name: str, epoch: int) -> AsyncStreamWriter:
        """A stream that another process has opened, with that epoch. Nothing is fetched."""
        seconds = LEASE_SECONDS_DEFAULT
        return AsyncStreamWriter(self._transport, self._location, self.name, name, epoch, seconds)

    def streams(self) -> AsyncIterator[Stream]:
        """The streams of the table by their names, without the reports of their tasks."""
        return self._transport.entries(calls.timeline.list_streams(self.name), lambda page: page.streams)

    async def savepoint(
        self, instant: str | None = None, comment: str = "", *, writer: str | None = None
    ) -> Instant:
        """Pin a completed instant, given by its requested time; by default the last completed one.

        If it is pinned already, its savepoint is returned. Raises ``InstantNotFound``, and
        ``IllegalTransition`` when the instant has not completed or changed nothing.
        """
        body = CreateSavepoint(writer or default_writer(), instant, comment)
        return await self._transport.send(calls.timeline.create_savepoint(self.name, body))

    async def release_savepoint(
        self, requested_time: str, reason: str = "", *, writer: str | None = None
    ) -> Instant:
        """Release a savepoint, given by its own requested time.

        Raises ``InstantNotFound``, ``IllegalTransition``.
        """
        body = ReleaseSavepoint(writer or default_writer(), reason)
        return await self._transport.send(
            calls.call(operations.timeline.RELEASE_SAVEPOINT, self.name, requested_time, body=body)
        )

    async def restore(self, savepoint: str, reason: str = "", *, writer: str | None = None) -> Instant:
        """Restore the table to a savepoint, given by the savepoint's requested time.

        All pending writes and all writes that completed after the pinned instant are rolled back, in the order
        of ``plan.instants`` of the answer. Raises ``Savepointed`` when there is a later savepoint,
        ``InstantNotFound``, ``IllegalTransition``.
        """
        body = RestoreTable(writer or default_writer(), savepoint, reason)
        return await self._transport.send(calls.timeline.restore(self.name, body))

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
        active_only: bool = False,
        order_by: TimeOrder = TimeOrder.REQUESTED_TIME,
        direction: Direction = Direction.ASCENDING,
        limit: int | None = None,
    ) -> AsyncIterator[Instant]:
        """The timeline, ``limit`` instants at most, fetched page by page as it is consumed.

        ``pending`` adds requested and inflight to ``state``. Times are an instant's digits, aware datetimes, or
        instants, which give their requested or their completion time. ``active_only`` leaves out instants that
        are in the archive of the log.
        Ranges exclude their start and include their end. A filter or an order by completion time leaves out
        instants that have not completed.
        """
        filter = InstantFilter(
            state=as_tuple(State, state) + (PENDING if pending else ()),
            action=as_tuple(Action, action),
            operation=as_tuple(Operation, operation),
            writer=writer,
            requested_from=requested_from,
            requested_to=requested_to,
            completed_from=completed_from,
            completed_to=completed_to,
            active_only=active_only,
            order_by=TimeOrder(order_by),
            direction=Direction(direction),
        )
        return AsyncTimeline(self._transport, self.name, filter).take(limit)

    async def completion_times(self, requested_times: Iterable[str]) -> list[str | None]:
        """The completion times of any number of instants, in the order of ``requested_times``.

        None stands for an instant that has not completed, and for a time at which no instant was requested.
        """
        pages = [await self._transport.send(call) for call in completion_calls(self.name, requested_times)]
        return [time for page in pages for time in page.completion_times]

    async def check(
        self,
        as_of: AsOf | None = None,
        *,
        sample: int | None = None,
        on_progress: Callable[[int, int, int], None] | None = None,
    ) -> CheckResult:
        """Read the table's files as of a completion time and report errors in them; nothing is changed.

        ``sample`` limits the number of base files that are read. ``on_progress`` is called after each file with
        the files read, the files to read, and the records read. The keys of one file and one row group are held
        in memory. It needs ``chronolake[arrow]``. Raises ``StorageFailed``, ``HistoryCleaned``.
        """
        from chronolake._async import checks  # noqa: PLC0415  # pyarrow and numpy are an extra

        return await checks.check(self, as_of, sample, on_progress)
