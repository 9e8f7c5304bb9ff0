"""Finds tables whose folders overlap on this machine's disks because of links or mounts.

The server compares base paths when a table is created. A later link or mount may make two base paths the same
folder, so the folders are compared again before a first claim and before deletions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import msgspec

from chronolake_model import base_paths
from chronolake_model.base_paths import Kind, Location
from chronolake_storage import mounts
from chronolake_storage.mounts import DeviceFolder, Mount


class TablePlace(msgspec.Struct, frozen=True):
    """A live table of a metastore, or a dropped one that published files, and its base path."""

    table_id: str
    table: str
    base_path: str
    is_dropped: bool = False


class _Folder(msgspec.Struct, frozen=True):
    """A folder with its links resolved: its path with a slash at the end, and its devices and inodes."""

    key: str
    """The key of the base path as it is written."""
    path: str
    identity: tuple[int, int] | None
    """Device and inode of the folder; None if it does not exist or cannot be accessed."""
    above: frozenset[tuple[int, int]]
    """Devices and inodes of all folders above it."""
    on_device: DeviceFolder | None
    """The folder in its file system: what lies above the folder that a mount shows has no path here."""


def find_overlapping(folder: str, tables: Iterable[TablePlace]) -> TablePlace | None:
    """The first of ``tables`` whose folder overlaps the local ``folder``; None if there is none.

    A mount below the folder of a table belongs to that table, because its readers and writers may follow it.
    Skipped are tables in object stores, tables whose base paths cannot be compared, and dropped tables whose
    base paths overlap as they are written: the metastore knows of these, and keeps the files they published.
    """
    mounted = mounts.present()
    own = _resolved(folder, mounted)
    return next((table for table in tables if _overlaps(own, table, mounted)), None)


def is_spelled_above(folder: str, base_path: str) -> bool:
    """Whether a folder is one of those above ``base_path`` as it is written, without resolving its links."""
    identity = _identity(folder)
    return identity is not None and identity in map(_identity, mounts.folders_above(os.path.abspath(base_path)))


def _overlaps(own: _Folder, table: TablePlace, mounted: Mapping[int, Mount]) -> bool:
    try:
        location = base_paths.parse(table.base_path)
    except ValueError:
        return False
    if location.kind is not Kind.FILE:
        return False
    other = _resolved(location.path, mounted)
    if table.is_dropped and (own.key.startswith(other.key) or other.key.startswith(own.key)):
        return False
    return (
        own.path.startswith(other.path)
        or other.path.startswith(own.path)
        or _is_within(own, other)
        or _is_within(other, own)
        or any(map(own.on_device.overlaps, _on_devices(other, mounted)) if own.on_device else ())
    )


def _on_devices(folder: _Folder, mounted: Mapping[int, Mount]) -> list[DeviceFolder]:
    """A folder in its file system, and the folders that mounts below it show."""
    below = [mount.shows for mount in mounted.values() if mount.point.startswith(folder.path)]
    return below if folder.on_device is None else [folder.on_device, *below]


def _is_within(folder: _Folder, other: _Folder) -> bool:
    """Whether a folder is the other, or lies in it. Paths do not tell this, because of mounts."""
    return other.identity is not None and (other.identity == folder.identity or other.identity in folder.above)


def _resolved(path: str, mounted: Mapping[int, Mount]) -> _Folder:
    real = os.path.realpath(path)
    above = map(_identity, mounts.folders_above(real))
    return _Folder(
        Location(Kind.FILE, "", path).key,
        f"{real.rstrip('/')}/",
        _identity(real),
        frozenset(identity for identity in above if identity is not None),
        mounts.device_folder(real, mounted),
    )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
