"""The projections as a whole."""

from __future__ import annotations

from typing import Final

PROJECTIONS: Final = (
    "clock",
    "answer_chain",
    "namespace",
    "lake_table",
    "base_path",
    "schema_version",
    "instant",
    "file",
    "planned_group",
    "replaced_group",
    "stream",
    "stream_checkpoint",
    "buffered_file",
)
"""The tables that follow from the log."""
