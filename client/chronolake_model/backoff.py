"""Backoff: the pauses between tries of what fails. Pure: the caller sleeps, and knows when to give up."""

from __future__ import annotations

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    """Pauses that double with each try, from ``first_seconds`` to ``max_seconds``."""

    first_seconds: float
    max_seconds: float

    def pause_seconds(self, tries: int, jitter: float = 1.0) -> float:
        """The pause when ``tries`` tries came before; ``jitter`` (0.5..1) scales it.

        Without jitter all clients of a restarted server would send their requests at the same moments.
        """
        # A larger exponent would overflow a float.
        return min(self.first_seconds * 2.0 ** min(tries, 60), self.max_seconds) * jitter
