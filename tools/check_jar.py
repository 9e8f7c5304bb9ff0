"""Checks that the jar of Spark's catalog fits other releases of PySpark than the one it is compiled against.

    python tools/check_jar.py 4.1.1    install this PySpark into .pyspark, once, and compare

Two faults would show only when a user's statement runs: a method of Spark that is gone, and one with other
types. So the sources are compiled against the other release too, and each class must then name the same
classes, methods and fields as that of the jar. Classes of ``NEWER`` are left out: Spark asks for them only
from the release on that has their interfaces.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import make_jar

PYSPARKS: Final = make_jar.ROOT / ".pyspark"
NEWER: Final = {"ChronolakeCatalogWithChanges": (4, 3)}
"""The first release of Spark for a class."""
_REFERENCE: Final = re.compile(
    r"^ *#\d+ = (Class|Fieldref|Methodref|InterfaceMethodref) +#[\d.#]+ +// +(.*)$", re.MULTILINE
)
_SHOWN_MAX: Final = 10


def main(arguments: list[str] | None = None) -> int:
    """Compare with each release; 1 if one does not fit, 3 without a JDK or a jar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("release", nargs="+", help="a release of PySpark, such as 4.1.1")
    given = parser.parse_args(arguments)
    if not make_jar.JAR.exists():
        print("there is no jar to check: run make jar, which needs a JDK", file=sys.stderr)
        return 3
    return max(0 if _fits(release) else 1 for release in given.release)


def _fits(release: str) -> bool:
    """Whether the jar fits a release; prints what does not."""
    jars = _installed(release)
    if jars is None:
        return False
    sources = [source for source in make_jar.sources() if _is_for(source.stem, release)]
    with tempfile.TemporaryDirectory() as folder:
        built, packed = Path(folder, "built"), Path(folder, "packed")
        if not make_jar.compiled(sources, jars, built):
            print(f"PySpark {release}: the sources do not compile, as above", file=sys.stderr)
            return False
        with zipfile.ZipFile(make_jar.JAR) as jar:
            jar.extractall(packed)
        differing = _differences(built, packed)
        count = len(list(built.rglob("*.class")))
    for difference in differing[:_SHOWN_MAX]:
        print(f"PySpark {release}: {difference}", file=sys.stderr)
    if not differing:
        print(f"PySpark {release}: the {count} classes of the jar use only what it has")
    return not differing


def _installed(release: str) -> Path | None:
    """The folder of Spark's jars of a release; None if pip could not install it."""
    folder = PYSPARKS / release
    jars = folder / "pyspark" / "jars"
    if not jars.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        print(f"Installing PySpark {release} into {folder}: 0.5 GB, once.", flush=True)
        command = [*pip, "--no-deps", "--target", str(folder), f"pyspark=={release}"]
        done = subprocess.run(command, check=False)
        if done.returncode:
            return None
    return jars


def _is_for(class_name: str, release: str) -> bool:
    numbers = tuple(int(number) for number in release.split(".")[:2])
    return numbers >= NEWER.get(class_name, numbers)


def _differences(built: Path, packed: Path) -> list[str]:
    """The references that one of two builds alone has, for each class of ``built``."""
    of_release, of_jar = _references(built), _references(packed)
    differences = []
    for name, needed in of_release.items():
        if name not in of_jar:
            differences.append(f"the jar has no {name}: run make jar")
            continue
        gone, other = sorted(of_jar[name] - needed), sorted(needed - of_jar[name])
        differences += [f"{name} names {reference}, which is not there" for reference in gone]
        differences += [f"{name} would name {reference}" for reference in other]
    return differences


def _references(folder: Path) -> dict[str, set[str]]:
    """The classes, methods and fields that each class names, with their types."""
    classes = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.class"))
    command = ["javap", "-v", "-p", *classes]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder).stdout
    described = re.split(r"^Classfile .*$", shown, flags=re.MULTILINE)[1:]
    return {
        name: {" ".join(found) for found in _REFERENCE.findall(text)}
        for name, text in zip(classes, described, strict=True)
    }


if __name__ == "__main__":
    sys.exit(main())
