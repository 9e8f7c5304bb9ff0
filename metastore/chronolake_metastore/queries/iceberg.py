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
from chronolake_metastore.store import iceberg as stored, schemas
from chronolake_metastore.store.files import GroupKey
from chronolake_metastore.store.iceberg import ServedState
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
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
        head = await _head(ctx, connection, table_name)
        return head.table, head.version


async def versions(ctx: Context, database: Database, table_ids: Sequence[UUID]) -> dict[UUID, int]:
    """The last versions of the logs of tables."""
    async with database.reading() as connection:
        return await stored.versions(connection, table_ids)


async def states(
    ctx: Context, database: Database, table_name: str, limit: int, known: TableStates | None = None
) -> TableStates:
    """The newest ``limit`` states of a table; raises ``TableNotFound``.

    The versions of the schema are not read again if ``known``, an earlier answer of the same table, has all.
    """
    async with database.reading() as connection:
        head = await _head(ctx, connection, table_name)
        table = head.table
        of_schema: list[Schema] = []
        if known is not None and known.table.definition.schema == table.definition.schema:
            of_schema += known.schemas[: table.definition.schema_version]
        while len(of_schema) < table.definition.schema_version:
            of_schema += await schemas.page(connection, table.table_id, len(of_schema), SCHEMAS_AT_ONCE)
        # One more: the oldest one needs its parent.
        # States leave by cleans, and with their instants.
        found, pinned_states = await stored.states(connection, table, limit + 1, SAVEPOINTS_MAX)
        is_left_out = len(found) > limit and all(found[-limit - 1].time != time for _, time in pinned_states)
        before = found.pop(-limit - 1) if is_left_out else None
        is_whole = len(found) <= limit and before is None and table.cleaned_before is None
        return TableStates(
            table,
            head.version,
            of_schema,
            found,
            before,
            pinned_states,
            # The newest instants never leave PostgreSQL.
            head.last_completion,
            is_whole and head.has_all_instants,
        )


async def changes(
    ctx: Context,
    database: Database,
    table_name: str,
    table: Table,
    state: ServedState,
    parent: ServedState,
    between: tuple[Micros, Micros],
    limits: tuple[int, int],
) -> stored.ChangedGroups | None:
    """As ``store.iceberg.changes``."""
    async with database.reading() as connection:
        return await stored.changes(connection, table, state, parent, between, limits)


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


async def _head(ctx: Context, connection: Connection, table_name: str) -> stored.TableHead:
    head = await stored.head(connection, table_name)
    found = await tables.expected(ctx, connection, table_name, None if head is None else head.table)
    assert head is not None, found.name
    return head


async def _refuse_left(
    connection: Connection, table: Table, state: ServedState, parent: ServedState | None
) -> None:
    first = await stored.complete_from(connection, table.table_id)
    for of_state in (state, parent):
        if first is not None and of_state is not None and of_state.time < first:
            raise cleans.history_cleaned(table, of_state.time, first)
