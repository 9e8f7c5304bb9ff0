"""/v1/tables and /v1/health"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from msgspec.structs import asdict

from chronolake_metastore import errors, object_storage
from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, Limit, TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain import tables
from chronolake_metastore.domain.commands import refuse_nul
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.queries import credentials, health as queried_health, readiness, tables as queries
from chronolake_metastore.vending import Vendor
from chronolake_model import operations
from chronolake_model.credentials import StorageAccess, TableCredentials
from chronolake_model.health import HEALTH_LIMIT_MAX, HealthPage
from chronolake_model.tables import AlterTable, CreateTable, DroppedTablePage, Table, TablePage


@route(operations.catalog.CREATE_TABLE)
async def create_table(data: JSONBody[CreateTable], keyed_caller: NamedDependency[Caller]) -> Response[Table]:
    """Create a table; its first event is version 1 of its log.

    Its base path must not overlap with that of another table, in any spelling. The base path of a dropped
    table is taken over only with `reuse_base_path`. From then on nothing of the dropped table is deleted there.
    """
    return await keyed_caller.execute(
        tables.CreateTable(NewDefinition(**asdict(data)), await resolved_key(data.base_path))
    )


@route(operations.catalog.CHECK_NEW_TABLE)
async def check_new_table(data: JSONBody[CreateTable], caller: NamedDependency[Caller]) -> None:
    """Give the answer that creating the table would get now; create nothing.

    `namespace-not-found` is checked last: every other condition holds then.
    """
    refuse_nul(msgspec.json.encode(data))
    command = tables.CreateTable(NewDefinition(**asdict(data)), await resolved_key(data.base_path))
    await caller.read(queries.check_new, command)


@route(operations.catalog.LIST_TABLES)
async def list_tables(
    caller: NamedDependency[Caller],
    namespace: Annotated[str | None, QueryParameter(description="Only tables of this namespace.")] = None,
    limit: Limit = parameters.PAGE_DEFAULT,
    cursor: Cursor = None,
) -> TablePage:
    """Tables in the order of their names, page by page."""
    within = None if namespace is None else parameters.namespace(namespace)
    return await caller.read(queries.page, within, limit, cursor)


@route(operations.catalog.LIST_DROPPED_TABLES)
async def list_dropped_tables(
    caller: NamedDependency[Caller],
    limit: Limit = parameters.PAGE_DEFAULT,
    cursor: Cursor = None,
) -> DroppedTablePage:
    """Dropped tables whose files may still exist, in the order of their ids, page by page.

    Where a link or a mount of a machine leads into the folder of one of them, nothing may be deleted.
    """
    return await caller.read(queries.page_of_dropped, limit, cursor)


@route(operations.catalog.GET_TABLE)
async def get_table(table: TableInPath, caller: NamedDependency[Caller]) -> Table:
    """One table, by `namespace.table`."""
    return await caller.read(queries.get, parameters.table(table))


@route(operations.catalog.ALTER_TABLE)
async def alter_table(
    table: TableInPath,
    data: JSONBody[AlterTable],
    keyed_caller: NamedDependency[Caller],
) -> Response[Table]:
    """Rename a table, set properties, remove others: all of the request, or nothing.

    The table keeps its id, its files, its timeline and its pending instants. Writers continue under the new
    name.
    """
    return await keyed_caller.execute(
        tables.AlterTable(parameters.table(table), data.name, data.set, data.unset)
    )


@route(operations.catalog.DROP_TABLE)
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


@route(operations.catalog.GET_CREDENTIALS)
async def get_credentials(
    table: TableInPath,
    caller: NamedDependency[Caller],
    vendor: NamedDependency[Vendor],
    access: Annotated[StorageAccess, QueryParameter(description="What the keys are for.")] = StorageAccess.READ,
) -> Response[TableCredentials]:
    """Short-lived keys of S3 for the files of the table, and no others.

    For `write` and `maintain` the caller needs that right. The keys stay valid until they expire, whatever
    happens to the right or the table meanwhile.
    """
    keys = await caller.read(credentials.BY_ACCESS[access], parameters.table(table), vendor)
    return Response(keys, headers={"Cache-Control": "no-store"})


@route(operations.catalog.LIST_HEALTH)
async def list_health(
    caller: NamedDependency[Caller],
    probe: NamedDependency[readiness.Probe],
    limit: Annotated[
        int, QueryParameter(ge=1, le=HEALTH_LIMIT_MAX, description="The largest number of entries.")
    ] = HEALTH_LIMIT_MAX,
    cursor: Cursor = None,
) -> HealthPage:
    """Publication, log files and pending plans of each table, in the order of their names."""
    return await caller.read(queried_health.page, limit, cursor, probe.refusal())


async def resolved_key(base_path: str) -> str | None:
    """The key of a local base path with its links resolved; None for other paths, and for one that has no key.

    Raises ``InvalidTable`` when a link is there that the server may not, or cannot, read. A server on another
    machine sees no links: there the claim in storage tells two tables apart.
    """
    try:
        return await asyncio.to_thread(object_storage.key_of_links, base_path)
    except OSError as exc:
        raise errors.InvalidTable(
            f"the base path {base_path[:200]!r} cannot be compared with those of other tables: the server "
            f"cannot read a link in it ({exc.strerror}); choose a base path without that link"
        ) from exc
