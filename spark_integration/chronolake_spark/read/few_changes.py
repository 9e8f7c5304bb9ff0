"""The slices that are read in two parts: Spark reads their base files, executors the changed records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from chronolake_model.files import FileSlice
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType

_RECORDS_PER_CHANGE: Final = 4
"""Records of a base file for each in the log files, from which on Spark reads the base file."""
_CHANGED_KEYS_MAX: Final = 1_000_000
"""Keys in log files that each executor holds."""
_BASE_BYTES_MIN: Final = 32 * 2**20
"""Bytes of base files from which on it is faster that Spark reads them."""


def chosen(table: Table, slices: Sequence[FileSlice]) -> list[FileSlice]:
    """The slices with log files whose base file Spark can read beside them.

    With another index than a bucket index a key may be in two file groups (docs/concepts/files.md), so the keys
    of one say nothing about the base file of another.
    """
    if is_in_s3(table) or table.index.type is not IndexType.BUCKET:
        return []
    found, keys = [], 0
    for slice_ in slices:
        changes = sum(file.records for file in slice_.log_files)
        if not slice_.base_file or not changes or changes * _RECORDS_PER_CHANGE > slice_.base_file.records:
            continue
        keys += changes
        if keys > _CHANGED_KEYS_MAX:
            break
        found.append(slice_)
    size_bytes = sum(slice_.base_file.size_bytes for slice_ in found if slice_.base_file)
    return found if size_bytes >= _BASE_BYTES_MIN else []


def is_in_s3(table: Table) -> bool:
    """Whether the files of a table are in S3, for which Spark has no file system without extra packages."""
    return table.base_path.startswith("s3://")
