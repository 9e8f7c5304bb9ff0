"""The errors of storage.

StorageError
├── BasePathMissing  the folder of the base path, or its bucket, does not exist
│   └── FolderMissing  the folder, which the first file makes
├── LinkRefused      a link or a mount lies below the base path; none is followed there
├── TooLarge         an object is larger than the caller reads
└── ClaimRefused     the base path is claimed by another table or another metastore
    └── LogBehind    the log of the table lacks the event that the claim records
"""

from __future__ import annotations


class StorageError(Exception):
    """The storage refused or failed, after retries."""


class BasePathMissing(StorageError):
    """The folder of the base path, or its bucket, does not exist."""


class FolderMissing(BasePathMissing):
    """The folder of the base path does not exist on this machine. The first file of a table makes it."""


class LinkRefused(StorageError):
    """A folder below the base path is a link or a mount."""


class TooLarge(StorageError):
    """An object is larger than the caller reads."""


class ClaimRefused(StorageError):
    """The base path belongs to another table, or its claim cannot be read. Nothing was deleted."""


class LogBehind(ClaimRefused):
    """The log of the table lacks the event that its claim records. Nothing was deleted."""


def reason(exc: BaseException) -> str:
    """The cause in one line."""
    if isinstance(exc, OSError) and exc.strerror:
        return exc.strerror
    # obstore appends debugging details after an empty line.
    lines = str(exc).strip().partition("\n\n")[0].splitlines()
    return " ".join(lines) if lines else type(exc).__name__


def failed(what: str, exc: BaseException) -> StorageError:
    """A ``StorageError`` that names the file or folder and the cause."""
    return StorageError(f"{what}: {reason(exc)}")


def too_large(what: str, bytes_max: int) -> TooLarge:
    """The error for an object that is larger than a caller reads."""
    return TooLarge(
        f"{what} is too large: it has more than {bytes_max:,} bytes, and such a file is not read. Find out "
        "which program wrote it before you move it away"
    )
