"""The folders of tables as a projection of the log: those of two tables never overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from chronolake_metastore.domain.base_paths import BasePath, Neighbour, PublishedTime
from chronolake_metastore.domain.readable import Readable
from chronolake_metastore.store.catalog import range_parameters
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Statement
from chronolake_model.tables import DroppedTable
from chronolake_model.times import Micros

_FIND_NEIGHBOURS: Final = statements.load("base_paths/find_overlapping_tables")
_SAVE: Final = statements.load("base_paths/save")
_TAKE: Final = statements.load("base_paths/take_over")
_PUBLISHED_TIMES: Final = statements.load("base_paths/find_published_times")
_KEY: Final = "SELECT key FROM base_path WHERE table_id = %(table_id)s"
_DROPPED: Final = statements.load("tables/dropped")
_READABLE_DROPPED: Final = statements.load("tables/readable_dropped")
_TOOK_OVER: Final = statements.load("base_paths/find_taken_over")


def find_neighbours(key: str, limit: int) -> Query[list[Neighbour]]:
    """Tables whose folders overlap with that of ``key``, live ones first."""
    parameters = {"key": key, "limit": limit}
    return Query(_FIND_NEIGHBOURS, parameters, lambda rows: [Neighbour(*row) for row in rows])


def find_key(table_id: UUID) -> Query[str | None]:
    """The key of a table's base path, with the links of a local one resolved."""
    return Query(_KEY, {"table_id": table_id}, lambda rows: next((key for (key,) in rows), None))


def find_published_time(
    dropped: Sequence[UUID], requested_times: Sequence[Micros]
) -> Query[PublishedTime | None]:
    """The first of ``requested_times`` at which one of the dropped tables has published or staged files."""
    parameters = {"table_ids": list(dropped), "requested_times": list(requested_times)}
    return Query(
        _PUBLISHED_TIMES,
        parameters,
        lambda rows: next((PublishedTime(Micros(time), table) for time, table in rows), None),
    )


async def dropped(
    connection: Connection, after: UUID, limit: int, readable: Readable | None = None
) -> list[DroppedTable]:
    """Dropped tables after ``after`` that published files, by table id; those of ``readable``, or all."""
    named: dict[str, object] = {"after": after, "limit": limit}
    if readable is None:
        rows = await connection.execute(_DROPPED, named)
    else:
        named |= range_parameters(readable.ranges())
        rows = await connection.execute(_READABLE_DROPPED, named)
    return [DroppedTable(str(table_id), table, key) for table_id, table, key in rows]


async def took_over(connection: Connection, table_id: UUID) -> list[UUID]:
    """The dropped tables whose folders a table took over, directly or through other dropped tables."""
    rows = await connection.execute(_TOOK_OVER, {"table_id": table_id})
    return [table_id for (table_id, *_) in rows]


def save(made: Sequence[BasePath], taken: Mapping[UUID, UUID]) -> list[Statement]:
    """Save the folders of new tables, and the dropped tables whose folders they took over.

    Taken-over folders are saved first, because until then the database refuses the folder of the new table.
    """
    saved: list[Statement] = []
    if taken:
        saved.append((_TAKE, {"table_id": list(taken), "taken_by": list(taken.values())}))
    if made:
        named = {
            "table_id": [base_path.table_id for base_path in made],
            "key": [base_path.key for base_path in made],
            "is_checked": [base_path.is_checked for base_path in made],
            "taken_by": [taken.get(base_path.table_id) for base_path in made],
        }
        saved.append((_SAVE, named))
    return saved
