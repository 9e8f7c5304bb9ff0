"""The border between the active timeline of a publication and its history, and what may cross it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.active_window import Blocker, Border, Commit, HeldBy
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Rows
from chronolake_model import decoding
from chronolake_model.times import Micros

_COMMITS: Final = statements.load("published_history/find_commits")
_COUNT: Final = statements.load("published_history/count_commits")
_BLOCKERS: Final = statements.load("published_history/find_blockers")
_RANGES: Final = statements.load("published_history/find_ranges")
_VERSION: Final = statements.load("published_history/find_version")
_COMPLETED: Final = statements.load("published_history/find_completed")
_LAST_COMPLETION: Final = """
    SELECT micros(max(completion_time))
    FROM instant
    WHERE table_id = %(table_id)s AND requested_time >= moment(%(begin)s) AND requested_time < moment(%(end)s)
"""
_OLDEST_BLOCKERS: Final = """
    SELECT p.history #>> '{blocker,held_by}', min((p.history #>> '{blocker,requested_time}')::bigint)
    FROM publication p
    JOIN lake_table t ON t.table_id = p.table_id AND t.dropped_at IS NULL
    WHERE p.history #>> '{blocker,requested_time}' IS NOT NULL
    GROUP BY 1
"""
_SAVE: Final = "UPDATE publication SET history = %(border)s::text::jsonb WHERE table_id = %(table_id)s"
_FIND_BORDER: Final = "SELECT history::text FROM publication WHERE table_id = %(table_id)s::uuid"


def find_border(table_id: UUID) -> Query[Border | None]:
    """The border of a table; that of a table whose timeline has no history begins at 0."""
    return Query(_FIND_BORDER, {"table_id": table_id}, _border)


def _border(rows: Rows) -> Border:
    text = rows[0][0] if rows else None
    return Border() if text is None else decoding.decode(text, Border)


async def save(connection: Connection, table_id: UUID, border: Border) -> None:
    """Save the border of a table, whose row is locked."""
    named = {"table_id": table_id, "border": msgspec.json.encode(border).decode()}
    await connection.execute(_SAVE, named)


async def commits(
    connection: Connection, table_id: UUID, begin: Micros, published: Micros, limit: int
) -> list[Commit]:
    """The first commits from a requested time on that completed by the ``published`` time."""
    named = {"table_id": table_id, "begin": begin, "published": published, "limit": limit}
    return [Commit(*row) for row in await connection.execute(_COMMITS, named)]


async def count_commits(
    connection: Connection, table_id: UUID, begin: Micros, published: Micros, limit: int
) -> int:
    """Their number, ``limit`` at most."""
    named = {"table_id": table_id, "begin": begin, "published": published, "limit": limit}
    return int((await connection.execute(_COUNT, named)).scalar_one())


async def blockers(
    connection: Connection, table_id: UUID, begin: Micros, published: Micros, *, has_logs: bool
) -> list[Blocker]:
    """The causes that hold the timeline, the first of each kind. ``has_logs``: the table may have log files."""
    named = {"table_id": table_id, "begin": begin, "published": published, "has_logs": has_logs}
    rows = await connection.execute(_BLOCKERS, named)
    return [Blocker(HeldBy(held_by), Micros(bound), time) for held_by, bound, time in rows if bound is not None]


async def oldest_blockers(connection: Connection) -> dict[HeldBy, Micros]:
    """For each cause, the requested time of the oldest instant that holds the timeline of a table."""
    rows = await connection.execute(_OLDEST_BLOCKERS, {})
    return {HeldBy(held_by): Micros(time) for held_by, time in rows}


async def end_of_file(
    connection: Connection, table_id: UUID, begin: Micros, end: Micros, rows_max: int, bytes_max: int
) -> Micros | None:
    """The end of the file that begins at a time; None if all instants before ``end`` fit into it."""
    named = {
        "table_id": table_id,
        "begin": begin,
        "end": end,
        "rows_max": rows_max,
        "bytes_max": bytes_max,
    }
    time = (await connection.execute(_RANGES, named)).scalar_one()
    return None if time is None else Micros(time)


async def last_completion(connection: Connection, table_id: UUID, begin: Micros, end: Micros) -> Micros | None:
    """The last completion of the instants of a range of requested times."""
    named = {"table_id": table_id, "begin": begin, "end": end}
    time = (await connection.execute(_LAST_COMPLETION, named)).scalar_one()
    return None if time is None else Micros(time)


async def version_before(connection: Connection, table_id: UUID, time: Micros, first_version: int) -> int:
    """The version of the last event before a time, which no event before the first version is after."""
    named = {"table_id": table_id, "time": time, "first_version": first_version}
    return int((await connection.execute(_VERSION, named)).scalar_one())


async def completed(connection: Connection, table_id: UUID, requested_times: Sequence[Micros]) -> set[Micros]:
    """The instants, of some, that are completed, and were not undone since."""
    named = {"table_id": table_id, "requested_times": list(requested_times)}
    return {Micros(time) for (time,) in await connection.execute(_COMPLETED, named)}
