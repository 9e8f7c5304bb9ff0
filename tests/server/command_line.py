"""The server's command line, as an operator runs it."""

from __future__ import annotations

import subprocess
import sys

TIMEOUT_SECONDS = 60


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the server's command line until it ends."""
    return subprocess.run(
        [sys.executable, "-m", "chronolake_metastore", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def complaint(ended: subprocess.CompletedProcess[str]) -> str:
    """The message of a command that had to fail in a way that an operator can read."""
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    return ended.stderr
