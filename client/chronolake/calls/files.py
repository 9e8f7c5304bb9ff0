"""Calls of file slices, file groups, partitions and changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from chronolake.calls import base
from chronolake.calls.base import Call, digits, post, query, table_path
from chronolake_model.files import Changes, FileGroupName, Snapshot
from chronolake_model.filters import Filter
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
    return Call("GET", f"{table_path(name)}/snapshot", Snapshot, pairs)


def scan(
    name: str, as_of: Moment | None, partition_paths: Iterable[str] | None, filter: Filter | None
) -> Call[Snapshot]:
    """The live file slices that could match a filter."""
    paths = None if partition_paths is None else list(partition_paths)
    return post(
        f"{table_path(name)}/scan",
        Snapshot,
        Scan(digits(as_of), paths, filter, base.FILES_LIMIT_MAX),
        is_query=True,
    )


def file_groups(
    name: str, names: Iterable[FileGroupName], buckets: Iterable[BucketName], as_of: Moment | None
) -> Call[FoundFileGroups]:
    """The slices of some file groups."""
    body = FindFileGroups([*names], [*buckets], digits(as_of))
    return post(f"{table_path(name)}/file-groups", FoundFileGroups, body, is_query=True)


def file_group(name: str, file_id: str, partition_path: str, as_of: Moment | None) -> Call[FileGroupHistory]:
    """One file group with all its slices."""
    pairs = query(
        file_id=file_id, partition_path=partition_path, as_of=digits(as_of), limit=base.FILES_LIMIT_MAX
    )
    return Call("GET", f"{table_path(name)}/file-groups/history", FileGroupHistory, pairs)


def partitions(name: str, as_of: Moment | None) -> Call[Partitions]:
    """The partitions with their totals."""
    pairs = query(as_of=digits(as_of), limit=base.FILES_LIMIT_MAX)
    return Call("GET", f"{table_path(name)}/partitions", Partitions, pairs)


def replaced_file_groups(name: str, as_of: Moment | None) -> Call[ReplacedFileGroups]:
    """The file groups that were replaced."""
    pairs = query(as_of=digits(as_of), limit=base.FILES_LIMIT_MAX)
    return Call("GET", f"{table_path(name)}/replaced-file-groups", ReplacedFileGroups, pairs)


def pending_file_groups(name: str, as_of: Moment | None) -> Call[PendingFileGroups]:
    """The file groups for which table services are pending."""
    pairs = query(as_of=digits(as_of), limit=base.FILES_LIMIT_MAX)
    return Call("GET", f"{table_path(name)}/pending-file-groups", PendingFileGroups, pairs)


def published(name: str) -> Call[None]:
    """Every file that was ever published, as Arrow."""
    return Call("GET", f"{table_path(name)}/published", type(None))


def changes(name: str, from_: Moment | None, to: Moment | None) -> Call[Changes]:
    """The instants that completed in (from, to]."""
    pairs = query(**{"from": digits(from_), "to": digits(to)}, limit=base.FILES_LIMIT_MAX)
    return Call("GET", f"{table_path(name)}/changes", Changes, pairs)


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
