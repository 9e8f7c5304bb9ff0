"""The first needed event of each table, found by reading everything: for tests."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from chronolake_metastore.domain import needed_events as domain
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import archive, needed_events
from chronolake_metastore.store.postgres.engine import Database

_TABLES = """
    SELECT c.table_id, c.version, t.dropped_at IS NOT NULL AS is_dropped,
        micros(t.earliest_commit_to_retain) AS retained,
        coalesce((t.definition -> 'properties' ->> 'hoodie.keep.min.commits')::int, 2000) AS commits,
        greatest(
            3600 * coalesce((t.definition -> 'properties' ->> 'hudi.active-hours')::int, 0),
            coalesce((t.definition -> 'properties' ->> 'deletions.grace-seconds')::int, 900)
        ) AS seconds,
        CASE WHEN p.hidden_at IS NULL THEN p.published_version END AS published_version,
        (p.history ->> 'before')::bigint AS before
    FROM clock c
    JOIN lake_table t USING (table_id)
    LEFT JOIN publication p USING (table_id)
"""
_INSTANTS = """
    SELECT table_id, micros(requested_time) AS requested, micros(completion_time) AS completed, action, state,
        micros(target) AS target, micros(rolled_back_by) AS undone_by,
        micros(undone_completion_time) AS was_completed,
        grace_began_at IS NOT NULL AS is_unswept
    FROM instant
"""
_FILES = """
    SELECT table_id, micros(requested_time) AS requested, micros(live_from) AS live_from,
        micros(superseded_at) AS superseded
    FROM file
    WHERE cleaned_by IS NULL
"""
_REPLACED = (
    "SELECT table_id, micros(requested_time) AS requested, micros(replaced_at) AS at FROM replaced_group"
)
_EVENTS = "SELECT table_id, version, micros(time) AS time FROM event ORDER BY 1, 2"
Row = dict[str, Any]


def found(dsn: str) -> dict[UUID, int]:
    """As the command finds them."""

    async def run() -> dict[UUID, int]:
        database = Database(Settings(dsn=dsn))
        try:
            async with archive.at_one_moment(database) as tx:
                bounds = await needed_events.causes(tx)
                needs = {of.table_id: domain.need(of) for of in bounds}
                return await needed_events.first_versions(tx, needs)
        finally:
            await database.close()

    return asyncio.run(run())


def naive(dsn: str) -> dict[UUID, int]:
    """The same by plain loops over all rows."""
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        connection.execute("SET search_path TO chronolake")
        return _naive(connection)


def _naive(connection: psycopg.Connection[Row]) -> dict[UUID, int]:
    tables = connection.execute(_TABLES.encode()).fetchall()
    [now] = [row["now_us"] for row in connection.execute("SELECT now_us()").fetchall()]
    instants, files, replaced, events = (
        _by_table(connection, query)
        for query in (
            _INSTANTS, _FILES, _REPLACED, _EVENTS,
        )
    )  # fmt: skip
    return {
        table["table_id"]: _first(
            table, now, *(rows.get(table["table_id"], []) for rows in (instants, files, replaced, events))
        )
        for table in tables
    }


def _by_table(connection: psycopg.Connection[Row], query: str) -> dict[UUID, list[Row]]:
    rows: dict[UUID, list[Row]] = {}
    for row in connection.execute(query.encode()).fetchall():
        rows.setdefault(row["table_id"], []).append(row)
    return rows


def _first(
    table: Row, now: int, instants: list[Row], files: list[Row], replaced: list[Row], events: list[Row]
) -> int:
    since = _blockers(instants, files)
    published = table["published_version"]
    unpublished = published + 1 if published else table["version"]
    if not table["is_dropped"]:
        since += [table["before"] or 0] if published else []
        since += [table["retained"]] if table["retained"] is not None else []
        since += _of_live_table(table, now, instants, files, replaced)
    versions = [event["version"] for event in events if since and event["time"] >= min(since)]
    return int(min([table["version"], unpublished, *versions]))


def _blockers(instants: list[Row], files: list[Row]) -> list[int]:
    since: list[int] = []
    pending = {row["requested"]: row for row in instants if row["state"] in ("requested", "inflight")}
    for row in instants:
        times = [time for time in (row["requested"], row["target"]) if time is not None]
        undoing = pending.get(row["undone_by"])
        if row["requested"] in pending or (row["is_unswept"] and row["state"] in ("completed", "rolled_back")):
            since += times
        if row["was_completed"] is not None and (
            (undoing is not None and undoing["action"] == "restore")
            or (row["action"] != "savepoint" and any(
                (file["live_from"], file["requested"]) == (row["was_completed"], row["requested"])
                for file in files
            ))
        ):  # fmt: skip
            since.append(row["requested"])
    return since


def _of_live_table(
    table: Row, now: int, instants: list[Row], files: list[Row], replaced: list[Row]
) -> list[int]:
    completed = [row for row in instants if row["completed"] is not None]
    completion = {row["requested"]: row["completed"] for row in completed}
    since = [group["requested"] for group in replaced if any(f["superseded"] == group["at"] for f in files)]
    for row in completed:
        saved = completion.get(row["target"]) if row["action"] == "savepoint" else None
        since += [
            other["requested"] for other in completed if saved is not None and other["completed"] >= saved
        ]
        since += [row["requested"]] if row["completed"] >= now - table["seconds"] * 1_000_000 else []
    writes = sorted(
        (row["completed"], row["requested"])
        for row in completed
        if row["action"] in ("commit", "deltacommit", "replacecommit")
    )
    since += [requested for _, requested in writes[-1:]]
    since += [writes[-table["commits"]][1] if len(writes) >= table["commits"] else 0]
    return since
