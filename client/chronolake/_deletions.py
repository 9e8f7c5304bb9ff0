"""Files that are to be deleted: from storage first, reported then; part by part, so a crash costs one part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from chronolake import errors, storage
from chronolake_model.markers import DeletedFile
from chronolake_storage.guard import Deleting, Guard

FILES_AT_ONCE: Final = 5_000
"""Files that are deleted, and then reported."""


class Deleted(NamedTuple):
    """What became of files that were to be deleted."""

    gone: list[DeletedFile]
    """They are not in storage, whoever deleted them."""
    failed: dict[str, str]
    """Why others are there still, by path."""

    @property
    def failures(self) -> list[str]:
        """Those that failed, for a message."""
        return [f"{path}: {why}" for path, why in self.failed.items()]


def parts(files: Iterable[DeletedFile]) -> Iterator[Sequence[DeletedFile]]:
    """The files in parts that are reported at once."""
    left = list(files)
    return (left[first : first + FILES_AT_ONCE] for first in range(0, len(left), FILES_AT_ONCE))


def delete(guard: Guard, deleting: Deleting, files: Sequence[DeletedFile]) -> Deleted:
    """Delete files from storage, many at a time; see ``Guard.delete``. Raises ``StorageFailed``."""
    with storage.storage_failures():
        done = list(guard.delete(deleting, [file.path for file in files]))
    gone = [file for file, deletion in zip(files, done, strict=True) if deletion.failure is None]
    return Deleted(gone, {one.path: one.failure for one in done if one.failure is not None})


def refuse(failures: Sequence[str], files: int) -> None:
    """Raise ``StorageFailed`` when some of so many ``files`` are there still."""
    if failures:
        raise errors.StorageFailed(
            f"{len(failures)} of {files} files could not be deleted; they are on the list still. "
            f"The first: {failures[0]}"
        )
