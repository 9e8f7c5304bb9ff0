"""``make install``: runs pip, and prints a line for each package that it takes, with the size of its download.

pip says either nothing (``--quiet``) or several lines for each package, also for those that are there already.
Only the standard library: nothing is installed yet.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Final

_PACKAGE: Final = re.compile(
    r"\s*(?P<how>Downloading|Using cached) (?:\S*/)?(?P<name>[\w.]+)-(?P<version>\d[^-\s]*)\S*"
    r" \((?P<size>[^)]+)\)"
)
_INSTALLING: Final = "Installing collected packages: "
LAST_LINES: Final = 40
"""Lines of pip that are printed when it has failed."""


def progress(lines: Iterable[str]) -> Iterator[str]:
    """The lines to print of pip's output: one for each package, and the number of packages to install."""
    for line in lines:
        package = _PACKAGE.match(line)
        if package and ".metadata (" not in line:
            version = package["version"].removesuffix(".tar.gz")
            cached = ", cached" if package["how"] == "Using cached" else ""
            yield f"  {package['name']} {version} ({package['size']}{cached})"
        elif line.startswith(_INSTALLING):
            yield f"Installing {line.count(',') + 1} packages: this takes a minute or two."


def main(arguments: list[str]) -> int:
    """Run pip with these arguments; gives its exit code."""
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off"]
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        assert pip.stdout is not None
        printed: list[str] = []
        for shown in progress(_kept(pip.stdout, printed)):
            print(shown, flush=True)
    if pip.returncode:
        print("".join(printed[-LAST_LINES:]), file=sys.stderr, end="")
    return pip.returncode


def _kept(lines: Iterable[str], printed: list[str]) -> Iterator[str]:
    for line in lines:
        printed.append(line)
        yield line


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
