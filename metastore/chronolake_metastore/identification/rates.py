"""Bounded rates by caller: token buckets as the generic cell rate algorithm has them (ITU-T I.371)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from chronolake_metastore import errors

SECONDS: Final = 10.0
"""A caller that was quiet may send at once what the rate allows in this time."""
CALLERS_MAX: Final = 10_000
"""Callers that are remembered. A forgotten one begins anew."""


class BoundedRate:
    """How many events a second each caller may have, on average over ``SECONDS``."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1 / per_second
        self._ahead_max = max(SECONDS - self._interval, 0.0)
        self._clock = clock
        self._due: dict[str, float] = {}
        """The time at which the next event of a caller is due if it comes at the exact rate."""

    def seconds_until_free(self, caller: str) -> float:
        """Seconds until the caller may have another event; 0.0 if it may now."""
        due = self._due.get(caller)
        return 0.0 if due is None else max(due - self._clock() - self._ahead_max, 0.0)

    def count(self, caller: str) -> None:
        """Count an event of the caller."""
        now = self._clock()
        # The last caller is the last to be forgotten.
        due = max(self._due.pop(caller, now), now)
        if len(self._due) >= CALLERS_MAX:
            del self._due[next(iter(self._due))]
        self._due[caller] = due + self._interval

    def discount(self, caller: str) -> None:
        """Take back an event that was counted."""
        if caller in self._due:
            self._due[caller] -= self._interval


def rate_limited(of: str, detail: str, seconds: float) -> errors.RateLimited:
    """The refusal of a request that may be sent again after ``seconds``, by the rate of a kind of caller."""
    retry_after = max(math.ceil(seconds), 1)
    return errors.RateLimited(f"{detail}; send this one again later", of=of, retry_after_seconds=retry_after)
