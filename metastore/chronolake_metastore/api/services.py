"""/v1/tables/{table}/services and /v1/services"""

from __future__ import annotations

import contextlib
from typing import Annotated

import msgspec
from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter

from chronolake_metastore import errors
from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain import commands, services
from chronolake_metastore.notes import services as notes
from chronolake_metastore.queries import services as queries
from chronolake_metastore.queries.services import DecidedRound
from chronolake_model import operations
from chronolake_model.services import (
    SERVICES_LIMIT_MAX,
    PlanServices,
    ServicesPage,
    ServicesPlanned,
    ServicesPreview,
    ServicesStatus,
)


@route(operations.services.PLAN_SERVICES)
async def plan_services(
    table: TableInPath, data: JSONBody[PlanServices], keyed_caller: NamedDependency[Caller]
) -> Response[ServicesPlanned]:
    """Plan what the policies of the table ask for: compactions, log compactions, clusterings, a clean.

    Each instant names the file groups that are rewritten together, of bounded size, so that several executors
    share a round. The next request plans what a round leaves out. File groups in pending plans are left out. If
    nothing is planned, `instants` is empty, `held` says why, and the status is 200.
    """
    name = parameters.table(table)
    asked = services.PlanServices(name, data.writer, data.services, data.force, data.details)
    # Before the database is read.
    commands.refuse_nul(commands.canonical(asked))
    decided = DecidedRound()
    # Without the table the command is refused, so that the refusal is recorded as that of any other.
    with contextlib.suppress(errors.TableNotFound):
        decided = await keyed_caller.read(queries.decide, name, data.services, data.force, data.details)
    planned = {"plans": decided.plans, "held": decided.held, "clean": decided.clean, "seen": decided.seen}
    answer = await keyed_caller.execute(msgspec.structs.replace(asked, **planned))
    if decided.look is not None:
        await keyed_caller.note(notes.save_look, name, decided.look)
    return answer


@route(operations.services.PREVIEW_SERVICES)
async def preview_services(table: TableInPath, caller: NamedDependency[Caller]) -> ServicesPreview:
    """List the instants that planning would record now, and why it would not record more. Nothing changes."""
    return await caller.read(queries.preview, parameters.table(table))


@route(operations.services.GET_SERVICES)
async def get_services(table: TableInPath, caller: NamedDependency[Caller]) -> ServicesStatus:
    """Pending plans with their executors, the last run of each service, and clusterings that were cancelled."""
    return await caller.read(queries.status, parameters.table(table))


@route(operations.services.LIST_SERVICES)
async def list_services(
    caller: NamedDependency[Caller],
    limit: Annotated[
        int, QueryParameter(ge=1, le=SERVICES_LIMIT_MAX, description="The largest number of entries.")
    ] = SERVICES_LIMIT_MAX,
    cursor: Cursor = None,
) -> ServicesPage:
    """The table services of each table, in the order of their names."""
    return await caller.read(queries.page, limit, cursor)
