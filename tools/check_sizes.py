"""Part of ``make check``: no Python file of the repository has more than 500 lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
LINES_MAX: Final = 500
FOLDERS: Final = (
    "client",
    "metastore",
    "migrations",
    "spark_integration",
    "examples",
    "benchmarks",
    "docs",
    "tests",
    "tools",
)
GENERATED: Final = ("client/chronolake/_sync",)
EXCEPTIONS: Final = {
    "examples/writers/python_writer.py": "an example that readers copy as one file",
}
"""Files that may be longer, each with the reason."""


def main(root: Path = ROOT) -> int:
    """Print the files that are too long. The exit code is 1 if there are any."""
    too_long = {path: lines for path, lines in sizes(root) if lines > LINES_MAX and path not in EXCEPTIONS}
    for path, lines in sorted(too_long.items()):
        print(f"{path}: {lines} lines, at most {LINES_MAX}; split it by subject, a noun for each module")
    return 1 if too_long else 0


def sizes(root: Path) -> Iterator[tuple[str, int]]:
    """The Python files that are written by hand, with their number of lines."""
    for folder in FOLDERS:
        for file in (root / folder).rglob("*.py"):
            path = file.relative_to(root).as_posix()
            if not path.startswith(GENERATED):
                yield path, len(file.read_text("utf-8").splitlines())


if __name__ == "__main__":
    sys.exit(main())
