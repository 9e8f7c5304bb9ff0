"""The SQL and the values of the columns of an instant, which ``schema.instant`` lists once.

A time is microseconds in the code, and JSON travels as text.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import BigInteger, Column, ColumnElement, DateTime, Integer, Text, Uuid, cast, func, null
from sqlalchemy.dialects.postgresql import JSONB

from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.store.postgres import schema
from chronolake_model import decoding

_PARAMETER_TYPES: Final = {
    BigInteger: "bigint",
    DateTime: "bigint",
    Integer: "integer",
    JSONB: "text",
    Text: "text",
    Uuid: "uuid",
}
_NEVER_CHANGED: Final = frozenset({"table_id", "requested_time", "operation", "target", "plan", "stream"})
"""Columns that keep the value with which their instant was begun."""

_COLUMNS: Final[Sequence[Column[Any]]] = tuple(schema.instant.columns)
# SQLAlchemy's names are a class of their own, which msgspec does not take for text.
_FIELDS: Final = tuple(str(column.name) for column in _COLUMNS[1:])
"""Fields of ``Instant`` in the order of the columns after the table's id."""
_JSON_FIELDS: Final = tuple(str(column.name) for column in _COLUMNS if isinstance(column.type, JSONB))

_EMPTY: Final = "{}"
"""The extra metadata of nearly all instants."""

_values: Final = operator.attrgetter(*_FIELDS)

COUNT: Final = len(_COLUMNS)


def _read(column: Column[Any]) -> str:
    match column.type:
        case DateTime():
            return f"micros(i.{column.name})"
        case JSONB():
            return f"i.{column.name}::text"
        case _:
            return f"i.{column.name}"


def _saved(column: Column[Any]) -> str:
    match column.type:
        case DateTime():
            return f"moment({column.name})"
        case JSONB():
            return f"{column.name}::jsonb"
        case _:
            return column.name


FRAGMENTS: Final[Mapping[str, str]] = {
    "{instant}": ", ".join(map(_read, _COLUMNS)),
    "{instant_names}": ", ".join(column.name for column in _COLUMNS),
    "{instant_rows}": ", ".join(
        f"unnest(%({column.name})s::{_PARAMETER_TYPES[type(column.type)]}[]) AS {column.name}"
        for column in _COLUMNS
    ),
    "{instant_values}": ", ".join(map(_saved, _COLUMNS)),
    "{instant_updates}": ", ".join(
        f"{column.name} = excluded.{column.name}" for column in _COLUMNS if column.name not in _NEVER_CHANGED
    ),
}
"""Placeholders of SQL files: the columns of the instant ``i`` to read, and parts of those that write."""


def selected(without: Collection[str] = ()) -> list[ColumnElement[Any]]:
    """The columns of ``{instant}`` for a select that is built from parts; null for those in ``without``."""
    return [null() if column.name in without else _selected(column) for column in _COLUMNS]


def _selected(column: Column[Any]) -> ColumnElement[Any]:
    match column.type:
        case DateTime():
            return func.micros(column)
        case JSONB():
            return cast(column, Text)
        case _:
            return column


def decode(row: Sequence[Any]) -> tuple[UUID, Instant]:
    """The table's id and the instant of a row that begins with the columns."""
    fields = dict(zip(_FIELDS, row[1:COUNT], strict=True))
    for name in _JSON_FIELDS:
        if fields[name] is not None:
            fields[name] = msgspec.json.decode(fields[name])
    return row[0], decoding.convert(fields, Instant)


def encode(instants: Sequence[tuple[UUID, Instant]]) -> dict[str, list[Any]]:
    """The parameters of the statements that add and save instants."""
    parameters: dict[str, list[Any]] = {"table_id": [table_id for table_id, _ in instants]}
    values = map(_values, [instant for _, instant in instants])
    parameters |= {name: list(column) for name, column in zip(_FIELDS, zip(*values, strict=True), strict=True)}
    for name in _JSON_FIELDS:
        column = parameters[name]
        if column.count(None) < len(column):
            parameters[name] = list(map(_json, column))
    return parameters


def _json(value: object) -> str | None:
    if value is None:
        return None
    return _EMPTY if value == {} else msgspec.json.encode(value).decode()
