"""Whether the folders of two tables overlap on this machine's disks, by links and mounts newer than the tables.

Creating a table compares base paths as they are at that time. A link or a mount that is made later leads two
base paths to one folder, so the folders are compared again before the first claim is made in one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from chronolake_model import base_paths
from chronolake_model.base_paths import Kind


class TablePlace(msgspec.Struct, frozen=True):
    """A live table of a metastore, and its base path."""

    table_id: str
    table: str
    base_path: str


class _Folder(msgspec.Struct, frozen=True):
    """A folder, its links resolved: its path with a slash at the end, and devices and inodes."""

    path: str
    identity: tuple[int, int] | None
    """Of the folder itself; None when it is not there, or cannot be seen."""
    above: frozenset[tuple[int, int]]
    """Of all folders that it lies in."""


def find_overlapping(folder: str, tables: Iterable[TablePlace]) -> TablePlace | None:
    """The first of ``tables`` whose folder overlaps the local ``folder``; None when there is none.

    Tables in object stores, and those whose base paths cannot be compared, are passed over.
    """
    own = _resolved(folder)
    return next((table for table in tables if _overlaps(own, table.base_path)), None)


def _overlaps(own: _Folder, base_path: str) -> bool:
    try:
        path = _local_path(base_path)
    except ValueError:
        return False
    if path is None:
        return False
    other = _resolved(path)
    return (
        own.path.startswith(other.path)
        or other.path.startswith(own.path)
        or _is_within(own, other)
        or _is_within(other, own)
    )


def _is_within(folder: _Folder, other: _Folder) -> bool:
    """Whether a folder is the other, or lies in it, whatever the paths say: mounts have paths of their own."""
    return other.identity is not None and (other.identity == folder.identity or other.identity in folder.above)


def _local_path(base_path: str) -> str | None:
    location = base_paths.parse(base_path)
    return location.path if location.kind is Kind.FILE else None


def _resolved(path: str) -> _Folder:
    real = os.path.realpath(path)
    above, folder = set(), real
    while (parent := os.path.dirname(folder)) != folder:
        folder = parent
        above.add(_identity(folder))
    return _Folder(
        f"{real.rstrip('/')}/",
        _identity(real),
        frozenset(identity for identity in above if identity is not None),
    )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
