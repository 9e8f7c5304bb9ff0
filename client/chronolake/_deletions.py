"""Files that are to be deleted: from storage first, reported then; part by part, so a crash costs one part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from chronolake import errors
from chronolake.storage import Storage
from chronolake_model.markers import DeletedFile

FILES_AT_ONCE: Final = 5_000
"""Files that are deleted, and then reported."""


class Deleted(NamedTuple):
    """What became of files that were to be deleted."""

    gone: list[DeletedFile]
    """They are not in storage, whoever deleted them."""
    failures: list[str]


def parts(files: Iterable[DeletedFile]) -> Iterator[Sequence[DeletedFile]]:
    """The files in parts that are reported at once."""
    left = list(files)
    return (left[first : first + FILES_AT_ONCE] for first in range(0, len(left), FILES_AT_ONCE))


def delete(storage: Storage, files: Sequence[DeletedFile]) -> Deleted:
    """Delete files from storage, many at a time."""
    done = list(storage.delete_all(file.path for file in files))
    gone = [file for file, deletion in zip(files, done, strict=True) if deletion.failure is None]
    return Deleted(gone, [f"{one.path}: {one.failure}" for one in done if one.failure is not None])


def refuse(failures: Sequence[str], files: int) -> None:
    """Raise ``StorageFailed`` when some of so many ``files`` are there still."""
    if failures:
        raise errors.StorageFailed(
            f"{len(failures)} of {files} files could not be deleted; they are on the list still. "
            f"The first: {failures[0]}"
        )
