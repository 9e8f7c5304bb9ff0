"""A benchmark of this tree beside that of another revision, in turns, on the same machine.

``make bench-against REV=v1.0`` compares ``bench-timeline``; ``BENCH=slices`` another one; ``TURNS=3`` takes
more turns. The benchmark's own variables, such as ``CASES`` and ``SECONDS``, are those of both. The other
revision runs with the packages of this environment.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = ("client", "metastore", "migrations", "spark_integration", ".")
BENCH: Final = os.environ.get("BENCH", "timeline")
TURNS: Final = int(os.environ.get("TURNS", "2"))
_LINE: Final = re.compile(r"(?P<name>\S.*?): (?P<figure>\D{0,3}[0-9][0-9,]*(?:\.[0-9]+)?.*)")
_NUMBER: Final = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")
_MEASURED: Final = re.compile(r" \([^()]*[0-9] ?(?:ms|s)\b[^()]*\)")
"""A remark in the name of a figure that is measured itself, so that it differs from run to run."""

Figures = Mapping[str, float]


def main() -> None:
    """Compare with the revision that ``REV`` names."""
    revision = os.environ.get("REV", "")
    if not revision:
        sys.exit("say which revision to compare with: make bench-against REV=<tag or commit>")
    with tempfile.TemporaryDirectory(prefix="chronolake-against-") as folder:
        _unpack(revision, folder)
        trees = {revision: Path(folder), "now": ROOT}
        runs: dict[str, list[Figures]] = {name: [] for name in trees}
        for turn in range(TURNS):
            for name, tree in trees.items():
                print(f"turn {turn + 1} of {TURNS}: {name}", flush=True)
                runs[name].append(figures(_run(tree)))
    _print(revision, runs[revision], runs["now"])


def figures(lines: Iterator[str] | Sequence[str]) -> Figures:
    """The figures that a benchmark prints, each the first number of a line ``name: figure``."""
    values = {}
    for line in lines:
        if (match := _LINE.fullmatch(line.rstrip())) and (number := _NUMBER.search(match["figure"])):
            values[_MEASURED.sub("", match["name"])] = float(number[0].replace(",", ""))
    return values


def _unpack(revision: str, folder: str) -> None:
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        sys.exit(f"git has no revision {revision!r}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    if not Path(folder, "client/chronolake/_sync").exists():
        subprocess.run([sys.executable, Path(folder, "tools/async_to_sync.py")], check=True)


def _run(tree: Path) -> Iterator[str]:
    """The lines that the benchmark prints, which are passed on."""
    paths = os.pathsep.join(str(tree / source) for source in SOURCES)
    command = [sys.executable, "-m", f"benchmarks.{BENCH}"]
    # Lines are not wrapped at the width of a terminal that is not there.
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    with subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            yield line
    # A missed target is no failure here.
    if process.returncode not in (0, 1):
        sys.exit(f"the benchmark of {tree} ended with {process.returncode}")


def _print(revision: str, before: Sequence[Figures], now: Sequence[Figures]) -> None:
    table = Table("figure", revision, "now", "now / before", title=f"bench-{BENCH}, medians of {TURNS}")
    for name in now[0]:
        values = [[run[name] for run in runs if name in run] for runs in (before, now)]
        if all(values):
            old, new = (statistics.median(of_runs) for of_runs in values)
            table.add_row(name, f"{old:,.4g}", f"{new:,.4g}", f"{new / old:.2f} x" if old else "")
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
