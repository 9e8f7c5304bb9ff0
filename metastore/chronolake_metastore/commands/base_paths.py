"""Which tables a new table's base path overlaps with, looked up when the catalog is locked."""

from __future__ import annotations

from collections.abc import Sequence

from chronolake_metastore import errors
from chronolake_metastore.commands.lake import Lake
from chronolake_metastore.domain import tables
from chronolake_metastore.domain.base_paths import NEIGHBOURS_MAX
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.tables import CreateTable
from chronolake_metastore.store import base_paths as stored, clocks
from chronolake_metastore.store.transaction import Transaction


def makes_table(command: Command) -> bool:
    """Whether a command makes a table; it has a transaction to itself."""
    return isinstance(command, CreateTable)


async def load(tx: Transaction, lake: Lake, commands: Sequence[Command]) -> None:
    """Have ``lake`` know the tables in the way of a new one, and the clocks of those that it takes over.

    Creating and dropping tables hold the catalog's lock, so that no table comes or goes meanwhile.
    """
    match commands:
        case [CreateTable() as command] if command.request.name not in lake.tables:
            try:
                key = tables.base_path_key(command)
            except errors.InvalidTable:
                # The decision refuses it.
                return
        case _:
            return
    [rows] = await tx.batch([stored.find_neighbours(key, NEIGHBOURS_MAX + 1)])
    lake.neighbours = stored.found_neighbours(rows)
    dropped = [neighbour.table_id for neighbour in lake.neighbours if neighbour.is_dropped]
    if dropped:
        [rows] = await tx.batch([clocks.lock_dropped(dropped)])
        lake.clocks.update(clocks.locked(rows))
