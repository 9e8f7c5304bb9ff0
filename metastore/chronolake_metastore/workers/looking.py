"""How a worker looks again and again, whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from chronolake_metastore import errors, telemetry

_log = telemetry.logger(__name__)


async def again_and_again(worker: str, look: Callable[[], Awaitable[object]], interval_seconds: float) -> None:
    """Look every ``interval_seconds``, until cancelled. A database that is away is tried again."""
    while True:
        await asyncio.sleep(interval_seconds)
        try:
            await look()
        except errors.ConnectionLost:
            # The outage is logged once, by the store.
            pass
        except errors.Unavailable as exc:
            _log.warning(f"{worker} could not look", reason=exc.context.get("reason", exc.detail))
        except Exception:
            # The edge of a worker: what goes wrong here must not end the server, and the next look may succeed.
            _log.exception(f"{worker} failed")
