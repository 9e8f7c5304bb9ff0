"""/v1/tables/{table}/instants/{instant}/rollback"""

from __future__ import annotations

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec.structs import asdict

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import RequestedTimeInPath, TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain.rollbacks import RollbackInstant
from chronolake_model import instants as wire, operations


@route(operations.timeline.ROLL_BACK_INSTANT)
async def roll_back_instant(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[wire.RollbackInstant],
    keyed_caller: NamedDependency[Caller],
) -> Response[wire.Instant]:
    """requested or inflight -> rolled_back, by an instant of its own that `rolled_back_by` names.

    There is one rollback for each instant. A second request gets the instant in its present state, and takes
    the rollback over if the lease of its executor has ended.
    """
    time = parameters.instant_time("requested_time", requested_time)
    return await keyed_caller.execute(RollbackInstant(parameters.table(table), time, **asdict(data)))
