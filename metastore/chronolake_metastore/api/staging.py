"""/v1/tables/{table}/instants/{instant}/write-stats"""

from __future__ import annotations

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec.structs import asdict

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import RequestedTimeInPath, TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain.staging import StageWriteStats
from chronolake_model import instants as wire, operations
from chronolake_model.instants import StagedWriteStats


@route(operations.timeline.STAGE_WRITE_STATS)
async def stage_write_stats(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[wire.StageWriteStats],
    keyed_caller: NamedDependency[Caller],
) -> Response[StagedWriteStats]:
    """Report files before the instant completes, so that other writers do not wait for very large instants.

    The complete request names the `version` of each answer in `staged`. A conflict is already refused here.
    """
    time = parameters.instant_time("requested_time", requested_time)
    return await keyed_caller.execute(StageWriteStats(parameters.table(table), time, **asdict(data)))
