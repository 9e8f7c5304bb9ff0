"""Calls of tables."""

from __future__ import annotations

import msgspec

from chronolake import _base_paths
from chronolake.calls import base
from chronolake.calls.base import Call, post, query, table_path
from chronolake_model.tables import AlterTable, CreateTable, DroppedTablePage, Table, TablePage


def create(body: CreateTable) -> Call[Table]:
    """Create a table; a local base path is sent as an absolute path, resolved on this machine."""
    return post("/v1/tables", Table, _with_absolute_path(body))


def check_new(body: CreateTable) -> Call[None]:
    """Ask whether a table could be created, with its base path as ``create`` sends it."""
    return post("/v1/tables/dry-run", type(None), _with_absolute_path(body), is_query=True)


def get(name: str) -> Call[Table]:
    """One table."""
    return Call("GET", table_path(name), Table)


def list_all(in_namespace: str | None) -> Call[TablePage]:
    """All tables, or those of one namespace, by name."""
    return Call("GET", "/v1/tables", TablePage, query(namespace=in_namespace, limit=base.LIMIT_MAX))


def list_dropped() -> Call[DroppedTablePage]:
    """All dropped tables that published files."""
    return Call("GET", "/v1/dropped-tables", DroppedTablePage, query(limit=base.LIMIT_MAX))


def alter(name: str, body: AlterTable) -> Call[Table]:
    """Change a table's name and properties."""
    return Call("PATCH", table_path(name), Table, body=msgspec.json.encode(body))


def drop(name: str, version: int | None = None) -> Call[None]:
    """Drop a table's metadata, if its log ends at ``version``; never its files."""
    return Call("DELETE", table_path(name), type(None), query(version=version))


def _with_absolute_path(body: CreateTable) -> CreateTable:
    return msgspec.structs.replace(body, base_path=_base_paths.absolute(body.base_path))
