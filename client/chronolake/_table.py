"""A table: its timeline, its snapshot and its changes, and where writes begin."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from chronolake import _arrow, _calls, _orphans
from chronolake._calls import Call, InstantFilter
from chronolake._markers import Location, Markers, ServerMarkers
from chronolake._timeline import PENDING, Timeline, words
from chronolake._transport import Transport, actor
from chronolake._write import Write
from chronolake_model import tables as model
from chronolake_model.files import Changes, FileGroupName, Snapshot
from chronolake_model.filters import Filter
from chronolake_model.instants import (
    LEASE_SECONDS_DEFAULT,
    REQUESTED_TIMES_MAX,
    BeginInstant,
    CompletionTimes,
    CreateSavepoint,
    Instant,
    Plan,
    ReleaseSavepoint,
    RestoreTable,
    RollbackInstant,
    TakeInflight,
)
from chronolake_model.markers import DeletedFile, Marker, MarkerOutcome, MarkersType
from chronolake_model.orphans import Orphans
from chronolake_model.schemas import ChangeSchema, SchemaChange, TableSchema
from chronolake_model.slices import FileGroupHistory, Partitions, PendingFileGroups, ReplacedFileGroups
from chronolake_model.times import Moment
from chronolake_model.vocabulary import Action, Direction, Operation, State, TableType, TimeOrder, View

if TYPE_CHECKING:
    import pyarrow as pa


class Table:
    """A table of the metastore. ``definition`` is as last fetched. Threads may share it."""

    def __init__(
        self,
        transport: Transport,
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

    def reload(self) -> Table:
        """Fetch the definition again; returns this table. Raises ``TableNotFound``."""
        self._definition = self._transport.send(_calls.table(self.name))
        return self

    def change_schema(
        self, changes: Iterable[SchemaChange], *, expected_schema_version: int | None = None
    ) -> TableSchema:
        """Change columns, all that is asked for or nothing; ``definition`` is of the new schema afterwards.

        With ``expected_schema_version`` only when that is still the present version. No file is touched. Raises
        ``IncompatibleSchema``, which says why and what is allowed, ``SchemaChanged``, ``InvalidTable``.
        """
        call = _calls.change_schema(self.name, ChangeSchema(list(changes), expected_schema_version))
        schema = self._transport.send(call)
        self._definition = with_schema(self._definition, schema)
        return schema

    def schemas(self) -> Iterator[TableSchema]:
        """Every version that the schema has had, oldest first."""
        pages = self._transport.pages(_calls.list_schemas(self.name))
        return (one for page in pages for one in page.schemas)

    def schema(self, schema_version: int) -> TableSchema:
        """One version of the schema. Raises ``SchemaNotFound``."""
        return self._transport.send(_calls.schema(self.name, schema_version))

    def begin(
        self,
        *,
        action: Action | None = None,
        operation: Operation = Operation.UNKNOWN,
        writer: str | None = None,
        lease_seconds: int = LEASE_SECONDS_DEFAULT,
        inflight: bool = True,
        plan: Plan | None = None,
        markers: MarkersType | None = None,
    ) -> Write:
        """Begin an instant; ``writer`` is user@host:pid unless given.

        ``action`` is, unless given, what a write is to a table of this type: a commit to a copy-on-write
        table, a deltacommit to a merge-on-read one. ``plan`` tells others what it is to touch; compaction, log
        compaction and clustering need one. ``markers`` says where those of this write are; the table's property
        ``markers.type`` does, unless given. Raises ``ActionNotSupported``, ``InvalidPlan``, ``WriteConflict``
        (another has planned for the same file groups), ``TableNotFound``.
        Use the result as a context manager, and its lease is renewed; see ``Write``.
        """
        body = BeginInstant(
            writer or default_writer(),
            action or write_action(self.definition.type),
            operation,
            lease_seconds,
            inflight,
            plan,
        )
        return self._as_write(self._transport.send(_calls.begin_instant(self.name, body)), markers)

    def begin_many(
        self,
        count: int,
        *,
        action: Action | None = None,
        operation: Operation = Operation.UNKNOWN,
        writer: str | None = None,
        lease_seconds: int = LEASE_SECONDS_DEFAULT,
        inflight: bool = True,
        markers: MarkersType | None = None,
    ) -> list[Write]:
        """Begin so many instants in one request, 1,000 at most; see ``begin``."""
        body = BeginInstant(
            writer or default_writer(),
            action or write_action(self.definition.type),
            operation,
            lease_seconds,
            inflight,
            count=count,
        )
        begun = self._transport.send(_calls.begin_instants(self.name, body)).instants
        return [self._as_write(instant, markers) for instant in begun]

    def plan(
        self,
        action: Action,
        file_groups: Iterable[FileGroupName] = (),
        details: Mapping[str, str] | None = None,
        *,
        writer: str | None = None,
    ) -> Instant:
        """Plan a table service: it stays requested, without a lease, until somebody executes it.

        Raises ``ActionNotSupported``, ``InvalidPlan`` (a file group that is not there), and ``WriteConflict``
        when another pending plan has one of the file groups.
        """
        body = BeginInstant(
            writer or default_writer(),
            action,
            inflight=False,
            plan=Plan(list(file_groups), dict(details or {})),
        )
        return self._transport.send(_calls.begin_instant(self.name, body))

    def execute(
        self,
        requested_time: str,
        *,
        writer: str | None = None,
        lease_seconds: int | None = None,
        markers: MarkersType | None = None,
    ) -> Write:
        """Execute a plan that waits, whoever made it; it is in the result's ``instant.plan``.

        Raises ``IllegalTransition`` when somebody executes it already, or did. What becomes of the plan when
        the execution fails: see ``Write``.
        """
        body = TakeInflight(writer or default_writer(), lease_seconds)
        return self._as_write(
            self._transport.send(_calls.to_inflight(self.name, requested_time, body)), markers
        )

    def write(self, requested_time: str, *, markers: MarkersType | None = None) -> Write:
        """The write of an instant that was begun before, perhaps in another process.

        Its lease is renewed only while it is used as a context manager. Raises ``InstantNotFound``.
        """
        return self._as_write(self.instant(requested_time), markers)

    def instant(self, requested_time: str) -> Instant:
        """One instant of the timeline. Raises ``InstantNotFound``."""
        return self._transport.send(_calls.instant(self.name, requested_time))

    def rollback(
        self,
        requested_time: str,
        reason: str = "",
        *,
        writer: str | None = None,
        files_to_delete: Iterable[str] = (),
        execute: bool = True,
    ) -> Instant:
        """Give up an instant of somebody who is gone; ``writer`` is user@host:pid unless given.

        Another than the instant's own writer may do so only when its lease has ended. The rollback is an
        instant of its own, which ``rolled_back_by`` of the answer names. It has completed, unless there are
        ``files_to_delete``, or the instant has marked files: then whoever deletes them completes
        ``write(rolled_back_by)``, see ``Write.left_over``; without ``execute`` the rollback waits for another
        who does. Raises ``LeaseLive``, ``InstantNotFound``, ``IllegalTransition``.
        """
        files = list(files_to_delete)
        body = RollbackInstant(writer or default_writer(), reason, files, execute=execute)
        return self._transport.send(_calls.rollback_instant(self.name, requested_time, body))

    def savepoint(self, instant: str | None = None, comment: str = "", *, writer: str | None = None) -> Instant:
        """Pin a completed instant, by its requested time; the one that completed last unless given.

        One that is pinned already is answered with its savepoint. Raises ``InstantNotFound``, and
        ``IllegalTransition`` when the instant has not completed or changed nothing.
        """
        body = CreateSavepoint(writer or default_writer(), instant, comment)
        return self._transport.send(_calls.create_savepoint(self.name, body))

    def release_savepoint(self, requested_time: str, reason: str = "", *, writer: str | None = None) -> Instant:
        """Give a savepoint up, by its own requested time. Raises ``InstantNotFound``, ``IllegalTransition``."""
        body = ReleaseSavepoint(writer or default_writer(), reason)
        return self._transport.send(_calls.release_savepoint(self.name, requested_time, body))

    def restore(self, savepoint: str, reason: str = "", *, writer: str | None = None) -> Instant:
        """Take the table back to a savepoint, by the savepoint's requested time.

        All pending writes are rolled back, and all that completed after the pinned instant: the answer's
        ``plan.instants``, in that order. Raises ``Savepointed`` when a later savepoint is in the way,
        ``InstantNotFound``, ``IllegalTransition``.
        """
        body = RestoreTable(writer or default_writer(), savepoint, reason)
        return self._transport.send(_calls.restore_table(self.name, body))

    def create_markers(
        self, requested_time: str, markers: Iterable[Marker], *, writer: str | None = None
    ) -> list[MarkerOutcome]:
        """Create markers of a pending instant, 10,000 at most; see ``Write.mark``.

        For executors that know the instant by its requested time; ``writer`` says in whose name.
        """
        return self.markers_of(requested_time, writer=writer).create(markers)

    def markers(self, requested_time: str, *, unpublished: bool = False) -> Iterator[Marker]:
        """The markers of an instant, by path, fetched page by page as they are consumed.

        ``unpublished`` leaves out those whose data files the instant has published. Raises ``InstantNotFound``,
        and ``ValueError`` when it is to leave out direct markers: only the server knows what is published.
        """
        return self.markers_of(requested_time).listed(unpublished)

    def has_marker(self, requested_time: str, marker: Marker) -> bool:
        """Whether an instant has this marker. Raises ``InstantNotFound``, ``ValueError``."""
        return self.markers_of(requested_time).check(marker)

    def delete_markers(self, requested_time: str) -> int:
        """Delete the markers of an instant that has completed or was rolled back: how many there were.

        Raises ``IllegalTransition`` while it is pending, or the rollback that deletes what they name; unless
        they are direct.
        """
        return self.markers_of(requested_time).delete_all()

    def markers_of(
        self, requested_time: str, *, markers: MarkersType | None = None, writer: str | None = None
    ) -> Markers:
        """The markers of an instant, to create, list, check and delete: where ``markers`` or the table says.

        Nothing is sent yet. ``writer`` says in whose name they are created.
        """
        direct = self._location.direct_markers(requested_time, markers)
        return direct or ServerMarkers(self._transport, self.name, requested_time, writer)

    def deletions(self, requested_time: str) -> Iterator[DeletedFile]:
        """The files of an instant that were reported deleted, by path; of a rollback those of its target.

        A writer that did not hear of its end may finish one of them later. Raises ``InstantNotFound``.
        """
        pages = self._transport.pages(_calls.list_deletions(self.name, requested_time))
        return (one for page in pages for one in page.files)

    @property
    def timeline(self) -> Timeline:
        """The timeline in Hudi's words: ``timeline.completed().last()``, ``timeline.pending()``, …"""
        return Timeline(self._transport, self.name)

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
    ) -> Iterator[Instant]:
        """The timeline, fetched page by page as it is consumed; ``limit`` bounds the whole.

        ``pending`` adds requested and inflight to the states that are wanted. Times are an instant's digits, or
        aware datetimes. Ranges exclude their start and include their end. Filters by completion time, and order
        by it, leave out what has not completed.
        """
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
        return Timeline(self._transport, self.name, wanted).take(limit)

    def completion_times(self, requested_times: Iterable[str]) -> list[str | None]:
        """When each of these instants completed, in their order; any number of them.

        None for one that has not completed, and for a time at which none was requested.
        """
        pages = (self._transport.send(call) for call in completion_calls(self.name, requested_times))
        return [time for page in pages for time in page.completion_times]

    def snapshot(
        self,
        as_of: Moment | None = None,
        partition_path: str | None = None,
        *,
        view: View = View.MERGED,
        before_or_on: Moment | None = None,
    ) -> Snapshot:
        """The live file slices: of everything completed at or before ``as_of``, or of now.

        ``as_of`` is an instant's digits, an aware datetime, or ``"earliest"``, the first time that the table
        serves, or ``"latest"``; so it is wherever there is one. Raises ``HistoryCleaned``.
        ``view`` says which slice of each file group; with ``before_or_on`` only those count whose base instant
        time is this or before. All pages are of one time, whatever completes meanwhile.
        """
        call = _calls.snapshot(self.name, as_of, partition_path, view, before_or_on)
        return _calls.merge_snapshot(list(self._transport.pages(call)))

    def snapshot_batches(
        self, as_of: Moment | None = None, partition_path: str | None = None
    ) -> pa.RecordBatchReader:
        """The same in record batches, a row for each data file, each fetched when asked for; needs pyarrow.

        Raises ``ConnectionFailed``, also between batches, when the server breaks its answer off.
        """
        return _arrow.batches(self._transport, _calls.snapshot(self.name, as_of, partition_path))

    def snapshot_arrow(self, as_of: Moment | None = None, partition_path: str | None = None) -> pa.Table:
        """The same as an Arrow table; needs pyarrow."""
        return _arrow.table(self._transport, _calls.snapshot(self.name, as_of, partition_path))

    def scan(
        self,
        filter: Filter,
        as_of: Moment | None = None,
        partition_paths: Iterable[str] | None = None,
    ) -> Snapshot:
        """A snapshot without the file slices that cannot hold a record that matches; see ``chronolake.col``.

        The server prunes by partition paths and by what writers said of columns. Slices that stay need not have
        such a record: filter the records again. Raises ``InvalidFilter``.
        """
        call = _calls.scan(self.name, as_of, partition_paths, filter)
        return _calls.merge_snapshot(list(self._transport.pages(call)))

    def scan_batches(
        self, filter: Filter, as_of: Moment | None = None, partition_paths: Iterable[str] | None = None
    ) -> pa.RecordBatchReader:
        """The same in record batches, see ``snapshot_batches``."""
        return _arrow.batches(self._transport, _calls.scan(self.name, as_of, partition_paths, filter))

    def scan_arrow(
        self, filter: Filter, as_of: Moment | None = None, partition_paths: Iterable[str] | None = None
    ) -> pa.Table:
        """The same as an Arrow table; needs pyarrow."""
        return _arrow.table(self._transport, _calls.scan(self.name, as_of, partition_paths, filter))

    def file_group(
        self, file_id: str, partition_path: str = "", as_of: Moment | None = None
    ) -> FileGroupHistory:
        """A file group with all the slices that it had by ``as_of``, the newest last, and what replaced it.

        Without slices when there was no such group.
        """
        call = _calls.file_group(self.name, file_id, partition_path, as_of)
        return _calls.merge_pages(list(self._transport.pages(call)), "slices")

    def partitions(self, as_of: Moment | None = None) -> Partitions:
        """The partition paths that had live file slices by ``as_of``, with their totals."""
        call = _calls.partitions(self.name, as_of)
        return _calls.merge_pages(list(self._transport.pages(call)), "partitions")

    def replaced_file_groups(self, as_of: Moment | None = None) -> ReplacedFileGroups:
        """The file groups that were gone by ``as_of``, each with what replaced it."""
        call = _calls.replaced_file_groups(self.name, as_of)
        return _calls.merge_pages(list(self._transport.pages(call)), "file_groups")

    def pending_file_groups(self, as_of: Moment | None = None) -> PendingFileGroups:
        """The file groups in plans of table services that were pending as of ``as_of``."""
        call = _calls.pending_file_groups(self.name, as_of)
        return _calls.merge_pages(list(self._transport.pages(call)), "file_groups")

    def published_batches(self) -> pa.RecordBatchReader:
        """Every file that was ever published and is not cleaned, superseded or not, in no order.

        In record batches, see ``snapshot_batches``: ``path``, ``size_bytes``, ``requested_time`` and
        ``completion_time``.
        """
        return _arrow.batches(self._transport, _calls.published(self.name))

    def orphans(self) -> Orphans:
        """The files in storage that nothing published accounts for, each with the reason; needs pyarrow.

        Storage is listed once, all of it. Files that are written meanwhile are none, or pending. Raises
        ``StorageFailed``.
        """
        return _orphans.find(self, self._location.storage)

    def delete_orphans(self, report: Orphans, *, unknown_instants: bool = False) -> Orphans:
        """Delete those files of ``orphans()`` that can never be published: the report with what became of each.

        They are of instants that were rolled back, or completed without naming them; with ``unknown_instants``
        those too that name an instant which the table never had. Never what is pending, or no data file.
        """
        if report.table != self.name:
            raise ValueError(f"the report is of {report.table}, not of {self.name}")
        return _orphans.delete(report, self._location.storage, unknown_instants=unknown_instants)

    def changes(self, from_: Moment | None = None, to: Moment | None = None) -> Changes:
        """What completed in (from_, to]: from the beginning, and up to now, unless given.

        The answer's ``to`` is where the next range starts. Both take ``"earliest"``, the first time that the
        table serves, and ``"latest"``, its last completion. Raises ``HistoryCleaned`` for one that is earlier.
        """
        call = _calls.changes(self.name, from_, to)
        return _calls.merge_changes(list(self._transport.pages(call)))

    def changes_batches(self, from_: Moment | None = None, to: Moment | None = None) -> pa.RecordBatchReader:
        """The same in record batches, see ``snapshot_batches``; the schema's metadata says the rest."""
        return _arrow.batches(self._transport, _calls.changes(self.name, from_, to))

    def changes_arrow(self, from_: Moment | None = None, to: Moment | None = None) -> pa.Table:
        """The same as an Arrow table; needs pyarrow."""
        return _arrow.table(self._transport, _calls.changes(self.name, from_, to))

    def _as_write(self, instant: Instant, markers: MarkersType | None) -> Write:
        its = self.markers_of(instant.requested_time, markers=markers, writer=instant.writer)
        return Write(self._transport, instant, its)


def with_schema(table: model.Table, schema: TableSchema) -> model.Table:
    """The table with this schema, unless a later one is known."""
    if schema.schema_version < table.schema_version:
        return table
    return msgspec.structs.replace(table, schema=schema.fields, schema_version=schema.schema_version)


def completion_calls(table: str, requested_times: Iterable[str]) -> list[Call[CompletionTimes]]:
    """Ask for completion times, as many at once as the server takes."""
    times = list(requested_times)
    return [
        _calls.completion_times(table, times[first : first + REQUESTED_TIMES_MAX])
        for first in range(0, len(times), REQUESTED_TIMES_MAX)
    ]


def default_writer() -> str:
    """This process: user@host:pid."""
    return f"{actor()}:{os.getpid()}"[:255]


def write_action(type_: TableType) -> Action:
    """What a write is called on the timeline of a table of this type."""
    match type_:
        case TableType.COPY_ON_WRITE:
            return Action.COMMIT
        case TableType.MERGE_ON_READ:
            return Action.DELTACOMMIT
