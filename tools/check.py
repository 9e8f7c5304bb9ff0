"""``make check``: everything that is checked without running the code.

``PARTS`` is the one list of these checks. All of them run, also when one fails. A part shows its output only
when it fails, because ``make test`` runs them beside the tests.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PARTS: Final[tuple[tuple[str, ...], ...]] = (
    ("python", "tools/async_to_sync.py", "--check"),
    ("python", "tools/write_errors.py", "--check"),
    ("python", "tools/check_names.py"),
    ("python", "tools/check_sizes.py"),
    ("python", "tools/check_words.py"),
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("python", "tools/format_java.py", "--check"),
    ("lint-imports",),
    ("mypy",),
)


def main(parts: Sequence[Sequence[str]] = PARTS) -> int:
    """Run all parts. The exit code is 1 if one of them failed."""
    failed = [part for part in parts if not passes(part)]
    if failed:
        print(f"make check: {len(failed)} of {len(parts)} parts failed: {', '.join(map(' '.join, failed))}")
    return 1 if failed else 0


def passes(part: Sequence[str]) -> bool:
    """Run a program of this environment, and print its output if it failed."""
    program, *arguments = part
    ended = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    passed = ended.returncode == 0
    print(f"{'passed' if passed else 'FAILED'}: {' '.join(part)}")
    if not passed:
        print(ended.stdout, flush=True)
    return passed


if __name__ == "__main__":
    sys.exit(main())
