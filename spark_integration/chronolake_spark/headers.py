"""The headers of CSV files: read by name, so each column must have one, and all files the same."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

from chronolake_spark import errors

Header = tuple[str, ...]


def grouped(files: Sequence[Path], like: Sequence[str] | None = None) -> dict[Header, list[Path]]:
    """``files`` by their header: the same columns may stand in another order in another file.

    Raises ``SourceUnreadable`` for a header with blank or repeated names, and for files that have other
    columns than ``like``, the first file's unless given.
    """
    found: dict[Header, list[Path]] = {}
    for file in files:
        found.setdefault(_header_of(file), []).append(file)
    wanted = set(next(iter(found)) if like is None else like)
    for header, of_them in found.items():
        missing, others = sorted(wanted - set(header)), sorted(set(header) - wanted)
        if missing or others:
            said = [f"lacks {', '.join(missing)}"] if missing else []
            said += [f"has {', '.join(others)}"] if others else []
            raise errors.SourceUnreadable(
                f"{of_them[0]} has other columns than the files before it: it {' and '.join(said)}; "
                "ingest files of the same columns together",
                {"missing": missing, "unknown": others},
            )
    return found


def _header_of(file: Path) -> Header:
    names = _first_record(file)
    if not names:
        raise errors.SourceUnreadable(f"{file} is empty: a CSV file begins with a line of column names")
    blank = [number for number, name in enumerate(names, start=1) if not name.strip()]
    if blank:
        raise errors.SourceUnreadable(
            f"{file} has no name for its column {blank[0]}; name each in the first line", {"columns": blank}
        )
    folded = [name.lower() for name in names]
    repeated = sorted({name for name in names if folded.count(name.lower()) > 1})
    if repeated:
        raise errors.SourceUnreadable(
            f"{file} has several columns called {', '.join(repeated)} (case does not count); rename them",
            {"columns": repeated},
        )
    return tuple(names)


def _first_record(file: Path) -> list[str]:
    opened = gzip.open if file.name.lower().endswith(".gz") else open
    try:
        # A byte order mark is none of the first name.
        with opened(file, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
            return next((record for record in csv.reader(lines) if record), [])
    except (OSError, EOFError, csv.Error) as exc:
        raise errors.SourceUnreadable(f"{file} is called CSV, but cannot be read as such: {exc}") from exc
