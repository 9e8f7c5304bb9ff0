"""Processes of the server's command line, forked from one that has imported it: imports outlast a short test.

Each has its own arguments, environment and output, as if ``python -m chronolake_metastore`` had started it. The
tests of the embedded PostgreSQL (``test_embedded.py``) and of a faked clock run that command itself.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests import fix_secrets

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.imported_server"])
TIMEOUT_SECONDS = 120


class ForkedProgram:
    """The part of ``subprocess.Popen`` that the tests use."""

    def __init__(self, arguments: Sequence[str], output: Path, errors: Path) -> None:
        # Daemonic: if the tests end without stopping it, it ends with them.
        self._process = _CONTEXT.Process(
            target=_run, args=([*arguments], (str(output), str(errors)), dict(os.environ)), daemon=True
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, if it has ended; minus the number of the signal that killed it."""
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has ended. Raises ``subprocess.TimeoutExpired``."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("chronolake_metastore", timeout or 0)
        return code


def _run(arguments: list[str], paths: tuple[str, str], environment: Mapping[str, str]) -> None:
    """Be the program, in the process that was forked."""
    for stream, path in enumerate(paths, start=1):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(descriptor, stream)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["chronolake-metastore", *arguments]
    # A shell that runs the tests in the background lets its children ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    from chronolake_metastore.cli.main import main  # noqa: PLC0415  # the process that runs the tests does without it

    main()


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
        fix_secrets.search(output.read_text(), "the output of a command", shows_tokens=True)
        fix_secrets.search(errors.read_text(), "the errors of a command")
        return subprocess.CompletedProcess(arguments, code, output.read_text(), errors.read_text())


def complaint(ended: subprocess.CompletedProcess[str]) -> str:
    """The message of a command that had to fail in a way that an operator can read."""
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    return ended.stderr
