"""The watch of the steady clock: a jump of the database's clock is found by the server's own monotonic clock.

Every server watches, so the clock goes on while any of them reaches the database (docs/decisions/0002).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from chronolake_metastore import telemetry
from chronolake_metastore.domain import steady_clock as domain
from chronolake_metastore.domain.steady_clock import Sample
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.store import clocks as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.workers.worker import Worker, run_periodically
from chronolake_model.times import MICROS_PER_SECOND

NAME: Final = "steady-clock"
INTERVAL_SECONDS: Final = 1.0

_log = telemetry.logger(__name__)


class SteadyClockWatch:
    """The watch of one server process. ``clock`` is monotonic, in seconds."""

    def __init__(
        self, database: Database, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._metrics = metrics
        self._clock = clock
        self._last: Sample | None = None

    async def run(self) -> None:
        """Watch at once, and then periodically, until cancelled."""
        await run_periodically(NAME, self.look, INTERVAL_SECONDS, self._metrics, at_once=True)

    async def look(self) -> None:
        """Compare the clocks once, and correct the steady clock if the wall clock has jumped."""
        async with self._database.watching() as connection:
            sent = self._clock()
            reading = await stored.read_steady_clock(connection)
            sample, record = domain.observe(self._last, reading, sent, self._clock())
            if record is not None and not await stored.record_steady_clock(connection, reading, record):
                return
        self._last = sample
        if record is not None and record.jump_us:
            _log.warning("the clock of the database has jumped", seconds=record.jump_us / MICROS_PER_SECOND)


WORKER: Final = Worker(
    name=NAME,
    does="takes jumps of the database's clock out of the steady clock",
    run=lambda resources: SteadyClockWatch(resources.database, resources.metrics).run(),
    acts=False,
)
