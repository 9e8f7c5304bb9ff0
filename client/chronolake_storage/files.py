"""The files below one base path: the interface that a local disk and an object store share.

Paths are relative to the base path, with slashes. ``check_path`` holds for every one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import msgspec

from chronolake_model.file_names import relative_path

METADATA_FOLDER: Final = ".hoodie"
"""Hudi's own folder in the base path; no data files are in it."""

_HIDDEN: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""A control character, or one that has no encoding."""


CONTENT_BYTES_MAX: Final = 64 * 1024
"""Chronolake writes no larger object of this kind, and reads none."""


class StoredFile(msgspec.Struct, frozen=True):
    """A file in storage."""

    partition_path: str
    """The folder below the base path."""
    file_name: str
    size_bytes: int

    @property
    def path(self) -> str:
        """The file, relative to the base path."""
        return relative_path(self.partition_path, self.file_name)


class Deletion(msgspec.Struct, frozen=True):
    """The outcome for one file; ``failure`` is None when the file is gone, now or before."""

    path: str
    failure: str | None = None


class Content(msgspec.Struct, frozen=True):
    """The content of a small object, and the tag that a conditional replace compares."""

    body: bytes
    tag: str


class Files(Protocol):
    """The files below one base path. Threads may share it. Methods block, and raise ``StorageError``.

    No method follows a link below the base path. The base path itself may be a link.
    """

    @property
    def base_path(self) -> str:
        """The base path, as messages name it."""

    def check(self) -> None:
        """Raise ``StorageError`` unless the folder, or its bucket, can be seen from here.

        Otherwise every file would seem to be deleted already.
        """

    def make_folder(self) -> None:
        """Make the base path itself, where there are folders."""

    def sizes(self, paths: Iterable[str]) -> Iterator[int | None]:
        """The sizes of files in order, None for a file that is not there. A link counts as a file."""

    def listing(self, folder: str = "") -> Iterator[StoredFile]:
        """All files below ``folder``, Hudi's own folder only if it is asked for. A link counts as a file."""

    def create_all_empty(self, paths: Iterable[str]) -> Iterator[bool]:
        """Make empty files: False for one that was there already. Of several callers exactly one gets True."""

    def read(self, path: str, bytes_max: int = CONTENT_BYTES_MAX) -> Content | None:
        """A small object; None when it is not there. One beyond ``bytes_max`` is refused."""

    def read_above(self, path: str) -> Iterator[tuple[str, bytes]]:
        """The small objects of this path below each folder that the base path lies in, with their full paths.

        Links in the base path are resolved first. An object store that refuses to read there has none.
        """

    def create(self, path: str, body: bytes) -> bool:
        """Make an object that is there whole or not at all; False, and no change, when it exists already."""

    def replace(self, path: str, body: bytes, tag: str) -> bool:
        """Replace an object if it still has this tag; False, and no change, when it has another."""

    def delete_unguarded(self, paths: Iterable[str]) -> Iterator[Deletion]:
        """Delete files, many at a time, in order. Only ``chronolake_storage.guard`` may call this."""

    def remove_empty_folders_unguarded(self, folder: str) -> None:
        """Remove the folders in ``folder`` that hold nothing, and itself. Only the guard may call this."""


def check_path(path: str) -> tuple[str, str]:
    """Folder and name of a path below a base path; raises ``ValueError`` when it is no such path."""
    parts = f"/{path}/"
    is_odd = "//" in parts or "/./" in parts or "/../" in parts
    if is_odd or (not path.isprintable() and _HIDDEN.search(path)):
        raise ValueError(f"{path[:200]!r} is not a path below a table's base path")
    folder, _, name = path.rpartition("/")
    return folder, name
