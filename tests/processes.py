"""Processes of the tests: waiting for what they do, and killing them with all that they have started."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable
from typing import Final

import psutil  # type: ignore[import-untyped]

SECONDS_MAX: Final = 300.0
"""Much longer than anything takes, the start of Spark on a busy machine included."""
KILL_SECONDS_MAX = 30.0


def wait_until(holds: Callable[[], bool]) -> None:
    """Come back when it holds; an ``AssertionError`` when it does not come true in time."""
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, f"it did not come true in {SECONDS_MAX:g} s"
        time.sleep(0.05)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Send SIGKILL to the process, then to its children, and wait until all have ended."""
    if process.poll() is not None:
        return
    first = psutil.Process(process.pid)
    started = first.children(recursive=True)
    for each in (first, *started):
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
    _, alive = psutil.wait_procs(started, timeout=KILL_SECONDS_MAX)
    assert not alive
