"""/v1/tables/{table}/schema and /v1/tables/{table}/schemas"""

from __future__ import annotations

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from msgspec.structs import asdict

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, Limit, TableInPath
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain import schemas
from chronolake_metastore.queries import schemas as queries
from chronolake_model import operations
from chronolake_model.schemas import ChangeSchema, TableSchema, TableSchemaPage

SchemaVersionInPath = FromPath[str]


@route(operations.catalog.CHANGE_SCHEMA)
async def change_schema(
    table: TableInPath,
    data: JSONBody[ChangeSchema],
    keyed_caller: NamedDependency[Caller],
) -> Response[TableSchema]:
    """Change columns, all of the request or nothing: this is the next version of the schema. No file changes.

    A change that would make files unreadable is refused with `incompatible-schema`, which says why and what is
    allowed.
    """
    return await keyed_caller.execute(schemas.ChangeSchema(parameters.table(table), **asdict(data)))


@route(operations.catalog.LIST_SCHEMAS)
async def list_schemas(
    table: TableInPath,
    caller: NamedDependency[Caller],
    limit: Limit = parameters.PAGE_DEFAULT,
    cursor: Cursor = None,
) -> TableSchemaPage:
    """Every version that the table's schema has had, oldest first, page by page."""
    return await caller.read(queries.page, parameters.table(table), limit, cursor)


@route(operations.catalog.GET_SCHEMA)
async def get_schema(
    table: TableInPath,
    schema_version: SchemaVersionInPath,
    caller: NamedDependency[Caller],
) -> TableSchema:
    """One version of the table's schema; the present one is in the table itself, too."""
    return await caller.read(queries.get, parameters.table(table), parameters.schema_version(schema_version))
