"""Rows of the log that the state does not need are deleted, and kept beside it to compare with."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import msgspec
import psycopg

from chronolake_metastore.domain import needed_events as domain
from chronolake_metastore.domain.needed_events import Causes, Need
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import archive, needed_events
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.times import Micros

Connection = psycopg.Connection[Any]
LOG: Final = ("event", "event_entry", "write_stat", "deleted_file")
_IS_NEEDED: Final = {
    "event": "type IN ('TableCreated', 'TableAltered', 'TableDropped')",
    "event_entry": "list = 'plan-file-groups' AND instant IN (SELECT chronolake.readable_plans(table_id))",
    "write_stat": "false",
    "deleted_file": "false",
}
_NEVER: Final = Micros(1 << 61)


def prepare(connection: Connection) -> None:
    """Make a schema whose tables have all rows: first in the search path, it hides that some have left."""
    execute(connection, "CREATE SCHEMA whole")
    for table in LOG:
        execute(connection, f"CREATE TABLE whole.left_{table} AS TABLE chronolake.{table} WITH NO DATA")
        execute(
            connection,
            f"CREATE VIEW whole.{table} AS TABLE chronolake.{table} UNION ALL TABLE whole.left_{table}",
        )
    execute(connection, "SET search_path = whole, chronolake")


async def find_needs(database: Database) -> dict[UUID, Need]:
    """The needs of each table, as if all were published and no window kept more."""
    async with archive.at_one_moment(database) as tx:
        causes = await needed_events.causes(tx)
    return {of.table_id: domain.need_for_blockers(_as_if_published(of)) for of in causes}


def _as_if_published(causes: Causes) -> Causes:
    return msgspec.structs.replace(causes, published_version=causes.version, history_before=_NEVER)


def leave(connection: Connection, needs: Mapping[UUID, Need]) -> int:
    """Delete the rows that are not needed; gives the number of events that have left."""
    first = {table_id: _first_version(connection, table_id, need) for table_id, need in needs.items()}
    named = {"table_ids": list(first), "versions": list(first.values())}
    for table in LOG:
        _change(
            connection,
            table,
            f"""
            WITH gone AS (
                DELETE FROM chronolake.{table} l
                USING unnest(%(table_ids)s::uuid[], %(versions)s::bigint[]) AS kept (of_table, since)
                WHERE l.table_id = kept.of_table AND l.version < kept.since AND NOT ({_IS_NEEDED[table]})
                RETURNING l.*
            )
            INSERT INTO whole.left_{table} SELECT * FROM gone
            """,
            named,
        )
    [[events]] = connection.execute("SELECT count(*) FROM whole.left_event").fetchall()
    return int(events)


def leave_once(dsn: str) -> int:
    """Delete the rows of a database that its state does not need now; gives the number of events."""

    async def read() -> dict[UUID, Need]:
        database = Database(Settings(dsn=dsn))
        try:
            return await find_needs(database)
        finally:
            await database.close()

    needs = asyncio.run(read())
    with psycopg.connect(dsn) as connection:
        prepare(connection)
        return leave(connection, needs)


def _first_version(connection: Connection, table_id: UUID, need: Need) -> int:
    """Found among all events: the binary search of the command needs to know where the rows begin."""
    since = _NEVER if need.since is None else need.since
    [[version]] = connection.execute(
        "SELECT min(version) FROM whole.event WHERE table_id = %s AND chronolake.micros(time) >= %s",
        [table_id, since],
    ).fetchall()
    return need.first_version(version)


def put_back(connection: Connection) -> None:
    """Insert all rows again."""
    for table in LOG:
        _change(
            connection,
            table,
            f"""
            WITH gone AS (DELETE FROM whole.left_{table} RETURNING *)
            INSERT INTO chronolake.{table} SELECT * FROM gone
            """,
            {},
        )


def _change(connection: Connection, table: str, statement: str, named: dict[str, Any]) -> None:
    """Execute a change that the database refuses even to its owner."""
    execute(connection, f"ALTER TABLE chronolake.{table} DISABLE TRIGGER {table}_append_only")
    connection.execute(statement.encode(), named)
    execute(connection, f"ALTER TABLE chronolake.{table} ENABLE ALWAYS TRIGGER {table}_append_only")


def execute(connection: Connection, statement: str) -> None:
    connection.execute(statement.encode())
