"""The versions of tables' schemas as a projection of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import Select, Text, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from chronolake_metastore.domain.changes import SchemaOfTable
from chronolake_metastore.domain.schemas import Schema
from chronolake_metastore.store.postgres import schema, statements
from chronolake_metastore.store.postgres.transaction import Statement
from chronolake_model import decoding
from chronolake_model.columns import SchemaField
from chronolake_model.times import Micros

_APPEND: Final = statements.load("schemas/append")


def append(made: Sequence[SchemaOfTable]) -> Statement:
    """Save versions that were made."""
    return _APPEND, {
        "table_id": [entry.table_id for entry in made],
        "schema_version": [entry.schema.schema_version for entry in made],
        "fields": [msgspec.json.encode(entry.schema.fields).decode() for entry in made],
        "created_at": [entry.schema.created_at for entry in made],
        "version": [entry.schema.version for entry in made],
    }


async def get(connection: AsyncConnection, table_id: UUID, schema_version: int) -> Schema | None:
    """This version of a table's schema, if there is one."""
    query = _select(table_id).where(schema.schema_version.c.schema_version == schema_version)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _schema(*row)


async def page(connection: AsyncConnection, table_id: UUID, after: int, limit: int) -> list[Schema]:
    """Versions of a table's schema later than ``after``, oldest first."""
    number = schema.schema_version.c.schema_version
    query = _select(table_id).where(number > after).order_by(number).limit(limit)
    return [_schema(*row) for row in await connection.execute(query)]


def _select(table_id: UUID) -> Select[Any]:
    columns = schema.schema_version.c
    return select(
        columns.schema_version, cast(columns.fields, Text), func.micros(columns.created_at), columns.version
    ).where(columns.table_id == table_id)


def _schema(schema_version: int, fields: str, created_at: int, version: int) -> Schema:
    return Schema(schema_version, decoding.decode(fields, list[SchemaField]), Micros(created_at), version)
