"""Instants that are due for a sweep, and their deleted names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.store.pending_plans import Place, place_of
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.times import Micros
from chronolake_model.vocabulary import GRACE_PROPERTY, GRACE_SECONDS_DEFAULT, Action, State

_UNSWEPT: Final = statements.load("sweeps/due_instants")
_PLACES: Final = statements.load("sweeps/due_tables")


class Unswept(msgspec.Struct, frozen=True):
    """An instant that is due: since when, and whose markers in storage are to be looked at too.

    ``grace_began_at`` is by the steady clock.
    """

    unswept_since: Micros
    grace_began_at: Micros
    requested_time: Micros
    action: Action
    state: State
    direct_markers_of: Micros | None = None


FIRST: Final = Unswept(Micros(0), Micros(0), Micros(0), Action.COMMIT, State.COMPLETED)
"""Before all that is due."""


async def page(
    connection: Connection, table_id: UUID, grace_seconds: int, after: Unswept, limit: int, *, leases: bool
) -> list[Unswept]:
    """The first ``limit`` instants of a table after ``after`` whose last deletion is ``grace_seconds`` ago.

    With ``leases`` it is also at least as long ago as the instant's own lease lasts.
    """
    parameters = {
        "table_id": table_id,
        "grace_us": grace_seconds * 1_000_000,
        "leases": leases,
        "after_grace": after.grace_began_at,
        "after_time": after.requested_time,
        "limit": limit,
    }
    rows = await connection.execute(_UNSWEPT, parameters)
    return [
        Unswept(
            Micros(since),
            Micros(grace_began_at),
            Micros(requested_time),
            Action(action),
            State(state),
            None if direct is None else Micros(direct),
        )
        for since, grace_began_at, requested_time, action, state, direct in rows
    ]


async def places(connection: Connection, left_out: Iterable[UUID], limit: int) -> list[tuple[Place, int]]:
    """Tables that have something due by their own grace period, which comes with them, but for ``left_out``."""
    parameters = {
        "left_out": list(left_out),
        "grace_property": GRACE_PROPERTY,
        "grace_seconds": GRACE_SECONDS_DEFAULT,
        "limit": limit,
    }
    rows = await connection.execute(_PLACES, parameters)
    return [(place_of(place), grace_seconds) for *place, grace_seconds in rows]
