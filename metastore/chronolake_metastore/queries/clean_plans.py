"""Asking what a clean would delete, before anything is gone."""

from __future__ import annotations

from chronolake_metastore.domain import cleans
from chronolake_metastore.domain.instants import format_if
from chronolake_metastore.queries import tables
from chronolake_metastore.store import cleans as stored
from chronolake_metastore.store.engine import Database
from chronolake_model.cleans import FILES_TO_CLEAN_MAX, CleanPolicy, CleanPreview


async def preview(database: Database, table_name: str, policy: CleanPolicy) -> CleanPreview:
    """What a clean would delete now; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(connection, table_name)
        bounds, now = await stored.look(connection, table.table_id, policy.commits)
        wanted = cleans.wanted(table, policy, bounds, now)
        found = (
            []
            if wanted is None
            else await stored.deletable(connection, table.table_id, wanted, FILES_TO_CLEAN_MAX + 1)
        )
    plan = cleans.plan(found[:FILES_TO_CLEAN_MAX])
    return CleanPreview(
        table=table.name,
        cleaned_before=None if plan is None else format_if(plan.cleaned_before, table.definition.tick),
        files_to_delete=[one.path for one in found[:FILES_TO_CLEAN_MAX]],
        size_bytes=sum(one.size_bytes for one in found[:FILES_TO_CLEAN_MAX]),
        more=len(found) > FILES_TO_CLEAN_MAX,
    )
