"""Orphans: files in storage that no instant accounts for (docs/architecture.md#promises, promise 5).

Storage is listed first, what was published is read after it, and instants are asked for last. So a file that is
written or published meanwhile never passes for an orphan: an instant that completed behind the reading counts
as pending.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from chronolake import errors
from chronolake._markers import Location
from chronolake.storage import Deletion, Storage, storage_failures
from chronolake_model.deletable import Deletable, Refusal
from chronolake_model.instants import Instant
from chronolake_model.markers import DELETIONS_MAX, DeletedFile, Marker, file_at
from chronolake_model.orphans import SAFE_TO_DELETE, Orphan, OrphanReason, Orphans, OrphanTotal
from chronolake_model.vocabulary import State
from chronolake_storage.guard import Deleting, requested_time_of

_AS_OF: Final = b"chronolake.as_of"


class Timeline(Protocol):
    """What must be known of a table."""

    @property
    def name(self) -> str:
        """``namespace.table``."""

    def published_batches(self) -> Any:
        """As ``Table.published_batches``."""

    def instant(self, requested_time: str) -> Instant:
        """As ``Table.instant``."""

    def markers(self, requested_time: str) -> Iterator[Marker]:
        """As ``Table.markers``."""

    def deletable_orphans(self, files: Iterable[DeletedFile]) -> Deletable:
        """As ``Table.deletable_orphans``."""


def find(table: Timeline, storage: Storage) -> Orphans:
    """What ``Table.orphans`` answers. Holds the paths of all files in storage at once, and no more."""
    sizes = {one.path: one.size_bytes for one in storage.listing()}
    listed = len(sizes)
    as_of = _leave_out_published(sizes, table.published_batches())
    judged = _Judge(table, as_of)
    orphans = _with_dropped_tables(
        table, [judged.orphan(path, sizes[path]) for path in sorted(sizes, key=_by_instant)]
    )
    orphans.sort(key=lambda one: (one.reason, one.path))
    return Orphans(table.name, as_of, listed, totals_of(orphans), orphans)


def delete(report: Orphans, location: Location, *, unknown_instants: bool = False) -> Orphans:
    """Delete what is safe to delete of a report: what became of each file is said in the answer."""
    safe = SAFE_TO_DELETE | ({OrphanReason.UNKNOWN_INSTANT} if unknown_instants else set())
    doomed: dict[str, list[str]] = {}
    for one in report.orphans:
        if one.reason in safe and one.requested_time is not None:
            doomed.setdefault(one.requested_time, []).append(one.path)
    deletions: dict[str, Deletion] = {}
    with storage_failures():
        for instant, paths in doomed.items():
            deletions |= {
                one.path: one
                for one in location.guard.delete(
                    Deleting(None, instant, unknown_instants=unknown_instants), paths
                )
            }
    orphans = [
        msgspec.structs.replace(one, deleted=done.failure is None, failure=done.failure)
        if (done := deletions.get(one.path))
        else one
        for one in report.orphans
    ]
    return msgspec.structs.replace(report, orphans=orphans)


def totals_of(orphans: Iterable[Orphan]) -> list[OrphanTotal]:
    """The totals of each reason that there is."""
    files: Counter[OrphanReason] = Counter()
    sizes: Counter[OrphanReason] = Counter()
    for one in orphans:
        files[one.reason] += 1
        sizes[one.reason] += one.size_bytes
    return [OrphanTotal(reason, files[reason], sizes[reason]) for reason in OrphanReason if files[reason]]


def _leave_out_published(sizes: dict[str, int], published: Any) -> str | None:
    """Leave out of ``sizes`` what was published; gives the completion time by which it was."""
    with published:
        for batch in published:
            for path in batch.column("path").to_pylist():
                sizes.pop(path, None)
    as_of = (published.schema.metadata or {}).get(_AS_OF)
    return None if as_of is None else as_of.decode()


def _with_dropped_tables(table: Timeline, orphans: Sequence[Orphan]) -> list[Orphan]:
    """The orphans; those of no instant known are told apart by whether a dropped table has them."""
    unknown = [one.path for one in orphans if one.reason is OrphanReason.UNKNOWN_INSTANT]
    dropped: set[str] = set()
    # Where nothing may be deleted at all, the server does not say which files are whose.
    with contextlib.suppress(errors.BasePathShared, errors.MetastoreMoved):
        for start in range(0, len(unknown), DELETIONS_MAX):
            answer = table.deletable_orphans(file_at(path) for path in unknown[start : start + DELETIONS_MAX])
            dropped |= {one.path for one in answer.refused if one.reason is Refusal.DROPPED_TABLE}
    return [
        msgspec.structs.replace(one, reason=OrphanReason.DROPPED_TABLE) if one.path in dropped else one
        for one in orphans
    ]


def _by_instant(path: str) -> tuple[str, str]:
    """So that an instant's files come together, whose markers are read once."""
    return requested_time_of(path.rpartition("/")[2]) or "", path


class _Judge:
    """Says of files why they are unaccounted for; files of an instant come one after another."""

    def __init__(self, table: Timeline, as_of: str | None) -> None:
        self._table = table
        self._as_of = as_of
        # One is enough, and more could be many markers.
        self._instant = functools.lru_cache(maxsize=1)(self._ask)

    def orphan(self, path: str, size_bytes: int) -> Orphan:
        """The file with its reason."""
        requested_time = requested_time_of(path.rpartition("/")[2])
        if requested_time is None:
            return Orphan(path, size_bytes, OrphanReason.NO_DATA_FILE, None)
        reason, marked = self._instant(requested_time)
        return Orphan(path, size_bytes, reason, requested_time, path in marked)

    def _ask(self, requested_time: str) -> tuple[OrphanReason, frozenset[str]]:
        try:
            instant = self._table.instant(requested_time)
            marked = frozenset(one.path for one in self._table.markers(requested_time))
        except errors.InstantNotFound:
            return OrphanReason.UNKNOWN_INSTANT, frozenset()
        return reason_of(instant, self._as_of, datetime.now(UTC)), marked


def reason_of(instant: Instant, as_of: str | None, now: datetime) -> OrphanReason:
    """Why a file of this instant was not published by ``as_of``."""
    match instant.state:
        case State.ROLLED_BACK:
            return OrphanReason.ROLLED_BACK
        case State.COMPLETED:
            completed = instant.completion_time
            if as_of is not None and completed is not None and completed <= as_of:
                return OrphanReason.NOT_NAMED
            # It completed while the report was made: it could not be among what was published.
            return OrphanReason.PENDING
        case State.REQUESTED | State.INFLIGHT:
            ended = instant.lease_expires_at is not None and instant.lease_expires_at <= now
            return OrphanReason.LEASE_ENDED if ended else OrphanReason.PENDING
