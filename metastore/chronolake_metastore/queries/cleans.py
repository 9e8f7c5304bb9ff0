"""Cleans: the files that one would delete, and the times that a table can still be read as of."""

from __future__ import annotations

from chronolake_metastore import errors
from chronolake_metastore.domain import cleans, policies
from chronolake_metastore.domain.cleans import Retention
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.instants import format_if
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import tables
from chronolake_metastore.store import cleans as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.cleans import FILES_TO_CLEAN_MAX, CleanPreview
from chronolake_model.times import Bound, Micros, ReadTime

BEFORE_ALL = Micros(0)
"""Earlier than any instant."""


def first_servable(table: Table) -> Micros:
    """The first completion time as of which the table can be read."""
    return BEFORE_ALL if table.cleaned_before is None else table.cleaned_before


async def as_of(connection: Connection, table: Table, requested: ReadTime | None) -> Micros | None:
    """The completion time of a time-travel read; none for the present. Raises ``HistoryCleaned``."""
    if requested is None or requested is Bound.LATEST:
        return None
    if requested is Bound.EARLIEST:
        return first_servable(table)
    return await servable(connection, table, requested)


async def servable(connection: Connection, table: Table, time: Micros) -> Micros:
    """Return ``time`` if the table can be read as of it; raises ``HistoryCleaned`` otherwise.

    Times that a savepoint or the lease of a reader holds can be read after later cleans too.
    """
    try:
        cleans.refuse_before(table, time)
    except errors.HistoryCleaned:
        if not await stored.is_held(connection, table.table_id, time):
            raise
    return time


def in_range(table: Table, time: Micros) -> Micros:
    """Return ``time`` if it can be an end of a range; raises ``HistoryCleaned`` otherwise.

    The beginning of the table always can: a range from there needs no deleted file.
    """
    if time != BEFORE_ALL:
        cleans.refuse_before(table, time)
    return time


async def preview(ctx: Context, database: Database, table_name: str, stated: Retention) -> CleanPreview:
    """The files that a clean would delete now, and their size; raises ``TableNotFound``.

    Unless a retention is stated, it is that of the table.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        retention = policies.retention(table, stated)
        bounds, now = await stored.read_bounds(connection, table.table_id, retention)
        scope = cleans.scope_of(table, retention, bounds, now)
        deletable_files = (
            []
            if scope is None
            else await stored.read_deletable(connection, table.table_id, scope, FILES_TO_CLEAN_MAX + 1)
        )
    left_at = max((file.left_at for file in deletable_files[:FILES_TO_CLEAN_MAX]), default=None)
    return CleanPreview(
        table=table.name,
        cleaned_before=format_if(left_at, table.definition.tick),
        files_to_delete=[file.path for file in deletable_files[:FILES_TO_CLEAN_MAX]],
        size_bytes=sum(file.size_bytes for file in deletable_files[:FILES_TO_CLEAN_MAX]),
        has_more=len(deletable_files) > FILES_TO_CLEAN_MAX,
    )
