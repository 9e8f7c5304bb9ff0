"""`make check` passes. So `make test`, which is all that CI runs, proves it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "command",
    ["ruff check .", "ruff format --check .", "mypy", "lint-imports", "python tools/async_to_sync.py --check"],
    ids=lambda text: text,
)
def test_a_check_passes(command: str, repository: Path) -> None:
    program, *arguments = command.split()
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
