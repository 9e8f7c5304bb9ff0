"""Namespaces, tables, the log and the server itself."""

from __future__ import annotations

from typing import Final

from chronolake_model.adoption import AdoptedTable, AdoptionCheck, AdoptTable
from chronolake_model.credentials import TableCredentials
from chronolake_model.cuts import Cut
from chronolake_model.events import CursorTime, EventPage, LoggedEvent, Outcome
from chronolake_model.health import HealthPage
from chronolake_model.instants import TimeInterval
from chronolake_model.operations.declaring import command, note, question, read
from chronolake_model.problems import ProblemCode as Code
from chronolake_model.roles import Right
from chronolake_model.schemas import ChangeSchema, TableSchema, TableSchemaPage
from chronolake_model.tables import (
    AlterTable,
    CreateNamespace,
    CreateTable,
    DroppedTablePage,
    Namespace,
    NamespacePage,
    Table,
    TablePage,
)

_TABLE: Final = "/v1/tables/{table}"

CREATE_NAMESPACE: Final = command(
    "POST",
    "/v1/namespaces",
    "Create a namespace",
    Code.NAMESPACE_EXISTS,
    tag="Namespaces",
    body=CreateNamespace,
    answer=Namespace,
    right=Right.DEFINE,
    creates=True,
)
LIST_NAMESPACES: Final = read(
    "/v1/namespaces", "List namespaces", Code.INVALID_CURSOR, tag="Namespaces", answer=NamespacePage
)
GET_NAMESPACE: Final = read(
    "/v1/namespaces/{namespace}",
    "Get a namespace",
    Code.NAMESPACE_NOT_FOUND,
    tag="Namespaces",
    answer=Namespace,
)
DROP_NAMESPACE: Final = command(
    "DELETE",
    "/v1/namespaces/{namespace}",
    "Drop a namespace",
    Code.NAMESPACE_NOT_FOUND,
    Code.NAMESPACE_NOT_EMPTY,
    tag="Namespaces",
    body=type(None),
    answer=type(None),
    right=Right.DEFINE,
)
CREATE_TABLE: Final = command(
    "POST",
    "/v1/tables",
    "Create a table",
    Code.NAMESPACE_NOT_FOUND,
    Code.TABLE_EXISTS,
    Code.BASE_PATH_TAKEN,
    Code.LOCATION_NOT_ALLOWED,
    Code.INVALID_TABLE,
    tag="Tables",
    body=CreateTable,
    answer=Table,
    right=Right.DEFINE,
    creates=True,
)
CHECK_NEW_TABLE: Final = question(
    "/v1/tables/dry-run",
    "Could this table be created?",
    Code.NAMESPACE_NOT_FOUND,
    Code.TABLE_EXISTS,
    Code.BASE_PATH_TAKEN,
    Code.LOCATION_NOT_ALLOWED,
    Code.INVALID_TABLE,
    tag="Tables",
    body=CreateTable,
    answer=type(None),
    right=Right.DEFINE,
)
LIST_TABLES: Final = read(
    "/v1/tables", "List tables", Code.NAMESPACE_NOT_FOUND, Code.INVALID_CURSOR, tag="Tables", answer=TablePage
)
LIST_DROPPED_TABLES: Final = read(
    "/v1/dropped-tables",
    "List dropped tables that published files",
    Code.INVALID_CURSOR,
    tag="Tables",
    answer=DroppedTablePage,
)
GET_TABLE: Final = read(_TABLE, "Get a table", Code.TABLE_NOT_FOUND, tag="Tables", answer=Table)
ALTER_TABLE: Final = command(
    "PATCH",
    _TABLE,
    "Change a table's name and properties",
    Code.TABLE_NOT_FOUND,
    Code.NAMESPACE_NOT_FOUND,
    Code.TABLE_EXISTS,
    Code.ILLEGAL_TRANSITION,
    Code.INVALID_TABLE,
    Code.LOCATION_NOT_ALLOWED,
    tag="Tables",
    body=AlterTable,
    answer=Table,
    right=Right.DEFINE,
)
DROP_TABLE: Final = command(
    "DELETE",
    _TABLE,
    "Drop a table",
    Code.TABLE_NOT_FOUND,
    Code.ILLEGAL_TRANSITION,
    tag="Tables",
    body=type(None),
    answer=type(None),
    right=Right.DEFINE,
)
ADOPT_TABLE: Final = command(
    "POST",
    "/v1/tables/adopt",
    "Adopt a table that Hudi has written",
    Code.NAMESPACE_NOT_FOUND,
    Code.TABLE_EXISTS,
    Code.BASE_PATH_TAKEN,
    Code.LOCATION_NOT_ALLOWED,
    Code.INVALID_TABLE,
    Code.INVALID_WRITE_STAT,
    Code.INVALID_PLAN,
    tag="Tables",
    body=AdoptTable,
    answer=AdoptedTable,
    right=Right.DEFINE,
    creates=True,
)
CHECK_ADOPTION: Final = question(
    "/v1/tables/adopt/dry-run",
    "Could this table be adopted?",
    Code.NAMESPACE_NOT_FOUND,
    Code.TABLE_EXISTS,
    Code.BASE_PATH_TAKEN,
    Code.LOCATION_NOT_ALLOWED,
    Code.INVALID_TABLE,
    Code.INVALID_WRITE_STAT,
    Code.INVALID_PLAN,
    tag="Tables",
    body=AdoptTable,
    answer=AdoptionCheck,
    right=Right.DEFINE,
)
CHANGE_SCHEMA: Final = command(
    "POST",
    f"{_TABLE}/schema",
    "Change a table's schema",
    Code.TABLE_NOT_FOUND,
    Code.INCOMPATIBLE_SCHEMA,
    Code.SCHEMA_CHANGED,
    Code.INVALID_TABLE,
    tag="Tables",
    body=ChangeSchema,
    answer=TableSchema,
    right=Right.DEFINE,
)
LIST_SCHEMAS: Final = read(
    f"{_TABLE}/schemas",
    "List the versions of a schema",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    tag="Tables",
    answer=TableSchemaPage,
)
GET_SCHEMA: Final = read(
    f"{_TABLE}/schemas/{{schema_version}}",
    "Get a version of a schema",
    Code.TABLE_NOT_FOUND,
    Code.SCHEMA_NOT_FOUND,
    tag="Tables",
    answer=TableSchema,
)
GET_CREDENTIALS: Final = read(
    f"{_TABLE}/credentials",
    "Get credentials for a table's storage",
    Code.TABLE_NOT_FOUND,
    Code.LOCATION_NOT_ALLOWED,
    Code.METASTORE_MOVED,
    Code.CREDENTIALS_NOT_VENDED,
    Code.CREDENTIALS_UNAVAILABLE,
    Code.OVERLOADED,
    tag="Tables",
    answer=TableCredentials,
)
"""Its right is that to read; for other accesses the service requires theirs."""
LIST_HEALTH: Final = read(
    "/v1/health", "List the health of tables", Code.INVALID_CURSOR, tag="Operations", answer=HealthPage
)
LIST_EVENTS: Final = read(
    "/v1/events", "Read the log", Code.TABLE_NOT_FOUND, Code.INVALID_CURSOR, tag="Events", answer=EventPage
)
FOLLOW_EVENTS: Final = read(
    "/v1/events/stream",
    "Follow the log",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    Code.TOO_MANY_STREAMS,
    Code.OVERLOADED,
    tag="Events",
    answer=LoggedEvent,
)
LOOK_UP_CURSOR_TIME: Final = read(
    f"{_TABLE}/cursor-time",
    "Look up the time of a cursor",
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    tag="Events",
    answer=CursorTime,
)
TAKE_CUT: Final = read(
    "/v1/cut",
    "Take a consistent cut",
    Code.NAMESPACE_NOT_FOUND,
    Code.TABLE_NOT_FOUND,
    Code.INVALID_CURSOR,
    tag="Events",
    answer=Cut,
)
GET_OUTCOME: Final = read(
    "/v1/outcomes/{key}", "Get the outcome of a request", Code.OUTCOME_NOT_FOUND, tag="Outcomes", answer=Outcome
)
GET_TIME: Final = note(
    "GET",
    "/v1/time",
    "The TrueTime interval",
    tag="Time",
    body=type(None),
    answer=TimeInterval,
    right=Right.READ,
)
