"""Facts for the Iceberg catalog: the states and schemas of tables, and the files of states."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from chronolake_metastore.domain import cleans
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.schemas import Schema
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import tables
from chronolake_metastore.store import archived, iceberg as stored, instants, schemas
from chronolake_metastore.store.files import GroupKey
from chronolake_metastore.store.iceberg import ServedState
from chronolake_metastore.store.postgres.engine import Database, Reader
from chronolake_model.times import Micros

SCHEMAS_AT_ONCE = 100
SAVEPOINTS_MAX = 1_000


class TableStates(msgspec.Struct, frozen=True):
    """A table at one version of its log.

    ``schemas`` are all versions of its schema, ``states`` those that base files alone have, oldest first.
    ``before`` is the newest one that was left out: the parent of the oldest that was not. ``savepoints`` are
    requested times, each with the completion time that it pins. ``last_completion`` is that of the table, which
    on a merge-on-read table may be later than the last state. ``is_whole`` says whether these are all states
    that the table ever had.
    """

    table: Table
    version: int
    schemas: list[Schema]
    states: list[ServedState]
    before: ServedState | None
    savepoints: list[tuple[Micros, Micros]]
    last_completion: Micros | None
    is_whole: bool

    def is_like(self, other: TableStates | None) -> bool:
        """Whether another version of the log has the same."""
        return other is not None and msgspec.structs.replace(other, version=self.version) == self


async def find(ctx: Context, database: Database, table_name: str) -> tuple[Table, int]:
    """A table, and the last version of its log; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        return table, await stored.version(connection, table.table_id)


async def versions(ctx: Context, database: Database, table_ids: Sequence[UUID]) -> dict[UUID, int]:
    """The last versions of the logs of tables."""
    async with database.reading() as connection:
        return await stored.versions(connection, table_ids)


async def states(ctx: Context, database: Database, table_name: str, limit: int) -> TableStates:
    """The newest ``limit`` states of a table; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        version = await stored.version(connection, table.table_id)
        of_schema: list[Schema] = []
        while len(of_schema) < table.definition.schema_version:
            of_schema += await schemas.page(connection, table.table_id, len(of_schema), SCHEMAS_AT_ONCE)
        # One more: the oldest one needs its parent.
        found = await stored.states(connection, table, limit + 1)
        # The newest instants never leave PostgreSQL.
        last_completion, _ = await instants.latest_completion(connection, table.table_id, None)
        # States leave by cleans, and with their instants.
        pinned_states = await stored.savepoints(connection, table.table_id, SAVEPOINTS_MAX)
        is_left_out = len(found) > limit and all(found[-limit - 1].time != time for _, time in pinned_states)
        before = found.pop(-limit - 1) if is_left_out else None
        is_whole = len(found) <= limit and before is None and table.cleaned_before is None
        is_whole = is_whole and await archived.instants_from(connection, table.table_id) is None
        return TableStates(
            table,
            version,
            of_schema,
            found,
            before,
            pinned_states,
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
) -> list[GroupKey] | None:
    """The first ``limit`` file groups that changed in a range (from, to]; None if it is not known any more."""
    async with database.reading() as connection:
        first = await stored.complete_from(connection, table.table_id)
        if first is not None and between[0] < first:
            return None
        return await stored.changed_groups(connection, table.table_id, between, limit)


async def files(
    ctx: Context,
    database: Database,
    table_name: str,
    table: Table,
    state: ServedState,
    parent: ServedState | None,
    after: GroupKey,
    limit: int,
) -> list[stored.BaseFileOfStates]:
    """As ``store.iceberg.files``; raises ``HistoryCleaned`` when files of a state may have left."""
    async with database.reading() as connection:
        await _refuse_left(connection, table, state, parent)
        return await stored.files(connection, table, state, parent, after, limit)


async def files_of(
    ctx: Context,
    database: Database,
    table_name: str,
    table: Table,
    state: ServedState,
    parent: ServedState | None,
    groups: Sequence[GroupKey],
    limit: int,
) -> list[stored.BaseFileOfStates]:
    """As ``store.iceberg.files_of``; raises ``HistoryCleaned`` when files of a state may have left."""
    async with database.reading() as connection:
        await _refuse_left(connection, table, state, parent)
        return await stored.files_of(connection, table, state, parent, groups, limit)


async def _refuse_left(
    connection: Reader, table: Table, state: ServedState, parent: ServedState | None
) -> None:
    first = await stored.complete_from(connection, table.table_id)
    for of_state in (state, parent):
        if first is not None and of_state is not None and of_state.time < first:
            raise cleans.history_cleaned(table, of_state.time, first)
