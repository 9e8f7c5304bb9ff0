"""Running a batch again: after the database was away, and after another transaction came first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from chronolake_metastore import errors, telemetry
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.store.transaction import TransactionRaced

WAIT_SECONDS: Final = 0.05
WAIT_SECONDS_MAX: Final = 1.0
RACES_MAX: Final = 20
"""How often a batch is run again at once because another transaction came first; then it waits."""

ResultT = TypeVar("ResultT")
_log = telemetry.logger(__name__)


async def run_until(run: Callable[[], Awaitable[ResultT]], metrics: Metrics, give_up_at: float) -> ResultT:
    """Give the result of ``run``, run again while the database is away or another transaction races it.

    Raises ``DatabaseUnavailable`` or ``Overloaded`` at ``give_up_at``, by ``time.monotonic``. It is run twice
    at least: the first failure may be that of a connection which was lost long ago.
    """
    wait, races, is_retried = WAIT_SECONDS, 0, False
    while True:
        try:
            return await run()
        except TransactionRaced as exc:
            races += 1
            if races <= RACES_MAX:
                continue
            failure: errors.Unavailable = errors.Overloaded(
                "other transactions keep changing the rows that this request needs; send it again later"
            )
            _log.warning("other transactions came first; trying again", reason=type(exc).__name__, wait=wait)
        except errors.DatabaseUnavailable as exc:
            failure = exc
            if not isinstance(exc, errors.ConnectionLost):
                _log.warning("database too busy; trying again", reason=exc.context.get("reason"), wait=wait)
        if is_retried and time.monotonic() + wait > give_up_at:
            raise failure
        is_retried = True
        metrics.database_retries.inc()
        await asyncio.sleep(wait)
        wait = min(2 * wait, WAIT_SECONDS_MAX)
