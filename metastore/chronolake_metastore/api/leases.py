"""/v1/tables/{table}/instants/{instant}/heartbeat"""

from __future__ import annotations

from litestar import Response, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from chronolake_metastore.api import parameters, problems
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.openapi import OptionalBody
from chronolake_metastore.api.parameters import RequestedTimeInPath, TableInPath
from chronolake_metastore.domain.leases import RenewLease
from chronolake_model.instants import Heartbeat, Instant
from chronolake_model.problems import ProblemCode


@post(
    "/tables/{table:str}/instants/{requested_time:str}/heartbeat",
    summary="Renew an instant's lease",
    status_code=200,
    tags=["Timeline"],
    operation_class=OptionalBody,
    responses=problems.of_command(
        ProblemCode.TABLE_NOT_FOUND,
        ProblemCode.INSTANT_NOT_FOUND,
        ProblemCode.ILLEGAL_TRANSITION,
        ProblemCode.INSTANT_ROLLED_BACK,
    ),
)
async def renew_lease(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[Heartbeat],
    keyed_caller: NamedDependency[Caller],
) -> Response[Instant]:
    """Renew the lease from now on. 410 means that the instant was rolled back, and the writer must stop."""
    time = parameters.instant_time("requested_time", requested_time)
    return await keyed_caller.execute(RenewLease(parameters.table(table), time, data))
