"""Compiles the Java part of Spark's catalog into ``chronolake_spark/jars``, with a JDK and nothing else.

    python tools/make_jar.py            compile, unless the jar is newer than the sources
    python tools/make_jar.py --force    compile

The jar is the same for the same sources: its entries are sorted and have one date. It is compiled against the
jars of the installed PySpark, or those of the folder ``--against``.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "spark_integration" / "java"
JAR = ROOT / "spark_integration" / "chronolake_spark" / "jars" / "chronolake-spark.jar"
BUILD = "chronolake/spark/build"
"""The entry of the jar by which Python knows the jar that is installed with it."""
SERVICES = "META-INF/services"
"""The folder of files by which Java finds classes."""
_RELEASE = "17"
_DATE = (1980, 1, 1, 0, 0, 0)
_NO_JDK = (
    "there is no javac: the SQL catalog for Spark is not built. Install a JDK 17 or newer (Debian: apt-get "
    "install openjdk-17-jdk-headless), then run make jar. All else works without it."
)


def main(arguments: list[str] | None = None) -> int:
    """Write the jar; 1 if the sources do not compile, 3 without a JDK."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--force", action="store_true", help="compile also if the jar is newer than the sources"
    )
    parser.add_argument("--against", type=Path, help="the folder of Spark's jars; by default those of PySpark")
    parser.add_argument("--output", type=Path, default=JAR, help="the jar to write")
    given = parser.parse_args(arguments)
    found = sources()
    inputs = [*found, *sorted((SOURCES / SERVICES).iterdir())]
    if not given.force and _is_current(given.output, inputs):
        return 0
    if shutil.which("javac") is None:
        print(_NO_JDK, file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as folder:
        is_compiled = compiled(found, given.against or _jars_of_pyspark(), Path(folder))
        if is_compiled:
            Path(folder, BUILD).write_text(_digest(inputs), encoding="utf-8")
            shutil.copytree(SOURCES / SERVICES, Path(folder) / SERVICES)
            _pack(Path(folder), given.output)
    return 0 if is_compiled else 1


def sources() -> list[Path]:
    """The sources in Java, sorted."""
    return sorted(SOURCES.rglob("*.java"))


def _is_current(jar: Path, inputs: list[Path]) -> bool:
    return jar.exists() and all(source.stat().st_mtime <= jar.stat().st_mtime for source in inputs)


def _digest(inputs: list[Path]) -> str:
    digest = hashlib.sha256()
    for source in inputs:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


def _jars_of_pyspark() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        sys.exit("PySpark is not installed: pip install 'chronolake[spark-local]', or give --against")
    return Path(found.origin).parent / "jars"


def compiled(sources: list[Path], against: Path, folder: Path) -> bool:
    """Whether the sources compile against the jars of a folder, without a warning."""
    command = ["javac", "--release", _RELEASE, "-Xlint:all,-path", "-Werror", "-proc:none"]
    command += ["-cp", f"{against}/*", "-d", str(folder), *map(str, sources)]
    return subprocess.run(command, check=False).returncode == 0


def _pack(folder: Path, jar: Path) -> None:
    jar.parent.mkdir(parents=True, exist_ok=True)
    written = jar.with_suffix(".new")
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    written.replace(jar)


if __name__ == "__main__":
    sys.exit(main())
