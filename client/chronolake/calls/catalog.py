"""Calls of namespaces, tables, schemas, the log of events, and the server itself."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from chronolake.calls import base
from chronolake.calls.base import Call, call, query
from chronolake_model import operations
from chronolake_model.access import GrantPage
from chronolake_model.credentials import StorageAccess, TableCredentials
from chronolake_model.cuts import Cut, names_of
from chronolake_model.events import CursorTime, EventPage, LoggedEvent
from chronolake_model.health import HEALTH_LIMIT_MAX, HealthPage
from chronolake_model.names import listed, split_table_name
from chronolake_model.schemas import TableSchemaPage
from chronolake_model.services import SERVICES_LIMIT_MAX, ServicesPage
from chronolake_model.tables import CreateTable, DroppedTablePage, NamespacePage, Table, TablePage

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CONTROL: Final = re.compile(r"[\x00-\x1f]")


def list_namespaces() -> Call[NamespacePage]:
    """All namespaces, by name."""
    return call(operations.catalog.LIST_NAMESPACES, query=query(limit=base.LIMIT_MAX))


def create_table(body: CreateTable) -> Call[Table]:
    """Create a table; a local base path is sent as an absolute path, resolved on this machine."""
    return call(operations.catalog.CREATE_TABLE, body=_with_absolute_path(body))


def get_credentials(table: str, access: StorageAccess) -> Call[TableCredentials]:
    """Keys for the storage of a table."""
    return call(operations.catalog.GET_CREDENTIALS, table, query=query(access=access))


def check_new_table(body: CreateTable) -> Call[None]:
    """Ask whether a table could be created, with its base path as ``create_table`` sends it."""
    return call(operations.catalog.CHECK_NEW_TABLE, body=_with_absolute_path(body))


def list_tables(in_namespace: str | None) -> Call[TablePage]:
    """All tables, or those of one namespace, by name."""
    return call(operations.catalog.LIST_TABLES, query=query(namespace=in_namespace, limit=base.LIMIT_MAX))


def list_dropped_tables() -> Call[DroppedTablePage]:
    """All dropped tables that published files."""
    return call(operations.catalog.LIST_DROPPED_TABLES, query=query(limit=base.LIMIT_MAX))


def drop_table(name: str, version: int | None = None) -> Call[None]:
    """Drop a table's metadata, if its log ends at ``version``; never its files."""
    return call(operations.catalog.DROP_TABLE, name, query=query(version=version))


def list_schemas(name: str) -> Call[TableSchemaPage]:
    """Every version of a table's schema, oldest first."""
    return call(operations.catalog.LIST_SCHEMAS, name, query=query(limit=base.LIMIT_MAX))


def list_grants(subject: str | None) -> Call[GrantPage]:
    """The grants of a subject, or of all."""
    return call(operations.access.LIST_GRANTS, query=query(subject=subject, limit=base.LIMIT_MAX))


def list_events(after: str | None, of_table: str | None, limit: int = base.LIMIT_MAX) -> Call[EventPage]:
    """A page of the log, after a cursor."""
    return call(operations.catalog.LIST_EVENTS, query=query(**_feed(after, of_table), limit=limit))


def follow_events(after: str | None, of_table: str | None) -> Call[LoggedEvent]:
    """The log as a stream: the answer is of one event of it."""
    return call(operations.catalog.FOLLOW_EVENTS, query=query(**_feed(after, of_table)))


def time_of_cursor(of_table: str, cursor: str) -> Call[CursorTime]:
    """The time of a table's last event before a cursor."""
    return call(operations.catalog.LOOK_UP_CURSOR_TIME, of_table, query=query(after=cursor))


def take_cut(namespace: str | None, tables: Sequence[str] | None) -> Call[Cut]:
    """The states of tables at one position of the log."""
    if tables is None:
        return call(operations.catalog.TAKE_CUT, query=query(namespace=namespace, limit=base.LIMIT_MAX))
    if namespace is not None:
        raise ValueError("a cut is of a namespace or of tables: give one of them")
    names = ",".join(names_of(",".join(listed(tables))))
    return call(operations.catalog.TAKE_CUT, query=query(tables=names, limit=base.LIMIT_MAX))


def first_health() -> Call[HealthPage]:
    """The first page of the health of tables, as short as one can be: for its ``refusal``."""
    return call(operations.catalog.LIST_HEALTH, query=query(limit=1))


def list_health() -> Call[HealthPage]:
    """The health of all tables, by name."""
    return call(operations.catalog.LIST_HEALTH, query=query(limit=HEALTH_LIMIT_MAX))


def list_services() -> Call[ServicesPage]:
    """The table services of all tables, by name."""
    return call(operations.services.LIST_SERVICES, query=query(limit=SERVICES_LIMIT_MAX))


def ready() -> Call[None]:
    """Whether the server serves; it refuses with ``MetastoreMoved`` if it only reads."""
    return Call("GET", "/ready", type(None))


def _feed(after: str | None, of_table: str | None) -> dict[str, str | None]:
    if of_table is not None:
        split_table_name(of_table)
    return {"after": after, "table": of_table}


def _with_absolute_path(body: CreateTable) -> CreateTable:
    return msgspec.structs.replace(body, base_path=absolute_path(body.base_path))


def absolute_path(base_path: str) -> str:
    """The absolute path of a local path, with links resolved; a URI is returned unchanged.

    A relative path and ``~`` mean different folders in different processes, and links may exist only on this
    machine. An invalid path is returned unchanged, and the server refuses it.
    """
    if not base_path or _URI.match(base_path) or _CONTROL.search(base_path) or base_path != base_path.strip():
        return base_path
    return os.path.realpath(os.path.expanduser(base_path))
