"""The steady clock: the row by which the database tells it."""

from __future__ import annotations

from typing import Final

from chronolake_metastore.domain.steady_clock import Reading, Record
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.engine import Reader

_READ_STEADY_CLOCK: Final = "SELECT now_us(), micros(last_time), wall_offset_us FROM steady_clock"
_RECORD_STEADY_CLOCK: Final = statements.load("clocks/record_steady_clock")


async def read_steady_clock(connection: Reader) -> Reading:
    """The clocks as the database shows them."""
    return Reading(*(await statements.execute(connection, _READ_STEADY_CLOCK)).one())


async def record_steady_clock(connection: Reader, reading: Reading, record: Record) -> bool:
    """Record the clock; gives false if another server has changed it meanwhile."""
    parameters = {
        "last_time": record.last_time,
        "wall_offset_us": record.wall_offset,
        "jump_us": record.jump_us,
        "offset_read": reading.wall_offset,
    }
    recorded = await statements.execute(connection, _RECORD_STEADY_CLOCK, parameters)
    return bool(recorded.scalar_one())
