"""Facts for the Iceberg catalog: the states and schemas of tables, and the files of states."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.schemas import Schema
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import tables
from chronolake_metastore.store import archived, iceberg as stored, instants, schemas
from chronolake_metastore.store.files import FIRST, GroupKey, changed_groups
from chronolake_metastore.store.iceberg import ServedState
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.times import Micros

SCHEMAS_AT_ONCE = 100
SAVEPOINTS_MAX = 1_000


class TableStates(msgspec.Struct, frozen=True):
    """A table at one version of its log.

    ``schemas`` are all versions of its schema, ``states`` those that base files alone have, oldest first.
    ``savepoints`` are requested times, each with the completion time that it pins. ``last_completion`` is that
    of the table, which on a merge-on-read table may be later than the last state. ``is_whole`` says whether
    these are all states that the table ever had.
    """

    table: Table
    version: int
    schemas: list[Schema]
    states: list[ServedState]
    savepoints: list[tuple[Micros, Micros]]
    last_completion: Micros | None
    is_whole: bool


async def find(ctx: Context, database: Database, table_name: str) -> tuple[Table, int]:
    """A table, and the last version of its log; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        return table, await stored.version(connection, table.table_id)


async def states(ctx: Context, database: Database, table_name: str, limit: int) -> TableStates:
    """The newest ``limit`` states of a table; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        version = await stored.version(connection, table.table_id)
        versions: list[Schema] = []
        while len(versions) < table.definition.schema_version:
            versions += await schemas.page(connection, table.table_id, len(versions), SCHEMAS_AT_ONCE)
        found = await stored.states(connection, table, limit)
        # The newest instants never leave PostgreSQL.
        last_completion, _ = await instants.latest_completion(connection, table.table_id, None)
        # States leave by cleans, and with their instants.
        is_whole = len(found) < limit and table.cleaned_before is None
        is_whole = is_whole and await archived.instants_from(connection, table.table_id) is None
        return TableStates(
            table,
            version,
            versions,
            found,
            await stored.savepoints(connection, table.table_id, SAVEPOINTS_MAX),
            last_completion,
            is_whole,
        )


async def changed(
    ctx: Context,
    database: Database,
    table_name: str,
    table: Table,
    between: tuple[Micros, Micros],
    limit: int,
) -> list[GroupKey]:
    """The first ``limit`` file groups that changed in a range (from, to]."""
    async with database.reading() as connection:
        return await changed_groups(connection, table.table_id, between, FIRST, limit)


async def files(
    ctx: Context,
    database: Database,
    table_name: str,
    table: Table,
    state: ServedState,
    parent: ServedState | None,
    ranges: Sequence[tuple[GroupKey, GroupKey | None]],
    limit: int,
) -> list[stored.BaseFileOfStates]:
    """As ``store.iceberg.files``."""
    async with database.reading() as connection:
        return await stored.files(connection, table, state, parent, ranges, limit)
