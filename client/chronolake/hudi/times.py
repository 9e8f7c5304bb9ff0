"""Times that a history lacks: free milliseconds beside those that it has. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from chronolake_model.times import Micros, Tick, format_time, parse_time

_TICK: Final = Tick.MILLISECOND.micros


class Times:
    """The times of a table's instants, as 17 digits. A time that was given out is taken."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def after(self, time: str) -> str:
        """Take the first free time after another."""
        return self._take(time, _TICK)

    def before(self, time: str) -> str:
        """Take the last free time before another."""
        return self._take(time, -_TICK)

    def take(self, time: str) -> bool:
        """Take a time, unless it is taken."""
        if time in self._taken:
            return False
        self._taken.add(time)
        return True

    def _take(self, time: str, step: int) -> str:
        free = parse_time(time)
        while True:
            free = Micros(free + step)
            digits = format_time(free)
            if self.take(digits):
                return digits
