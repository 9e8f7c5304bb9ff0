"""/v1/tables/{table}/cleans"""

from __future__ import annotations

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain import cleans
from chronolake_metastore.domain.cleans import Retention
from chronolake_metastore.queries import cleans as queries
from chronolake_model import operations
from chronolake_model.cleans import CleanPolicy, CleanPreview, PlanClean, PlannedClean


@route(operations.timeline.PLAN_CLEAN)
async def plan_clean(
    table: TableInPath,
    data: JSONBody[PlanClean],
    keyed_caller: NamedDependency[Caller],
) -> Response[PlannedClean]:
    """Plan which old files to delete, or continue the plan that is pending.

    The clean's `plan` names up to 10,000 files. From its request on, the table is served only as of its
    `cleaned_before` and later times. Its executor deletes the files from storage, reports them, and completes
    the clean; it cannot be rolled back. A table has one such clean at a time: if one is pending, it is the
    answer, with status 200, and the caller takes it over if it has no executor. If there is nothing to clean,
    `clean` is null, and the status is 200.
    """
    return await keyed_caller.execute(
        cleans.PlanClean(
            parameters.table(table), _retention(data), data.writer, data.lease_seconds, data.execute
        )
    )


@route(operations.timeline.PREVIEW_CLEAN)
async def preview_clean(
    table: TableInPath,
    data: JSONBody[CleanPolicy],
    caller: NamedDependency[Caller],
) -> CleanPreview:
    """List the files that a clean by this policy would delete now. Nothing changes."""
    return await caller.read(queries.preview, parameters.table(table), _retention(data))


def _retention(policy: CleanPolicy) -> Retention:
    return Retention(policy.retain_commits, policy.retain_hours, policy.retain_versions)
