"""The versions of a table's schema."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.schemas import Schema
from chronolake_metastore.queries import cursors, paging, tables
from chronolake_metastore.store import schemas as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model import schemas as wire
from chronolake_model.tables import SCHEMA_VERSION_MAX
from chronolake_model.times import to_datetime


class _Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    schema_version: Annotated[int, msgspec.Meta(ge=1, le=SCHEMA_VERSION_MAX)]
    of: Literal["schemas"]
    """Distinguishes these cursors from those of other lists, which are an id and a number too."""


async def get(ctx: Context, database: Database, table_name: str, schema_version: int) -> wire.TableSchema:
    """One version; raises ``TableNotFound`` or ``SchemaNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        schema = await stored.get(connection, table.table_id, schema_version)
    if schema is None:
        raise errors.SchemaNotFound(table_name, schema_version)
    return document(table.name, schema)


async def page(
    ctx: Context, database: Database, table_name: str, limit: int, cursor: str | None
) -> wire.TableSchemaPage:
    """All versions, oldest first; raises ``TableNotFound`` or ``InvalidCursor``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        place = cursors.in_table(cursor, _Place, table.table_id)
        first = place.schema_version if place else 0

        async def fetch(last: Schema | None, number: int) -> list[Schema]:
            after = first if last is None else last.schema_version
            return await stored.page(connection, table.table_id, after, number)

        def size_of(schema: Schema) -> int:
            return paging.json_bytes(document(table.name, schema))

        page_of_schemas, is_cut = await paging.collect(
            fetch, size_of, limit, database.page_bytes_max, paging.LARGE_ROWS_AT_ONCE
        )
    next_cursor = (
        cursors.encode(_Place(table.table_id, page_of_schemas[-1].schema_version, "schemas"))
        if is_cut
        else None
    )
    return wire.TableSchemaPage([document(table.name, schema) for schema in page_of_schemas], next_cursor)


def document(table: str, schema: Schema) -> wire.TableSchema:
    """A version of the schema as the REST API shows it."""
    return wire.TableSchema(
        table=table,
        schema_version=schema.schema_version,
        fields=schema.fields,
        created_at=to_datetime(schema.created_at),
        version=schema.version,
    )
