"""The files of an instant that were reported deleted, page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

import msgspec

from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.deletions import marked_by
from chronolake_metastore.queries import cursors, instants, paging
from chronolake_metastore.queries.archived import ask, is_moved
from chronolake_metastore.queries.timeline import Answers, across_border
from chronolake_metastore.store import archived, deletions as stored
from chronolake_metastore.store.archived import ArchivedLog, LogBorder
from chronolake_metastore.store.deletions import FIRST
from chronolake_metastore.store.markers import InstantRef
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import read
from chronolake_model.markers import DeletedFile, DeletedFilePage
from chronolake_model.times import Micros, format_time


class _Place(msgspec.Struct, tag="deletions", frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    requested_time: cursors.Time
    file: DeletedFile


@across_border
async def page(
    answers: Answers,
    ctx: Context,
    database: Database,
    table_name: str,
    requested_time: Micros,
    limit: int,
    cursor: str | None,
    *,
    unpublished: bool,
) -> DeletedFilePage:
    """A page of ``limit`` files; raises ``TableNotFound``, ``InstantNotFound`` or ``InvalidCursor``."""
    async with database.reading() as connection:
        table, instant = await instants.find(answers, ctx, connection, table_name, requested_time)
        place = cursors.in_table(cursor, _Place, table.table_id)
        if place is not None:
            cursors.refuse_unless(place.requested_time == requested_time)
        after = FIRST if place is None else place.file
        of = InstantRef(table.table_id, marked_by(instant))
        border = await archived.border_of_instant(connection, table.table_id, Micros(of.requested_time))

        async def fetch(last: DeletedFile | None, number: int) -> list[DeletedFile]:
            begin = last or after
            if border is not None:
                return await _with_archived(database, border, of, begin, number, unpublished=unpublished)
            return await stored.page(connection, of, begin, number, unpublished=unpublished)

        found = None if border is not None else await _collect(database, fetch, limit)
    # No connection is held while the archive is read.
    files, is_cut = await _collect(database, fetch, limit) if found is None else found
    next_cursor = cursors.encode(_Place(table.table_id, requested_time, files[-1])) if is_cut else None
    return DeletedFilePage(table.name, format_time(requested_time, table.definition.tick), files, next_cursor)


async def _collect(
    database: Database,
    fetch: Callable[[DeletedFile | None, int], Awaitable[list[DeletedFile]]],
    limit: int,
) -> tuple[list[DeletedFile], bool]:
    return await paging.collect(
        fetch, paging.json_bytes, limit, database.page_bytes_max, paging.SMALL_ROWS_AT_ONCE
    )


async def _with_archived(
    database: Database,
    border: LogBorder,
    of: InstantRef,
    after: DeletedFile,
    number: int,
    *,
    unpublished: bool,
) -> list[DeletedFile]:
    """The next files of the reports in the archive and in the database: a file may be in both."""
    files: list[DeletedFile] = []
    while len(files) < number:
        old = await ask(database, border, _reported(of, after, number))
        async with database.reading() as connection:
            if await is_moved(connection, border):
                border = await archived.border(connection) or border
                continue
            new = await stored.page(connection, of, after, number, unpublished=unpublished)
            gone = await read(connection, stored.published(of, old)) if unpublished and old else []
        # A full page may lack files after its last one.
        end = min((page[-1] for page in (old, new) if len(page) == number), default=None)
        files += sorted(file for file in {*old, *new}.difference(gone) if end is None or file <= end)
        if end is None:
            break
        after = end
    return files[:number]


def _reported(of: InstantRef, after: DeletedFile, limit: int) -> Callable[[ArchivedLog], list[DeletedFile]]:
    return lambda log: log.deleted_files(of.table_id, Micros(of.requested_time), after, limit)
