"""/v1/health"""

from __future__ import annotations

from typing import Annotated

from litestar.di import NamedDependency
from litestar.params import QueryParameter

from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor
from chronolake_metastore.api.routes import route
from chronolake_metastore.queries import health as queries, readiness
from chronolake_model import operations
from chronolake_model.health import HEALTH_LIMIT_MAX, HealthPage


@route(operations.catalog.LIST_HEALTH)
async def list_health(
    caller: NamedDependency[Caller],
    probe: NamedDependency[readiness.Probe],
    limit: Annotated[
        int, QueryParameter(ge=1, le=HEALTH_LIMIT_MAX, description="The largest number of entries.")
    ] = HEALTH_LIMIT_MAX,
    cursor: Cursor = None,
) -> HealthPage:
    """Publication, log files and pending plans of each table, in the order of their names."""
    return await caller.read(queries.page, limit, cursor, probe.refusal())
