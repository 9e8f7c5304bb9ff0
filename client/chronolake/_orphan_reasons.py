"""The reasons why a file in storage is not published, and reports of such files. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from chronolake_model.instants import Instant
from chronolake_model.orphans import SAFE_TO_DELETE, Orphan, OrphanReason, Orphans, OrphanTotal
from chronolake_model.vocabulary import State
from chronolake_storage.guard import requested_time_of


def reason_of(instant: Instant, as_of: str | None, now: datetime) -> OrphanReason:
    """The reason why a file of this instant was not published as of ``as_of``."""
    match instant.state:
        case State.ROLLED_BACK:
            return OrphanReason.ROLLED_BACK
        case State.COMPLETED:
            completed = instant.completion_time
            if as_of is not None and completed is not None and completed <= as_of:
                return OrphanReason.NOT_NAMED
            # It completed after the published files were read.
            return OrphanReason.PENDING
        case State.REQUESTED | State.INFLIGHT:
            has_ended = instant.lease_expires_at is not None and instant.lease_expires_at <= now
            return OrphanReason.LEASE_ENDED if has_ended else OrphanReason.PENDING


def instant_of(path: str) -> str | None:
    """The requested time in the name of a data file; None for other files."""
    return requested_time_of(path.rpartition("/")[2])


def by_instant(path: str) -> tuple[str, str]:
    """A sort key that keeps the files of an instant together, so that its markers are read once."""
    return instant_of(path) or "", path


def report_of(table: str, as_of: str | None, files_listed: int, orphans: Iterable[Orphan]) -> Orphans:
    """The report, with orphans in the order of reason and path."""
    ordered = sorted(orphans, key=lambda orphan: (orphan.reason, orphan.path))
    return Orphans(table, as_of, files_listed, totals_of(ordered), ordered)


def totals_of(orphans: Iterable[Orphan]) -> list[OrphanTotal]:
    """The totals of each reason that occurs."""
    files: Counter[OrphanReason] = Counter()
    sizes: Counter[OrphanReason] = Counter()
    for orphan in orphans:
        files[orphan.reason] += 1
        sizes[orphan.reason] += orphan.size_bytes
    return [OrphanTotal(reason, files[reason], sizes[reason]) for reason in OrphanReason if files[reason]]


def deletable_paths(report: Orphans, *, unknown_instants: bool) -> dict[str, list[str]]:
    """The paths of a report that are safe to delete, by instant."""
    safe = SAFE_TO_DELETE | ({OrphanReason.UNKNOWN_INSTANT} if unknown_instants else set())
    paths: dict[str, list[str]] = {}
    for orphan in report.orphans:
        if orphan.reason in safe and orphan.requested_time is not None:
            paths.setdefault(orphan.requested_time, []).append(orphan.path)
    return paths


def with_deletions(report: Orphans, failures: Mapping[str, str | None]) -> Orphans:
    """The report after deletions: ``failures`` has each path that was tried, with None if it was deleted."""
    orphans = [
        msgspec.structs.replace(orphan, deleted=failures[orphan.path] is None, failure=failures[orphan.path])
        if orphan.path in failures
        else orphan
        for orphan in report.orphans
    ]
    return msgspec.structs.replace(report, orphans=orphans)
