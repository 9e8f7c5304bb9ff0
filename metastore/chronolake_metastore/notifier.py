"""A notifier: wakes tasks of this process when the server has executed commands."""

from __future__ import annotations

import asyncio
import contextlib
import time


class Notifier:
    """Wakes all tasks that wait. It is a hint only: appends of other servers do not notify this one."""

    def __init__(self) -> None:
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """Wake the tasks that wait now."""
        self._notified.set()
        self._notified = asyncio.Event()

    async def wait(self, seconds_max: float | None) -> float:
        """Wait until notified, for ``seconds_max`` at most if given; gives the seconds waited."""
        started = time.monotonic()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._notified.wait(), seconds_max)
        return time.monotonic() - started
