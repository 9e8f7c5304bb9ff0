"""Make the environment of the Flink example: ``python tools/make_flink_env.py <folder>``.

It fetches the wheel apache-flink-libraries 2.3.0 with pip (329 MB), compares it with its SHA-256, and keeps the
jars of Flink's runtime and of its logging (212 MB). A second run fetches nothing. The example needs no PyFlink,
which wants an older pyarrow. It needs a JDK of version 17 or later.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

VERSION: Final = "2.3.0"
JARS: Final = (
    f"flink-dist-{VERSION}.jar",
    "log4j-1.2-api-2.25.3.jar",
    "log4j-api-2.25.3.jar",
    "log4j-core-2.25.3.jar",
    "log4j-slf4j-impl-2.25.3.jar",
)
_SHA256: Final = "38ece876553286b3a285cf344c2d2038f8a7ca10da5df54d5107250386d64151"


def main() -> None:
    """Make what is missing in the folder."""
    folder = _folder()
    if all((folder / jar).exists() for jar in JARS):
        return
    print(f"Fetching Flink {VERSION} into {folder}: 329 MB.", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as download:
        wheel = _fetch(Path(download))
        with zipfile.ZipFile(wheel) as files:
            for jar in JARS:
                extracted = files.extract(f"pyflink/lib/{jar}", download)
                # A jar that is there is whole.
                Path(extracted).rename(folder / jar)


def _folder() -> Path:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of the environment; it is made if it is missing")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    return folder.absolute()


def _fetch(folder: Path) -> Path:
    wanted = folder / "wanted.txt"
    wanted.write_text(f"apache-flink-libraries=={VERSION} --hash=sha256:{_SHA256}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    exactly = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement", str(wanted)]
    subprocess.run([*pip, *exactly, "--dest", str(folder)], check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


if __name__ == "__main__":
    main()
