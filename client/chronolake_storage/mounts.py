"""The mounts of this process: which one an open folder lies in, and where folders are in their file systems.

A bind mount leads into any other folder, also of the same file system, so neither the path nor the device of a
folder shows it. Linux gives each mount an id, says for each open file which mount it was opened through, and
lists in mountinfo which folder of its file system each mount shows (proc_pid_mountinfo(5)).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

_MOUNT_ID: Final = re.compile(rb"^mnt_id:\s*(\d+)$", re.MULTILINE)
_ESCAPE: Final = re.compile(rb"\\([0-7]{3})")
_NFS: Final = (b"nfs", b"nfs4")


class DeviceFolder(msgspec.Struct, frozen=True):
    """A folder in its file system. No mount changes it, and it exists also where no mount shows it."""

    device: str
    path: str
    """The path from the root of the file system, with a slash at the end."""

    def overlaps(self, other: DeviceFolder) -> bool:
        """Whether the folders are the same, or one lies in the other."""
        return self.device == other.device and (
            self.path.startswith(other.path) or other.path.startswith(self.path)
        )


class Mount(msgspec.Struct, frozen=True):
    """A mount: the path where it is, with a slash at the end, and the folder that it shows."""

    point: str
    shows: DeviceFolder


def mount_of(descriptor: int) -> int:
    """The id of the mount that an open folder lies in; without Linux's /proc the id of its device."""
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", "rb", buffering=0) as file:
            match = _MOUNT_ID.search(file.read())
    except FileNotFoundError:
        match = None
    return os.fstat(descriptor).st_dev if match is None else int(match[1])


def folders_above(path: str) -> Iterator[str]:
    """The folders above an absolute path, the innermost first."""
    while (above := os.path.dirname(path)) != path:
        path = above
        yield path


def present() -> dict[int, Mount]:
    """The mounts that this process sees now, by id; none without Linux's /proc."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            return dict(map(_parsed, file))
    except FileNotFoundError:
        return {}


def device_folder(path: str, mounts: Mapping[int, Mount]) -> DeviceFolder | None:
    """The folder at a path, whose links are resolved first; None if ``mounts`` do not show it.

    The folder need not exist.
    """
    found = _find(path, mounts)
    return None if found is None else found[1]


def paths_above_mount(path: str, mounts: Mapping[int, Mount]) -> list[str]:
    """Paths, through other mounts, of the folders above the folder that the mount of ``path`` shows."""
    found = _find(path, mounts)
    if found is None:
        return []
    root = found[0].shows
    above = [DeviceFolder(root.device, root.path[:at]) for at in _slashes(root.path)]
    shown = [
        (mount.point + folder.path.removeprefix(mount.shows.path), folder)
        for folder in above
        for mount in mounts.values()
        if mount.shows.device == folder.device and folder.path.startswith(mount.shows.path)
    ]
    # A later mount may hide the folder.
    return [path for path, folder in shown if device_folder(path, mounts) == folder]


def _find(path: str, mounts: Mapping[int, Mount]) -> tuple[Mount, DeviceFolder] | None:
    if not mounts:
        return None
    real = os.path.realpath(path)
    mount = mounts.get(_mount_of_path(real))
    folder = _folder(real)
    if mount is None or not folder.startswith(mount.point):
        return None
    return mount, DeviceFolder(mount.shows.device, mount.shows.path + folder.removeprefix(mount.point))


def _mount_of_path(path: str) -> int:
    """The id of the mount of the innermost folder of a path that exists."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        if path == "/":
            raise
        return _mount_of_path(os.path.dirname(path))
    try:
        return mount_of(descriptor)
    finally:
        os.close(descriptor)


def _slashes(path: str) -> list[int]:
    """The ends of the folders above a folder, in its path."""
    return [at for at in range(1, len(path)) if path[at - 1] == "/"]


def _parsed(line: bytes) -> tuple[int, Mount]:
    mount_id, _, device, root, point, *options = line.split()
    kind, source, *_ = options[options.index(b"-") + 1 :]
    if kind in _NFS:
        # NFS names / as the root of each mount, and the folder in the source.
        root = b"/" + source.partition(b":/")[2]
    return int(mount_id), Mount(
        _folder(_decoded(point)), DeviceFolder(device.decode(), _folder(_decoded(root)))
    )


def _decoded(field: bytes) -> str:
    return os.fsdecode(_ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), field))


def _folder(path: str) -> str:
    return f"{path.rstrip('/')}/"
