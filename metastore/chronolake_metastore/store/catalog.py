"""Namespaces and tables as projections of the log."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.namespaces import Namespace
from chronolake_metastore.domain.readable import NameRange, Readable
from chronolake_metastore.domain.tables import Definition, FormerHolders, Table
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Rows, Statement, read
from chronolake_model import decoding
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros

_FIND_NAMESPACES: Final = statements.load("namespaces/find")
_SAVE_NAMESPACES: Final = statements.load("namespaces/save")
_DELETE_NAMESPACES: Final = "DELETE FROM namespace WHERE name = ANY (%(names)s::text[])"
_FIND_TABLES: Final = statements.load("tables/find")
_FIND_FORMER_HOLDERS: Final = statements.load("tables/find_former_holders")
_FIND_PRESENT_NAMES: Final = statements.load("tables/find_present_names")
_FIND_RENAMED: Final = statements.load("tables/find_renamed")
_FIND_PENDING: Final = """
    SELECT micros(requested_time)
    FROM instant
    WHERE table_id = %(table_id)s AND state IN ('requested', 'inflight')
    ORDER BY requested_time
    LIMIT 10
"""
_SAVE_TABLES: Final = statements.load("tables/save")
_READABLE: Final = statements.load("tables/readable")
_READABLE_BY_ID: Final = statements.load("tables/readable_by_id")
_READABLE_NAMESPACES: Final = statements.load("namespaces/readable")
_NAMESPACES: Final = "SELECT name, properties::text, micros(created_at) FROM namespace"
_PAGE_OF_NAMESPACES: Final = f"{_NAMESPACES} WHERE name > %(after)s ORDER BY name LIMIT %(limit)s"
_NAMED_NAMESPACES: Final = f"{_NAMESPACES} WHERE name = ANY (%(names)s::text[]) ORDER BY name"
_PAGE_OF_TABLES: Final = statements.load("tables/page")
_KNOWN_LENGTH_MAX: Final = 8 * 1024
"""Definitions up to this length are kept decoded."""


def find_namespaces(names: Iterable[str]) -> Query[list[tuple[Namespace, int]]]:
    """Namespaces, each with the number of its tables."""
    named = sorted(set(names))
    return Query(_FIND_NAMESPACES, {"names": named}, _namespaces) if named else Query.known([])


def _namespaces(rows: Rows) -> list[tuple[Namespace, int]]:
    return [
        (Namespace(name, msgspec.json.decode(properties), Micros(created_at)), tables)
        for name, properties, created_at, tables in rows
    ]


def save_namespaces(namespaces: Sequence[Namespace]) -> Statement:
    """Save new namespaces."""
    return _SAVE_NAMESPACES, {
        "name": [namespace.name for namespace in namespaces],
        "properties": [msgspec.json.encode(namespace.properties).decode() for namespace in namespaces],
        "created_at": [namespace.created_at for namespace in namespaces],
    }


def delete_namespaces(names: Iterable[str]) -> Statement:
    """Take dropped namespaces out of the projection; the log keeps them."""
    return _DELETE_NAMESPACES, {"names": sorted(names)}


def find_tables(names: Iterable[str]) -> Query[list[Table]]:
    """Tables that are not dropped."""
    parts = [split_table_name(name) for name in sorted(set(names))]
    if not parts:
        return Query.known([])
    parameters = {
        "namespaces": [namespace for namespace, _ in parts],
        "tables": [table for _, table in parts],
    }
    return Query(_FIND_TABLES, parameters, lambda rows: [table_of(*row) for row in rows])


def find_former_holders(name: str, table_id: UUID | None = None) -> Query[FormerHolders]:
    """The tables that had this name before, but for the one that is to get it, if that is there already."""
    namespace, table = split_table_name(name)
    parameters = {"namespace": namespace, "table": table, "name": name, "table_id": table_id}
    return Query(_FIND_FORMER_HOLDERS, parameters, _former_holders)


def _former_holders(rows: Rows) -> FormerHolders:
    [[last_time, shared]] = rows
    return FormerHolders(None if last_time is None else Micros(last_time), [Micros(time) for time in shared])


def find_renamed(names: Iterable[str]) -> Query[dict[str, str]]:
    """By former name, the present name of the table that had it last."""
    named = sorted(set(names))
    if not named:
        return Query.known({})
    return Query(_FIND_RENAMED, {"names": named}, lambda rows: {name: present for name, present in rows})


def find_present_names(table_ids: Iterable[UUID]) -> Query[dict[UUID, str]]:
    """The names of those of these tables that are not dropped."""
    parameters = {"table_ids": sorted(table_ids)}
    return Query(_FIND_PRESENT_NAMES, parameters, lambda rows: {table_id: name for table_id, name in rows})


def find_pending(table_id: UUID) -> Query[list[Micros]]:
    """The requested times of the first pending instants of a table."""
    return Query(_FIND_PENDING, {"table_id": table_id}, lambda rows: [Micros(time) for (time,) in rows])


def table_of(
    table_id: UUID,
    definition: str,
    created_at: Micros,
    cleaned_before: Micros | None,
    earliest_commit_to_retain: Micros | None,
) -> Table:
    """A live table, from its columns."""
    decoded = _definition(definition)
    return Table(table_id, decoded, created_at, None, cleaned_before, earliest_commit_to_retain)


def _definition(text: str) -> Definition:
    # Nearly every group of commands reads the tables of the groups before it again.
    return _known_definition(text) if len(text) <= _KNOWN_LENGTH_MAX else decoding.decode(text, Definition)


@functools.lru_cache(maxsize=4_096)
def _known_definition(text: str) -> Definition:
    return decoding.decode(text, Definition)


def save_tables(tables: Sequence[Table]) -> Statement:
    """Save tables in their present state."""
    names = [split_table_name(table.name) for table in tables]
    return _SAVE_TABLES, {
        "table_id": [table.table_id for table in tables],
        "namespace": [namespace for namespace, _ in names],
        "name": [name for _, name in names],
        "definition": [msgspec.json.encode(table.definition).decode() for table in tables],
        "created_at": [table.created_at for table in tables],
        "dropped_at": [table.dropped_at for table in tables],
        "cleaned_before": [table.cleaned_before for table in tables],
        "earliest_commit_to_retain": [table.earliest_commit_to_retain for table in tables],
    }


async def page_of_namespaces(
    connection: Connection, after: str, limit: int, readable: Readable | None = None
) -> list[Namespace]:
    """Namespaces after ``after`` in the order of their names; those of ``readable``, or all."""
    named = {"after": after, "limit": limit}
    if readable is not None:
        ranges = readable.namespaces()
        first_last = {"first": [first for first, _ in ranges], "last": [last for _, last in ranges]}
        names = await connection.execute(_READABLE_NAMESPACES, {**named, **first_last})
        of_names = {"names": [name for (name,) in names]}
        rows = await connection.execute(_NAMED_NAMESPACES, of_names)
    else:
        rows = await connection.execute(_PAGE_OF_NAMESPACES, named)
    return [_namespace(*row) for row in rows]


async def get_namespace(connection: Connection, name: str) -> Namespace | None:
    """The namespace of this name, if there is one."""
    rows = await connection.execute(_NAMED_NAMESPACES, {"names": [name]})
    return _namespace(*rows.one()) if rows else None


async def page_of_tables(
    connection: Connection,
    namespace: str | None,
    after: tuple[str, str],
    limit: int,
    readable: Readable | None = None,
) -> list[Table]:
    """Live tables, of one namespace or of all, after ``after`` (namespace, table) in the order of names.

    Those of ``readable``, or all.
    """
    named: dict[str, object] = {"after_namespace": after[0], "after_name": after[1], "limit": limit}
    chosen = "true"
    if namespace is not None:
        chosen = "t.namespace = %(namespace)s"
        named["namespace"] = namespace
    if readable is not None:
        ranges = range_parameters(readable.ranges(namespace))
        chosen += " AND t.table_id = ANY (%(table_ids)s::uuid[])"
        named["table_ids"] = await _ids(connection, _READABLE, named | ranges)
    statement = _PAGE_OF_TABLES.replace("{chosen}", chosen)
    return [table_of(*row) for row in await connection.execute(statement, named)]


async def readable_by_id(
    connection: Connection, readable: Readable, namespace: str | None, after: UUID, limit: int
) -> list[UUID]:
    """Live tables of ``readable``, of one namespace or of all, after ``after`` in the order of ids."""
    named = range_parameters(readable.ranges(namespace)) | {"after": after, "limit": limit}
    return await _ids(connection, _READABLE_BY_ID, named)


def range_parameters(ranges: Sequence[NameRange]) -> dict[str, object]:
    """The parameters of ``{ranges}`` in a statement."""
    return {
        "first_namespaces": [of.first[0] for of in ranges],
        "first_names": [of.first[1] for of in ranges],
        "last_namespaces": [of.last[0] for of in ranges],
        "last_names": [of.last[1] for of in ranges],
        "range_ids": [of.table_id for of in ranges],
    }


async def _ids(connection: Connection, statement: str, parameters: dict[str, object]) -> list[UUID]:
    return [table_id for (table_id,) in await connection.execute(statement, parameters)]


async def get_table(connection: Connection, name: str) -> Table | None:
    """The live table of this name, if there is one."""
    tables = await read(connection, find_tables([name]))
    return tables[0] if tables else None


def _namespace(name: str, properties: str, created_at: int) -> Namespace:
    return Namespace(name, msgspec.json.decode(properties), Micros(created_at))
