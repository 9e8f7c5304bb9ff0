"""Puts the Java sources into the shape of ``spark_integration/java/.clang-format``, or checks it.

python tools/format_java.py            write
python tools/format_java.py --check    name what differs, and exit with 1
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import make_jar


def main(arguments: list[str] | None = None) -> int:
    """Write or check all sources."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, and exit with 1 if a file differs")
    given = parser.parse_args(arguments)
    how = ["--dry-run", "-Werror"] if given.check else ["-i"]
    program = Path(sys.executable).with_name("clang-format")
    return subprocess.run([program, *how, *make_jar.sources()], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
