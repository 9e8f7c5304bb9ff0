"""The versions of tables' schemas as a projection of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.changes import SchemaOfTable
from chronolake_metastore.domain.schemas import Schema
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Statement
from chronolake_model import decoding
from chronolake_model.columns import SchemaField
from chronolake_model.times import Micros

_APPEND: Final = statements.load("schemas/append")
_OF_TABLE: Final = """
    SELECT schema_version, fields::text, micros(created_at), version
    FROM schema_version
    WHERE table_id = %(table_id)s
"""
_GET: Final = f"{_OF_TABLE} AND schema_version = %(schema_version)s"
_PAGE: Final = f"{_OF_TABLE} AND schema_version > %(after)s ORDER BY schema_version LIMIT %(limit)s"


def append(made: Sequence[SchemaOfTable]) -> Statement:
    """Save versions that were made."""
    return _APPEND, {
        "table_id": [entry.table_id for entry in made],
        "schema_version": [entry.schema.schema_version for entry in made],
        "fields": [msgspec.json.encode(entry.schema.fields).decode() for entry in made],
        "created_at": [entry.schema.created_at for entry in made],
        "version": [entry.schema.version for entry in made],
    }


async def get(connection: Connection, table_id: UUID, schema_version: int) -> Schema | None:
    """This version of a table's schema, if there is one."""
    named = {"table_id": table_id, "schema_version": schema_version}
    row = (await connection.execute(_GET, named)).one_or_none()
    return None if row is None else _schema(*row)


async def page(connection: Connection, table_id: UUID, after: int, limit: int) -> list[Schema]:
    """Versions of a table's schema later than ``after``, oldest first."""
    named = {"table_id": table_id, "after": after, "limit": limit}
    return [_schema(*row) for row in await connection.execute(_PAGE, named)]


def _schema(schema_version: int, fields: str, created_at: int, version: int) -> Schema:
    return Schema(schema_version, decoding.decode(fields, list[SchemaField]), Micros(created_at), version)
