"""Calls of file slices, file groups, partitions and changes, of markers and deletions, and of readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from chronolake.calls import base
from chronolake.calls.base import Call, call, digits, query
from chronolake_model import operations
from chronolake_model.files import Changes, FileGroupName, Snapshot
from chronolake_model.filters import Filter
from chronolake_model.markers import DeletedFilePage, Marker, MarkerExists, MarkerPage, check_marker
from chronolake_model.readers import ReaderPage
from chronolake_model.scans import Scan
from chronolake_model.slices import (
    BucketName,
    FileGroupHistory,
    FindFileGroups,
    FoundFileGroups,
    Partitions,
    PendingFileGroups,
    ReplacedFileGroups,
)
from chronolake_model.sweeps import UnsweptPage
from chronolake_model.times import Moment
from chronolake_model.vocabulary import View


def snapshot(
    name: str,
    as_of: Moment | None,
    partition_path: str | None,
    view: View = View.MERGED,
    before_or_on: Moment | None = None,
) -> Call[Snapshot]:
    """The live file slices."""
    pairs = query(
        as_of=digits(as_of),
        partition_path=partition_path,
        view=None if view is View.MERGED else view,
        before_or_on=base.requested_digits(before_or_on),
        limit=base.FILES_LIMIT_MAX,
    )
    return call(operations.files.GET_SNAPSHOT, name, query=pairs)


def scan(
    name: str, as_of: Moment | None, partition_paths: Iterable[str] | None, filter: Filter | None
) -> Call[Snapshot]:
    """The live file slices that could match a filter."""
    paths = None if partition_paths is None else list(partition_paths)
    body = Scan(digits(as_of), paths, filter, base.FILES_LIMIT_MAX)
    return call(operations.files.SCAN_FILES, name, body=body)


def file_groups(
    name: str, names: Iterable[FileGroupName], buckets: Iterable[BucketName], as_of: Moment | None
) -> Call[FoundFileGroups]:
    """The slices of some file groups."""
    body = FindFileGroups([*names], [*buckets], digits(as_of))
    return call(operations.files.FIND_FILE_GROUPS, name, body=body)


def file_group(name: str, file_id: str, partition_path: str, as_of: Moment | None) -> Call[FileGroupHistory]:
    """One file group with all its slices."""
    pairs = query(
        file_id=file_id, partition_path=partition_path, as_of=digits(as_of), limit=base.FILES_LIMIT_MAX
    )
    return call(operations.files.GET_FILE_GROUP, name, query=pairs)


def partitions(name: str, as_of: Moment | None) -> Call[Partitions]:
    """The partitions with their totals."""
    return call(operations.files.LIST_PARTITIONS, name, query=_as_of(as_of))


def replaced_file_groups(name: str, as_of: Moment | None) -> Call[ReplacedFileGroups]:
    """The file groups that were replaced."""
    return call(operations.files.LIST_REPLACED_FILE_GROUPS, name, query=_as_of(as_of))


def pending_file_groups(name: str, as_of: Moment | None) -> Call[PendingFileGroups]:
    """The file groups for which table services are pending."""
    return call(operations.files.LIST_PENDING_FILE_GROUPS, name, query=_as_of(as_of))


def changes(name: str, from_: Moment | None, to: Moment | None) -> Call[Changes]:
    """The instants that completed in (from, to]."""
    pairs = query(**{"from": digits(from_), "to": digits(to)}, limit=base.FILES_LIMIT_MAX)
    return call(operations.files.GET_CHANGES, name, query=pairs)


def merge_changes(pages: Sequence[Changes]) -> Changes:
    """One answer of all its pages; an instant that several pages name counts once."""
    instants = {instant.requested_time: instant for page in pages for instant in page.instants}
    restores = {restore.requested_time: restore for page in pages for restore in page.restores}
    file_groups = [file_group for page in pages for file_group in page.file_groups]
    return msgspec.structs.replace(
        pages[0],
        instants=list(instants.values()),
        restores=list(restores.values()),
        file_groups=file_groups,
        next_cursor=None,
    )


def list_markers(name: str, requested_time: str, unpublished: bool) -> Call[MarkerPage]:
    """The markers of an instant."""
    pairs = _unpublished(only=unpublished)
    return call(operations.files.LIST_MARKERS, name, requested_time, query=pairs)


def find_marker(name: str, requested_time: str, marker: Marker) -> Call[MarkerExists]:
    """Whether an instant has a marker."""
    check_marker(marker)
    return call(operations.files.FIND_MARKER, name, requested_time, query=query(name=marker.name))


def list_deletions(name: str, requested_time: str, *, unpublished: bool = False) -> Call[DeletedFilePage]:
    """The files of an instant that were reported deleted."""
    pairs = _unpublished(only=unpublished)
    return call(operations.files.LIST_DELETIONS, name, requested_time, query=pairs)


def list_unswept(name: str, grace_seconds: int | None) -> Call[UnsweptPage]:
    """The instants that are due for a sweep."""
    pairs = query(grace_seconds=grace_seconds, limit=base.LIMIT_MAX)
    return call(operations.files.LIST_UNSWEPT, name, query=pairs)


def list_readers(name: str) -> Call[ReaderPage]:
    """The leases of readers that have not ended."""
    return call(operations.files.LIST_READERS, name, query=query(limit=base.LIMIT_MAX))


def _as_of(as_of: Moment | None) -> base.Query:
    return query(as_of=digits(as_of), limit=base.FILES_LIMIT_MAX)


def _unpublished(*, only: bool) -> base.Query:
    return query(unpublished="true" if only else None, limit=base.FILES_LIMIT_MAX)
