"""A table's storage: what is below its base path is sized, listed, created and deleted.

Reached through pyarrow's file systems, ``chronolake[arrow]``. Paths are relative to the base path. What the
store refuses for a moment only (503 SlowDown) is tried again, ``TRIES_MAX`` times in all.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from chronolake import errors
from chronolake_model.storage import check_options

METADATA_FOLDER: Final = ".hoodie"
"""Hudi's, in the base path; no data files are in it."""

THREADS: Final = 16
TRIES_MAX: Final = 8
WAIT_SECONDS: Final = 0.05
WAIT_SECONDS_MAX: Final = 5.0
_AT_ONCE: Final = 1_000
_FOR_A_MOMENT = re.compile(r"SLOW_?DOWN|THROTTL|SERVICE_UNAVAILABLE|HTTP status (429|500|502|503|504)", re.I)
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")

_Result = TypeVar("_Result")
_Asked = TypeVar("_Asked")


class StoredFile(msgspec.Struct, frozen=True):
    """A file in storage."""

    partition_path: str
    """The folder below the base path."""
    file_name: str
    size_bytes: int

    @property
    def path(self) -> str:
        """The file, relative to the base path."""
        return f"{self.partition_path}/{self.file_name}" if self.partition_path else self.file_name


class Deletion(msgspec.Struct, frozen=True):
    """What became of a file that was to be deleted; ``failure`` is None when it is gone, or was before."""

    path: str
    failure: str | None = None


def open_storage(base_path: str, options: Mapping[str, str] | None = None) -> Storage:
    """The storage below ``base_path``: a local path, or a URI that pyarrow knows (``file``, ``s3``, ``gs``, …).

    ``options`` have the names of ``chronolake_model.storage.S3_OPTIONS``. Nothing is asked of the store yet,
    but for the region of a bucket of AWS when nothing says it. Raises ``ValueError``, ``ImportError``.
    """
    # Tries are counted here alone.
    filesystem, root = open_filesystem(base_path, options, tries_max=1)
    return Storage(filesystem, root, is_local=isinstance(filesystem, _pyarrow().LocalFileSystem))


def open_filesystem(
    base_path: str, options: Mapping[str, str] | None = None, *, tries_max: int = TRIES_MAX
) -> tuple[Any, str]:
    """pyarrow's file system of ``base_path``, and the path that it knows the folder by; see ``open_storage``.

    For whoever reads and writes data files. Each request to S3 is tried ``tries_max`` times.
    """
    check_options(options or {})
    pafs = _pyarrow()
    parts = urlsplit(base_path)
    if "://" not in base_path:
        return pafs.LocalFileSystem(), os.path.abspath(os.path.expanduser(base_path))
    if parts.scheme == "file":
        return pafs.LocalFileSystem(), unquote(parts.path).rstrip("/")
    if parts.scheme == "s3" and not parts.query:
        root = f"{parts.netloc}{parts.path}".rstrip("/")
        return _s3(pafs, parts.netloc, dict(options or {}), tries_max), root
    if options:
        raise ValueError(f"storage options are for s3://bucket/path, not for {base_path!r}")
    try:
        filesystem, root = pafs.FileSystem.from_uri(base_path)
    except OSError as exc:
        raise _failed(base_path, exc) from exc
    return filesystem, root.rstrip("/")


class Storage:
    """The files below one base path. Threads may share it.

    Each method raises ``StorageFailed`` when the store refuses, ``delete_all`` excepted, which tells it file by
    file.
    """

    def __init__(self, filesystem: Any, root: str, *, is_local: bool = False) -> None:
        self._filesystem = filesystem
        self._root = root
        self._is_local = is_local

    def check(self) -> None:
        """Raise ``StorageFailed`` unless the folder itself is there, or its bucket."""
        is_path = self._is_local or self._root.startswith("/")
        top = self._root if is_path else self._root.partition("/")[0]
        if self._ask(self._filesystem.get_file_info, top).type == _pyarrow().FileType.NotFound:
            raise errors.StorageFailed(
                f"{top} is not there: go where the table's files are, or make it if there were never any"
            )

    def make_folder(self) -> None:
        """Make the folder itself, where there are folders."""
        if self._is_local:
            try:
                os.makedirs(self._root, exist_ok=True)
            except OSError as exc:
                raise _failed(self._root, exc) from exc

    def size_bytes(self, path: str) -> int | None:
        """The size of a file; None when it is not there."""
        found = self._ask(self._filesystem.get_file_info, self._full(path))
        return found.size if found.is_file else None

    def sizes(self, paths: Iterable[str]) -> Iterator[int | None]:
        """The sizes of several files, in order, many at a time; consume it."""
        return _in_threads(self.size_bytes, paths)

    def listing(self, folder: str = "") -> Iterator[StoredFile]:
        """All files below ``folder``, folder by folder: no more than the entries of one are held at a time.

        Hudi's own folder of the table is left out, unless it is asked for.
        """
        folders = [folder]
        while folders:
            at = folders.pop()
            for entry in self._entries(at):
                below = f"{at}/{entry.base_name}" if at else entry.base_name
                if entry.is_file:
                    yield StoredFile(at, entry.base_name, entry.size)
                elif below != METADATA_FOLDER:
                    folders.append(below)

    def create_empty(self, path: str) -> bool:
        """Make an empty file, unless there is one of this name: then False, and it is left as it is.

        Of several that make one file at the same moment more than one may be told True, except on a local disk.
        """
        full = self._full(path)
        return self._create_local(full) if self._is_local else self._ask(self._create_object, full)

    def create_all_empty(self, paths: Iterable[str]) -> list[bool]:
        """Make several empty files, as ``create_empty``."""
        return list(_in_threads(self.create_empty, paths))

    def delete_all(self, paths: Iterable[str]) -> Iterator[Deletion]:
        """Delete files, and say of each, in order, what became of it; what is gone counts as deleted.

        They go many at a time, as the answer is consumed: consume it.
        """
        return _in_threads(self._delete, paths)

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with all that is in it; one that is not there is no failure."""
        with contextlib.suppress(FileNotFoundError):
            self._ask(self._filesystem.delete_dir, self._full(folder))

    def _full(self, path: str) -> str:
        if not path:
            return self._root
        if any(part in ("", ".", "..") for part in path.split("/")):
            raise ValueError(f"{path!r} is no path below a table's base path")
        return f"{self._root}/{path}"

    def _entries(self, folder: str) -> list[Any]:
        selector = _pyarrow().FileSelector(self._full(folder), allow_not_found=True)
        found: list[Any] = self._ask(self._filesystem.get_file_info, selector)
        return sorted(found, key=lambda entry: entry.path, reverse=True)

    def _delete(self, path: str) -> Deletion:
        try:
            self._ask(self._filesystem.delete_file, self._full(path))
        except FileNotFoundError:
            pass
        except (errors.StorageFailed, ValueError) as exc:
            return Deletion(path, str(exc))
        return Deletion(path)

    def _create_object(self, full: str) -> bool:
        if self._filesystem.get_file_info(full).is_file:
            return False
        self._filesystem.open_output_stream(full).close()
        return True

    def _create_local(self, full: str) -> bool:
        try:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            os.close(os.open(full, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            return False
        except OSError as exc:
            raise _failed(full, exc) from exc
        return True

    def _ask(self, ask: Callable[[_Asked], _Result], asked: _Asked) -> _Result:
        """The answer; ``FileNotFoundError`` passes, all else that goes wrong is ``StorageFailed``."""
        for tried in range(1, TRIES_MAX + 1):
            try:
                return ask(asked)
            except FileNotFoundError:
                raise
            except OSError as exc:
                if tried == TRIES_MAX or not _FOR_A_MOMENT.search(str(exc)):
                    raise _failed(str(getattr(asked, "base_dir", asked)), exc) from exc
            time.sleep(min(WAIT_SECONDS * 2**tried, WAIT_SECONDS_MAX))
        raise AssertionError("the last try returns or raises")


def _in_threads(work: Callable[[str], _Result], paths: Iterable[str]) -> Iterator[_Result]:
    """The results in order, of so many paths at a time: an endless list of paths is never held as a whole."""
    left = iter(paths)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="chronolake-storage") as threads:
        while some := list(islice(left, _AT_ONCE)):
            yield from threads.map(work, some)


def _s3(pafs: Any, bucket: str, options: dict[str, str], tries_max: int) -> Any:
    # pyarrow itself takes an endpoint from the environment in some of its ways to S3, and not in this one.
    endpoint = options.pop("endpoint_override", None) or _variable(_ENDPOINTS)
    scheme, found, host = endpoint.rpartition("://")
    if host:
        options |= {"endpoint_override": host} | ({"scheme": scheme} if found else {})
    elif not options.get("region") and not _variable(_REGIONS):
        try:
            options["region"] = pafs.resolve_s3_region(bucket)
        except OSError as exc:
            raise _failed(f"s3://{bucket}", exc) from exc
    tries = pafs.AwsStandardS3RetryStrategy(max_attempts=tries_max)
    # An empty object, or a small one, is one request then and not a multipart upload.
    return pafs.S3FileSystem(**options, retry_strategy=tries, allow_delayed_open=True)


def _variable(names: Iterable[str]) -> str:
    return next((found for name in names if (found := os.environ.get(name))), "")


def _failed(what: str, exc: OSError) -> errors.StorageFailed:
    return errors.StorageFailed(f"{what}: {exc.strerror or exc}")


def _pyarrow() -> Any:
    try:
        import pyarrow.fs  # noqa: PLC0415  # only who reaches for storage needs it
    except ImportError as exc:
        raise ImportError("a table's storage needs pyarrow: pip install 'chronolake[arrow]'") from exc
    return pyarrow.fs
