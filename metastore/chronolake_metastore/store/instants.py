"""Instants as a projection of the log: one row each, in its present state."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence, Set
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import JSON, Column

from chronolake_metastore.domain.actions import COMPLETED_WRITES
from chronolake_metastore.domain.instants import Instant, Marks
from chronolake_metastore.store.postgres import schema, statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Rows, Statement
from chronolake_model import decoding
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Direction, Operation, State, TimeOrder

_FIND: Final = statements.load("instants/find")
_FIND_BY_ID: Final = statements.load("instants/find_by_id")
_FIND_ROLLBACKS: Final = statements.load("instants/find_rollbacks")
_FIND_SAVEPOINTS: Final = statements.load("instants/find_savepoints")
_FIND_AFTER_SAVEPOINTS: Final = statements.load("instants/find_after_savepoints")
_FIND_WAITING_CLUSTERINGS: Final = statements.load("instants/find_waiting_clusterings")
_ADD: Final = statements.load("instants/add")
_ADD_BEGUN: Final = statements.load("instants/add_begun")
_SAVE: Final = statements.load("instants/save")
_LATEST_COMPLETION: Final = statements.load("instants/latest_completion")
_COMPLETED_BETWEEN: Final = statements.load("instants/completed_between")
_NTH_COMPLETION: Final = statements.load("instants/nth_completion")
_FIND_COMPLETION_TIMES: Final = statements.load("instants/completion_times")
_GET: Final = statements.load("instants/get")
_ARE_THERE: Final = "SELECT EXISTS (SELECT FROM instant WHERE table_id = %(table_id)s)"
_PAGE: Final = statements.load("instants/page")
_COUNT_MATCHING: Final = statements.load("instants/count")
_RESTORES_BETWEEN: Final = statements.load("instants/restores_between")
_COLUMNS: Final[Sequence[Column[Any]]] = tuple(schema.instant.columns)
# SQLAlchemy's names are a class of their own, which msgspec does not take for text.
_FIELDS: Final = tuple(str(column.name) for column in _COLUMNS[1:])
"""Fields of ``Instant`` in the order of the columns after the table's id."""
_JSON_FIELDS: Final = frozenset(str(column.name) for column in _COLUMNS if isinstance(column.type, JSON))
_ENCODED: Final = dict(zip(Instant.__struct_fields__, Instant.__struct_encode_fields__, strict=True))
_ENCODED_FIELDS: Final = tuple(_ENCODED[name] for name in _FIELDS)
"""The same fields as msgspec names them: recorded results have short names."""
_ENCODED_JSON_FIELDS: Final = frozenset(_ENCODED[name] for name in _JSON_FIELDS)

_EMPTY: Final = "{}"
"""The extra metadata of nearly all instants."""

_BEGUN_FIELDS: Final = tuple(name for name in _FIELDS if name in statements.SET_AT_BEGIN)

_COUNT: Final = len(_COLUMNS)


InstantsById = list[tuple[UUID, Instant]]
"""Instants, each with the id of its table."""


class FoundInstants(msgspec.Struct, frozen=True):
    """Instants, and the marks of those that may end."""

    instants: InstantsById = []
    marks: dict[tuple[UUID, Micros], Marks] = {}


NO_INSTANTS: Final = FoundInstants()


class Filter(msgspec.Struct, frozen=True):
    """A filter of instants of a table. Ranges are (from, to]; a field that is not given does not filter.

    ``active_only`` leaves out those that are before the border, in the archive.
    """

    states: frozenset[State] = frozenset()
    actions: frozenset[Action] = frozenset()
    operations: frozenset[Operation] = frozenset()
    writer: str | None = None
    requested_from: Micros | None = None
    requested_to: Micros | None = None
    completed_from: Micros | None = None
    completed_to: Micros | None = None
    order_by: TimeOrder = TimeOrder.REQUESTED_TIME
    direction: Direction = Direction.ASCENDING
    active_only: bool = False


def find(
    named: Iterable[tuple[str, Micros]], ending: Set[tuple[str, Micros]] = frozenset()
) -> Query[FoundInstants]:
    """Instants by the names of their tables and their requested times.

    Of those that are ``ending``, the marks too.
    """
    ordered = sorted(set(named))
    if not ordered:
        return Query.known(NO_INSTANTS)
    ends = [name in ending for name in ordered]
    return Query(_FIND, _names(ordered) | {"ends": ends}, decode)


def find_rollbacks(named: Iterable[tuple[str, Micros]]) -> Query[FoundInstants]:
    """The rollbacks or restores that undid instants, by the names of their tables and their requested times."""
    return Query(_FIND_ROLLBACKS, _names(named), decode)


def find_savepoints(tables: Iterable[str]) -> Query[FoundInstants]:
    """The savepoints of tables, and the last write that completed in each."""
    names = [split_table_name(table) for table in sorted(tables)]
    parameters = {
        "namespaces": [namespace for namespace, _ in names],
        "tables": [name for _, name in names],
    }
    return Query(_FIND_SAVEPOINTS, parameters, decode)


def find_after_savepoints(named: Iterable[tuple[str, Micros]]) -> Query[FoundInstants]:
    """Savepoints, the instants that they pin, and what going back to them would undo."""
    return Query(_FIND_AFTER_SAVEPOINTS, _names(named), decode)


def find_waiting_clusterings(table: str) -> Query[FoundInstants]:
    """The clusterings of a table that wait for an executor and give records an order."""
    namespace, name = split_table_name(table)
    return Query(_FIND_WAITING_CLUSTERINGS, {"namespace": namespace, "name": name}, decode)


def find_by_id(keys: Iterable[tuple[UUID, Micros]]) -> Query[FoundInstants]:
    """Instants by the ids of their tables, dropped ones too, and their requested times."""
    named = sorted(set(keys))
    parameters = {
        "table_ids": [table_id for table_id, _ in named],
        "requested_times": [requested_time for _, requested_time in named],
    }
    return Query(_FIND_BY_ID, parameters, decode)


def _names(named: Iterable[tuple[str, Micros]]) -> dict[str, list[object]]:
    keys = [(*split_table_name(table), requested_time) for table, requested_time in sorted(set(named))]
    return {
        "namespaces": [namespace for namespace, _, _ in keys],
        "tables": [table for _, table, _ in keys],
        "requested_times": [requested_time for _, _, requested_time in keys],
    }


def decode(rows: Rows) -> FoundInstants:
    """Each instant with the id of its table, and the marks where the statement has them."""
    marks = {
        (row[0], Micros(row[1])): Marks(row[_COUNT], row[_COUNT + 1])
        for row in rows
        if len(row) > _COUNT and row[_COUNT] is not None
    }
    return FoundInstants(list(map(_instant_of, rows)), marks)


def add(instants: Sequence[tuple[UUID, Instant]]) -> Statement:
    """Add new instants."""
    return _ADD, _encode(instants, _FIELDS)


def add_begun(instants: Sequence[tuple[UUID, Instant]]) -> Statement:
    """Add new instants that have not changed since they were begun."""
    return _ADD_BEGUN, _encode(instants, _BEGUN_FIELDS)


def save(instants: Sequence[tuple[UUID, Instant]]) -> Statement:
    """Save instants in their present state."""
    return _SAVE, _encode(instants, _FIELDS)


async def get(connection: Connection, table_id: UUID, requested_time: Micros) -> Instant | None:
    """The instant requested at this time, if there is one."""
    named = {"table_id": table_id, "requested_time": requested_time}
    row = (await connection.execute(_GET, named)).one_or_none()
    return None if row is None else _instant_of(row)[1]


async def are_there(connection: Connection, table_id: UUID) -> bool:
    """Whether a table ever had an instant."""
    named = {"table_id": table_id}
    return bool((await connection.execute(_ARE_THERE, named)).scalar_one())


async def page(
    connection: Connection,
    table_id: UUID,
    wanted: Filter,
    after: Micros | None,
    limit: int,
    skip: int = 0,
) -> list[Instant]:
    """Instants that pass the filter, in its order, after ``after`` by the time that orders them.

    Without their plans, which may be large.
    """
    conditions, named = _conditions(wanted)
    ascending = wanted.direction is Direction.ASCENDING
    order = f"i.{wanted.order_by.value}"
    if after is not None:
        conditions += f" AND {order} {'>' if ascending else '<'} moment(%(behind)s)"
        named["behind"] = after
    statement = _PAGE.replace("{conditions}", conditions)
    statement = statement.replace("{order}", f"{order} {'ASC' if ascending else 'DESC'}")
    named |= {"table_id": table_id, "limit": limit, "skip": skip}
    return [_instant_of(row)[1] for row in await connection.execute(statement, named)]


async def count(connection: Connection, table_id: UUID, wanted: Filter) -> int:
    """The number of instants that pass the filter."""
    conditions, named = _conditions(wanted)
    statement = _COUNT_MATCHING.replace("{conditions}", conditions)
    rows = await connection.execute(statement, named | {"table_id": table_id})
    return int(rows.scalar_one())


async def completion_times(
    connection: Connection, table_id: UUID, requested_times: Sequence[Micros]
) -> tuple[list[Micros | None], Micros | None]:
    """The completion time of each instant, in the order asked; none of one that is not completed.

    And the time before which the archive may have more of them; none if the database has all.
    """
    # In order they are neighbours in the index: half the time.
    ordered = sorted(set(requested_times))
    named = {"table_id": table_id, "requested_times": f"{{{','.join(map(str, ordered))}}}"}
    times, since = (await connection.execute(_FIND_COMPLETION_TIMES, named)).one()
    by_request = dict(zip(ordered, times, strict=True))
    return [by_request[requested_time] for requested_time in requested_times], since


async def latest_completion(
    connection: Connection, table_id: UUID, until: Micros | None
) -> tuple[Micros | None, bool]:
    """The last completion time of a table, of those by ``until`` if that is given; undone since or not.

    And whether the archive may have a later one.
    """
    parameters = {"table_id": table_id, "until": until}
    latest, may_be_later = (await connection.execute(_LATEST_COMPLETION, parameters)).one()
    return latest, may_be_later


async def completed_between(
    connection: Connection,
    table_id: UUID,
    after: Micros,
    until: Micros,
    limit: int,
) -> list[tuple[Micros, Micros]]:
    """Requested and completion times of the writes completed in (after, until], by completion time.

    Those are left out that a restore had undone by then.
    """
    parameters = {
        "table_id": table_id,
        "after": after,
        "until": until,
        "actions": sorted(COMPLETED_WRITES),
        "limit": limit,
    }
    rows = await connection.execute(_COMPLETED_BETWEEN, parameters)
    return [(Micros(requested), Micros(completed)) for requested, completed in rows]


async def nth_completion(
    connection: Connection, table_id: UUID, after: Micros, until: Micros, nth: int
) -> Micros | None:
    """When the ``nth`` of the writes and restores in (after, until] completed; None if there are fewer.

    Instants that a restore has undone count too.
    """
    parameters = {
        "table_id": table_id,
        "after": after,
        "until": until,
        "actions": sorted(COMPLETED_WRITES | {Action.RESTORE}),
        "nth": nth,
    }
    completed: Micros | None = (await connection.execute(_NTH_COMPLETION, parameters)).scalar_one_or_none()
    return completed


async def restores_between(
    connection: Connection,
    table_id: UUID,
    after: Micros,
    until: Micros,
    limit: int,
) -> list[tuple[Micros, Micros]]:
    """Requested and completion times of the restores completed in (after, until], by completion time."""
    named = {"table_id": table_id, "after": after, "until": until, "limit": limit}
    rows = await connection.execute(_RESTORES_BETWEEN, named)
    return [(Micros(requested), Micros(completed)) for requested, completed in rows]


def _conditions(wanted: Filter) -> tuple[str, dict[str, Any]]:
    """The conditions of a filter on the instants ``i`` of a table, and their parameters."""
    conditions = ["i.table_id = %(table_id)s", f"i.{wanted.order_by.value} IS NOT NULL"]
    named: dict[str, Any] = {}
    for condition, name, value in (
        ("i.state = ANY (%(states)s::text[])", "states", sorted(wanted.states) or None),
        ("i.action = ANY (%(actions)s::text[])", "actions", sorted(wanted.actions) or None),
        ("i.operation = ANY (%(operations)s::text[])", "operations", sorted(wanted.operations) or None),
        ("i.writer = %(writer)s", "writer", wanted.writer),
        ("i.requested_time > moment(%(requested_from)s)", "requested_from", wanted.requested_from),
        ("i.requested_time <= moment(%(requested_to)s)", "requested_to", wanted.requested_to),
        ("i.completion_time > moment(%(completed_from)s)", "completed_from", wanted.completed_from),
        ("i.completion_time <= moment(%(completed_to)s)", "completed_to", wanted.completed_to),
    ):
        if value is not None:
            conditions.append(condition)
            named[name] = value
    return " AND ".join(conditions), named


def _instant_of(row: Sequence[Any]) -> tuple[UUID, Instant]:
    """The table's id and the instant of a row that begins with the columns."""
    fields = dict(zip(_ENCODED_FIELDS, row[1:_COUNT], strict=True))
    for name in _ENCODED_JSON_FIELDS:
        if fields[name] is not None:
            fields[name] = msgspec.json.decode(fields[name])
    return row[0], decoding.convert(fields, Instant)


def _encode(instants: Sequence[tuple[UUID, Instant]], fields: Sequence[str]) -> dict[str, list[Any]]:
    """The parameters of the statements that add and save instants."""
    parameters: dict[str, list[Any]] = {"table_id": [table_id for table_id, _ in instants]}
    values = map(operator.attrgetter(*fields), [instant for _, instant in instants])
    parameters |= {name: list(column) for name, column in zip(fields, zip(*values, strict=True), strict=True)}
    for name in _JSON_FIELDS.intersection(fields):
        column = parameters[name]
        if column.count(None) < len(column):
            parameters[name] = list(map(_json, column))
    return parameters


def _json(value: object) -> str | None:
    if value is None:
        return None
    return _EMPTY if value == {} else msgspec.json.encode(value).decode()
