# Generated from chronolake/_async/orphans.py by tools/async_to_sync.py: do not edit.
"""Finds and deletes orphans: unpublished files in storage (docs/architecture.md#promises, promise 5).

The storage is listed first, then the published files are read, and the instants last. So a file that is written
or published meanwhile is never reported as deletable: an instant that completed after the published files were
read counts as pending.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from chronolake import _orphan_reasons, calls, errors
from chronolake._concurrency import blocking as concurrency
from chronolake._location import TableLocation
from chronolake._orphan_reasons import instant_of, reason_of
from chronolake._sync import arrow
from chronolake_model import operations
from chronolake_model.deletable import Refusal
from chronolake_model.markers import DELETIONS_MAX, file_at
from chronolake_model.orphans import Orphan, OrphanReason, Orphans
from chronolake_storage.guard import Deleting
from chronolake_storage.publishing import PARTITION_METADATA

if TYPE_CHECKING:
    from chronolake._sync.stored_table import StoredTable
    from chronolake._sync.transport import Transport

_AS_OF: Final = b"chronolake.as_of"


def find(table: StoredTable, transport: Transport, location: TableLocation) -> Orphans:
    """The answer of ``Table.orphans``. It holds the paths of all files in storage in memory."""
    sizes = concurrency.run_blocking(_sizes_in_storage, location)
    files_listed = len(sizes)
    as_of = _remove_published(sizes, table, transport)
    classifier = _OrphanClassifier(table, as_of)
    paths = sorted(sizes, key=_orphan_reasons.by_instant)
    orphans = [classifier.orphan(path, sizes[path]) for path in paths]
    return _orphan_reasons.report_of(table.name, as_of, files_listed, _with_dropped_tables(table, orphans))


def delete(report: Orphans, location: TableLocation, *, unknown_instants: bool = False) -> Orphans:
    """Delete the files of a report that are safe to delete; the result is the report with the deletions."""
    failures: dict[str, str | None] = {}
    paths_of = _orphan_reasons.deletable_paths(report, unknown_instants=unknown_instants)
    for requested_time, paths in paths_of.items():
        deleting = Deleting(None, requested_time, unknown_instants=unknown_instants)
        failed = concurrency.run_blocking(location.delete_paths, deleting, paths)
        failures |= {path: failed.get(path) for path in paths}
    return _orphan_reasons.with_deletions(report, failures)


def _sizes_in_storage(location: TableLocation) -> dict[str, int]:
    # The metadata of partitions is of the publication for Hudi's readers, and stays with its folder.
    return {
        file.path: file.size_bytes
        for file in location.storage.listing()
        if file.file_name != PARTITION_METADATA
    }


def _remove_published(sizes: dict[str, int], table: StoredTable, transport: Transport) -> str | None:
    """Remove published files from ``sizes``; returns the completion time as of which they were read."""
    as_of: bytes | None = None
    with contextlib.closing(
        arrow.stream(transport, calls.call(operations.files.GET_PUBLISHED, table.name))
    ) as stream:
        schema = next(stream)
        as_of = (schema.metadata or {}).get(_AS_OF)
        for batch in stream:
            for path in batch.column("path").to_pylist():
                sizes.pop(path, None)
    return None if as_of is None else as_of.decode()


def _with_dropped_tables(table: StoredTable, orphans: Sequence[Orphan]) -> list[Orphan]:
    """The orphans, with the files of dropped tables told apart from other files of unknown instants."""
    unknown = [orphan.path for orphan in orphans if orphan.reason is OrphanReason.UNKNOWN_INSTANT]
    dropped = _paths_of_dropped_tables(table, unknown)
    return [
        msgspec.structs.replace(orphan, reason=OrphanReason.DROPPED_TABLE) if orphan.path in dropped else orphan
        for orphan in orphans
    ]


def _paths_of_dropped_tables(table: StoredTable, paths: Sequence[str]) -> set[str]:
    dropped: set[str] = set()
    # If the server refuses all deletions, it does not say which files belong to dropped tables.
    with contextlib.suppress(errors.BasePathShared, errors.MetastoreMoved):
        for first in range(0, len(paths), DELETIONS_MAX):
            part = paths[first : first + DELETIONS_MAX]
            answer = table.deletable_orphans(file_at(path) for path in part)
            dropped |= {refused.path for refused in answer.refused if refused.reason is Refusal.DROPPED_TABLE}
    return dropped


class _OrphanClassifier:
    """Finds the reason of each orphan. The files of an instant must come one after another."""

    def __init__(self, table: StoredTable, as_of: str | None) -> None:
        self._table = table
        self._as_of = as_of
        # Only the last instant is cached, because an instant may have very many markers.
        self._requested_time: str | None = None
        self._reason = OrphanReason.UNKNOWN_INSTANT
        self._marked: Iterable[str] = frozenset()

    def orphan(self, path: str, size_bytes: int) -> Orphan:
        """The file with its reason."""
        requested_time = instant_of(path)
        if requested_time is None:
            return Orphan(path, size_bytes, OrphanReason.NOT_A_DATA_FILE, None)
        if requested_time != self._requested_time:
            self._reason, self._marked = self._of_instant(requested_time)
            self._requested_time = requested_time
        return Orphan(path, size_bytes, self._reason, requested_time, path in self._marked)

    def _of_instant(self, requested_time: str) -> tuple[OrphanReason, frozenset[str]]:
        try:
            instant = self._table.instant(requested_time)
            marked = frozenset([marker.path for marker in self._table.markers(requested_time)])
        except errors.InstantNotFound:
            return OrphanReason.UNKNOWN_INSTANT, frozenset()
        return reason_of(instant, self._as_of, datetime.now(UTC)), marked
