"""The clock of a table: the time, the version and the hash that its next event gets (design.md section 4)."""

from __future__ import annotations

from uuid import UUID

import msgspec

from chronolake_model.times import Micros, Tick

CATALOG_ID = UUID(int=0)
"""The stream of what belongs to no table: namespaces made and dropped."""


class Clock(msgspec.Struct, frozen=True):
    """The head of a table's log: the last time and version issued, and the last event's hash."""

    table_id: UUID
    tick: Tick
    last_time: Micros = Micros(0)
    version: int = 0
    head: bytes = b""


def next_time(clock: Clock, now: Micros) -> Micros:
    """The next time of a table: later than every earlier one, and not before the wall clock ``now``.

    A wall clock that stands still or steps back costs nothing but the truth of the wall: the table's
    clock goes on tick by tick until the wall has caught up.
    """
    tick = clock.tick.micros
    return Micros(max(clock.last_time + tick, now - now % tick))
