"""The formats of files to ingest, which are recognised by file names."""

from __future__ import annotations

import enum
from pathlib import Path


class Format(enum.StrEnum):
    """The format of a file, by its name."""

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
    """The format of a file by its name; None for an unknown name."""
    for format_, suffixes in _SUFFIXES.items():
        if file.name.lower().endswith(suffixes):
            return format_
    return None
