"""Files that Hudi's Spark bundle 1.2.0 wrote into ``.hoodie/`` of small tables of versions 6 and 8."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from chronolake_hudi.timeline_files import Layout

_FOLDER: Final = Path(__file__).parent / "hudi_1_2_0"


def content(table: str, pattern: str) -> bytes:
    """The content of the only file of a table whose name fits."""
    [path] = (_FOLDER / table).glob(pattern)
    return path.read_bytes()


def layout_of(table: str) -> Layout:
    """The layout of a table's timeline: its name ends with its version."""
    return Layout.ONE if table.endswith("6") else Layout.TWO


def timelines() -> list[tuple[Layout, Path]]:
    """All files of all timelines."""
    return [(layout_of(path.parent.name), path) for path in sorted(_FOLDER.glob("*/2*"))]
