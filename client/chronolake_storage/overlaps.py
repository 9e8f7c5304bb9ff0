"""Finds tables whose folders overlap on this machine's disks because of links or mounts.

The server compares base paths when a table is created. A later link or mount may make two base paths the same
folder, so the folders are compared again before a first claim and before deletions.
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
    """A folder with its links resolved: its path with a slash at the end, and its devices and inodes."""

    path: str
    identity: tuple[int, int] | None
    """Device and inode of the folder; None if it does not exist or cannot be accessed."""
    above: frozenset[tuple[int, int]]
    """Devices and inodes of all folders above it."""


def find_overlapping(folder: str, tables: Iterable[TablePlace]) -> TablePlace | None:
    """The first of ``tables`` whose folder overlaps the local ``folder``; None if there is none.

    Tables in object stores, and tables whose base paths cannot be compared, are skipped.
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
    """Whether a folder is the other, or lies in it. Paths do not tell this, because of mounts."""
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
