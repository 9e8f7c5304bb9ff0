"""Rests of an archiver in proportion to its work, for the server and PostgreSQL on the same processors.

Many short rests, because a commit that meets a second of full work waits as long as without any rests.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

NICENESS: Final = 19
SHARE: Final = 0.5
"""The share of the time that is work. With less, an archiver might be slower than the busiest log grows."""
WORK_SECONDS_MIN: Final = 0.003
"""A rest is not worth its wake-up after less work."""
REST_SECONDS_MAX: Final = 1.0
"""Waiting for storage counts as work, but no rest is as long."""
ROWS: Final = 100
"""Rows between two looks at the clock."""


class Pace:
    """Rests whenever enough work was done; with a share of 1 never. It blocks, as the work does."""

    def __init__(
        self,
        share: float = SHARE,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert 0 < share <= 1
        self._rest_of_work = (1 - share) / share
        self._sleep, self._clock = sleep, clock
        self._worked_since = clock()

    def rest(self) -> None:
        """Rest, if the work since the last rest was long enough."""
        worked = self._clock() - self._worked_since
        if self._rest_of_work and worked >= WORK_SECONDS_MIN:
            self._sleep(min(worked * self._rest_of_work, REST_SECONDS_MAX))
            self._worked_since = self._clock()

    def after_row(self, number: int) -> None:
        """As ``rest``, after some rows."""
        if number % ROWS == 0:
            self.rest()


FULL_SPEED: Final = Pace(1)


def lower_priority() -> None:
    """Let other processes go first, in the operating system."""
    os.nice(NICENESS)
