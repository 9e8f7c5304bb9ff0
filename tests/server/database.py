"""The database below a server, as these tests look at it and trouble it: in SQL, past the server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import dict_row

Row = dict[str, Any]

EVENTS = ("event", "write_stat", "deleted_file")
DECISIONS = ("outcome", "refusal")
LOG = (*EVENTS, *DECISIONS)
PROJECTIONS = (
    *("clock", "namespace", "lake_table", "base_path", "schema_version"),
    *("instant", "file", "planned_group", "replaced_group"),
)
MARKERS = "marker"
"""Neither log nor projection."""
WAIT_SECONDS_MAX = 60.0
WALL_CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
"""The result of ``now_us()`` in an unchanged database."""
STEADY_CLOCK = (
    "(SELECT chronolake.micros(s.last_time) + least(greatest("
    "chronolake.now_us() - s.wall_offset_us - chronolake.micros(s.last_time), 0), 2000000)"
    " FROM chronolake.steady_clock s)"
)
"""The result of ``steady_us()`` in an unchanged database."""


@contextmanager
def connected(dsn: str) -> Iterator[psycopg.Connection[Row]]:
    """An autocommitting connection of a superuser whose rows are dicts."""
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("SET search_path TO chronolake")
        connection.execute("SET timezone TO 'UTC'")
        yield connection


def query(dsn: str, sql: str, *parameters: object) -> list[Row]:
    """The rows of one statement."""
    with connected(dsn) as connection:
        return connection.execute(sql.encode(), parameters).fetchall()


def multiply_files(dsn: str, table: str, number: int) -> None:
    """Add a number of files to a table that has one: more than any request would publish."""
    query_nothing(
        dsn,
        f"""
        INSERT INTO chronolake.file (table_id, version, ordinal, partition_path, file_id, requested_time,
            file_name, kind, size_bytes, records, completion_time, live_from, schema_version)
        SELECT f.table_id, f.version, n, 'p', lpad(n::text, 40, 'x'), f.requested_time,
            lpad(n::text, 80, 'y'), 'base', n, n, f.completion_time, f.live_from, 1
        FROM chronolake.file f
        JOIN chronolake.lake_table t USING (table_id)
        CROSS JOIN generate_series(1, {number}) AS n
        WHERE t.namespace || '.' || t.name = '{table}'
        """,
    )


def events(dsn: str, table: str) -> list[Row]:
    """The log of a table that is not dropped, by version; times in microseconds and in Hudi's 17 digits."""
    return query(
        dsn,
        """
        SELECT
            e.version, e.type, e.request_id, e.position, micros(e.time) AS time, micros(e.instant) AS instant,
            to_char(e.time, 'YYYYMMDDHH24MISSMS') AS time_text,
            to_char(e.instant, 'YYYYMMDDHH24MISSMS') AS instant_text
        FROM event e
        JOIN lake_table t USING (table_id)
        WHERE t.namespace || '.' || t.name = %s AND t.dropped_at IS NULL
        ORDER BY e.version
        """,
        table,
    )


def counts(dsn: str) -> dict[str, int]:
    """How many rows each table of the log and each projection has."""
    return {name: len(rows) for name, rows in contents(dsn, *LOG, *PROJECTIONS).items()}


def contents(dsn: str, *names: str) -> dict[str, list[str]]:
    """All rows of tables, as text and sorted, to be compared."""
    with connected(dsn) as connection:
        return rows_of(connection, *names)


def rows_of(connection: psycopg.Connection[Row], *names: str) -> dict[str, list[str]]:
    """As ``contents``, on a connection of ``connected``."""
    statement = " UNION ALL ".join(f"SELECT '{name}' AS name, t::text AS whole FROM {name} t" for name in names)
    contents: dict[str, list[str]] = {name: [] for name in names}
    for row in connection.execute(statement.encode()):
        contents[row["name"]].append(row["whole"])
    return {name: sorted(rows) for name, rows in contents.items()}


def counts_of(connection: psycopg.Connection[Row], *names: str) -> dict[str, int]:
    """How many rows tables have, on a connection of ``connected``."""
    statement = " UNION ALL ".join(f"SELECT '{name}' AS name, count(*) AS rows FROM {name}" for name in names)
    return {row["name"]: row["rows"] for row in connection.execute(statement.encode())}


def set_wall_clock(dsn: str, expression: str) -> None:
    """Set the servers' wall clock to the value of an SQL expression, in microseconds since 1970."""
    _set_clock(dsn, "now_us", expression)


def set_clocks(dsn: str, expression: str, steady: str | None = None) -> None:
    """Set the wall clock and the steady clock, as if so much time had passed."""
    _set_clock(dsn, "now_us", expression)
    _set_clock(dsn, "steady_us", expression if steady is None else steady)


def restore_clocks(dsn: str) -> None:
    """Let both clocks go again."""
    set_clocks(dsn, WALL_CLOCK, STEADY_CLOCK)


def pass_time(dsn: str, seconds: float) -> None:
    """Set the steady clock ahead, as if so much time had passed."""
    query_nothing(
        dsn,
        f"UPDATE steady_clock SET last_time = last_time + interval '{seconds} s',"
        f" wall_offset_us = wall_offset_us - {round(seconds * 1_000_000)}",
    )


def _set_clock(dsn: str, function: str, expression: str) -> None:
    query_nothing(
        dsn,
        f"CREATE OR REPLACE FUNCTION chronolake.{function}() RETURNS bigint "
        f"LANGUAGE sql VOLATILE PARALLEL SAFE RETURN {expression}",
    )


def query_nothing(dsn: str, sql: str) -> None:
    """Run a statement that gives no rows."""
    with connected(dsn) as connection:
        connection.execute(sql.encode())


def sever(dsn: str) -> int:
    """Cut every connection that servers have to this database; gives how many there were.

    It returns when their backends have ended: a server must notice before it uses such a connection.
    """
    return len(
        query(
            dsn,
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'chronolake-metastore'",
        )
    )


def wait_until(dsn: str, condition: str) -> None:
    """Wait until an SQL condition holds; the tests' only way to wait for a state inside a server."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    with connected(dsn) as connection:
        while time.monotonic() < deadline:
            row = connection.execute(f"SELECT ({condition}) AS holds".encode()).fetchone()
            if row is not None and row["holds"]:
                return
            connection.execute("SELECT pg_sleep(0.02)")
    raise AssertionError(f"never came true: {condition}")


WAITING_FOR_A_LOCK = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'chronolake-metastore'
        AND wait_event_type = 'Lock'
"""


def wait_for_waiting(dsn: str, connections: int) -> None:
    """Come back when this many connections of servers wait for a lock."""
    wait_until(dsn, f"({WAITING_FOR_A_LOCK}) = {connections}")


@contextmanager
def clock_held(dsn: str, table: str) -> Iterator[None]:
    """Hold the lock of a table's clock, as a command would: commands on the table wait until the block ends."""
    namespace, _, name = table.partition(".")
    with connected(dsn) as connection, connection.transaction():
        connection.execute(
            "SELECT 1 FROM clock WHERE table_id = (SELECT table_id FROM lake_table "
            "WHERE namespace = %s AND name = %s AND dropped_at IS NULL) FOR UPDATE",
            (namespace, name),
        )
        yield
