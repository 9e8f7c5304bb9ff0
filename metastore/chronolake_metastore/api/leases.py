"""/v1/tables/{table}/instants/{instant}/heartbeat"""

from __future__ import annotations

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec.structs import asdict

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import RequestedTimeInPath, TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain.leases import RenewLease
from chronolake_model import operations
from chronolake_model.instants import Heartbeat, Instant


@route(operations.timeline.RENEW_LEASE)
async def renew_lease(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[Heartbeat],
    keyed_caller: NamedDependency[Caller],
) -> Response[Instant]:
    """Renew the lease from now on. 410 means that the instant was rolled back, and the writer must stop."""
    time = parameters.instant_time("requested_time", requested_time)
    return await keyed_caller.execute(RenewLease(parameters.table(table), time, **asdict(data)))
