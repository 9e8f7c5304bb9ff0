"""/v1/tables/{table}/restore"""

from __future__ import annotations

from litestar import Response, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from chronolake_metastore.api import parameters, problems
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import TableInPath
from chronolake_metastore.api.requests import time_in_body
from chronolake_metastore.domain import restores
from chronolake_model.instants import Instant, RestoreTable
from chronolake_model.problems import ProblemCode


@post(
    "/tables/{table:str}/restore",
    summary="Restore a table to a savepoint",
    status_code=200,
    tags=["Savepoints"],
    responses=problems.of_command(
        ProblemCode.TABLE_NOT_FOUND,
        ProblemCode.INSTANT_NOT_FOUND,
        ProblemCode.ILLEGAL_TRANSITION,
        ProblemCode.SAVEPOINTED,
        ProblemCode.INVALID_PLAN,
    ),
)
async def restore_table(
    table: TableInPath,
    data: JSONBody[RestoreTable],
    keyed_caller: NamedDependency[Caller],
) -> Response[Instant]:
    """Roll back pending instants, then those that completed after the pinned instant, newest first.

    The answer is the restore; its plan names the instants in that order.
    """
    savepoint = time_in_body("savepoint", data.savepoint)
    return await keyed_caller.execute(restores.RestoreTable(parameters.table(table), savepoint, data))
