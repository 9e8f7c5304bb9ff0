"""The renewal of a lease in the background, which also detects that the lease was lost.

The background task dies with the process: a killed writer sends no heartbeats, its lease ends, and any other
writer may roll its instant back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from chronolake import errors
from chronolake._concurrency import awaiting as concurrency

RENEWALS_PER_LEASE: Final = 3
_RETRIES_PER_RENEWAL: Final = 4


class AsyncLeaseRenewal:
    """Calls ``renew`` three times per lease period, until it is stopped or the server refuses the renewal."""

    def __init__(self, renew: Callable[[], Awaitable[object]], *, lease_seconds: float, name: str) -> None:
        self._renew = renew
        self._lease_seconds = lease_seconds
        self._lost: errors.RequestRefused | None = None
        self._task = concurrency.BackgroundTask(self._run, name=f"chronolake-lease-{name}")

    @property
    def lost(self) -> errors.RequestRefused | None:
        """The error that ended the lease: its instant was rolled back, or its table was dropped."""
        return self._lost

    def start(self) -> None:
        """Start the renewals; the first one comes after a third of the lease period."""
        self._task.start()

    async def stop(self) -> None:
        """Stop the renewals, without waiting long for one that is in flight.

        A late renewal does no harm: the server refuses it after the instant has ended.
        """
        await self._task.stop()

    async def _run(self) -> None:
        arrived = True
        while await self._task.pause(_pause_seconds(self._lease_seconds, arrived)):
            try:
                await self._renew()
                arrived = True
            except errors.RequestRefused as refused:
                self._lost = None if self._task.is_stopped else _loss(refused)
                return
            except errors.ChronolakeError:
                # The lease may outlive a short outage. If it does not, the server refuses the next renewal.
                arrived = False


def _pause_seconds(lease_seconds: float, arrived: bool) -> float:
    """The pause before the next renewal: a third of the lease period, or less after a failed renewal."""
    period_seconds = lease_seconds / RENEWALS_PER_LEASE
    return period_seconds if arrived else period_seconds / _RETRIES_PER_RENEWAL


def _loss(refused: errors.RequestRefused) -> errors.RequestRefused | None:
    """``refused`` if it means that the lease is lost; None if it means that the instant has completed."""
    return None if isinstance(refused, errors.IllegalTransition) else refused
