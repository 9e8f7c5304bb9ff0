"""Folders of Hudi tables: found below a folder, and compared byte by byte."""

from __future__ import annotations

import re
from pathlib import Path


def below(folder: Path) -> list[Path]:
    """The tables below a folder, without their metadata tables, in order."""
    found = (path.parent.parent for path in folder.rglob(".hoodie/hoodie.properties"))
    return sorted(path for path in found if ".hoodie" not in path.parts)


def name_of(path: Path) -> str:
    """A name for the table in a folder, from the folder and the one above."""
    return re.sub("[^A-Za-z0-9_]", "_", f"{path.parent.name}_{path.name}")[-120:]


def contents(path: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
