"""How processes of the tests are ended, with all that they have started."""

from __future__ import annotations

import contextlib
import subprocess

import psutil  # type: ignore[import-untyped]

KILL_SECONDS_MAX = 30.0


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
