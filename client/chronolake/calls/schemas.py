"""Calls of the versions of a table's schema."""

from __future__ import annotations

from chronolake.calls import base
from chronolake.calls.base import Call, post, query, table_path
from chronolake_model.schemas import ChangeSchema, TableSchema, TableSchemaPage


def change(name: str, body: ChangeSchema) -> Call[TableSchema]:
    """Change a table's schema."""
    return post(f"{table_path(name)}/schema", TableSchema, body)


def list_all(name: str) -> Call[TableSchemaPage]:
    """Every version of a table's schema, oldest first."""
    return Call("GET", f"{table_path(name)}/schemas", TableSchemaPage, query(limit=base.LIMIT_MAX))


def get(name: str, schema_version: int) -> Call[TableSchema]:
    """One version of a table's schema."""
    return Call("GET", f"{table_path(name)}/schemas/{schema_version}", TableSchema)
