"""Whether the base files of a Hudi table can be read: by their footers. ``logs`` opens log files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from chronolake.hudi.footers import Footer, Footers
from chronolake_model import meta_columns as meta
from chronolake_model.adoption import AdoptTable
from chronolake_model.file_names import relative_path

REASONS_MAX: Final = 10
_INT_BITS: Final = 32


class Checked(msgspec.Struct, frozen=True):
    """Why files cannot be read, one sentence each, and how many of the files were opened."""

    reasons: list[str]
    files: int
    opened: int


def check(request: AdoptTable, footers: Footers) -> Checked:
    """Check the base files that come in, the newest first, until ``REASONS_MAX`` of them cannot be read."""
    files = [
        relative_path(stat.partition_path, stat.file_name)
        for instant in sorted(request.instants, key=lambda instant: instant.requested_time, reverse=True)
        for stat in instant.write_stats
        if not stat.file_name.startswith(".")
    ]
    types = {field.name: field.type for field in request.definition.schema}
    reasons: list[str] = []
    opened = 0
    for path, footer in footers.within_time(files):
        problem = _problem(footer, types)
        opened += 1
        if problem is not None:
            reasons.append(f"{path}: {problem}")
        if len(reasons) == REASONS_MAX:
            break
    return Checked(reasons, len(files), opened)


def _problem(footer: Footer | str, types: Mapping[str, str]) -> str | None:
    if isinstance(footer, str):
        return f"{footer}; restore the file from a copy"
    if meta.RECORD_KEY not in footer.schema.names:
        return f"it lacks the meta columns, such as {meta.RECORD_KEY}; rewrite the table with Hudi"
    for column in footer.schema:
        wanted = types.get(column.name)
        if wanted is not None and _is_converted_by_hudi_alone(column.type, wanted):
            return (
                f"its column {column.name!r} is {column.type}, and the table's is {wanted} since a change of "
                "the schema: only Hudi converts this while it reads; rewrite the file with Hudi, as by a "
                "clustering, and adopt the table then"
            )
    return None


def _is_converted_by_hudi_alone(stored: Any, wanted: str) -> bool:
    """Whether our readers fail at a stored type, or lose digits of it, where Hudi's reader converts it."""
    from pyarrow import types as pt  # noqa: PLC0415  # an extra

    if pt.is_integer(stored):
        return wanted in ("string", "float") or (wanted == "double" and stored.bit_width > _INT_BITS)
    return pt.is_floating(stored) and wanted == "string"
