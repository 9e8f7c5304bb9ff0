"""Whether the base files of a Hudi table can be read: by their footers. ``logs`` opens log files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from chronolake.hudi.stored import READERS
from chronolake_model import meta_columns as meta
from chronolake_model.adoption import AdoptTable
from chronolake_model.file_names import relative_path

CHECK_SECONDS: Final = 600.0
"""How long the files of a table are opened. The newest are the first."""
PROGRESS_SECONDS: Final = 5.0
REASONS_MAX: Final = 10
_INT_BITS: Final = 32
_FILES_AT_ONCE: Final = 64


class Checked(msgspec.Struct, frozen=True):
    """Why files cannot be read, one sentence each, and how many of the files were opened."""

    reasons: list[str]
    files: int
    opened: int


def check(request: AdoptTable, filesystem: Any, root: str, progress: Callable[[str], None]) -> Checked:
    """Open the base files that come in. ``filesystem`` is pyarrow's, ``root`` the base path in it.

    It ends after ``CHECK_SECONDS``, or when ``REASONS_MAX`` files cannot be read.
    """
    files = [
        relative_path(stat.partition_path, stat.file_name)
        for instant in sorted(request.instants, key=lambda instant: instant.requested_time, reverse=True)
        for stat in instant.write_stats
        if not stat.file_name.startswith(".")
    ]
    types = {field.name: field.type for field in request.definition.schema}
    begun = now = reported = time.monotonic()
    reasons: list[str] = []
    opened = 0
    with ThreadPoolExecutor(READERS) as readers:
        while opened < len(files) and len(reasons) < REASONS_MAX and now - begun < CHECK_SECONDS:
            part = files[opened : opened + _FILES_AT_ONCE]
            problems = readers.map(lambda file: _problem(filesystem, root, file, types), part)
            reasons += [problem for problem in problems if problem is not None]
            opened += len(part)
            now = time.monotonic()
            if now - reported >= PROGRESS_SECONDS:
                progress(f"opened {opened:,} of {len(files):,} files")
                reported = now
    return Checked(reasons[:REASONS_MAX], len(files), opened)


def _problem(filesystem: Any, root: str, path: str, types: Mapping[str, str]) -> str | None:
    import pyarrow as pa  # noqa: PLC0415  # an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with filesystem.open_input_file(f"{root}/{path}") as file:
            stored = pq.read_schema(file)
    except (pa.ArrowException, OSError) as exc:
        return f"{path}: it cannot be read as a Parquet file ({exc}); restore the file from a copy"
    if meta.RECORD_KEY not in stored.names:
        return f"{path}: it lacks the meta columns, such as {meta.RECORD_KEY}; rewrite the table with Hudi"
    for column in stored:
        wanted = types.get(column.name)
        if wanted is not None and _is_converted_by_hudi_alone(column.type, wanted):
            return (
                f"{path}: its column {column.name!r} is {column.type}, and the table's is {wanted} since a "
                "change of the schema: only Hudi converts this while it reads; rewrite the file with Hudi, as "
                "by a clustering, and adopt the table then"
            )
    return None


def _is_converted_by_hudi_alone(stored: Any, wanted: str) -> bool:
    """Whether our readers fail at a stored type, or lose digits of it, where Hudi's reader converts it."""
    from pyarrow import types as pt  # noqa: PLC0415  # an extra

    if pt.is_integer(stored):
        return wanted in ("string", "float") or (wanted == "double" and stored.bit_width > _INT_BITS)
    return pt.is_floating(stored) and wanted == "string"
