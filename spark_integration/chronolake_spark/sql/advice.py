"""Advice for SQL that failed because tables of Chronolake are no tables of Spark's own catalog.

Statements on the tables of ``chronolake_spark.catalog`` need none. A statement on a view of a table fails with
``InvalidOption``, which says what to call. A name ``namespace.table`` that Spark does not know may be any
table, so Spark's error gets a note.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from chronolake_spark import errors
from chronolake_spark.sql import commands, views

_PART: Final = r"(?:`(?:[^`]|``)+`|\w+)"
_NAME: Final = rf"(?P<name>{_PART}(?:\.{_PART})*)"
_TABLE: Final = "chronolake_spark.table(spark, 'namespace.table')"
_CATALOG: Final = "chronolake_spark.catalog(spark, 'lake')"
_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "ALTER TABLE": (
        rf"^\s*alter\s+table\s+{_NAME}",
        f"{_TABLE}.metastore.change_schema([chronolake.AddColumn('name', 'type')]), or the option merge_schema",
    ),
    "TRUNCATE": (rf"^\s*truncate\s+table\s+{_NAME}", f"{_TABLE}.delete('true')"),
    "DESCRIBE HISTORY": (
        rf"^\s*desc(?:ribe)?\s+history\s+{_NAME}",
        f"{_TABLE}.metastore.instants(), or the command chronolake timeline namespace.table",
    ),
    "AS OF": (
        rf"{_NAME}\s+(?:for\s+)?(?:timestamp|version|system_time|system_version)\s+as\s+of\b",
        f"{_TABLE}.read(as_of='2026-01-31').createOrReplaceTempView('name'), and select from that view",
    ),
}
"""For each command: its pattern, and the call to use instead."""
_UNKNOWN: Final = "TABLE_OR_VIEW_NOT_FOUND"


def give(session: SparkSession, query: str, failure: Exception) -> None:
    """Raise ``InvalidOption`` for a statement on a table of Chronolake, or add a note to Spark's error."""
    if not isinstance(failure, PySparkException):
        return
    for command, (pattern, call) in _COMMANDS.items():
        if (match := re.search(pattern, query, re.IGNORECASE)) is not None:
            name = _plain(match["name"])
            if not commands.is_in_catalog(session, name.split(".")):
                instead = f"use {call}; or make lake.{name} known to SQL by {_CATALOG}"
                _tell(session, name, f"{command} does not exist in SQL for {name}: {instead}", failure)
            return
    unknown = (failure.getMessageParameters() or {}).get("relationName", "")
    name = _plain(unknown)
    if failure.getCondition() == _UNKNOWN and name.count(".") == 1:
        namespace, _, table = name.partition(".")
        if commands.is_in_catalog(session, [namespace, table]):
            return
        call = (
            f"{_CATALOG} makes lake.{name} known to SQL, and chronolake_spark.views(spark, {namespace!r}) "
            f"makes a view of each table: select from {table}"
        )
        _tell(session, name, f"Spark's own catalog has no tables of Chronolake, so not {name}; {call}", failure)


def _tell(session: SparkSession, name: str, advice: str, failure: PySparkException) -> None:
    if _is_ours(session, name):
        raise errors.InvalidOption(advice) from failure
    if "." in name:
        failure.add_note(f"If {name} is a table of Chronolake: {advice}")


def _is_ours(session: SparkSession, name: str) -> bool:
    if "." in name:
        return views.is_table(session, name)
    try:
        return commands.is_view(session, name)
    except (Py4JError, PySparkException):
        return False


def _plain(name: str) -> str:
    return name.replace("`", "")
