"""The states of tables at a place in the order across tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.store.event_log import Cursor
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.times import Micros, Tick

_PAGE: Final = statements.load("cuts/page")


class StateAt(msgspec.Struct, frozen=True):
    """The state of a table at a place."""

    table_id: UUID
    table: str
    version: int
    as_of: Micros
    schema_version: int
    tick: Tick


class StatesAt(msgspec.Struct, frozen=True):
    """A page of states. ``next_after`` is its last table; None if there are no more tables."""

    states: list[StateAt]
    next_after: UUID | None
    is_known: bool
    """False if events that tell the states have left the database; then there are none."""


async def page(
    connection: Connection,
    place: Cursor,
    *,
    namespace: str | None,
    table_ids: Sequence[UUID] | None,
    after: UUID,
    limit: int,
) -> StatesAt:
    """The states of ``limit`` tables after ``after``, in the order of ids, without those that did not exist."""
    parameters = {
        "transaction_id": place.transaction_id,
        "position": place.position,
        "namespace": namespace,
        "table_ids": None if table_ids is None else list(table_ids),
        "after": after,
        "limit": limit + 1,
    }
    rows = await connection.execute(_PAGE, parameters)
    existing = [row for row in rows[:limit] if row[2] is not None]
    is_known = all(row[6] for row in existing)
    states = [_state(*row[:6]) for row in existing] if is_known else []
    return StatesAt(states, rows[limit - 1][0] if len(rows) > limit else None, is_known)


def _state(table_id: UUID, table: str, version: int, as_of: int, schema_version: int, tick: str) -> StateAt:
    return StateAt(table_id, table, version, Micros(as_of), schema_version, Tick(tick))
