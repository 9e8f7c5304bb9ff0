"""Waits of tests for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

SECONDS_MAX: Final = 300.0
"""Much longer than anything takes, the start of Spark on a busy machine included."""


def wait_until(holds: Callable[[], bool]) -> None:
    """Come back when it holds; an ``AssertionError`` when it does not come true in time."""
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, f"it did not come true in {SECONDS_MAX:g} s"
        time.sleep(0.05)
