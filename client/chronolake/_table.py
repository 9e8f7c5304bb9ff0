"""A table: its timeline, its snapshot and its changes, and where writes begin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from chronolake import _arrow, calls
from chronolake._stored_table import StoredTable
from chronolake._timeline import PENDING, Timeline, completion_calls, words
from chronolake._transport import default_writer
from chronolake._write import Write
from chronolake.calls.instants import InstantFilter
from chronolake_model import tables as model
from chronolake_model.checks import Check
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
from chronolake_model.vocabulary import Action, Direction, Operation, State, TableType, TimeOrder, View

if TYPE_CHECKING:
    import pyarrow as pa


class Table(StoredTable):
    """A table of the metastore. ``definition`` is as last fetched. Threads may share it."""

    def reload(self) -> Table:
        """Fetch the definition again; returns this table. Raises ``TableNotFound``."""
        self._definition = self._transport.send(calls.tables.get(self.name))
        return self

    def change_schema(
        self, changes: Iterable[SchemaChange], *, expected_schema_version: int | None = None
    ) -> TableSchema:
        """Change columns, all that is asked for or nothing; ``definition`` is of the new schema afterwards.

        With ``expected_schema_version`` only when that is still the present version. No file is touched. Raises
        ``IncompatibleSchema``, which says why and what is allowed, ``SchemaChanged``, ``InvalidTable``.
        """
        call = calls.schemas.change(self.name, ChangeSchema(list(changes), expected_schema_version))
        schema = self._transport.send(call)
        self._definition = with_schema(self._definition, schema)
        return schema

    def schemas(self) -> Iterator[TableSchema]:
        """Every version that the schema has had, oldest first."""
        pages = self._transport.pages(calls.schemas.list_all(self.name))
        return (one for page in pages for one in page.schemas)

    def schema(self, schema_version: int) -> TableSchema:
        """One version of the schema. Raises ``SchemaNotFound``."""
        return self._transport.send(calls.schemas.get(self.name, schema_version))

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
            markers=markers,
        )
        return self._as_write(self._transport.send(calls.instants.begin(self.name, body)))

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
            markers=markers,
        )
        begun = self._transport.send(calls.instants.begin_many(self.name, body)).instants
        return [self._as_write(instant) for instant in begun]

    def plan(
        self,
        action: Action,
        file_groups: Iterable[FileGroupName] = (),
        details: Mapping[str, str] | None = None,
        *,
        writer: str | None = None,
        markers: MarkersType | None = None,
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
            markers=markers,
        )
        return self._transport.send(calls.instants.begin(self.name, body))

    def execute(
        self,
        requested_time: str,
        *,
        writer: str | None = None,
        lease_seconds: int | None = None,
    ) -> Write:
        """Execute a plan that waits, whoever made it; it is in the result's ``instant.plan``.

        Raises ``IllegalTransition`` when somebody executes it already, or did. What becomes of the plan when
        the execution fails: see ``Write``.
        """
        body = TakeInflight(writer or default_writer(), lease_seconds)
        return self._as_write(self._transport.send(calls.instants.to_inflight(self.name, requested_time, body)))

    def savepoint(self, instant: str | None = None, comment: str = "", *, writer: str | None = None) -> Instant:
        """Pin a completed instant, by its requested time; the one that completed last unless given.

        One that is pinned already is answered with its savepoint. Raises ``InstantNotFound``, and
        ``IllegalTransition`` when the instant has not completed or changed nothing.
        """
        body = CreateSavepoint(writer or default_writer(), instant, comment)
        return self._transport.send(calls.savepoints.create(self.name, body))

    def release_savepoint(self, requested_time: str, reason: str = "", *, writer: str | None = None) -> Instant:
        """Give a savepoint up, by its own requested time. Raises ``InstantNotFound``, ``IllegalTransition``."""
        body = ReleaseSavepoint(writer or default_writer(), reason)
        return self._transport.send(calls.savepoints.release(self.name, requested_time, body))

    def restore(self, savepoint: str, reason: str = "", *, writer: str | None = None) -> Instant:
        """Take the table back to a savepoint, by the savepoint's requested time.

        All pending writes are rolled back, and all that completed after the pinned instant: the answer's
        ``plan.instants``, in that order. Raises ``Savepointed`` when a later savepoint is in the way,
        ``InstantNotFound``, ``IllegalTransition``.
        """
        body = RestoreTable(writer or default_writer(), savepoint, reason)
        return self._transport.send(calls.savepoints.restore(self.name, body))

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

    def check(
        self,
        as_of: Moment | None = None,
        *,
        sample: int | None = None,
        on_progress: Callable[[int, int, int], None] = lambda done, files, records: None,
    ) -> Check:
        """Read the table's files as of a completion time and say what is wrong with them; nothing is changed.

        ``sample`` reads so many base files only. ``on_progress`` is told after each file how many were read, of
        how many, and the records so far. One file's keys and one row group are held in memory. It takes
        ``chronolake[arrow]``. Raises ``StorageFailed``, ``HistoryCleaned``.
        """
        from chronolake import _checks  # noqa: PLC0415  # pyarrow and numpy are an extra

        return _checks.check(self, as_of, sample, on_progress)

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
        call = calls.files.snapshot(self.name, as_of, partition_path, view, before_or_on)
        return calls.files.merge_snapshot(list(self._transport.pages(call)))

    def snapshot_batches(
        self, as_of: Moment | None = None, partition_path: str | None = None
    ) -> pa.RecordBatchReader:
        """The same in record batches, a row for each data file, each fetched when asked for; needs pyarrow.

        Raises ``ConnectionFailed``, also between batches, when the server breaks its answer off.
        """
        return _arrow.batches(self._transport, calls.files.snapshot(self.name, as_of, partition_path))

    def snapshot_arrow(self, as_of: Moment | None = None, partition_path: str | None = None) -> pa.Table:
        """The same as an Arrow table; needs pyarrow."""
        return _arrow.table(self._transport, calls.files.snapshot(self.name, as_of, partition_path))

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
        call = calls.files.scan(self.name, as_of, partition_paths, filter)
        return calls.files.merge_snapshot(list(self._transport.pages(call)))

    def scan_batches(
        self, filter: Filter, as_of: Moment | None = None, partition_paths: Iterable[str] | None = None
    ) -> pa.RecordBatchReader:
        """The same in record batches, see ``snapshot_batches``."""
        return _arrow.batches(self._transport, calls.files.scan(self.name, as_of, partition_paths, filter))

    def scan_arrow(
        self, filter: Filter, as_of: Moment | None = None, partition_paths: Iterable[str] | None = None
    ) -> pa.Table:
        """The same as an Arrow table; needs pyarrow."""
        return _arrow.table(self._transport, calls.files.scan(self.name, as_of, partition_paths, filter))

    def file_group(
        self, file_id: str, partition_path: str = "", as_of: Moment | None = None
    ) -> FileGroupHistory:
        """A file group with all the slices that it had by ``as_of``, the newest last, and what replaced it.

        Without slices when there was no such group.
        """
        call = calls.files.file_group(self.name, file_id, partition_path, as_of)
        return calls.base.merge_pages(list(self._transport.pages(call)), "slices")

    def partitions(self, as_of: Moment | None = None) -> Partitions:
        """The partition paths that had live file slices by ``as_of``, with their totals."""
        call = calls.files.partitions(self.name, as_of)
        return calls.base.merge_pages(list(self._transport.pages(call)), "partitions")

    def replaced_file_groups(self, as_of: Moment | None = None) -> ReplacedFileGroups:
        """The file groups that were gone by ``as_of``, each with what replaced it."""
        call = calls.files.replaced_file_groups(self.name, as_of)
        return calls.base.merge_pages(list(self._transport.pages(call)), "file_groups")

    def pending_file_groups(self, as_of: Moment | None = None) -> PendingFileGroups:
        """The file groups in plans of table services that were pending as of ``as_of``."""
        call = calls.files.pending_file_groups(self.name, as_of)
        return calls.base.merge_pages(list(self._transport.pages(call)), "file_groups")

    def changes(self, from_: Moment | None = None, to: Moment | None = None) -> Changes:
        """What completed in (from_, to]: from the beginning, and up to now, unless given.

        The answer's ``to`` is where the next range starts. Both take ``"earliest"``, the first time that the
        table serves, and ``"latest"``, its last completion. Raises ``HistoryCleaned`` for one that is earlier.
        """
        call = calls.files.changes(self.name, from_, to)
        return calls.files.merge_changes(list(self._transport.pages(call)))

    def changes_batches(self, from_: Moment | None = None, to: Moment | None = None) -> pa.RecordBatchReader:
        """The same in record batches, see ``snapshot_batches``; the schema's metadata says the rest."""
        return _arrow.batches(self._transport, calls.files.changes(self.name, from_, to))

    def changes_arrow(self, from_: Moment | None = None, to: Moment | None = None) -> pa.Table:
        """The same as an Arrow table; needs pyarrow."""
        return _arrow.table(self._transport, calls.files.changes(self.name, from_, to))


def with_schema(table: model.Table, schema: TableSchema) -> model.Table:
    """The table with this schema, unless a later one is known."""
    if schema.schema_version < table.schema_version:
        return table
    return msgspec.structs.replace(table, schema=schema.fields, schema_version=schema.schema_version)


def write_action(type_: TableType) -> Action:
    """What a write is called on the timeline of a table of this type."""
    match type_:
        case TableType.COPY_ON_WRITE:
            return Action.COMMIT
        case TableType.MERGE_ON_READ:
            return Action.DELTACOMMIT
