"""Keeps a writer's lease alive from a background thread, and learns there when it was lost.

The thread dies with the process (it is a daemon): a killed writer goes silent, its lease ends, and its
instant may be rolled back by anybody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from chronolake import errors

RENEWALS_PER_LEASE = 3
_RETRIES_PER_RENEWAL = 4
_JOIN_SECONDS = 2.0


class LeaseRenewal:
    """Calls ``renew`` three times per lease until stopped, or until the server says that it is over."""

    def __init__(self, renew: Callable[[], object], *, lease_seconds: float, name: str) -> None:
        self._renew = renew
        self._lease_seconds = lease_seconds
        self._stopped = threading.Event()
        self._lost: errors.RequestRefused | None = None
        self._thread = threading.Thread(target=self._run, name=f"chronolake-lease-{name}", daemon=True)

    @property
    def lost(self) -> errors.RequestRefused | None:
        """Why the instant is no longer ours: it was rolled back, or its table was dropped."""
        return self._lost

    def start(self) -> None:
        """Begin to renew; the first renewal is a third of a lease away."""
        self._thread.start()

    def stop(self) -> None:
        """Renew no more. A renewal that is under way is not waited for longer than a moment.

        It does no harm: one that arrives after the instant ended is refused, and nobody reads its answer.
        """
        self._stopped.set()
        self.join(_JOIN_SECONDS)

    def join(self, timeout_seconds: float) -> None:
        """Wait for the renewal to end by itself."""
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        arrived = True
        while not self._stopped.wait(pause_seconds_of(self._lease_seconds, arrived)):
            try:
                self._renew()
                arrived = True
            except errors.RequestRefused as refused:
                self._lost = None if self._stopped.is_set() else lost_by(refused)
                return
            except errors.ChronolakeError:
                # The lease may outlive a short outage; if it does not, the next answer says so.
                arrived = False


def pause_seconds_of(lease_seconds: float, arrived: bool) -> float:
    """The pause before the next renewal: a third of the lease, less when the last did not arrive."""
    period_seconds = lease_seconds / RENEWALS_PER_LEASE
    return period_seconds if arrived else period_seconds / _RETRIES_PER_RENEWAL


def lost_by(refused: errors.RequestRefused) -> errors.RequestRefused | None:
    """The refusal when it means that the instant is lost; None when it only means that it has completed."""
    return None if isinstance(refused, errors.IllegalTransition) else refused
