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


async def persist(run: Callable[[], Awaitable[ResultT]], metrics: Metrics, retry_seconds: float) -> ResultT:
    """Give the result of ``run``, which is run again when the database went away.

    Raises ``DatabaseUnavailable`` when it stays away for so long.
    """
    # From the first failure on: a database that fell silent had taken its time until then.
    deadline: float | None = None
    wait = RETRY_WAIT_SECONDS
    while True:
        try:
            return await run()
        except errors.DatabaseUnavailable as exc:
            deadline = deadline or time.monotonic() + retry_seconds
            if time.monotonic() + wait > deadline:
                raise
            metrics.database_retries.inc()
            _log.warning("database unavailable; trying again", reason=exc.context.get("reason"), wait=wait)
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
