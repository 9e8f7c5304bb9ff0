"""/v1/tables/{table}/instants/{instant}/conflicts"""

from __future__ import annotations

import msgspec
from litestar.di import NamedDependency
from litestar.params import JSONBody

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import RequestedTimeInPath, TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain.commands import refuse_nul
from chronolake_metastore.queries import conflicts as queries
from chronolake_model import operations
from chronolake_model.instants import Conflicts, FindConflicts


@route(operations.timeline.FIND_CONFLICTS)
async def find_conflicts(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[FindConflicts],
    caller: NamedDependency[Caller],
) -> Conflicts:
    """Whether completing the instant with these file groups would conflict now. Nothing changes."""
    refuse_nul(msgspec.json.encode(data))
    time = parameters.instant_time("requested_time", requested_time)
    return await caller.read(queries.find, parameters.table(table), time, data)
