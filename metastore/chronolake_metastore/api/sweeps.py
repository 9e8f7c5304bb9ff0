"""/v1/tables/{table}/unswept and /v1/tables/{table}/instants/{instant}/sweep"""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, Limit, RequestedTimeInPath, TableInPath
from chronolake_metastore.api.requests import time_in_body
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain.sweeps import RecordSweep
from chronolake_metastore.queries import sweeps as queries
from chronolake_model import operations, sweeps as wire
from chronolake_model.sweeps import GRACE_SECONDS_MAX, RecordedSweep, UnsweptPage


@route(operations.files.LIST_UNSWEPT)
async def list_unswept(
    *,
    table: TableInPath,
    caller: NamedDependency[Caller],
    grace_seconds: Annotated[
        int | None,
        QueryParameter(
            ge=0,
            le=GRACE_SECONDS_MAX,
            description=(
                "The least time since the last reported deletion. Default: the table property "
                "`deletions.grace-seconds`, else 900. It is never less than an instant's lease."
            ),
        ),
    ] = None,
    limit: Limit = parameters.PAGE_DEFAULT,
    cursor: Cursor = None,
) -> UnsweptPage:
    """Ended instants whose deleted names must be checked again, because the grace period has passed.

    A late task may have finished a file after the file was deleted. The names to check are the deletions of the
    instant with `unpublished=true`.
    """
    return await caller.read(queries.page, parameters.table(table), grace_seconds, limit, cursor)


@route(operations.files.RECORD_SWEEP)
async def record_sweep(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[wire.RecordSweep],
    keyed_caller: NamedDependency[Caller],
) -> Response[RecordedSweep]:
    """Record that all deleted names of an instant were checked once more, and which files existed.

    Files that existed and were deleted again are recorded as deletions, and the instant is due again after
    another grace period. If no file existed, it is not due any more.
    """
    time = parameters.instant_time("requested_time", requested_time)
    since = time_in_body("unswept_since", data.unswept_since)
    return await keyed_caller.execute(RecordSweep(parameters.table(table), time, since, data.late_files))
