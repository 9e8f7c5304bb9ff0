"""The storage of a table: finds, lists and creates the files below its base path. Only the guard deletes files.

Paths are relative to the base path. Object stores are accessed through obstore, and data files through
pyarrow's file systems; both come with ``chronolake[arrow]``. A temporary refusal (503 SlowDown) is retried.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from chronolake import _vending, errors
from chronolake._vending import VendedFileSystem
from chronolake_model import base_paths
from chronolake_model.base_paths import Kind
from chronolake_model.storage import check_options
from chronolake_storage import opening
from chronolake_storage.errors import StorageError
from chronolake_storage.files import Deletion, Files, StoredFile

TRIES_MAX: Final = 8
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


def open_storage(base_path: str, options: Mapping[str, str] | None = None) -> Storage:
    """The storage below ``base_path``: a local path, or a URI (``file``, ``s3``, ``gs``, …).

    ``options`` have the names in ``chronolake_model.storage.S3_OPTIONS``, and ``credentials``. No request is
    sent yet, except one for the region of an AWS bucket if no region is configured. Raises ``ValueError``,
    ``ImportError``.
    """
    return Storage(open_files(base_path, options))


def open_files(base_path: str, options: Mapping[str, str] | None = None) -> Files:
    """The files below ``base_path``, see ``open_storage``; raises ``StorageFailed``, too."""
    keys, others = _vending.split(options or {})
    with storage_failures():
        return opening.open_files(base_path, others, keys)


def open_filesystem(
    base_path: str, options: Mapping[str, str] | None = None, *, tries_max: int = TRIES_MAX
) -> tuple[Any, str]:
    """pyarrow's file system of ``base_path``, and the folder's path in it; see ``open_storage``.

    For reading and writing data files. Each request to S3 is tried ``tries_max`` times.
    """
    keys, others = _vending.split(options or {})
    check_options(others)
    pafs = _pyarrow()
    location = base_paths.parse(base_path)
    if location.kind is Kind.FILE:
        return pafs.LocalFileSystem(), location.path
    if location.kind is Kind.S3 and "?" not in base_path:
        root = f"{location.bucket}/{location.path}".rstrip("/")

        def made(options: Mapping[str, str]) -> Any:
            return _s3(pafs, location.bucket, dict(options), tries_max)

        return (made(others) if keys is None else VendedFileSystem(keys, made)), root
    if others:
        raise ValueError(f"storage options are for s3://bucket/path, not for {base_path!r}")
    try:
        filesystem, root = pafs.FileSystem.from_uri(base_path)
    except OSError as exc:
        raise _failed(base_path, exc) from exc
    return filesystem, root.rstrip("/")


__all__ = [
    "Deletion",
    "Storage",
    "StoredFile",
    "open_files",
    "open_filesystem",
    "open_storage",
    "storage_failures",
]


class Storage:
    """The files below one base path. Threads may share it. Each method raises ``StorageFailed``."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def check(self) -> None:
        """Raise ``StorageFailed`` unless the folder, or the bucket, exists."""
        with storage_failures():
            self.files.check()

    def make_folder(self) -> None:
        """Create the folder, if the storage has folders."""
        with storage_failures():
            self.files.make_folder()

    def size_bytes(self, path: str) -> int | None:
        """The size of a file; None if it does not exist."""
        return next(self.sizes([path]))

    def sizes(self, paths: Iterable[str]) -> Iterator[int | None]:
        """The sizes of several files, in order, with many concurrent requests. Consume the iterator."""
        with storage_failures():
            yield from self.files.sizes(paths)

    def listing(self, folder: str = "") -> Iterator[StoredFile]:
        """All files below ``folder``. The folder ``.hoodie`` is left out, unless ``folder`` is in it."""
        with storage_failures():
            yield from self.files.listing(folder)

    def create_empty(self, path: str) -> bool:
        """Create an empty file. Returns False if a file of this name exists, which is left unchanged."""
        return self.create_all_empty([path])[0]

    def create_all_empty(self, paths: Iterable[str]) -> list[bool]:
        """Create several empty files, as ``create_empty``."""
        with storage_failures():
            return list(self.files.create_all_empty(paths))


@contextlib.contextmanager
def storage_failures() -> Iterator[None]:
    """Turns errors of the storage into ``StorageFailed``."""
    try:
        yield
    except StorageError as exc:
        raise errors.StorageFailed(str(exc)) from exc


def _s3(pafs: Any, bucket: str, options: dict[str, str], tries_max: int) -> Any:
    # Unlike other functions of pyarrow, S3FileSystem does not read the endpoint from the environment.
    endpoint = options.pop("endpoint_override", None) or _variable(_ENDPOINTS)
    scheme, separator, host = endpoint.rpartition("://")
    if host:
        options |= {"endpoint_override": host} | ({"scheme": scheme} if separator else {})
    elif not options.get("region") and not _variable(_REGIONS):
        try:
            options["region"] = pafs.resolve_s3_region(bucket)
        except OSError as exc:
            raise _failed(f"s3://{bucket}", exc) from exc
    tries = pafs.AwsStandardS3RetryStrategy(max_attempts=tries_max)
    # With delayed open, a small object is one request and not a multipart upload.
    return pafs.S3FileSystem(**options, retry_strategy=tries, allow_delayed_open=True)


def _variable(names: Iterable[str]) -> str:
    return next((value for name in names if (value := os.environ.get(name))), "")


def _failed(path: str, exc: OSError) -> errors.StorageFailed:
    return errors.StorageFailed(f"{path}: {exc.strerror or exc}")


def _pyarrow() -> Any:
    try:
        import pyarrow.fs  # noqa: PLC0415  # an extra
    except ImportError as exc:
        raise ImportError("data files need pyarrow: pip install 'chronolake[arrow]'") from exc
    return pyarrow.fs
