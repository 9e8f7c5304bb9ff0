"""Names of data files, as Hudi writes them from table version 8 on (docs/architecture.md#file-slices).

Base file ``<fileId>_<writeToken>_<requested>.parquet``; log file
``.<fileId>_<requested>.log.<n>_<writeToken>``. The write token is partition-stage-attempt of the task, so
that two attempts of one task never share a name.
"""

from __future__ import annotations

import enum
import functools
import re

import msgspec

LOG_VERSION_MAX = 2**31 - 1
"""The largest ``<n>`` in the name of a log file: Hudi keeps it in 32 bits."""
PATH_BYTES_MAX = 1_024
"""Bytes of a data file's path: object stores take no longer names, and PostgreSQL no longer keys."""

_BASE = re.compile(
    r"(?P<file_id>[A-Za-z0-9][A-Za-z0-9-]*)_(?P<token>\d+-\d+-\d+)_(?P<time>\d{17}(?:\d{3})?)\.parquet",
    re.ASCII,
)
_LOG = re.compile(
    r"\.(?P<file_id>[A-Za-z0-9][A-Za-z0-9-]*)_(?P<time>\d{17}(?:\d{3})?)\.log\.(?P<n>\d{1,10})_(?P<token>\d+-\d+-\d+)",
    re.ASCII,
)
GENERATION_MAX = 10**12 - 1
"""The most file groups of one bucket that can be replaced, one after the other."""

_BUCKET = re.compile(r"[0-9]{8}(?![0-9])")
_BUCKET_FILE_ID = re.compile(r"([0-9]{8})-0000-0000-0000-([0-9]{12})-0", re.ASCII)


class FileKind(enum.StrEnum):
    """Whether a data file holds whole records or changes to them."""

    BASE = "base"
    LOG = "log"


class DataFileName(msgspec.Struct, frozen=True):
    """The parts of a data file's name."""

    kind: FileKind
    file_id: str
    write_token: str
    requested_time: str


def write_token(partition: int, stage: int, attempt: int) -> str:
    """The token of one attempt of one task."""
    return f"{partition}-{stage}-{attempt}"


def relative_path(partition_path: str, file_name: str) -> str:
    """Where a data file or a marker lies below the table's base path."""
    return f"{partition_path}/{file_name}" if partition_path else file_name


def base_file_name(file_id: str, token: str, requested_time: str) -> str:
    """The name of a base file."""
    return f"{file_id}_{token}_{requested_time}.parquet"


def log_file_name(file_id: str, token: str, requested_time: str) -> str:
    """The name of the log file that an attempt of a task appends to a file group.

    The number is always 1: the write token makes the name unique, and an attempt appends one file to a group.
    """
    return f".{file_id}_{requested_time}.log.1_{token}"


def parse_file_name(name: str) -> DataFileName:
    """The parts of ``name``; raises ``ValueError`` when it is no data file's name."""
    if match := _BASE.fullmatch(name):
        kind = FileKind.BASE
    elif (match := _LOG.fullmatch(name)) and int(match["n"]) <= LOG_VERSION_MAX:
        kind = FileKind.LOG
    else:
        raise ValueError(
            f"{name!r} is neither <fileId>_<writeToken>_<requested>.parquet "
            f"nor .<fileId>_<requested>.log.<n>_<writeToken>, with <n> up to {LOG_VERSION_MAX}"
        )
    return DataFileName(kind, match["file_id"], match["token"], match["time"])


@functools.lru_cache(maxsize=1_024)
def check_partition_path(path: str) -> None:
    """Raise ``ValueError`` unless ``path`` is of a folder below a table's base path, or empty."""
    parts = path.split("/") if path else []
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError("the partition path must be relative, without empty, '.' or '..' parts")
    if parts[:1] == [".hoodie"] or any(char < " " or char in "\\\x7f" for char in path):
        raise ValueError("the partition path has a control character, a backslash, or is .hoodie")


def bucket_file_id(bucket: int, generation: int = 0) -> str:
    """The file id of a bucket's file group: of the first one, or of the one after ``generation`` replaced ones.

    Hudi's fixed suffix for non-blocking writers: two writers that both open a bucket open the same file
    group, so that the server sees their conflict. A replaced group never comes back; the bucket's next one
    counts on in the suffix.
    """
    assert 0 <= generation <= GENERATION_MAX
    return f"{bucket_prefix(bucket)}-0000-0000-0000-{generation:012d}-0"


def bucket_prefix(bucket: int) -> str:
    """How the file ids of a bucket's file groups begin."""
    assert 0 <= bucket < 10**8
    return f"{bucket:08d}"


@functools.lru_cache(maxsize=16_384)
def bucket_of(file_id: str) -> int:
    """The bucket that a bucket index's file id belongs to; raises ``ValueError`` when it names none."""
    if not _BUCKET.match(file_id):
        raise ValueError(f"{file_id!r} does not begin with a bucket in eight digits")
    return int(file_id[:8])


@functools.lru_cache(maxsize=16_384)
def generation_of(file_id: str) -> int:
    """How many groups of its bucket were replaced before this one; raises ``ValueError`` for another id."""
    match = _BUCKET_FILE_ID.fullmatch(file_id)
    if match is None:
        raise ValueError(f"{file_id!r} is not the file id of a bucket")
    return int(match[2])
