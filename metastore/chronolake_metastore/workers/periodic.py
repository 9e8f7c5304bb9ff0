"""A periodic task of a worker: a failure is logged, and the next run follows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from chronolake_metastore import errors, telemetry

_log = telemetry.logger(__name__)


async def run_periodically(
    worker: str, look: Callable[[], Awaitable[object]], interval_seconds: float, *, at_once: bool = False
) -> None:
    """Call ``look`` every ``interval_seconds``, until cancelled. An outage of the database does not end it."""
    pause = 0.0 if at_once else interval_seconds
    while True:
        await asyncio.sleep(pause)
        pause = interval_seconds
        try:
            await look()
        except errors.ConnectionLost:
            # The outage is logged once, by the store.
            pass
        except errors.Unavailable as exc:
            _log.warning(f"{worker} could not look for work", reason=exc.context.get("reason", exc.detail))
        except Exception:
            # The edge of a worker: a failure must not end the server, and the next run may succeed.
            _log.exception(f"{worker} failed")
