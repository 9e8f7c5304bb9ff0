"""/v1/tables"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter

from chronolake_metastore import local_paths
from chronolake_metastore.api import parameters, problems
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, Limit, TableInPath
from chronolake_metastore.domain import tables
from chronolake_metastore.domain.commands import refuse_nul
from chronolake_metastore.queries import tables as queries
from chronolake_model.problems import ProblemCode
from chronolake_model.tables import AlterTable, CreateTable, DroppedTablePage, Table, TablePage

TAGS = ["Tables"]
_REFUSALS: Final = (
    ProblemCode.NAMESPACE_NOT_FOUND,
    ProblemCode.TABLE_EXISTS,
    ProblemCode.BASE_PATH_TAKEN,
    ProblemCode.INVALID_TABLE,
)


@post(
    "/tables",
    summary="Create a table",
    tags=TAGS,
    responses=problems.of_command(*_REFUSALS),
)
async def create_table(data: JSONBody[CreateTable], keyed_caller: NamedDependency[Caller]) -> Response[Table]:
    """Create a table; its first event is version 1 of its log.

    Its base path must not overlap with that of another table, in any spelling. The base path of a dropped
    table is taken over only with `reuse_base_path`. From then on nothing of the dropped table is deleted there.
    """
    return await keyed_caller.execute(tables.CreateTable(data, await local_paths.resolved_key(data.base_path)))


@post(
    "/tables/dry-run",
    summary="Could this table be created?",
    status_code=204,
    tags=TAGS,
    responses=problems.of_body(*_REFUSALS),
)
async def check_new_table(data: JSONBody[CreateTable], caller: NamedDependency[Caller]) -> None:
    """Give the answer that creating the table would get now; create nothing.

    `namespace-not-found` is checked last: every other condition holds then.
    """
    refuse_nul(msgspec.json.encode(data))
    command = tables.CreateTable(data, await local_paths.resolved_key(data.base_path))
    await caller.read(queries.check_new, command)


@get(
    "/tables",
    summary="List tables",
    tags=TAGS,
    responses=problems.of_query(ProblemCode.NAMESPACE_NOT_FOUND, ProblemCode.INVALID_CURSOR),
)
async def list_tables(
    caller: NamedDependency[Caller],
    namespace: Annotated[str | None, QueryParameter(description="Only tables of this namespace.")] = None,
    limit: Limit = parameters.PAGE_DEFAULT,
    cursor: Cursor = None,
) -> TablePage:
    """Tables in the order of their names, page by page."""
    within = None if namespace is None else parameters.namespace(namespace)
    return await caller.read(queries.page, within, limit, cursor)


@get(
    "/dropped-tables",
    summary="List dropped tables that published files",
    tags=TAGS,
    responses=problems.of_query(ProblemCode.INVALID_CURSOR),
)
async def list_dropped_tables(
    caller: NamedDependency[Caller],
    limit: Limit = parameters.PAGE_DEFAULT,
    cursor: Cursor = None,
) -> DroppedTablePage:
    """Dropped tables whose files may still exist, in the order of their ids, page by page.

    Where a link or a mount of a machine leads into the folder of one of them, nothing may be deleted.
    """
    return await caller.read(queries.page_of_dropped, limit, cursor)


@get(
    "/tables/{table:str}",
    summary="Get a table",
    tags=TAGS,
    responses=problems.of_query(ProblemCode.TABLE_NOT_FOUND),
)
async def get_table(table: TableInPath, caller: NamedDependency[Caller]) -> Table:
    """One table, by `namespace.table`."""
    return await caller.read(queries.get, parameters.table(table))


@patch(
    "/tables/{table:str}",
    summary="Change a table's name and properties",
    tags=TAGS,
    responses=problems.of_command(
        ProblemCode.TABLE_NOT_FOUND,
        ProblemCode.NAMESPACE_NOT_FOUND,
        ProblemCode.TABLE_EXISTS,
        ProblemCode.ILLEGAL_TRANSITION,
        ProblemCode.INVALID_TABLE,
    ),
)
async def alter_table(
    table: TableInPath,
    data: JSONBody[AlterTable],
    keyed_caller: NamedDependency[Caller],
) -> Response[Table]:
    """Rename a table, set properties, remove others: all of the request, or nothing.

    The table keeps its id, its files, its timeline and its pending instants. Writers continue under the new
    name.
    """
    return await keyed_caller.execute(tables.AlterTable(parameters.table(table), data))


@delete(
    "/tables/{table:str}",
    summary="Drop a table",
    tags=TAGS,
    responses=problems.of_command(ProblemCode.TABLE_NOT_FOUND, ProblemCode.ILLEGAL_TRANSITION),
)
async def drop_table(
    table: TableInPath,
    keyed_caller: NamedDependency[Caller],
    version: Annotated[
        int | None,
        QueryParameter(ge=1, le=2**62, description="Drop only if this is the last version of the table's log."),
    ] = None,
) -> Response[None]:
    """Drop a table from the catalog. Its data files stay where they are, and its history stays in the log."""
    return await keyed_caller.execute(tables.DropTable(parameters.table(table), version))
