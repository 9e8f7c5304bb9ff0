"""/v1/tables/adopt"""

from __future__ import annotations

from typing import Final

import msgspec
from litestar import Response, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from chronolake_metastore import local_paths
from chronolake_metastore.api import problems
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.domain import adoption
from chronolake_metastore.domain.commands import refuse_nul
from chronolake_metastore.queries import adoption as queries
from chronolake_model.adoption import AdoptedTable, AdoptionCheck, AdoptTable
from chronolake_model.problems import ProblemCode

TAGS = ["Tables"]
_REFUSALS: Final = (
    ProblemCode.NAMESPACE_NOT_FOUND,
    ProblemCode.TABLE_EXISTS,
    ProblemCode.BASE_PATH_TAKEN,
    ProblemCode.INVALID_TABLE,
    ProblemCode.INVALID_WRITE_STAT,
    ProblemCode.INVALID_PLAN,
)


@post(
    "/tables/adopt",
    summary="Adopt a table that Hudi has written",
    tags=TAGS,
    responses=problems.of_command(*_REFUSALS),
)
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


@post(
    "/tables/adopt/dry-run",
    summary="Could this table be adopted?",
    status_code=200,
    tags=TAGS,
    responses=problems.of_body(*_REFUSALS),
)
async def check_adoption(data: JSONBody[AdoptTable], caller: NamedDependency[Caller]) -> AdoptionCheck:
    """Give the refusal that adopting the table would get now, or else whose claim its folder may have. Nothing
    is changed.
    """
    refuse_nul(msgspec.json.encode(data))
    command = adoption.AdoptTable(data, await local_paths.resolved_key(data.definition.base_path))
    return await caller.read(queries.check, command)
