"""Markers, and the files that they name."""

from __future__ import annotations

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from chronolake_model.file_names import (
    PATH_BYTES_MAX,
    DataFileName,
    FileKind,
    check_partition_path,
    parse_file_name,
    relative_path,
)
from chronolake_model.files import PartitionPath

TYPE_PROPERTY: Final = "markers.type"
"""The property of a table that says where the markers of its writes are; the server unless given."""
EXECUTOR_PROPERTY: Final = "deletions.executor"
"""The property of a table that says whether clients or servers delete its files. Default: clients."""


class MarkerKind(enum.StrEnum):
    """How a write changes the file group (Hudi: IOType)."""

    CREATE = "CREATE"
    """A base file of a file group that is new, or that the writer does not read before."""
    MERGE = "MERGE"
    """A base file in place of the one before."""
    APPEND = "APPEND"
    """A log file."""


class MarkersType(enum.StrEnum):
    """Where the markers of a write are."""

    SERVER = "server"
    DIRECT = "direct"
    """In the table's own storage, an empty object each: for writers whose executors cannot reach the server."""


class Executor(enum.StrEnum):
    """The executor of rollbacks and cleans: it deletes files from a table's storage."""

    CLIENT = "client"
    """The client that requests the deletion."""
    SERVER = "server"
    """A worker of the server, which needs the credentials; see the setting ``deleter_seconds``."""


class Marker(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """The marker of one data file."""

    partition_path: PartitionPath
    file_name: Annotated[str, Meta(min_length=1, max_length=1_024, description="The name of the data file.")]
    kind: MarkerKind

    @property
    def path(self) -> str:
        """The data file, relative to the table's base path."""
        return relative_path(self.partition_path, self.file_name)

    @property
    def name(self) -> str:
        """The name of the marker; ``parse_marker`` reads it."""
        return f"{self.path}.marker.{self.kind}"


class DeletedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """A data file that is not in storage any more, by the name that its marker had."""

    partition_path: PartitionPath
    file_name: Annotated[str, Meta(min_length=1, max_length=1_024)]

    @property
    def path(self) -> str:
        """The data file, relative to the table's base path."""
        return relative_path(self.partition_path, self.file_name)


def file_at(path: str) -> DeletedFile:
    """A file by its path, relative to the table's base path."""
    partition_path, _, file_name = path.rpartition("/")
    return DeletedFile(partition_path, file_name)


def is_file_of(file: DeletedFile, requested_time: str) -> bool:
    """Whether it is, by its name, a data file of the instant with this requested time."""
    try:
        check_partition_path(file.partition_path)
        name = parse_file_name(file.file_name)
    except ValueError:
        return False
    return name.requested_time == requested_time and len(file.path.encode()) <= PATH_BYTES_MAX


def check_marker(marker: Marker) -> DataFileName:
    """The parts of the data file's name; raises ``ValueError`` when it is no data file's marker."""
    name = parse_file_name(marker.file_name)
    if (name.kind is FileKind.LOG) != (marker.kind is MarkerKind.APPEND):
        wanted = "APPEND" if name.kind is FileKind.LOG else "CREATE or MERGE"
        raise ValueError(f"the marker of a {name.kind} file is of the kind {wanted}, not {marker.kind}")
    check_partition_path(marker.partition_path)
    # A quarter of the bytes, in characters, is always short enough.
    if len(marker.path) * 4 > PATH_BYTES_MAX and len(marker.path.encode()) > PATH_BYTES_MAX:
        raise ValueError(f"partition path and file name have more than {PATH_BYTES_MAX} bytes")
    return name
