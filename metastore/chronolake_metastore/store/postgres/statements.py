"""The named SQL files: anything with a join, a lock or a plan worth reading."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

from psycopg import sql
from sqlalchemy import JSON, BigInteger, Column, DateTime, Integer, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

from chronolake_metastore.store.postgres import schema

_PARAMETER_TYPES: Final = {
    BigInteger: "bigint",
    DateTime: "bigint",
    Integer: "integer",
    JSON: "text",
    JSONB: "text",
    Text: "text",
    Uuid: "uuid",
}
_NEVER_CHANGED: Final = frozenset({"table_id", "requested_time", "operation", "target", "plan", "stream"})
"""Columns that keep the value with which their instant was begun."""
SET_AT_BEGIN: Final = _NEVER_CHANGED | {
    "action",
    "state",
    "writer",
    "lease_seconds",
    "lease_expires_at",
    "version",
    "schema_version",
}
"""Columns that may have a value when their instant was begun and has not changed."""

_INSTANT: Final[Sequence[Column[Any]]] = tuple(schema.instant.columns)


def _read(column: Column[Any]) -> str:
    match column.type:
        case DateTime():
            return f"micros(i.{column.name})"
        case JSON():
            return f"i.{column.name}::text"
        case _:
            return f"i.{column.name}"


def _saved(column: Column[Any]) -> str:
    match column.type:
        case DateTime():
            return f"moment({column.name})"
        case JSONB():
            return f"{column.name}::jsonb"
        case JSON():
            return f"{column.name}::json"
        case _:
            return column.name


def _rows(columns: Sequence[Column[Any]]) -> str:
    return ", ".join(
        f"unnest(%({column.name})s::{_PARAMETER_TYPES[type(column.type)]}[]) AS {column.name}"
        for column in columns
    )


_BEGUN: Final = tuple(column for column in _INSTANT if column.name in SET_AT_BEGIN)
_INSTANT_FRAGMENTS: Final[Mapping[str, str]] = {
    "{instant}": ", ".join(map(_read, _INSTANT)),
    "{instant_without_plan}": ", ".join(
        "NULL" if column.name == "plan" else _read(column) for column in _INSTANT
    ),
    "{instant_names}": ", ".join(column.name for column in _INSTANT),
    "{instant_rows}": _rows(_INSTANT),
    "{instant_values}": ", ".join(map(_saved, _INSTANT)),
    "{begun_names}": ", ".join(column.name for column in _BEGUN),
    "{begun_rows}": _rows(_BEGUN),
    "{begun_values}": ", ".join(map(_saved, _BEGUN)),
    "{instant_updates}": ", ".join(
        f"{column.name} = excluded.{column.name}" for column in _INSTANT if column.name not in _NEVER_CHANGED
    ),
}
"""The columns of the instant ``i`` to read, and parts of the statements that write instants."""


_PENDING: Final = """
    i.requested_time <= moment(%(as_of)s)
    AND (
        i.state IN ('requested', 'inflight')
        OR moment(%(as_of)s) < coalesce(i.completion_time, i.undone_completion_time, i.rolled_back_at)
    )
"""
"""Whether the instant ``i`` was pending as of a time."""

_FILE: Final = """
    f.partition_path, f.file_id, f.file_name, f.kind, f.size_bytes, f.records, micros(f.requested_time),
    micros(f.completion_time), f.schema_version, f.has_field_ids
"""
"""A data file's columns, in the order in which ``store.files.PublishedFile`` has them."""

_TOKEN: Final = """
    t.token_id, micros(t.created_at), micros(t.expires_at), t.acts_for_others, t.key_id, t.digest,
    t.previous_key_id, t.previous_digest, micros(t.previous_until), micros(t.revoked_at), n.name
"""
"""A token's columns and its name, in the order in which ``store.tokens`` reads them."""

_RANGES: Final = """
    unnest(
        %(first_namespaces)s::text[], %(first_names)s::text[],
        %(last_namespaces)s::text[], %(last_names)s::text[], %(range_ids)s::uuid[]
    ) AS readable (first_namespace, first_name, last_namespace, last_name, table_id)
"""
"""Ranges of names (``domain.readable.NameRange``)."""

_IN_RANGE: Final = """
    (t.namespace, t.name) >= (readable.first_namespace, readable.first_name)
    AND (t.namespace, t.name) <= (readable.last_namespace, readable.last_name)
    AND (readable.table_id IS NULL OR t.table_id = readable.table_id)
"""
"""Whether the table ``t`` is in one of them."""

_PARAMETER: Final = re.compile(r"%\((\w+)\)s")
_FRAGMENTS: Final = {
    **_INSTANT_FRAGMENTS,
    "{file}": _FILE.strip(),
    "{in_range}": _IN_RANGE.strip(),
    "{pending}": _PENDING.strip(),
    "{ranges}": _RANGES.strip(),
    "{token}": _TOKEN.strip(),
}


def load(name: str) -> str:
    """The statement in ``sql/<name>.sql``; ``name`` is ``noun/what it does``.

    ``%(name)s`` in it is a parameter. ``{instant}`` stands for the columns of the instant ``i``,
    ``{instant_without_plan}`` for the same with a null in place of the plan, ``{file}`` for
    those of the file ``f``, ``{token}`` for those of the token ``t`` with the name ``n``, ``{pending}`` for
    whether the instant was pending, ``{ranges}`` for ranges of names and ``{in_range}`` for whether the table
    ``t`` is in one, ``{instant_...}`` and ``{begun_...}`` for parts of the statements that save and add
    instants.
    """
    statement = resources.files("chronolake_metastore.store").joinpath("sql", f"{name}.sql").read_text("utf-8")
    for placeholder, fragment in _FRAGMENTS.items():
        statement = statement.replace(placeholder, fragment)
    return statement


def with_literals(statement: str, values: Mapping[str, object], **fragments: sql.Composable) -> str:
    """``statement`` with its parameters as literals, for a driver that sends a text alone.

    Each ``{name}`` in it is replaced by the fragment of this name.
    """
    literals = {name: sql.Literal(value) for name, value in values.items()}
    return sql.SQL(_PARAMETER.sub(r"{\1}", statement)).format(**literals, **fragments).as_string()
