"""How far instants may leave PostgreSQL (``domain.needed_instants``), and the statements by which they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.active_window import Border
from chronolake_metastore.domain.leaving_rows import RowRange
from chronolake_metastore.domain.needed_instants import InstantBorder, InstantsHeldBy, Wanted
from chronolake_metastore.domain.tables import Definition
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.transaction import Statement, Transaction
from chronolake_model import decoding
from chronolake_model.times import Micros

DELETED_AT_ONCE: Final = 5_000
"""Rows that one transaction looks at."""
_STAYS: Final = statements.load("needed_instants/stays")
_BORDERS: Final = statements.load("needed_instants/find_borders")
_FIND_LEAVING: Final = statements.load("needed_instants/find_leaving")
_ANNOUNCE: Final = statements.load("needed_instants/announce")
_DELETE: Final = statements.load("needed_instants/delete").replace("{stays}", _STAYS)
_PRUNE: Final = statements.load("needed_instants/prune_replay").replace("{stays}", _STAYS)
_TABLES: Final = """
    SELECT f.table_id, t.definition::text, p.history::text
    FROM first_event f
    JOIN lake_table t ON t.table_id = f.table_id
    LEFT JOIN publication p ON p.table_id = f.table_id
    WHERE f.dropped_before > 1
"""
_LEAVING: Final = """
    SELECT f.table_id
    FROM first_event f
    WHERE f.instants_dropped_before IS DISTINCT FROM f.instants_from
    ORDER BY f.table_id
"""
_DONE: Final = """
    UPDATE first_event SET instants_dropped_before = instants_from WHERE table_id = %(table_id)s::uuid
"""
_RETURNED: Final = (
    "UPDATE first_event SET instants_from = NULL, instants_dropped_before = NULL, files_from = NULL"
)


class PublishedTable(msgspec.Struct, frozen=True):
    """The definition of a table of which events have left, and the border of its published timeline."""

    definition: Definition
    history: Border


class DeletedInstants(msgspec.Struct, frozen=True):
    """The number of deleted rows, and the last time that was looked at. After the last part there are none."""

    deleted: int
    last: Micros
    is_last: bool


async def tables(tx: Transaction) -> dict[UUID, PublishedTable]:
    """The tables of which events have left."""
    return {
        table_id: PublishedTable(
            decoding.decode(definition, Definition),
            Border() if history is None else decoding.decode(history, Border),
        )
        for table_id, definition, history in await tx.query(_TABLES, {})
    }


async def borders(tx: Transaction, wanted: Sequence[Wanted]) -> list[InstantBorder]:
    """How far the instants of some tables may leave."""
    parameters = {
        "table_ids": [table.table_id for table in wanted],
        "until": [table.until for table in wanted],
        "commits": [table.commits for table in wanted],
        "seconds": [table.seconds for table in wanted],
    }
    rows = await tx.query(_BORDERS, parameters)
    return [
        InstantBorder(table_id, table, is_dropped, until, since, InstantsHeldBy(held_by))
        for table_id, table, is_dropped, until, since, held_by in rows
    ]


async def rows(tx: Transaction, until: Mapping[UUID, Micros]) -> list[RowRange]:
    """The instants that leave when those before some times are announced, by table and requested time.

    Those that were announced before, and may not all have left, are among them.
    """
    found = await tx.query(_FIND_LEAVING, {"table_ids": list(until), "times": list(until.values())})
    return [(table_id, first, last) for table_id, first, last in found]


async def announce(tx: Transaction, times: Mapping[UUID, Micros]) -> None:
    """Let the timelines of tables before some times be read from the archive alone."""
    await tx.query(_ANNOUNCE, {"table_ids": list(times), "times": list(times.values())})


async def leaving(tx: Transaction) -> list[UUID]:
    """The tables of which instants were announced to leave, and may not all have."""
    return [table_id for (table_id,) in await tx.query(_LEAVING, {})]


async def delete(tx: Transaction, table_id: UUID, after: Micros) -> DeletedInstants:
    """Delete some of the instants of a table that have left, after a requested time."""
    named = {"table_id": table_id, "after": after, "rows": DELETED_AT_ONCE}
    [[last, deleted]] = await tx.query(_DELETE, named)
    if last is None:
        await tx.query(_DONE, {"table_id": table_id})
    return DeletedInstants(deleted, after if last is None else Micros(last), last is None)


def prune_replay() -> Statement:
    """Delete from the replay table what may be missing in the projection."""
    return _PRUNE, {}


def returned() -> list[Statement]:
    """Note that the database has all instants again."""
    return [(_RETURNED, {})]
