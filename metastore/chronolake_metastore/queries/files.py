"""The files of a table: the live slices as of a completion time, and the changes between two times."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import partition_pruning, pruning
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.partition_pruning import PartitionSet
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import cleans, cursors, paging, tables
from chronolake_metastore.queries.cleans import BEFORE_ALL
from chronolake_metastore.queries.timeline import COMPLETIONS_MAX, Answers, Timeline, across_border
from chronolake_metastore.store import files as stored, partitions, scans
from chronolake_metastore.store.files import FIRST, FileOfInstant, GroupKey
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model import files as wire
from chronolake_model.file_names import FileKind
from chronolake_model.scans import Scan
from chronolake_model.times import Bound, Micros, ReadTime, Tick, format_time

CHANGED_INSTANTS_MAX = COMPLETIONS_MAX
"""The most instants that an answer about changes covers on all its pages. A longer range is cut after them."""


class _SnapshotPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    as_of: cursors.Time
    group: GroupKey


class _ChangesPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    start: cursors.Time
    end: cursors.Time
    group: GroupKey
    completed: cursors.Time | None
    """The last completion of the page before, if more follow: pages list all completions before file groups."""


class _Completion(msgspec.Struct, frozen=True, order=True):
    """A completed write or restore; these sort by completion time."""

    completed: Micros
    requested: Micros
    is_restore: bool


@across_border
async def snapshot(
    answers: Answers,
    ctx: Context,
    database: Database,
    table_name: str,
    as_of: ReadTime | None,
    partition_path: str | None,
    limit: int,
    cursor: str | None,
) -> wire.Snapshot:
    """A page of ``limit`` live file slices; the first page fixes the completion time for all of them.

    Raises ``TableNotFound``, ``HistoryCleaned`` or ``InvalidCursor``.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        pinned, after = await _place(answers, connection, table, as_of, cursor)
        if pinned is None:
            return wire.Snapshot(table.name, None, [], None)

        async def fetch(last: wire.FileSlice | None, number: int) -> list[wire.FileSlice]:
            behind = after if last is None else _key(last)
            files = await stored.snapshot(connection, table.table_id, pinned, partition_path, behind, number)
            return _slices(files, table.definition.tick)

        slices, is_cut = await paging.collect(
            fetch, paging.json_bytes, limit, database.page_bytes_max, paging.SMALL_ROWS_AT_ONCE
        )
    return _page(table, pinned, slices, is_cut=is_cut)


@across_border
async def scan(
    answers: Answers, ctx: Context, database: Database, table_name: str, body: Scan, as_of: ReadTime | None
) -> wire.Snapshot:
    """A page of a snapshot without the slices that could not match the filter.

    Raises ``TableNotFound``, ``InvalidFilter``, ``HistoryCleaned`` or ``InvalidCursor``.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        pinned, after = await _place(answers, connection, table, as_of, body.cursor)
        sets = await partition_sets_of(connection, table, body, after[0])
        if pinned is None:
            return wire.Snapshot(table.name, None, [], None)

        async def fetch(last: wire.FileSlice | None, number: int) -> list[wire.FileSlice]:
            behind = after if last is None else _key(last)
            groups = await scans.groups(connection, table.table_id, pinned, sets, behind, number)
            files = await stored.files_of(connection, table.table_id, groups, pinned)
            return _slices(files, table.definition.tick)

        slices, is_cut = await paging.collect(
            fetch, paging.json_bytes, body.limit, database.page_bytes_max, paging.SMALL_ROWS_AT_ONCE
        )
    return _page(table, pinned, slices, is_cut=is_cut)


async def partition_sets_of(connection: Connection, table: Table, body: Scan, first: str) -> list[PartitionSet]:
    """The partitions from ``first`` on that could match, with their residuals; raises ``InvalidFilter``."""
    condition = None if body.filter is None else pruning.check(table, body.filter)
    paths = body.partition_paths
    if condition is None or not partition_pruning.tests_partitions(condition):
        return [PartitionSet(None if paths is None else tuple(paths), condition)]
    if paths is None:
        paths = await partitions.paths(connection, table.table_id, first)
    return partition_pruning.prune(condition, table, paths)


@across_border
async def changes(
    answers: Answers,
    ctx: Context,
    database: Database,
    table_name: str,
    after_time: ReadTime | None,
    until: ReadTime | None,
    limit: int,
    cursor: str | None,
) -> wire.Changes:
    """A page of the instants that completed in (after_time, until], and of the file groups that they changed.

    Raises ``TableNotFound``, ``InvalidParameter``, ``HistoryCleaned`` or ``InvalidCursor``.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        timeline = Timeline(answers, connection, table.table_id)
        place = cursors.in_table(cursor, _ChangesPlace, table.table_id)
        if place is None:
            between = await _cut(timeline, table, await range_of(timeline, table, after_time, until))
            place = _ChangesPlace(table.table_id, *between, FIRST, between[0])
        else:
            between = cleans.in_range(table, Micros(place.start)), cleans.in_range(table, Micros(place.end))
        completions: list[_Completion] = []
        if place.completed is not None:
            uncovered = Micros(place.completed), between[1]
            completions, is_cut = await _completions(timeline, table, uncovered, database.page_bytes_max)
            if is_cut:
                next_place = msgspec.structs.replace(place, completed=completions[-1].completed)
                return _head(table, between, completions, cursors.encode(next_place))
        head = _head(table, between, completions, None)
        bytes_left = max(database.page_bytes_max - paging.json_bytes(head), 0)
        groups, is_cut = await _changed_groups(connection, table, between, place.group, limit, bytes_left)
    next_cursor = None
    if is_cut:
        last = groups[-1].partition_path, groups[-1].file_id
        next_cursor = cursors.encode(_ChangesPlace(table.table_id, *between, last, None))
    return msgspec.structs.replace(head, file_groups=groups, next_cursor=next_cursor)


async def _changed_groups(
    connection: Connection,
    table: Table,
    between: tuple[Micros, Micros],
    after: GroupKey,
    limit: int,
    bytes_max: int,
) -> tuple[list[wire.ChangedFileGroup], bool]:
    """A page of the file groups that changed in a range, and whether there may be more."""
    tick = table.definition.tick

    async def fetch(last: wire.ChangedFileGroup | None, number: int) -> list[wire.ChangedFileGroup]:
        behind = after if last is None else (last.partition_path, last.file_id)
        groups = await stored.changed_groups(connection, table.table_id, between, behind, number)
        before = await stored.files_of(connection, table.table_id, groups, between[0])
        now = await stored.files_of(connection, table.table_id, groups, between[1])
        return _changed(groups, _slices(before, tick), _slices(now, tick))

    return await paging.collect(fetch, paging.json_bytes, limit, bytes_max, paging.SMALL_ROWS_AT_ONCE)


async def range_of(
    timeline: Timeline, table: Table, after: ReadTime | None, until: ReadTime | None
) -> tuple[Micros, Micros]:
    """The requested range of completion times, cut at the last completion; it may be empty.

    Raises ``InvalidParameter`` when it ends before it begins, and ``HistoryCleaned``.
    """
    start = await _end_of_range(timeline, table, BEFORE_ALL if after is None else after)
    if until is None or until is Bound.LATEST:
        end = await _end_of_range(timeline, table, Bound.LATEST)
    else:
        requested_end = await _end_of_range(timeline, table, until)
        if start > requested_end:
            raise errors.InvalidParameter(
                "the range (from, to] ends before it begins: give the earlier time first", parameter="to"
            )
        end = await timeline.latest_completion(requested_end) or BEFORE_ALL
    # The start is never in the future: a reader that continues from it would miss the completions until then.
    return min(start, end), end


async def _end_of_range(timeline: Timeline, table: Table, requested: ReadTime) -> Micros:
    if requested is Bound.LATEST:
        return await timeline.latest_completion(None) or BEFORE_ALL
    return cleans.first_servable(table) if requested is Bound.EARLIEST else cleans.in_range(table, requested)


async def changes_head(
    timeline: Timeline, table: Table, between: tuple[Micros, Micros]
) -> tuple[tuple[Micros, Micros], wire.Changes]:
    """The part of a range that one answer covers, and the answer without its file groups."""
    between = await _cut(timeline, table, between)
    completions, _ = await _completions(timeline, table, between, sys.maxsize)
    return between, _head(table, between, completions, None)


async def _cut(timeline: Timeline, table: Table, between: tuple[Micros, Micros]) -> tuple[Micros, Micros]:
    """The part of a range that one answer covers."""
    nth = await timeline.nth_completion(*between, CHANGED_INSTANTS_MAX)
    return between if nth is None else (between[0], cleans.in_range(table, nth))


async def _completions(
    timeline: Timeline, table: Table, between: tuple[Micros, Micros], bytes_max: int
) -> tuple[list[_Completion], bool]:
    """The first writes and restores in a range, up to ``bytes_max`` as JSON, and whether there may be more."""
    after, until = between

    async def fetch(last: _Completion | None, number: int) -> list[_Completion]:
        bounds = (after if last is None else last.completed, until, number)
        writes = await timeline.completed_between(*bounds)
        restores = await timeline.restores_between(*bounds)
        portion = [
            _Completion(completed, requested, is_restore)
            for times, is_restore in ((writes, False), (restores, True))
            for requested, completed in times
        ]
        return sorted(portion)[:number]

    def size_of(completion: _Completion) -> int:
        return paging.json_bytes(_completed(completion, table.definition.tick))

    # The limit is one above the maximum, so that collect() reaches the end and reports that there are no more.
    return await paging.collect(fetch, size_of, CHANGED_INSTANTS_MAX + 1, bytes_max, paging.SMALL_ROWS_AT_ONCE)


def _head(
    table: Table, between: tuple[Micros, Micros], completions: Sequence[_Completion], next_cursor: str | None
) -> wire.Changes:
    start, end = between
    tick = table.definition.tick
    return wire.Changes(
        table=table.name,
        from_=None if start == BEFORE_ALL else format_time(start, tick),
        to=None if end == BEFORE_ALL else format_time(end, tick),
        instants=[_completed(completion, tick) for completion in completions if not completion.is_restore],
        file_groups=[],
        next_cursor=next_cursor,
        restores=[_completed(completion, tick) for completion in completions if completion.is_restore],
    )


async def _place(
    answers: Answers, connection: Connection, table: Table, as_of: ReadTime | None, cursor: str | None
) -> tuple[Micros | None, GroupKey]:
    """The completion time of a snapshot, and the file group after which its page begins."""
    place = cursors.in_table(cursor, _SnapshotPlace, table.table_id)
    # Not the requested time, but the last completion: no other instant can complete at or before it, so the
    # answer stays true.
    pinned = await tables.last_completion(
        answers, connection, table, as_of, None if place is None else place.as_of
    )
    return pinned, FIRST if place is None else place.group


def _page(table: Table, as_of: Micros, slices: list[wire.FileSlice], *, is_cut: bool) -> wire.Snapshot:
    next_cursor = cursors.encode(_SnapshotPlace(table.table_id, as_of, _key(slices[-1]))) if is_cut else None
    return wire.Snapshot(table.name, format_time(as_of, table.definition.tick), slices, next_cursor)


def _completed(completion: _Completion, tick: Tick) -> wire.CompletedInstant:
    return wire.CompletedInstant(
        format_time(completion.requested, tick), format_time(completion.completed, tick)
    )


def _changed(
    groups: Sequence[GroupKey], before: Sequence[wire.FileSlice], after: Sequence[wire.FileSlice]
) -> list[wire.ChangedFileGroup]:
    befores = {_key(file_slice): file_slice for file_slice in before}
    afters = {_key(file_slice): file_slice for file_slice in after}
    return [
        wire.ChangedFileGroup(group[0], group[1], befores.get(group), afters.get(group)) for group in groups
    ]


def _key(file_slice: wire.FileSlice) -> GroupKey:
    return file_slice.partition_path, file_slice.file_id


def _slices(files: Sequence[FileOfInstant], tick: Tick) -> list[wire.FileSlice]:
    """One slice per file group; ``files`` come sorted by group, base file first, logs by completion time."""
    return [slice_of(list(group), tick) for _, group in groupby(files, key=lambda file: file.group)]


def slice_of(files: Sequence[FileOfInstant], tick: Tick) -> wire.FileSlice:
    """The slice of one file group; ``files`` are its base file first, then its logs by completion time."""
    bases = [file for file in files if file.kind == FileKind.BASE]
    logs = [file for file in files if file.kind == FileKind.LOG]
    assert len(bases) <= 1, "a file group has one live base file"
    instant_time = bases[0].requested_time if bases else min(log.requested_time for log in logs)
    return wire.FileSlice(
        partition_path=files[0].partition_path,
        file_id=files[0].file_id,
        base_instant_time=format_time(instant_time, tick),
        base_file=document(bases[0], tick) if bases else None,
        log_files=[document(log, tick) for log in logs],
    )


def document(file: FileOfInstant, tick: Tick) -> wire.DataFile:
    """The file as the REST API shows it."""
    folder = f"{file.partition_path}/" if file.partition_path else ""
    return wire.DataFile(
        path=folder + file.file_name,
        size_bytes=file.size_bytes,
        records=file.records,
        requested_time=format_time(file.requested_time, tick),
        completion_time=format_time(file.completion_time, tick),
        schema_version=file.schema_version,
        has_field_ids=file.has_field_ids,
    )
