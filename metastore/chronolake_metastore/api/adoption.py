"""/v1/tables/adopt"""

from __future__ import annotations

import msgspec
from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec.structs import asdict

from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.routes import route
from chronolake_metastore.api.tables import resolved_key
from chronolake_metastore.domain import adoption
from chronolake_metastore.domain.commands import refuse_nul
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.queries import tables as queries
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
    return await keyed_caller.execute(await _command(data))


@route(operations.catalog.CHECK_ADOPTION)
async def check_adoption(data: JSONBody[AdoptTable], caller: NamedDependency[Caller]) -> AdoptionCheck:
    """Give the refusal that adopting the table would get now, or else whose claim its folder may have. Nothing
    is changed.
    """
    refuse_nul(msgspec.json.encode(data))
    command = await _command(data)
    return await caller.read(queries.check_adoption, command)


async def _command(data: AdoptTable) -> adoption.AdoptTable:
    key = await resolved_key(data.definition.base_path)
    return adoption.AdoptTable(
        NewDefinition(**asdict(data.definition)),
        [adoption.FormerInstant(**asdict(instant)) for instant in data.instants],
        data.writer,
        data.cleaned_before,
        data.left_out,
        data.is_published,
        data.lease_seconds,
        key,
    )
