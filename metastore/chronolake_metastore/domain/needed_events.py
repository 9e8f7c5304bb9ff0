"""The events of a table that its state still needs: all from one version on. Older ones may leave. No I/O."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec

from chronolake_model.times import Micros

BEGINNING: Final = Micros(0)
"""Before all events."""
KINDS: Final = ("TableCreated", "TableAltered", "TableDropped")
"""The types of events that the state needs for good, few for each table; and the last ``HudiFilesFound``."""


class Causes(msgspec.Struct, frozen=True):
    """The causes for which a table needs events, each with the requested time of the first instant of it.

    ``window`` are the least commits to keep: with fewer, all events stay. ``published_version`` is None, and
    ``history_before`` too, for a table whose publication never began, or that is hidden from Hudi's readers.
    """

    table_id: UUID
    version: int
    """The version of its last event."""
    is_dropped: bool
    published_version: int | None = None
    history_before: Micros | None = None
    """The requested time of the first instant on the published active timeline."""
    pending: Micros | None = None
    undone: Micros | None = None
    """Instants that were undone, and whose files may still be in storage."""
    savepoint: Micros | None = None
    replaced: Micros | None = None
    """Replaces whose replaced files may still be in storage."""
    retained: Micros | None = None
    """The earliest commit that the last clean retains."""
    last_write: Micros | None = None
    window_commits: int = 0
    recent: Micros | None = None
    """Instants that completed within the hours of the window."""
    fewest: Micros | None = None
    """The oldest of the least commits that are kept."""


class Need(msgspec.Struct, frozen=True):
    """A table needs its events from a time on, and from a version on if that is earlier."""

    since: Micros | None
    version: int

    def first_version(self, version_since: int | None) -> int:
        """The version of the first needed event, given that of the first event at or after ``since``."""
        return self.version if version_since is None else min(self.version, version_since)

    def covers(self, other: Need) -> bool:
        """Whether all that ``other`` needs is needed here."""
        if self.version > other.version:
            return False
        return other.since is None or (self.since is not None and self.since <= other.since)


def need(causes: Causes) -> Need:
    """The events that a table needs. The last one is always among them."""
    return Need(_since(causes), _version(causes))


def need_for_blockers(causes: Causes) -> Need:
    """The same without the window, which is a wish of the table's owner, and no matter of correctness."""
    return Need(_earliest(_blockers(causes)), _version(causes))


def _since(causes: Causes) -> Micros | None:
    if causes.is_dropped:
        return _earliest(_blockers(causes))
    if causes.window_commits and causes.fewest is None:
        return BEGINNING
    return _earliest([*_blockers(causes), causes.recent, causes.fewest])


def _blockers(causes: Causes) -> list[Micros | None]:
    if causes.is_dropped:
        return [causes.pending, causes.undone]
    return [
        causes.pending,
        causes.undone,
        causes.savepoint,
        causes.replaced,
        causes.retained,
        causes.last_write,
        causes.history_before or BEGINNING if causes.published_version else None,
    ]


def _version(causes: Causes) -> int:
    """The first event that is not published, but not after the last event.

    A publication that begins later reads the archive.
    """
    return min(causes.version, (causes.published_version or causes.version) + 1)


def _earliest(times: list[Micros | None]) -> Micros | None:
    return min((time for time in times if time is not None), default=None)
