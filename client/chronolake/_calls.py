"""The REST API, written once, as values: each function says what to send and what comes back.

Pure; ``_transport`` sends a call, blocking or not. Names and times become parts of a path here, so they are
checked here: ``ValueError`` when one could not be any server's.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from chronolake import _base_paths
from chronolake_model.cleans import CleanPolicy, CleanPreview, PlanClean, PlannedClean
from chronolake_model.deletable import AskDeletable, AskOrphans, Deletable
from chronolake_model.events import EventPage, LoggedEvent
from chronolake_model.files import Changes, Snapshot
from chronolake_model.filters import Filter
from chronolake_model.instants import (
    BeginInstant,
    CompletedTogether,
    CompleteInstant,
    CompleteTogether,
    CompletionTimes,
    Conflicts,
    CreateSavepoint,
    FindConflicts,
    Heartbeat,
    Instant,
    InstantPage,
    PlannedFileGroups,
    PlannedFiles,
    PlannedInstants,
    ReleaseSavepoint,
    RequestedTimes,
    RestoreTable,
    ReturnToRequested,
    RollbackInstant,
    StagedWriteStats,
    StageWriteStats,
    TakeInflight,
    TimeInterval,
)
from chronolake_model.markers import (
    CreatedMarkers,
    CreateMarkers,
    DeletedFilePage,
    DeletedMarkers,
    Marker,
    MarkerExists,
    MarkerPage,
    ReportDeletions,
    ReportedDeletions,
    check_marker,
)
from chronolake_model.names import NAME_PATTERN, split_table_name
from chronolake_model.outcomes import Outcome
from chronolake_model.readers import BeginReading, EndedReading, ReaderLease, ReaderPage, RenewReading
from chronolake_model.scans import Scan
from chronolake_model.schemas import ChangeSchema, TableSchema, TableSchemaPage
from chronolake_model.slices import FileGroupHistory, Partitions, PendingFileGroups, ReplacedFileGroups
from chronolake_model.sweeps import RecordedSweep, RecordSweep, UnsweptPage
from chronolake_model.tables import (
    CreateNamespace,
    CreateTable,
    Namespace,
    NamespacePage,
    Table,
    TablePage,
)
from chronolake_model.times import Moment, digits_of, parse_time
from chronolake_model.vocabulary import Action, Direction, Operation, State, TimeOrder, View

LIMIT_MAX = 1_000
"""The largest page of instants, tables or namespaces that a server gives."""

FILES_LIMIT_MAX = 10_000
"""The largest page of file slices or file groups."""

Answer = TypeVar("Answer")
Listed = TypeVar("Listed", bound=msgspec.Struct)
_Query = tuple[tuple[str, str], ...]
_NAMESPACE = re.compile(NAME_PATTERN, re.ASCII)
_KEY = re.compile(r"(?=.{1,255}\Z)[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


class Page(Protocol):
    """An answer that may go on."""

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page; None on the last."""


class Call(msgspec.Struct, Generic[Answer], frozen=True):
    """One request and the type of its answer; ``NoneType`` when the answer has no body."""

    method: str
    path: str
    answer: type[Answer]
    query: _Query = ()
    body: bytes | None = None
    is_query: bool = False
    """Whether it needs no idempotency key though it is no GET: it only asks, or may simply be done again."""

    @property
    def is_command(self) -> bool:
        """Whether it changes something, and so carries an idempotency key."""
        return self.method != "GET" and not self.is_query

    def with_query(self, **parameters: str) -> Call[Answer]:
        """The same call with these parameters, and no others of their names."""
        others = tuple(pair for pair in self.query if pair[0] not in parameters)
        return msgspec.structs.replace(self, query=(*others, *parameters.items()))

    def page_at(self, cursor: str) -> Call[Answer]:
        """The same list, from ``cursor`` on."""
        if self.body is None:
            return self.with_query(cursor=cursor)
        body = msgspec.json.encode({**msgspec.json.decode(self.body), "cursor": cursor})
        return msgspec.structs.replace(self, body=body)


class InstantFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which instants of a timeline, in which order; ranges are (from, to]."""

    state: tuple[State, ...] = ()
    action: tuple[Action, ...] = ()
    operation: tuple[Operation, ...] = ()
    writer: str | None = None
    requested_from: Moment | None = None
    requested_to: Moment | None = None
    completed_from: Moment | None = None
    completed_to: Moment | None = None
    order_by: TimeOrder = TimeOrder.REQUESTED_TIME
    direction: Direction = Direction.ASCENDING
    skip: int = 0
    """Leave out so many before the first."""


def create_namespace(body: CreateNamespace) -> Call[Namespace]:
    """Make a namespace."""
    return _post("/v1/namespaces", Namespace, body)


def namespace(name: str) -> Call[Namespace]:
    """One namespace."""
    return Call("GET", _namespace_path(name), Namespace)


def list_namespaces() -> Call[NamespacePage]:
    """All namespaces, by name."""
    return Call("GET", "/v1/namespaces", NamespacePage, _query(limit=LIMIT_MAX))


def drop_namespace(name: str) -> Call[None]:
    """Drop an empty namespace."""
    return Call("DELETE", _namespace_path(name), type(None))


def create_table(body: CreateTable) -> Call[Table]:
    """Make a table; a local base path is sent as the absolute path that it leads to from here."""
    base_path = _base_paths.absolute(body.base_path)
    return _post("/v1/tables", Table, msgspec.structs.replace(body, base_path=base_path))


def table(name: str) -> Call[Table]:
    """One table."""
    return Call("GET", _table_path(name), Table)


def list_tables(in_namespace: str | None) -> Call[TablePage]:
    """All tables, or those of one namespace, by name."""
    return Call("GET", "/v1/tables", TablePage, _query(namespace=in_namespace, limit=LIMIT_MAX))


def drop_table(name: str) -> Call[None]:
    """Drop a table's metadata; never its files."""
    return Call("DELETE", _table_path(name), type(None))


def change_schema(name: str, body: ChangeSchema) -> Call[TableSchema]:
    """Change a table's schema."""
    return _post(f"{_table_path(name)}/schema", TableSchema, body)


def list_schemas(name: str) -> Call[TableSchemaPage]:
    """Every version of a table's schema, oldest first."""
    return Call("GET", f"{_table_path(name)}/schemas", TableSchemaPage, _query(limit=LIMIT_MAX))


def schema(name: str, schema_version: int) -> Call[TableSchema]:
    """One version of a table's schema."""
    return Call("GET", f"{_table_path(name)}/schemas/{schema_version}", TableSchema)


def begin_instant(name: str, body: BeginInstant) -> Call[Instant]:
    """Begin an instant."""
    return _post(f"{_table_path(name)}/instants", Instant, body)


def begin_instants(name: str, body: BeginInstant) -> Call[InstantPage]:
    """Begin several instants at once: ``body`` has a count."""
    return _post(f"{_table_path(name)}/instants", InstantPage, body)


def to_inflight(name: str, requested_time: str, body: TakeInflight | None = None) -> Call[Instant]:
    """Take a requested instant to inflight."""
    return _post(f"{_instant_path(name, requested_time)}/inflight", Instant, body)


def return_to_requested(name: str, requested_time: str, body: ReturnToRequested) -> Call[Instant]:
    """Give up the execution of a plan, and keep the plan."""
    return _post(f"{_instant_path(name, requested_time)}/requested", Instant, body)


def find_conflicts(name: str, requested_time: str, body: FindConflicts) -> Call[Conflicts]:
    """Ask whether completing would conflict."""
    asked = _post(f"{_instant_path(name, requested_time)}/conflicts", Conflicts, body)
    return msgspec.structs.replace(asked, is_query=True)


def complete_instant(name: str, requested_time: str, body: CompleteInstant) -> Call[Instant]:
    """Publish an instant."""
    return _post(f"{_instant_path(name, requested_time)}/complete", Instant, body)


def rollback_instant(name: str, requested_time: str, body: RollbackInstant) -> Call[Instant]:
    """Give an instant up."""
    return _post(f"{_instant_path(name, requested_time)}/rollback", Instant, body)


def stage_write_stats(name: str, requested_time: str, body: StageWriteStats) -> Call[StagedWriteStats]:
    """Report files before the instant completes."""
    return _post(f"{_instant_path(name, requested_time)}/write-stats", StagedWriteStats, body)


def complete_together(body: CompleteTogether) -> Call[CompletedTogether]:
    """Publish several instants: all of them, or none."""
    return _post("/v1/transactions/complete", CompletedTogether, body)


def create_savepoint(name: str, body: CreateSavepoint) -> Call[Instant]:
    """Pin a completed instant."""
    if body.instant is not None:
        parse_time(body.instant)
    return _post(f"{_table_path(name)}/savepoints", Instant, body)


def release_savepoint(name: str, requested_time: str, body: ReleaseSavepoint) -> Call[Instant]:
    """Give a savepoint up."""
    parse_time(requested_time)
    return _post(f"{_table_path(name)}/savepoints/{requested_time}/release", Instant, body)


def restore_table(name: str, body: RestoreTable) -> Call[Instant]:
    """Go back to a savepoint."""
    parse_time(body.savepoint)
    return _post(f"{_table_path(name)}/restore", Instant, body)


def plan_clean(name: str, body: PlanClean) -> Call[PlannedClean]:
    """Plan a clean, or go on with the one that is pending."""
    return _post(f"{_table_path(name)}/cleans", PlannedClean, body)


def preview_clean(name: str, body: CleanPolicy) -> Call[CleanPreview]:
    """Ask what a clean would delete."""
    asked = _post(f"{_table_path(name)}/clean-plans", CleanPreview, body)
    return msgspec.structs.replace(asked, is_query=True)


def deletable(name: str, requested_time: str, body: AskDeletable) -> Call[Deletable]:
    """Ask which files may be deleted in the name of an instant."""
    asked = _post(f"{_instant_path(name, requested_time)}/deletable", Deletable, body)
    return msgspec.structs.replace(asked, is_query=True)


def deletable_orphans(name: str, body: AskOrphans) -> Call[Deletable]:
    """Ask which files may be deleted that nothing accounts for."""
    asked = _post(f"{_table_path(name)}/deletable", Deletable, body)
    return msgspec.structs.replace(asked, is_query=True)


def begin_reading(name: str, body: BeginReading) -> Call[ReaderLease]:
    """Take the lease of a reader; sent again it is another one, and one of them ends by itself."""
    asked = _post(f"{_table_path(name)}/readers", ReaderLease, body)
    return msgspec.structs.replace(asked, is_query=True)


def renew_reading(name: str, lease_id: str, body: RenewReading) -> Call[ReaderLease]:
    """Renew the lease of a reader."""
    asked = _post(f"{_table_path(name)}/readers/{lease_id}/heartbeat", ReaderLease, body)
    return msgspec.structs.replace(asked, is_query=True)


def end_reading(name: str, lease_id: str) -> Call[EndedReading]:
    """Give the lease of a reader up."""
    return Call("DELETE", f"{_table_path(name)}/readers/{lease_id}", EndedReading, is_query=True)


def list_readers(name: str) -> Call[ReaderPage]:
    """The leases of readers that have not ended."""
    return Call("GET", f"{_table_path(name)}/readers", ReaderPage, _query(limit=LIMIT_MAX))


def heartbeat(name: str, requested_time: str, body: Heartbeat) -> Call[Instant]:
    """Renew an instant's lease."""
    return _post(f"{_instant_path(name, requested_time)}/heartbeat", Instant, body)


def create_markers(name: str, requested_time: str, body: CreateMarkers) -> Call[CreatedMarkers]:
    """Say which data files are about to be written."""
    asked = _post(f"{_instant_path(name, requested_time)}/markers", CreatedMarkers, body)
    return msgspec.structs.replace(asked, is_query=True)


def list_markers(name: str, requested_time: str, unpublished: bool) -> Call[MarkerPage]:
    """The markers of an instant."""
    pairs = _query(unpublished="true" if unpublished else None, limit=FILES_LIMIT_MAX)
    return Call("GET", f"{_instant_path(name, requested_time)}/markers", MarkerPage, pairs)


def find_marker(name: str, requested_time: str, marker: Marker) -> Call[MarkerExists]:
    """Whether an instant has a marker."""
    check_marker(marker)
    path = f"{_instant_path(name, requested_time)}/marker"
    return Call("GET", path, MarkerExists, _query(name=marker.name))


def delete_markers(name: str, requested_time: str) -> Call[DeletedMarkers]:
    """Delete the markers of an instant that has ended."""
    path = f"{_instant_path(name, requested_time)}/markers"
    return Call("DELETE", path, DeletedMarkers, is_query=True)


def report_deletions(name: str, requested_time: str, body: ReportDeletions) -> Call[ReportedDeletions]:
    """Say which files were deleted from storage."""
    return _post(f"{_instant_path(name, requested_time)}/deletions", ReportedDeletions, body)


def list_deletions(name: str, requested_time: str, *, unpublished: bool = False) -> Call[DeletedFilePage]:
    """The files of an instant that were reported deleted."""
    path = f"{_instant_path(name, requested_time)}/deletions"
    pairs = _query(unpublished="true" if unpublished else None, limit=FILES_LIMIT_MAX)
    return Call("GET", path, DeletedFilePage, pairs)


def list_unswept(name: str, grace_seconds: int | None) -> Call[UnsweptPage]:
    """The instants whose deleted files are due to be looked for once more."""
    pairs = _query(grace_seconds=grace_seconds, limit=LIMIT_MAX)
    return Call("GET", f"{_table_path(name)}/unswept", UnsweptPage, pairs)


def record_sweep(name: str, requested_time: str, body: RecordSweep) -> Call[RecordedSweep]:
    """Say that deleted files were looked for once more, and which were there."""
    return _post(f"{_instant_path(name, requested_time)}/sweep", RecordedSweep, body)


def instant(name: str, requested_time: str) -> Call[Instant]:
    """One instant."""
    return Call("GET", _instant_path(name, requested_time), Instant)


def planned_files(name: str, requested_time: str) -> Call[PlannedFiles]:
    """The files that the plan of a rollback or a clean deletes."""
    path = f"{_instant_path(name, requested_time)}/plan/files"
    return Call("GET", path, PlannedFiles, _query(limit=FILES_LIMIT_MAX))


def planned_file_groups(name: str, requested_time: str) -> Call[PlannedFileGroups]:
    """The file groups that the plan of an instant names."""
    path = f"{_instant_path(name, requested_time)}/plan/file-groups"
    return Call("GET", path, PlannedFileGroups, _query(limit=FILES_LIMIT_MAX))


def planned_instants(name: str, requested_time: str) -> Call[PlannedInstants]:
    """The instants that a restore rolled back."""
    path = f"{_instant_path(name, requested_time)}/plan/instants"
    return Call("GET", path, PlannedInstants, _query(limit=FILES_LIMIT_MAX))


def list_instants(name: str, wanted: InstantFilter, limit: int = LIMIT_MAX) -> Call[InstantPage]:
    """The timeline, filtered."""
    pairs = _query(
        state=wanted.state,
        action=wanted.action,
        operation=wanted.operation,
        writer=wanted.writer,
        requested_from=_digits(wanted.requested_from),
        requested_to=_digits(wanted.requested_to),
        completed_from=_digits(wanted.completed_from),
        completed_to=_digits(wanted.completed_to),
        order_by=wanted.order_by,
        direction=wanted.direction,
        skip=wanted.skip or None,
        limit=limit,
    )
    return Call("GET", f"{_table_path(name)}/instants", InstantPage, pairs)


def completion_times(name: str, requested_times: Sequence[str]) -> Call[CompletionTimes]:
    """The completion times of instants, by their requested times."""
    asked = _post(
        f"{_table_path(name)}/completion-times", CompletionTimes, RequestedTimes(list(requested_times))
    )
    return msgspec.structs.replace(asked, is_query=True)


def snapshot(
    name: str,
    as_of: Moment | None,
    partition_path: str | None,
    view: View = View.MERGED,
    before_or_on: Moment | None = None,
) -> Call[Snapshot]:
    """The live file slices."""
    pairs = _query(
        as_of=_digits(as_of),
        partition_path=partition_path,
        view=None if view is View.MERGED else view,
        before_or_on=_digits(before_or_on),
        limit=FILES_LIMIT_MAX,
    )
    return Call("GET", f"{_table_path(name)}/snapshot", Snapshot, pairs)


def scan(
    name: str, as_of: Moment | None, partition_paths: Iterable[str] | None, filter: Filter
) -> Call[Snapshot]:
    """The live file slices that could match a filter."""
    paths = None if partition_paths is None else list(partition_paths)
    asked = _post(f"{_table_path(name)}/scan", Snapshot, Scan(_digits(as_of), paths, filter, FILES_LIMIT_MAX))
    return msgspec.structs.replace(asked, is_query=True)


def file_group(name: str, file_id: str, partition_path: str, as_of: Moment | None) -> Call[FileGroupHistory]:
    """One file group with all its slices."""
    pairs = _query(file_id=file_id, partition_path=partition_path, as_of=_digits(as_of), limit=FILES_LIMIT_MAX)
    return Call("GET", f"{_table_path(name)}/file-groups/history", FileGroupHistory, pairs)


def partitions(name: str, as_of: Moment | None) -> Call[Partitions]:
    """The partitions with their totals."""
    pairs = _query(as_of=_digits(as_of), limit=FILES_LIMIT_MAX)
    return Call("GET", f"{_table_path(name)}/partitions", Partitions, pairs)


def replaced_file_groups(name: str, as_of: Moment | None) -> Call[ReplacedFileGroups]:
    """The file groups that were replaced."""
    pairs = _query(as_of=_digits(as_of), limit=FILES_LIMIT_MAX)
    return Call("GET", f"{_table_path(name)}/replaced-file-groups", ReplacedFileGroups, pairs)


def pending_file_groups(name: str, as_of: Moment | None) -> Call[PendingFileGroups]:
    """The file groups for which table services are pending."""
    pairs = _query(as_of=_digits(as_of), limit=FILES_LIMIT_MAX)
    return Call("GET", f"{_table_path(name)}/pending-file-groups", PendingFileGroups, pairs)


def published(name: str) -> Call[None]:
    """Every file that was ever published, as Arrow."""
    return Call("GET", f"{_table_path(name)}/published", type(None))


def changes(name: str, from_: Moment | None, to: Moment | None) -> Call[Changes]:
    """What completed in (from, to]."""
    pairs = _query(**{"from": _digits(from_), "to": _digits(to)}, limit=FILES_LIMIT_MAX)
    return Call("GET", f"{_table_path(name)}/changes", Changes, pairs)


def list_events(after: str | None, of_table: str | None, limit: int = LIMIT_MAX) -> Call[EventPage]:
    """A page of the log, behind a cursor."""
    return Call("GET", "/v1/events", EventPage, _query(**_feed(after, of_table), limit=limit))


def follow_events(after: str | None, of_table: str | None) -> Call[LoggedEvent]:
    """The log as a stream: the answer is of one event of it."""
    return Call("GET", "/v1/events/stream", LoggedEvent, _query(**_feed(after, of_table)))


def outcome(key: str) -> Call[Outcome]:
    """What became of the request of an idempotency key."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"an idempotency key is 1 to 255 printable ASCII characters, not {key!r}")
    # Dots too: "." and ".." would be taken for folders on the way.
    return Call("GET", f"/v1/outcomes/{urllib.parse.quote(key, safe='').replace('.', '%2E')}", Outcome)


def time() -> Call[TimeInterval]:
    """The TrueTime interval."""
    return Call("GET", "/v1/time", TimeInterval)


def merge_snapshot(pages: Sequence[Snapshot]) -> Snapshot:
    """One snapshot of all its pages."""
    return merge_pages(pages, "slices")


def merge_pages(pages: Sequence[Listed], entries: str) -> Listed:
    """One answer of all its pages, whose ``entries`` are what the pages list."""
    listed = [one for page in pages for one in getattr(page, entries)]
    return msgspec.structs.replace(pages[0], **{entries: listed}, next_cursor=None)


def merge_changes(pages: Sequence[Changes]) -> Changes:
    """One answer of all its pages; an instant that several pages name counts once."""
    instants = {one.requested_time: one for page in pages for one in page.instants}
    restores = {one.requested_time: one for page in pages for one in page.restores}
    file_groups = [one for page in pages for one in page.file_groups]
    return msgspec.structs.replace(
        pages[0],
        instants=list(instants.values()),
        restores=list(restores.values()),
        file_groups=file_groups,
        next_cursor=None,
    )


def _post(path: str, answer: type[Answer], body: msgspec.Struct | None = None) -> Call[Answer]:
    return Call("POST", path, answer, body=None if body is None else msgspec.json.encode(body))


def _namespace_path(name: str) -> str:
    if not _NAMESPACE.fullmatch(name):
        raise ValueError(f"a namespace's name is letters, digits, _ and -, 128 at most, not {name!r}")
    return f"/v1/namespaces/{name}"


def _table_path(name: str) -> str:
    split_table_name(name)
    return f"/v1/tables/{name}"


def _instant_path(name: str, requested_time: str) -> str:
    parse_time(requested_time)
    return f"{_table_path(name)}/instants/{requested_time}"


def _feed(after: str | None, of_table: str | None) -> dict[str, str | None]:
    if of_table is not None:
        split_table_name(of_table)
    return {"after": after, "table": of_table}


def _digits(moment: Moment | None) -> str | None:
    return None if moment is None else digits_of(moment)


def _query(**parameters: Any) -> _Query:
    """The parameters that are given; one that is a tuple is repeated."""
    return tuple(pair for name, value in parameters.items() for pair in _pairs(name, value))


def _pairs(name: str, value: object) -> Iterable[tuple[str, str]]:
    if value is None:
        return ()
    if isinstance(value, tuple):
        return tuple((name, str(one)) for one in value)
    return ((name, str(value)),)
