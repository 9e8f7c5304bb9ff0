"""DuckDB with the views of auditors, and rows of both databases in one form."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import psycopg
import pyarrow as pa

from tests.forked_program import run

Rows = Counter[str]


def made(file: Path, *arguments: str) -> str:
    """The SQL that the command writes."""
    ended = run("audit", "duckdb", "--to", str(file), *arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    return file.read_text("utf-8")


def connect(folder: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB in the memory, with the extensions that packages have; ``folder`` keeps them."""
    connection = duckdb.connect(config={"extension_directory": str(folder)})
    for name in ("postgres_scanner", "httpfs"):
        [extension] = resources.files(f"duckdb_extension_{name}").joinpath("extensions").iterdir()
        connection.execute(f"INSTALL '{extension / f'{name}.duckdb_extension'}'")
    return connection


def of_duckdb(connection: duckdb.DuckDBPyConnection, query: str) -> Rows:
    """The rows of a query in DuckDB."""
    table = connection.execute(query).to_arrow_table()
    return comparable([tuple(row.values()) for row in table.to_pylist()])


def of_postgres(dsn: str, query: str) -> Rows:
    """The rows of a query for an auditor in PostgreSQL."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET ROLE chronolake_auditor; SET search_path TO chronolake")
        return comparable(connection.execute(query.encode()).fetchall())


def comparable(rows: list[Any]) -> Rows:
    """Rows of either database in one form."""
    return Counter(json.dumps([_value(value) for value in row], sort_keys=True) for row in rows)


def _value(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case pa.MonthDayNano():
            return str(timedelta(days=value.days, microseconds=value.nanoseconds // 1_000))
        case UUID() | bytes() | timedelta():
            return str(value)
        case str() if value[:1] in ("{", "["):
            return json.loads(value)
        case str() | float() | Decimal() if re.fullmatch(r"\d+(\.0)?", str(value)):
            # A transaction id is a text in Python.
            return int(float(value))
        case _:
            return value
