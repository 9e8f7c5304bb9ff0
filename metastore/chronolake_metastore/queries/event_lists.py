"""The lists of events, page by page: the entries of plans, and the file groups that were replaced."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import msgspec

from chronolake_metastore.domain import lists
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.lists import ListEntry, ListName
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import cursors, instants
from chronolake_metastore.queries.archived import ask
from chronolake_metastore.queries.timeline import Answers, across_border
from chronolake_metastore.store import archived, event_lists as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model import instants as wire
from chronolake_model.times import Micros, format_time

_BEFORE_ALL = -1


class _Place(msgspec.Struct, tag="entries", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    requested_time: cursors.Time
    list: ListName
    ordinal: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class ListRequest(msgspec.Struct, frozen=True):
    """A request for a page of a list of one instant."""

    requested_time: Micros
    limit: int
    cursor: str | None


class _Page(msgspec.Struct, frozen=True):
    table: Table
    requested_time: str
    entries: list[ListEntry]
    next_cursor: str | None


async def planned_file_groups(
    ctx: Context, database: Database, table_name: str, request: ListRequest
) -> wire.PlannedFileGroups:
    """A page of the file groups that a plan names.

    This and the functions below raise ``TableNotFound``, ``InstantNotFound`` or ``InvalidCursor``.
    """
    page = await _page(ctx, database, table_name, request, ListName.PLAN_FILE_GROUPS)
    groups = lists.file_groups(page.entries)
    return wire.PlannedFileGroups(page.table.name, page.requested_time, groups, page.next_cursor)


async def planned_files(
    ctx: Context, database: Database, table_name: str, request: ListRequest
) -> wire.PlannedFiles:
    """A page of the files that a plan deletes."""
    page = await _page(ctx, database, table_name, request, ListName.PLAN_FILES)
    files = [entry.name for entry in page.entries]
    return wire.PlannedFiles(page.table.name, page.requested_time, files, page.next_cursor)


async def planned_instants(
    ctx: Context, database: Database, table_name: str, request: ListRequest
) -> wire.PlannedInstants:
    """A page of the instants that a restore rolls back."""
    page = await _page(ctx, database, table_name, request, ListName.PLAN_INSTANTS)
    tick = page.table.definition.tick
    instants = [format_time(time, tick) for time in lists.instants(page.entries)]
    return wire.PlannedInstants(page.table.name, page.requested_time, instants, page.next_cursor)


async def replaced_file_groups(
    ctx: Context, database: Database, table_name: str, request: ListRequest
) -> wire.FileGroupsReplaced:
    """A page of the file groups that an instant replaced."""
    page = await _page(ctx, database, table_name, request, ListName.REPLACED_FILE_GROUPS)
    groups = lists.file_groups(page.entries)
    return wire.FileGroupsReplaced(page.table.name, page.requested_time, groups, page.next_cursor)


@across_border
async def _page(
    answers: Answers, ctx: Context, database: Database, table_name: str, request: ListRequest, name: ListName
) -> _Page:
    async with database.reading() as connection:
        table, instant = await instants.find(answers, ctx, connection, table_name, request.requested_time)
        place = cursors.in_table(request.cursor, _Place, table.table_id)
        if place is not None:
            cursors.refuse_unless((place.requested_time, place.list) == (request.requested_time, name))
        after = _BEFORE_ALL if place is None else place.ordinal
        of = table.table_id, instant.requested_time, name, after, request.limit, database.page_bytes_max
        entries, is_cut = await stored.page(connection, *of)
        # A list is the rows of one event, so it is whole in the database or in the archive.
        border = None if entries else await archived.border_of_instant(connection, *of[:2])
    if border is not None:
        entries, is_cut = await ask(database, border, lambda log: log.entries(*of))
    next_cursor = (
        cursors.encode(_Place(table.table_id, request.requested_time, name, entries[-1][0])) if is_cut else None
    )
    text = format_time(request.requested_time, table.definition.tick)
    return _Page(table, text, [entry for _, entry in entries], next_cursor)
