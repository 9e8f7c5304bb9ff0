"""Plans that wait for somebody who deletes their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import text

from chronolake_metastore.domain.events import Plan
from chronolake_metastore.store import statements
from chronolake_metastore.store.engine import Reader
from chronolake_model.times import Micros, Tick

_WAITING: Final = text(statements.load("waiting_rollbacks"))


class Place(msgspec.Struct, frozen=True):
    """A table, and where its files are."""

    table_id: UUID
    table: str
    base_path: str
    properties: dict[str, str]
    tick: Tick


class WaitingPlan(msgspec.Struct, frozen=True):
    """An instant whose plan waits: a rollback, and the ``target`` that it undoes."""

    place: Place
    requested_time: Micros
    target: Micros
    plan: Plan


async def rollbacks(connection: Reader, left_out: Iterable[UUID], limit: int) -> list[WaitingPlan]:
    """Rollbacks that wait in requested, the oldest first, but for those of the tables ``left_out``."""
    rows = await connection.execute(_WAITING, {"left_out": list(left_out), "limit": limit})
    return [
        WaitingPlan(
            place_of(place), Micros(requested_time), Micros(target), msgspec.json.decode(plan, type=Plan)
        )
        for *place, requested_time, target, plan in rows
    ]


def place_of(columns: Sequence[Any]) -> Place:
    """A place from its columns, in the order of its fields."""
    table_id, table, base_path, properties, tick = columns
    return Place(table_id, table, base_path, properties, Tick(tick))
