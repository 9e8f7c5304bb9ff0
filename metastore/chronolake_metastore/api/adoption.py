"""/v1/tables/adopt"""

from __future__ import annotations

import msgspec
from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody

from chronolake_metastore import local_paths
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain import adoption
from chronolake_metastore.domain.commands import refuse_nul
from chronolake_metastore.queries import adoption as queries
from chronolake_model import operations
from chronolake_model.adoption import AdoptedTable, AdoptionCheck, AdoptTable


@route(operations.catalog.ADOPT_TABLE)
async def adopt_table(
    data: JSONBody[AdoptTable], keyed_caller: NamedDependency[Caller]
) -> Response[AdoptedTable]:
    """Create a table with the history that Hudi's timeline has: its instants, with Hudi's times, and its files.

    The rules for its name and its base path are those of a new table. Nothing in storage is read or changed.
    The last event of the history is `TableAdopted`; all later times are issued by the server.
    """
    return await keyed_caller.execute(
        adoption.AdoptTable(data, await local_paths.resolved_key(data.definition.base_path))
    )


@route(operations.catalog.CHECK_ADOPTION)
async def check_adoption(data: JSONBody[AdoptTable], caller: NamedDependency[Caller]) -> AdoptionCheck:
    """Give the refusal that adopting the table would get now, or else whose claim its folder may have. Nothing
    is changed.
    """
    refuse_nul(msgspec.json.encode(data))
    command = adoption.AdoptTable(data, await local_paths.resolved_key(data.definition.base_path))
    return await caller.read(queries.check, command)
