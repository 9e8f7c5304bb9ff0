"""Formats of files that are ingested, and how their names tell them apart."""

from __future__ import annotations

import enum
from pathlib import Path


class Format(enum.StrEnum):
    """What a file's name says that it holds."""

    PARQUET = "Parquet"
    CSV = "CSV"
    JSON = "JSON lines"


_SUFFIXES = {
    Format.PARQUET: (".parquet", ".pq"),
    Format.CSV: (".csv", ".csv.gz"),
    Format.JSON: (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz"),
}
KNOWN = f"{Format.PARQUET}, {Format.CSV} or {Format.JSON}"
"""All formats, for people."""


def format_of(file: Path) -> Format | None:
    """The format that the file's name says, None for another name."""
    for format_, suffixes in _SUFFIXES.items():
        if file.name.lower().endswith(suffixes):
            return format_
    return None
