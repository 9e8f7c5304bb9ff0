"""File groups: their slices, the history of one, replaced file groups, and file groups in pending plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import slices
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.slices import FileSlice, Slices
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import cursors, files, paging, tables
from chronolake_metastore.queries.cleans import BEFORE_ALL
from chronolake_metastore.queries.timeline import Answers, across_border
from chronolake_metastore.store import slices as stored
from chronolake_metastore.store.files import FIRST, FileOfInstant, GroupKey
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.slices import AsOf, GroupName, PendingGroup, ReplacedGroup
from chronolake_model import slices as wire
from chronolake_model.times import ReadTime, Tick, format_time
from chronolake_model.vocabulary import IndexType


class _NumberPlace(msgspec.Struct, tag="number", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    as_of: cursors.Time
    number: int


class _HistoryPlace(msgspec.Struct, tag="history", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    as_of: cursors.Time
    group: GroupKey
    slice_time: cursors.Time


class _ReplacedPlace(msgspec.Struct, tag="replaced", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    as_of: cursors.Time
    group: GroupKey


class _PendingPlace(msgspec.Struct, tag="pending", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    as_of: cursors.Time
    group: GroupKey


_NumberedGroup = tuple[int, wire.FoundFileGroup]
"""A file group that was found, with its position in the request."""


@across_border
async def find(
    answers: Answers,
    ctx: Context,
    database: Database,
    table_name: str,
    body: wire.FindFileGroups,
    as_of: ReadTime | None,
) -> wire.FoundFileGroups:
    """A page of what the file groups of a request have as of a completion time, in the order of the request.

    Raises ``TableNotFound``, ``InvalidParameter``, ``HistoryCleaned`` or ``InvalidCursor``.
    """
    _refuse_repeated("file_groups", body.file_groups)
    _refuse_repeated("buckets", body.buckets)
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        _refuse_buckets_of_other_indexes(table, body.buckets)
        names: list[GroupName] = [*body.file_groups, *body.buckets]
        place = cursors.in_table(body.cursor, _NumberPlace, table.table_id)
        start = 0 if place is None else place.number
        cursors.refuse_unless(0 <= start <= len(names))
        time = await tables.last_completion(
            answers, connection, table, as_of, None if place is None else place.as_of
        )
        pinned = BEFORE_ALL if time is None else time
        tick = table.definition.tick

        async def fetch(last: _NumberedGroup | None, number: int) -> list[_NumberedGroup]:
            first = start if last is None else last[0] + 1
            portion = names[first : first + number]
            found = await _found(connection, AsOf(table.table_id, pinned), portion, tick)
            return list(enumerate(found, first))

        numbered, is_cut = await paging.collect(
            fetch, paging.json_bytes, body.limit, database.page_bytes_max, paging.SMALL_ROWS_AT_ONCE
        )
    next_number = start + len(numbered)
    is_cut = is_cut and next_number < len(names)
    return wire.FoundFileGroups(
        table=table.name,
        as_of=None if pinned == BEFORE_ALL else format_time(pinned, tick),
        file_groups=[group for _, group in numbered],
        next_cursor=cursors.encode(_NumberPlace(table.table_id, pinned, next_number)) if is_cut else None,
    )


def _refuse_repeated(parameter: str, names: Sequence[GroupName]) -> None:
    """A group that is named a thousand times would be in the answer as often, and read again for each page."""
    for repeated, count in Counter(names).most_common(1):
        if count == 1:
            return
        raise errors.InvalidParameter(
            f"{parameter} names {msgspec.json.encode(repeated).decode()} more than once; name each once",
            parameter=parameter,
        )


def _refuse_buckets_of_other_indexes(table: Table, buckets: Sequence[wire.BucketName]) -> None:
    index = table.definition.index.type
    if index is not IndexType.BUCKET and buckets:
        raise errors.InvalidParameter(
            f"{table.name!r} has the index {index}: name its file groups, not buckets", parameter="buckets"
        )


async def _found(
    connection: Connection, at: AsOf, names: Sequence[GroupName], tick: Tick
) -> list[wire.FoundFileGroup]:
    published = await stored.files_of(connection, at, names)
    buckets = [name for name in names if isinstance(name, wire.BucketName)]
    replaced = await stored.last_replaced(connection, at, buckets)
    return [
        wire.FoundFileGroup(
            slice=files.slice_of(of_group, tick) if (of_group := published.get(name)) else None,
            replaced=replaced.get(name) if isinstance(name, wire.BucketName) else None,
        )
        for name in names
    ]


async def history(
    ctx: Context,
    database: Database,
    table_name: str,
    group: GroupKey,
    as_of: ReadTime | None,
    limit: int,
    cursor: str | None,
) -> wire.FileGroupHistory:
    """A page of ``limit`` slices of a file group.

    Each page reads all files that the group ever had, because the history of one group is short. Raises
    ``TableNotFound``, ``HistoryCleaned`` or ``InvalidCursor``.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        place = cursors.in_table(cursor, _HistoryPlace, table.table_id)
        cursors.refuse_unless(place is None or place.group == group)
        time = await tables.last_time(connection, table, as_of, None if place is None else place.as_of)
        if time is None:
            return wire.FileGroupHistory(table.name, None, *group, None, [], None)
        at = AsOf(table.table_id, time)
        published, cleaned = await stored.history(connection, at, group)
        compactions = await stored.pending_compactions(connection, at, [group])
        replaced = await stored.replacement(connection, at, group)
    whole = slices.cut(published, compactions[group], None if replaced is None else replaced.replacement)
    tick = table.definition.tick
    # Cut with all files, because the next slice says when a slice ended.
    next_slices = [
        file_slice
        for file_slice in whole.all
        if (place is None or file_slice.time > place.slice_time) and cleaned.isdisjoint(file_slice.files())
    ]
    page = paging.cut(
        next_slices[:limit],
        lambda file_slice: paging.json_bytes(_slice(whole, file_slice, tick)),
        database.page_bytes_max,
    )
    next_cursor = (
        cursors.encode(_HistoryPlace(table.table_id, time, group, page[-1].time))
        if len(page) < len(next_slices)
        else None
    )
    return wire.FileGroupHistory(
        table=table.name,
        as_of=format_time(time, tick),
        partition_path=group[0],
        file_id=group[1],
        replaced=None if replaced is None else _replacement(replaced, tick),
        slices=[_slice(whole, file_slice, tick) for file_slice in page],
        next_cursor=next_cursor,
    )


@across_border
async def replaced(
    answers: Answers,
    ctx: Context,
    database: Database,
    table_name: str,
    as_of: ReadTime | None,
    limit: int,
    cursor: str | None,
) -> wire.ReplacedFileGroups:
    """A page of ``limit`` file groups that were replaced as of a time.

    Raises ``TableNotFound``, ``HistoryCleaned`` or ``InvalidCursor``.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        place = cursors.in_table(cursor, _ReplacedPlace, table.table_id)
        time = await tables.last_completion(
            answers, connection, table, as_of, None if place is None else place.as_of
        )
        after = FIRST if place is None else place.group
        if time is None:
            return wire.ReplacedFileGroups(table.name, None, [], None)
        at = AsOf(table.table_id, time)

        async def fetch(last: ReplacedGroup | None, number: int) -> list[ReplacedGroup]:
            return await stored.replaced(connection, at, after if last is None else last.group, number)

        replaced_groups, is_cut = await paging.collect(
            fetch, paging.json_bytes, limit, database.page_bytes_max, paging.SMALL_ROWS_AT_ONCE
        )
    next_cursor = (
        cursors.encode(_ReplacedPlace(table.table_id, time, replaced_groups[-1].group)) if is_cut else None
    )
    tick = table.definition.tick
    groups = [wire.ReplacedFileGroup(*group.group, _replacement(group, tick)) for group in replaced_groups]
    return wire.ReplacedFileGroups(table.name, format_time(time, tick), groups, next_cursor)


async def pending(
    ctx: Context, database: Database, table_name: str, as_of: ReadTime | None, limit: int, cursor: str | None
) -> wire.PendingFileGroups:
    """A page of ``limit`` file groups that the plans of pending table services name.

    Raises ``TableNotFound``, ``HistoryCleaned`` or ``InvalidCursor``.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        place = cursors.in_table(cursor, _PendingPlace, table.table_id)
        time = await tables.last_time(connection, table, as_of, None if place is None else place.as_of)
        after = FIRST if place is None else place.group
        if time is None:
            return wire.PendingFileGroups(table.name, None, [], None)
        at = AsOf(table.table_id, time)

        async def fetch(last: PendingGroup | None, number: int) -> list[PendingGroup]:
            return await stored.pending(connection, at, after if last is None else last.group, number)

        pending_groups, is_cut = await paging.collect(
            fetch, paging.json_bytes, limit, database.page_bytes_max, paging.SMALL_ROWS_AT_ONCE
        )
    next_cursor = (
        cursors.encode(_PendingPlace(table.table_id, time, pending_groups[-1].group)) if is_cut else None
    )
    tick = table.definition.tick
    groups = [
        wire.PendingFileGroup(*group.group, format_time(group.requested_time, tick), group.action)
        for group in pending_groups
    ]
    return wire.PendingFileGroups(table.name, format_time(time, tick), groups, next_cursor)


def _slice(
    whole: Slices[FileOfInstant], file_slice: FileSlice[FileOfInstant], tick: Tick
) -> wire.HistoricSlice:
    superseded_at = whole.superseded_at(file_slice)
    return wire.HistoricSlice(
        base_instant_time=format_time(file_slice.time, tick),
        base_file=None if file_slice.base is None else files.document(file_slice.base, tick),
        log_files=[files.document(log, tick) for log in file_slice.logs],
        pending=file_slice.is_pending,
        superseded_at=None if superseded_at is None else format_time(superseded_at, tick),
    )


def _replacement(group: ReplacedGroup, tick: Tick) -> wire.GroupReplacement:
    return wire.GroupReplacement(
        requested_time=format_time(group.replacement.requested_time, tick),
        completion_time=format_time(group.replacement.completion_time, tick),
        action=group.action,
        operation=group.operation,
    )
