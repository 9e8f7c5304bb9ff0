"""Partitions: totals of the live files of a table."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.slices import Partition
from chronolake_model.times import Micros

_PATHS: Final = statements.load("partitions/paths")
_TOTALS: Final = statements.load("partitions/totals")


async def paths(connection: Connection, table_id: UUID, first: str) -> list[str]:
    """The partition paths of a table, from ``first`` on: as many as there are, for all must be judged."""
    parameters = {"table_id": table_id, "first": first, "skip": 0, "number": None, "completed_by": None}
    return [path for (path,) in await connection.execute(_PATHS, parameters)]


async def page_of_paths(
    connection: Connection, table_id: UUID, after: str, number: int, completed_by: Micros
) -> list[str]:
    """The first ``number`` partition paths after ``after``, with the empty one if that is empty.

    Only those that had files by a completion time.
    """
    # The least text after it: no path has the character.
    first = f"{after}\x01" if after else ""
    parameters = {
        "table_id": table_id,
        "first": first,
        "skip": 0,
        "number": number,
        "completed_by": completed_by,
    }
    return [path for (path,) in await connection.execute(_PATHS, parameters)]


async def page(
    connection: Connection, table_id: UUID, as_of: Micros, after: str | None, partitions: int
) -> list[Partition]:
    """The first ``partitions`` after ``after`` that had live files as of a completion time."""
    totals: list[Partition] = []
    while True:
        # No further than the page may reach, or each page would add up all that follow. Some of these may have
        # no live files.
        last = await _nth(connection, table_id, after, partitions)
        between = {"table_id": table_id, "as_of": as_of, "after": after, "last": last}
        rows = await connection.execute(_TOTALS, between | {"partitions": partitions - len(totals)})
        totals += [
            Partition(path, groups, files, int(size_bytes), int(records))
            for path, groups, files, size_bytes, records in rows
        ]
        if last is None or len(totals) == partitions:
            return totals
        after = last


async def _nth(connection: Connection, table_id: UUID, after: str | None, nth: int) -> str | None:
    """The ``nth`` partition path after ``after``, also one without live files; None if there are fewer."""
    skip = nth - 1 if after is None else nth
    parameters = {
        "table_id": table_id,
        "first": after or "",
        "skip": skip,
        "number": 1,
        "completed_by": None,
    }
    path: str | None = (await connection.execute(_PATHS, parameters)).scalar_one_or_none()
    return path
