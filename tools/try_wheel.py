"""Try a wheel as a user gets it: ``python tools/try_wheel.py dist/chronolake-….whl``.

It installs the wheel with the extras of ``chronolake quickstart`` into an empty environment, and runs the
commands in an empty folder, so that nothing of the checkout is found: the server, its migrations, writes and
reads. ``--sizes`` prints the size of an environment with each extra instead, as docs/install.md lists them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
EXTRAS: Final = "server,arrow"
FORBIDDEN: Final = ("pyspark", "py4j", "pandas")
"""Packages that a server does not need."""
_WAIT_SECONDS: Final = 120
_MEGABYTE: Final = 1_000_000


def main() -> None:
    """Try the wheel, or measure its extras."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--sizes", action="store_true", help="print the megabytes of each extra")
    arguments = parser.parse_args()
    if arguments.sizes:
        for extra, megabytes in sizes(arguments.wheel):
            print(f"{extra or '(none)':<24}{megabytes:>6,} MB", flush=True)
    else:
        try_wheel(arguments.wheel)


def try_wheel(wheel: Path) -> None:
    """Run the quickstart of this wheel. Raises ``subprocess.CalledProcessError`` or ``AssertionError``."""
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        programs = _environment(home / "env", wheel, EXTRAS)
        for command in ("chronolake", "chronolake-metastore"):
            print(_output(programs / command, "--version", folder=home).strip())
        for package in FORBIDDEN:
            script = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is not None)"
            subprocess.run([programs / "python", "-c", script], cwd=home, check=True)
        with _quickstart(programs, home) as made_tables:
            url, tables = made_tables["url"], made_tables["tables"]
            for table in tables:
                rows = json.loads(
                    _output(programs / "chronolake", "head", table, "--url", url, "--json", folder=home)
                )
                assert rows["rows"] if isinstance(rows, dict) else rows, f"{table} has no rows"
                print(f"{table} has rows")


def sizes(wheel: Path) -> Iterator[tuple[str, int]]:
    """The size of an environment for each extra, without pip and compiled files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in ("", *project["optional-dependencies"], EXTRAS):
        with tempfile.TemporaryDirectory() as made:
            _environment(Path(made, "env"), wheel, extra)
            [packages] = Path(made).glob("env/lib/python*/site-packages")
            files = (file for file in packages.rglob("*") if file.is_file() and file.suffix != ".pyc")
            ours = (file for file in files if file.relative_to(packages).parts[0].partition("-")[0] != "pip")
            yield extra, round(sum(file.stat().st_size for file in ours) / _MEGABYTE)


def _environment(folder: Path, wheel: Path, extras: str) -> Path:
    """An environment with the wheel; gives the folder of its programs."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    required = f"chronolake[{extras}] @ {wheel.absolute().as_uri()}" if extras else str(wheel.absolute())
    pip = (
        folder / "bin/python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
    )
    subprocess.run([*pip, "--constraint", ROOT / "constraints.txt", required], check=True)
    return folder / "bin"


@contextlib.contextmanager
def _quickstart(programs: Path, folder: Path) -> Iterator[dict[str, str]]:
    """``chronolake quickstart`` until the end of the block: what it says of its server and tables."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(programs / "chronolake"), "quickstart", "--port", str(port), "--json"]
    with subprocess.Popen(command, cwd=folder, env=_clean(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines: list[str] = []
            while lines[-1:] != ["}\n"]:
                line = process.stdout.readline()
                assert line, "the quickstart ended"
                lines.append(line)
            yield json.loads("".join(lines))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_WAIT_SECONDS)


def _output(*command: str | Path, folder: Path) -> str:
    return subprocess.run(
        command, cwd=folder, env=_clean(), stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def _clean() -> dict[str, str]:
    """The variables of this process without those that would let Python find a checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


if __name__ == "__main__":
    main()
