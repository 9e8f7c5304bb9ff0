"""The files below one base path: the interface that a local disk and an object store share.

Paths are relative to the base path, with slashes. Each method checks its paths by ``check_path``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from chronolake_model.file_names import relative_path
from chronolake_storage.permits import Permit

METADATA_FOLDER: Final = ".hoodie"
"""Hudi's own folder in the base path; no data files are in it."""
MARKERS_FOLDER: Final = f"{METADATA_FOLDER}/.temp"
"""Hudi's folder of direct markers, below the base path. It has a folder for each instant."""

_HIDDEN: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""A control character, or a character without an encoding."""


CONTENT_BYTES_MAX: Final = 64 * 1024
"""The maximum size of the small objects that Chronolake reads and writes."""


class StoredFile(msgspec.Struct, frozen=True):
    """A file in storage."""

    partition_path: str
    """The folder below the base path."""
    file_name: str
    size_bytes: int
    changed_at: float = 0.0
    """When it was last written, in seconds since 1970 by the clock of the storage; 0 if not known."""

    @property
    def path(self) -> str:
        """The file, relative to the base path."""
        return relative_path(self.partition_path, self.file_name)


class Deletion(msgspec.Struct, frozen=True):
    """The outcome for one file; ``failure`` is None if the file does not exist any more."""

    path: str
    failure: str | None = None


class Content(msgspec.Struct, frozen=True):
    """The content of a small object, and the tag that a conditional replace compares."""

    body: bytes
    tag: str


class Files(Protocol):
    """The files below one base path. Threads may share it. Methods block, and raise ``StorageError``.

    No method follows a link or a mount below the base path. The base path itself may be one.
    """

    @property
    def base_path(self) -> str:
        """The base path, for messages."""

    def check(self) -> None:
        """Raise ``StorageError`` unless the folder, or its bucket, can be accessed.

        Without this check every file would seem to be deleted already.
        """

    def make_folder(self) -> None:
        """Create the folder of the base path, if the storage has folders."""

    def sizes(self, paths: Iterable[str]) -> Iterator[int | None]:
        """The sizes of files in order, None for a file that does not exist. A link counts as a file."""

    def listing(self, folder: str = "") -> Iterator[StoredFile]:
        """All files below ``folder``, without those in ``.hoodie`` unless ``folder`` is in it.

        A link counts as a file, and so does a folder that is a mount.
        """

    def files_in(self, folder: str) -> list[StoredFile]:
        """The files directly in a folder, which has few of them. A link counts as a file."""

    def create_all_empty(self, paths: Iterable[str]) -> Iterator[bool]:
        """Create empty files: False for a file that existed. Of several callers exactly one gets True."""

    def read(self, path: str, bytes_max: int = CONTENT_BYTES_MAX) -> Content | None:
        """A small object; None if it does not exist. An object larger than ``bytes_max`` is refused."""

    def read_range(self, path: str, begin: int, end: int) -> bytes | None:
        """The bytes of a file from ``begin`` to before ``end``, which it has; None if there is no such file."""

    def read_above(self, path: str) -> Iterator[tuple[str, bytes]]:
        """The small objects at this path in each folder above the base path, with their full paths.

        Links in the base path are resolved first. If the base path lies in a bind mount, the folders above the
        mounted folder count too, where another mount shows them. Objects without read permission are left out.
        """

    def create(self, path: str, body: bytes) -> bool:
        """Create an object atomically. Returns False and changes nothing if it exists already."""

    def create_all(self, bodies: Sequence[tuple[str, bytes]], *, in_order: bool) -> list[bool]:
        """As ``create``, for paths and bodies. If ``in_order``, each appears only after those before it."""

    def create_stages(self, stages: Sequence[Sequence[tuple[str, bytes]]]) -> None:
        """As ``create_all``, stage by stage: each appears only after those of the stages before."""

    def replace(self, path: str, body: bytes, tag: str) -> bool:
        """Replace an object if it still has this tag. Returns False and changes nothing otherwise."""

    def put(self, path: str, body: bytes) -> None:
        """Make an object, or replace one of any content; at each moment it is there whole, old or new."""

    def delete_permitted(self, permits: Iterable[Permit]) -> Iterator[Deletion]:
        """Delete files, many at a time, in order. Only ``chronolake_storage.guard`` issues permits."""

    def remove_empty_folders_unguarded(self, folder: str) -> None:
        """Remove empty folders in ``folder``, and ``folder`` itself. Only the guard may call this."""


def check_path(path: str) -> tuple[str, str]:
    """The folder and name of a path below a base path; raises ``ValueError`` for other paths."""
    parts = f"/{path}/"
    is_odd = "//" in parts or "/./" in parts or "/../" in parts
    if is_odd or (not path.isprintable() and _HIDDEN.search(path)):
        raise ValueError(f"{path[:200]!r} is not a path below a table's base path")
    folder, _, name = path.rpartition("/")
    return folder, name
