"""What lanes have in common: patience with a database that went away, and how those who wait are answered."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from chronolake_metastore import errors, telemetry
from chronolake_metastore.metrics import Metrics

RETRY_WAIT_SECONDS: Final = 0.05
RETRY_WAIT_SECONDS_MAX: Final = 1.0
OVERDUE_SECONDS: Final = 0.05
"""How long a group may take before another lane goes on with what is not in it."""

ResultT = TypeVar("ResultT")
_log = telemetry.logger(__name__)


async def persist(run: Callable[[], Awaitable[ResultT]], metrics: Metrics, give_up_at: float) -> ResultT:
    """Give the result of ``run``, which is run again when the database went away.

    Raises ``DatabaseUnavailable`` when it is away still at ``give_up_at``, by ``time.monotonic``. It is run
    twice at least: the first failure may be that of a connection which was lost long ago.
    """
    wait = RETRY_WAIT_SECONDS
    is_retried = False
    while True:
        try:
            return await run()
        except errors.DatabaseUnavailable as exc:
            if is_retried and time.monotonic() + wait > give_up_at:
                raise
            is_retried = True
            metrics.database_retries.inc()
            if not isinstance(exc, errors.ConnectionLost):
                _log.warning("database too busy; trying again", reason=exc.context.get("reason"), wait=wait)
        await asyncio.sleep(wait)
        wait = min(2 * wait, RETRY_WAIT_SECONDS_MAX)


def stop_server(lane: asyncio.Task[None]) -> None:
    """Stop the server when a lane has ended by itself.

    Nobody would carry out what waits any more: better no server than one that does not answer.
    """
    _log.critical("a lane ended; the server stops", exc_info=lane.exception())
    signal.raise_signal(signal.SIGTERM)


def stopping() -> errors.DatabaseUnavailable:
    """What is answered to those who come while the server stops."""
    return errors.DatabaseUnavailable(
        "the server stops; send the request again to another one, with the same idempotency key"
    )


def resolve(future: asyncio.Future[ResultT], result: ResultT | Exception) -> None:
    """Answer one that waits, unless it went away."""
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
