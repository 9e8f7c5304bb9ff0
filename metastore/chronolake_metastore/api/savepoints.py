"""/v1/tables/{table}/savepoints, and /v1/tables/{table}/restore"""

from __future__ import annotations

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec.structs import asdict

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import RequestedTimeInPath, TableInPath
from chronolake_metastore.api.requests import time_in_body
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain import restores, savepoints
from chronolake_model import operations
from chronolake_model.instants import CreateSavepoint, Instant, ReleaseSavepoint, RestoreTable


@route(operations.timeline.CREATE_SAVEPOINT)
async def create_savepoint(
    table: TableInPath,
    data: JSONBody[CreateSavepoint],
    keyed_caller: NamedDependency[Caller],
) -> Response[Instant]:
    """Pin a completed instant. If it is already pinned, the answer is its savepoint, with status 200."""
    target = None if data.instant is None else time_in_body("instant", data.instant)
    return await keyed_caller.execute(
        savepoints.CreateSavepoint(parameters.table(table), target, data.writer, data.comment)
    )


@route(operations.timeline.RELEASE_SAVEPOINT)
async def release_savepoint(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[ReleaseSavepoint],
    keyed_caller: NamedDependency[Caller],
) -> Response[Instant]:
    """Release a savepoint, by its own requested time: its instant may be rolled back and cleaned again."""
    time = parameters.instant_time("requested_time", requested_time)
    return await keyed_caller.execute(
        savepoints.ReleaseSavepoint(parameters.table(table), time, **asdict(data))
    )


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
