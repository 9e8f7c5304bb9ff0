"""The preview of a clean: the files that it would delete."""

from __future__ import annotations

from chronolake_metastore.domain import cleans
from chronolake_metastore.domain.cleans import Retention
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.instants import format_if
from chronolake_metastore.queries import tables
from chronolake_metastore.store import cleans as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.cleans import FILES_TO_CLEAN_MAX, CleanPreview


async def preview(ctx: Context, database: Database, table_name: str, retention: Retention) -> CleanPreview:
    """The files that a clean would delete now, and their size; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        bounds, now = await stored.read_bounds(connection, table.table_id, retention)
        scope = cleans.scope_of(table, retention, bounds, now)
        deletable_files = (
            []
            if scope is None
            else await stored.read_deletable(connection, table.table_id, scope, FILES_TO_CLEAN_MAX + 1)
        )
    plan = cleans.plan(deletable_files[:FILES_TO_CLEAN_MAX])
    return CleanPreview(
        table=table.name,
        cleaned_before=None if plan is None else format_if(plan.cleaned_before, table.definition.tick),
        files_to_delete=[file.path for file in deletable_files[:FILES_TO_CLEAN_MAX]],
        size_bytes=sum(file.size_bytes for file in deletable_files[:FILES_TO_CLEAN_MAX]),
        has_more=len(deletable_files) > FILES_TO_CLEAN_MAX,
    )
