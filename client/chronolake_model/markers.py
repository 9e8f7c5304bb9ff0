"""Markers: what names a data file before it is there (docs/architecture.md#markers-and-deletion).

A marker is called ``<partition path>/<data file name>.marker.<CREATE|MERGE|APPEND>``, as Hudi's is. A writer
creates the marker of a data file before the file; so every file that can be in storage has a name that is
known, and what a failed attempt left is found without listing the store.
"""

from __future__ import annotations

import enum
import re
from datetime import datetime
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
from chronolake_model.tables import Table

MARKERS_MAX: Final = 10_000
"""Markers of one request."""
DELETIONS_MAX: Final = 10_000
"""Files of one report of deletions."""

TYPE_PROPERTY: Final = "markers.type"
"""The property of a table that says where the markers of its writes are; the server unless given."""

EXECUTOR_PROPERTY: Final = "deletions.executor"
"""The property of a table that says whether clients or servers delete its files. Default: clients."""

_SUFFIX: Final = re.compile(r"(?P<path>.+)\.marker\.(?P<kind>[A-Z]+)", re.DOTALL)


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


def has_direct_markers(table: Table, markers: MarkersType | None) -> bool:
    """Whether the markers of a write are in storage; ``markers`` overrides the property of the table."""
    return (markers or table.properties.get(TYPE_PROPERTY)) == MarkersType.DIRECT


class Executor(enum.StrEnum):
    """The executor of rollbacks and cleans: it deletes files from a table's storage."""

    CLIENT = "client"
    """The client that requests the deletion."""
    SERVER = "server"
    """A worker of the server, which needs the credentials; see the setting ``deleter_seconds``."""


class MarkerOutcome(enum.StrEnum):
    """Whether a request has created a marker; the marker is durable in both cases."""

    CREATED = "created"
    EXISTED = "existed"


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


class CreateMarkers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Create markers: all of them, or none when the request is refused.

    ``writer`` is the sender. The markers are refused if another writer has taken the instant over.
    """

    markers: Annotated[list[Marker], Meta(min_length=1, max_length=MARKERS_MAX)]
    writer: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class CreatedMarkers(msgspec.Struct, frozen=True):
    """The result of each marker, in the order of the request.

    A repeated request gets ``existed`` for markers that an earlier attempt had created.
    """

    outcomes: list[MarkerOutcome]


class MarkerExists(msgspec.Struct, frozen=True):
    """Whether an instant has the marker of a name; ``created_at`` is by the database's clock."""

    name: str
    exists: bool
    created_at: datetime | None


class MarkerPage(msgspec.Struct, frozen=True):
    """Markers of an instant, by partition path, file name and kind."""

    table: str
    requested_time: str
    markers: list[Marker]
    next_cursor: str | None


class DeletedMarkers(msgspec.Struct, frozen=True):
    """The number of markers that were deleted."""

    deleted: int


class DeletedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """A data file that is not in storage any more, by the name that its marker had."""

    partition_path: PartitionPath
    file_name: Annotated[str, Meta(min_length=1, max_length=1_024)]

    @property
    def path(self) -> str:
        """The data file, relative to the table's base path."""
        return relative_path(self.partition_path, self.file_name)


class ReportDeletions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Report deleted files. Either all are recorded and their markers are removed, or none.

    ``writer`` is the sender. The report is refused if another writer has taken the instant over.
    """

    files: Annotated[list[DeletedFile], Meta(min_length=1, max_length=DELETIONS_MAX)]
    writer: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class ReportedDeletions(msgspec.Struct, frozen=True):
    """Recorded deletions: the version of the table's log, and the number of files."""

    table: str
    requested_time: str
    version: int
    files: int


class DeletedFilePage(msgspec.Struct, frozen=True):
    """Files of an instant that were reported deleted, by path, each once."""

    table: str
    requested_time: str
    files: list[DeletedFile]
    next_cursor: str | None


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


def parse_marker(name: str) -> Marker:
    """The marker of this name; raises ``ValueError`` when it is the name of none."""
    match = _SUFFIX.fullmatch(name)
    if match is None:
        raise ValueError(f"{name[:200]!r} does not end with .marker.{'|'.join(MarkerKind)}")
    if match["kind"] not in list(MarkerKind):
        raise ValueError(f"a marker is of the kind {', '.join(MarkerKind)}, not {match['kind'][:100]!r}")
    partition_path, slash, file_name = match["path"].rpartition("/")
    if slash and not partition_path:
        raise ValueError(f"{name[:200]!r} begins with a slash; it is relative to the table's base path")
    marker = Marker(partition_path, file_name, MarkerKind(match["kind"]))
    check_marker(marker)
    return marker


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
