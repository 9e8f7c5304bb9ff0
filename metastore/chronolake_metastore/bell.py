"""The bell: rings when this server has carried out commands, for the tail of the log."""

from __future__ import annotations

import asyncio
import contextlib
import time


class Bell:
    """Wakes whoever waits. A hint and no more: other servers change the log too, and do not ring here."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake all who wait now."""
        self._rung.set()
        self._rung = asyncio.Event()

    async def wait(self, seconds_max: float) -> float:
        """Wait until it rings, for ``seconds_max`` at most; gives the seconds waited."""
        started = time.monotonic()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), seconds_max)
        return time.monotonic() - started
