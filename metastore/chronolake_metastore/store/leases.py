"""Leases of pending instants that have expired."""

from __future__ import annotations

from typing import Final

import msgspec

from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model.times import Micros, Tick
from chronolake_model.vocabulary import Action, State

_EXPIRED: Final = statements.load("instants/find_expired")


class ExpiredLease(msgspec.Struct, frozen=True):
    """A pending instant whose lease ended ``expired_us`` ago; ``is_resize`` if its plan resizes the table."""

    table: str
    tick: Tick
    requested_time: Micros
    action: Action
    state: State
    writer: str
    expired_us: int
    is_resize: bool


async def expired(connection: Connection, limit: int) -> list[ExpiredLease]:
    """Instants of live tables whose lease has ended, the longest ago first."""
    return [
        ExpiredLease(
            name,
            Tick(tick),
            Micros(requested_time),
            Action(action),
            State(state),
            writer,
            expired_us,
            is_resize,
        )
        for name, tick, requested_time, action, state, writer, expired_us, is_resize in (
            await connection.execute(_EXPIRED, {"limit": limit})
        )
    ]
