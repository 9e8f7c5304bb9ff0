"""The server's command line, as an operator runs it."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.forked_program import ForkedProgram

TIMEOUT_SECONDS = 120


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the server's command line until it ends."""
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        program = ForkedProgram(arguments, output, errors)
        try:
            code = program.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            program.terminate()
            raise
        return subprocess.CompletedProcess(arguments, code, output.read_text(), errors.read_text())


def complaint(ended: subprocess.CompletedProcess[str]) -> str:
    """The message of a command that had to fail in a way that an operator can read."""
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    return ended.stderr
