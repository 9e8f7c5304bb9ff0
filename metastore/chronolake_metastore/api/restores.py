"""/v1/tables/{table}/restore"""

from __future__ import annotations

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import TableInPath
from chronolake_metastore.api.requests import time_in_body
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain import restores
from chronolake_model import operations
from chronolake_model.instants import Instant, RestoreTable


@route(operations.timeline.RESTORE_TABLE)
async def restore_table(
    table: TableInPath,
    data: JSONBody[RestoreTable],
    keyed_caller: NamedDependency[Caller],
) -> Response[Instant]:
    """Roll back pending instants, then those that completed after the pinned instant, newest first.

    The answer is the restore; its plan names the instants in that order.
    """
    savepoint = time_in_body("savepoint", data.savepoint)
    return await keyed_caller.execute(
        restores.RestoreTable(parameters.table(table), savepoint, data.writer, data.reason)
    )
