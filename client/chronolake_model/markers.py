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

from chronolake_model.marker_names import (
    EXECUTOR_PROPERTY,
    TYPE_PROPERTY,
    DeletedFile,
    Executor,
    Marker,
    MarkerKind,
    MarkersType,
    check_marker,
    file_at,
    is_file_of,
)
from chronolake_model.tables import Table

__all__ = [
    "EXECUTOR_PROPERTY",
    "TYPE_PROPERTY",
    "DeletedFile",
    "Executor",
    "Marker",
    "MarkerKind",
    "MarkersType",
    "check_marker",
    "file_at",
    "is_file_of",
]
"""Words of the vocabulary that these bodies have."""

MARKERS_MAX: Final = 10_000
"""Markers of one request."""
DELETIONS_MAX: Final = 10_000
"""Files of one report of deletions."""


_SUFFIX: Final = re.compile(r"(?P<path>.+)\.marker\.(?P<kind>[A-Z]+)", re.DOTALL)


def has_direct_markers(table: Table, markers: MarkersType | None) -> bool:
    """Whether the markers of a write are in storage; ``markers`` overrides the property of the table."""
    return (markers or table.properties.get(TYPE_PROPERTY)) == MarkersType.DIRECT


class MarkerOutcome(enum.StrEnum):
    """Whether a request has created a marker; the marker is durable in both cases."""

    CREATED = "created"
    EXISTED = "existed"


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
