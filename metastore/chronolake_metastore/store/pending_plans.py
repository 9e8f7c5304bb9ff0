"""Pending plans: rollbacks and cleans whose files are not deleted yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.lists import PlannedWork
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model import decoding
from chronolake_model.times import Micros, Tick
from chronolake_model.vocabulary import Action

_PAGE: Final = statements.load("pending_plans/page")


class Place(msgspec.Struct, frozen=True):
    """A table, and where its files are."""

    table_id: UUID
    table: str
    base_path: str
    properties: dict[str, str]
    tick: Tick


class PendingPlan(msgspec.Struct, frozen=True):
    """An instant whose plan is not executed yet: a rollback, or a clean that the server planned.

    ``marked_by`` is the instant that the files are recorded of: of a rollback its target.
    """

    place: Place
    action: Action
    requested_time: Micros
    marked_by: Micros
    plan: PlannedWork


async def page(connection: Connection, left_out: Iterable[UUID], limit: int) -> list[PendingPlan]:
    """The first plans whose instant is requested, without those of the tables ``left_out``.

    The plan whose last event is the oldest comes first.
    """
    rows = await connection.execute(_PAGE, {"left_out": list(left_out), "limit": limit})
    return [
        PendingPlan(
            place_of(place),
            Action(action),
            Micros(requested_time),
            Micros(marked_by),
            decoding.decode(plan, PlannedWork),
        )
        for *place, action, requested_time, marked_by, plan in rows
    ]


def place_of(columns: Sequence[Any]) -> Place:
    """A place from its columns, in the order of its fields."""
    table_id, table, base_path, properties, tick = columns
    return Place(table_id, table, base_path, properties, Tick(tick))
