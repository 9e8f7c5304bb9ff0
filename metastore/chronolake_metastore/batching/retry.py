"""Retries of a batch: after an outage of the database, and after a race with another transaction."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from chronolake_metastore import errors, telemetry
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.store.postgres.transaction import TransactionRaced
from chronolake_model.backoff import Backoff

BACKOFF: Final = Backoff(first_seconds=0.05, max_seconds=1.0)
RACES_MAX: Final = 20
"""How often a batch is retried without a pause after a race with another transaction; then with pauses."""

ResultT = TypeVar("ResultT")
_log = telemetry.logger(__name__)


async def run_until(run: Callable[[], Awaitable[ResultT]], metrics: Metrics, give_up_at: float) -> ResultT:
    """Give the result of ``run``, retried while the database is unavailable or another transaction races it.

    Raises ``DatabaseUnavailable`` or ``Overloaded`` at ``give_up_at``, by ``time.monotonic``. It runs at least
    twice: the first failure may only show that the connection was lost earlier.
    """
    tries = races = 0
    while True:
        pause = BACKOFF.pause_seconds(tries)
        try:
            return await run()
        except TransactionRaced as exc:
            races += 1
            if races <= RACES_MAX:
                continue
            failure: errors.Unavailable = errors.Overloaded(
                "other transactions keep changing the rows that this request needs; send it again later"
            )
            _log.warning("other transactions came first; trying again", reason=type(exc).__name__, wait=pause)
        except errors.DatabaseUnavailable as exc:
            failure = exc
            if not isinstance(exc, errors.ConnectionLost):
                _log.warning("database too busy; trying again", reason=exc.context.get("reason"), wait=pause)
        if tries and time.monotonic() + pause > give_up_at:
            raise failure
        tries += 1
        metrics.database_retries.inc()
        await asyncio.sleep(pause)
