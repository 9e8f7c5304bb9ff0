"""Snapshots of a view other than the merged one, or of slices up to a base instant time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import assert_never
from uuid import UUID

import msgspec

from chronolake_metastore.domain import cleans, slices
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.slices import FileSlice, Slices
from chronolake_metastore.queries import cursors, files, paging, tables
from chronolake_metastore.store import files as stored_files, slices as stored
from chronolake_metastore.store.files import FIRST, FileOfInstant, GroupKey
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.slices import AsOf
from chronolake_model import files as wire
from chronolake_model.file_names import FileKind
from chronolake_model.times import Micros, ReadTime, Tick, format_time
from chronolake_model.vocabulary import View


class SliceSelection(msgspec.Struct, frozen=True):
    """The slices that a request selects."""

    view: View
    as_of: ReadTime | None = None
    before_or_on: Micros | None = None
    partition_path: str | None = None


class _Place(msgspec.Struct, tag="slices", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    as_of: cursors.Time
    group: GroupKey


class _ExaminedGroup(msgspec.Struct, frozen=True):
    """A file group, and the slice of it that the request selects, if there is one."""

    group: GroupKey
    slice: wire.FileSlice | None


async def snapshot(
    ctx: Context, database: Database, table_name: str, selection: SliceSelection, limit: int, cursor: str | None
) -> wire.Snapshot:
    """A page of slices, of ``limit`` file groups at most; raises ``TableNotFound``, ``HistoryCleaned`` or
    ``InvalidCursor``.

    The snapshot is as of the last time of the table's log, not of the last completion, because a compaction
    opens a slice when it is requested.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        if selection.before_or_on is not None:
            # A slice of that time must still have its files, so the time must not be before the last clean.
            cleans.refuse_before(table, selection.before_or_on)
        place = cursors.in_table(cursor, _Place, table.table_id)
        time = await tables.last_time(
            connection, table, selection.as_of, None if place is None else place.as_of
        )
        after = FIRST if place is None else place.group
        if time is None:
            return wire.Snapshot(table.name, None, [], None)
        at = AsOf(table.table_id, time)
        tick = table.definition.tick

        async def fetch(last: _ExaminedGroup | None, number: int) -> list[_ExaminedGroup]:
            previous = after if last is None else last.group
            groups, published = await _published(connection, at, selection, previous, number)
            compactions = await _compactions(connection, at, selection, groups)
            selected_slices = {
                group: _document(group, file_slice, tick)
                for group, of_group in groupby(published, key=lambda file: file.group)
                if (file_slice := _selected_slice(slices.cut(of_group, compactions.get(group, ())), selection))
                is not None
            }
            return [_ExaminedGroup(group, selected_slices.get(group)) for group in groups]

        groups, is_cut = await paging.collect(
            fetch, paging.json_bytes, limit, database.page_bytes_max, paging.SMALL_ROWS_AT_ONCE
        )
    next_cursor = cursors.encode(_Place(table.table_id, time, groups[-1].group)) if is_cut else None
    shown = [examined.slice for examined in groups if examined.slice is not None]
    return wire.Snapshot(table.name, format_time(time, tick), shown, next_cursor)


async def _published(
    connection: Connection, at: AsOf, selection: SliceSelection, after: GroupKey, limit: int
) -> tuple[list[GroupKey], list[FileOfInstant]]:
    """The file groups of a page, and those of their files that may be in the selected slice."""
    if selection.before_or_on is not None:
        groups = await stored.groups_before_or_on(
            connection, at, selection.before_or_on, selection.partition_path, after, limit
        )
        return groups, await stored.files_before_or_on(connection, at, selection.before_or_on, groups)
    kind = FileKind.BASE if selection.view is View.READ_OPTIMISED else None
    live = await stored_files.snapshot(
        connection, at.table_id, at.as_of, selection.partition_path, after, limit, kind
    )
    return list(dict.fromkeys(file.group for file in live)), live


async def _compactions(
    connection: Connection, at: AsOf, selection: SliceSelection, groups: Sequence[GroupKey]
) -> dict[GroupKey, list[Micros]]:
    # Pending compactions do not change which base file is the latest.
    if selection.view is View.READ_OPTIMISED or not groups:
        return {}
    return await stored.pending_compactions(connection, at, groups)


def _selected_slice(group: Slices[FileOfInstant], selection: SliceSelection) -> FileSlice[FileOfInstant] | None:
    if selection.before_or_on is not None:
        group = group.before_or_on(selection.before_or_on)
    match selection.view:
        case View.MERGED:
            return group.merged()
        case View.LATEST:
            return group.latest()
        case View.READ_OPTIMISED:
            return group.read_optimised()
        case _:
            assert_never(selection.view)


def _document(group: GroupKey, file_slice: FileSlice[FileOfInstant], tick: Tick) -> wire.FileSlice:
    return wire.FileSlice(
        partition_path=group[0],
        file_id=group[1],
        base_instant_time=format_time(file_slice.time, tick),
        base_file=None if file_slice.base is None else files.document(file_slice.base, tick),
        log_files=[files.document(log, tick) for log in file_slice.logs],
    )
