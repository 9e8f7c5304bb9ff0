"""A clock that a test moves."""

from __future__ import annotations

import pytest


class SettableClock:
    """Gives the seconds that a test has set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def clock() -> SettableClock:
    """A clock that begins at zero."""
    return SettableClock()
