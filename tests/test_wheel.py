"""The wheel: what is in it, and that it works where there is no checkout."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from tools import try_wheel

ROOT = Path(__file__).parents[1]
BUILD = (sys.executable, "-m", "hatchling", "build", "--directory")


def built(folder: Path, source: Path, target: str) -> Path:
    subprocess.run([*BUILD, folder, "--target", target], cwd=source, check=True, capture_output=True)
    [made] = folder.iterdir()
    return made


def contents(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as files:
        return {name: hashlib.sha256(files.read(name)).hexdigest() for name in files.namelist()}


def test_the_wheel_has_every_file_of_the_packages() -> None:
    packed = {file.path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    sources = {
        str(file)
        for package in ROOT.glob("*/*/__init__.py")
        if package.parents[1].name in ("client", "metastore", "migrations", "spark_integration")
        for file in package.parent.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }

    assert {Path(file).suffix for file in sources} >= {".py", ".sql", ".typed"}
    assert sources - packed == set()
    assert {Path(file).suffix for file in packed} & {".pyc", ".so"} == set()


@pytest.mark.slow
def test_a_wheel_from_the_sdist_is_the_wheel_from_the_checkout_and_works_without_it(tmp_path: Path) -> None:
    for folder in ("direct", "sdist", "unpacked", "indirect"):
        (tmp_path / folder).mkdir()
    direct = built(tmp_path / "direct", ROOT, "wheel")
    with tarfile.open(built(tmp_path / "sdist", ROOT, "sdist")) as files:
        files.extractall(tmp_path / "unpacked", filter="data")
    [unpacked] = (tmp_path / "unpacked").iterdir()

    indirect = built(tmp_path / "indirect", unpacked, "wheel")

    assert contents(indirect) == contents(direct)
    try_wheel.try_wheel(indirect)
