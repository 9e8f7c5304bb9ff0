"""The files that arrive in a folder or a bucket: which are new, and in which batch each of them is.

The log in the checkpoint folder of a query has one line for each batch. A batch is in the log before Spark
hears of it, so a batch that Spark asks for again has the same files, and no file is in two batches.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.fs as pafs

from chronolake import storage
from chronolake.ingest import formats
from chronolake.slices import errors
from chronolake_model import decoding

LOG: Final = "arrivals.jsonl"
_SETTLED_SECONDS: Final = 1.0
"""A file that was written less than this ago may not be whole."""


class Arrival(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A version of a file: one that is written again under its name arrives again.

    ``path`` is a local path, or a URI.
    """

    path: str
    size_bytes: int
    modified_ns: int


class _Line(msgspec.Struct, frozen=True, array_like=True):
    batch: int
    files: list[Arrival]


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How to follow: the pause between two listings of the source, and the maximum number of files of a batch.

    Without a ``checkpoint`` folder the state is beside the table.
    """

    interval_seconds: float = 5.0
    max_files: int = 1_000
    checkpoint: Path | None = None


class ArrivalLog:
    """The batches of arrivals, numbered from 1, in the file ``LOG`` of a folder. One process writes it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG
        self._batches: dict[int, list[Arrival]] = {}
        self._seen: set[Arrival] = set()
        folder.mkdir(parents=True, exist_ok=True)
        self._read()

    def batch(self, number: int) -> list[Arrival] | None:
        """The files of a batch; None if there is no such batch yet."""
        return self._batches.get(number)

    def new(self, present: Iterable[Arrival]) -> list[Arrival]:
        """The files that no batch has, by their paths."""
        return sorted(arrival for arrival in present if arrival not in self._seen)

    def append(self, number: int, arrivals: Sequence[Arrival]) -> None:
        """Add a batch. It is durable when this returns."""
        assert number not in self._batches, f"the batch {number} exists"
        line = _Line(number, list(arrivals))
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._add(line)

    def _read(self) -> None:
        if not self._path.exists():
            return
        whole, _, torn = self._path.read_bytes().rpartition(b"\n")
        for text in whole.splitlines():
            self._add(decoding.decode(text, _Line))
        if torn:
            # A crash cut the line off before it counted.
            os.truncate(self._path, len(whole) + 1 if whole else 0)

    def _add(self, line: _Line) -> None:
        self._batches[line.batch] = line.files
        self._seen.update(line.files)


def present(source: str, now_seconds: float) -> Iterator[Arrival]:
    """The data files that a folder, a pattern or a bucket has now, without those that are being written.

    Raises ``SourceUnreadable`` if it cannot be listed.
    """
    return _in_bucket(source) if is_remote(source) else _local(source, now_seconds)


def is_remote(source: str) -> bool:
    """Whether the source is in object storage."""
    return "://" in source and not source.startswith("file://")


def absolute(source: str) -> str:
    """The source by a name that does not depend on the working directory."""
    return source if is_remote(source) else str(Path(source.removeprefix("file://")).expanduser().absolute())


def check(source: str) -> None:
    """Raise ``SourceUnreadable`` for a folder that does not exist, or a bucket that cannot be listed."""
    if is_remote(source):
        next(_in_bucket(source), None)
    elif not Path(absolute(source)).exists() and not glob.has_magic(source):
        raise errors.SourceUnreadable(f"there is no folder {source!r} (working directory: {Path.cwd()})")


def fetched(arrival: Arrival, folder: Path) -> Path | None:
    """The file as a local one, copied below ``folder`` from a bucket; the copy has the path of the object.

    None if there is no file of this size and time any more: it was moved away, or it was written again, and the
    version that is there now is another arrival.
    """
    if not is_remote(arrival.path):
        file = Path(arrival.path)
        return file if _of_local(file) == arrival else None
    filesystem, path = storage.open_filesystem(arrival.path)
    copy = folder / path
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        info = filesystem.get_file_info(path)
        if (info.size, info.mtime_ns) != (arrival.size_bytes, arrival.modified_ns):
            return None
        with filesystem.open_input_stream(path) as remote, copy.open("wb") as local:
            shutil.copyfileobj(remote, local)
    except OSError as exc:
        raise errors.SourceUnreadable(f"{arrival.path} cannot be read: {exc}") from exc
    return copy


def _local(source: str, now_seconds: float) -> Iterator[Arrival]:
    path = Path(absolute(source))
    files = path.iterdir() if path.is_dir() else map(Path, glob.glob(str(path), recursive=True))
    settled_ns = int((now_seconds - _SETTLED_SECONDS) * 1e9)
    for file in files:
        arrival = _of_local(file.resolve()) if _is_data(file.name) else None
        if arrival is not None and arrival.modified_ns <= settled_ns:
            yield arrival


def _of_local(file: Path) -> Arrival | None:
    """A local file; None if it is not there."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return Arrival(str(file), stat.st_size, stat.st_mtime_ns) if file.is_file() else None


def _in_bucket(source: str) -> Iterator[Arrival]:
    filesystem, root = storage.open_filesystem(source)
    scheme = source.partition("://")[0]
    try:
        infos = filesystem.get_file_info(pafs.FileSelector(root, allow_not_found=True, recursive=True))
    except OSError as exc:
        raise errors.SourceUnreadable(f"{source} cannot be listed: {exc}") from exc
    for info in infos:
        if info.type is pafs.FileType.File and _is_data(info.base_name):
            yield Arrival(f"{scheme}://{info.path}", info.size, info.mtime_ns or 0)


def _is_data(name: str) -> bool:
    return name[0] not in "._" and formats.format_of(Path(name)) is not None
