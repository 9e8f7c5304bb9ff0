"""The active window of a published timeline: which instants may leave it for its history. No I/O.

Hudi's readers count an instant below the first active commit as committed, and one above it that is not on the
timeline as uncommitted. So what leaves is a contiguous prefix, and no instant that is pending, or whose files
are left over, may come to lie below the first commit that stays (Hudi: TimelineArchiverV2).
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Mapping, Sequence
from typing import Final, Self

import msgspec

from chronolake_model.publication import (
    ACTIVE_HOURS_PROPERTY,
    HISTORY_MERGED,
    KEEP_MAX_DEFAULT,
    KEEP_MAX_PROPERTY,
    KEEP_MIN_DEFAULT,
    KEEP_MIN_PROPERTY,
    HistoryFile,
    HistoryRange,
    PublishedHistory,
    ReportHistory,
)
from chronolake_model.times import MICROS_PER_SECOND, Micros, format_time
from chronolake_model.vocabulary import GRACE_PROPERTY, GRACE_SECONDS_DEFAULT

MOVED_MAX: Final = 10_000
"""Commits that one run moves."""
LOOK_VERSIONS_MAX: Final = 1_000
"""The most events between two looks at the active window."""


class HeldBy(enum.StrEnum):
    """Why an instant cannot leave the active timeline."""

    PENDING = "pending"
    """It is pending, or it is not published yet. While a clean is, nothing leaves."""
    UNDONE = "undone"
    """It was undone, and its files may still be in storage."""
    SAVEPOINT = "savepoint"
    """A restore to a savepoint would undo it."""
    REPLACED = "replaced"
    """File groups that it replaced have files in storage."""
    LOG_FILE = "log-file"
    """A log file of it is in storage: hudi-rs needs its completion time, and reads no history."""
    CLEAN = "clean"
    """It is the earliest commit that the last clean retains, which Hudi's cleaner looks for."""
    LAST_WRITE = "last-write"
    """It is the last write that has completed, which a savepoint may pin at any time."""
    FOREIGN_FILES = "foreign-files"
    """There are files on the timeline that no publisher wrote."""
    HUDI_HISTORY = "hudi-history"
    """The history that Hudi left in an adopted table is damaged, and cannot be extended."""


ADVICE: Final[Mapping[HeldBy, str]] = {
    HeldBy.PENDING: "complete this instant, or roll it back",
    HeldBy.UNDONE: "run chronolake finish-rollbacks, or a clean after a restore, then chronolake sweep",
    HeldBy.SAVEPOINT: "release this savepoint when nobody needs it: chronolake savepoints release",
    HeldBy.REPLACED: "clean: it deletes the files that this replace has replaced",
    HeldBy.LOG_FILE: "compact the file groups with log files, then clean",
    HeldBy.CLEAN: "clean again: the last clean retains this commit",
    HeldBy.LAST_WRITE: "nothing: the next write ends it",
    HeldBy.FOREIGN_FILES: "move the foreign files away, which chronolake hudi status names",
    HeldBy.HUDI_HISTORY: "restore the files that are missing or damaged in .hoodie/timeline/history",
}
"""The way to end each cause, for users."""


class Window(msgspec.Struct, frozen=True):
    """The active window of a table: beyond ``max_commits``, all but ``min_commits`` leave.

    A commit stays for ``seconds`` after its completion in any case.
    """

    max_commits: int
    min_commits: int
    seconds: int

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """The window that the properties of a table state.

        The grace period of deletions is its least age: late files of undone instants, and what a publisher
        that was replaced still writes, come in that time.
        """
        hours = int(properties.get(ACTIVE_HOURS_PROPERTY, 0))
        grace_seconds = int(properties.get(GRACE_PROPERTY, GRACE_SECONDS_DEFAULT))
        return cls(
            int(properties.get(KEEP_MAX_PROPERTY, KEEP_MAX_DEFAULT)),
            int(properties.get(KEEP_MIN_PROPERTY, KEEP_MIN_DEFAULT)),
            max(hours * 3_600, grace_seconds),
        )

    @property
    def look_versions(self) -> int:
        """The number of events after which it is looked again whether commits may leave."""
        return max(1, min(LOOK_VERSIONS_MAX, (self.max_commits - self.min_commits) // 2))


class Blocker(msgspec.Struct, frozen=True):
    """A cause that holds the active timeline: the first commit on it must not be later than ``bound``.

    ``requested_time`` is that of the instant that is the cause; None if none is.
    """

    held_by: HeldBy
    bound: Micros
    requested_time: Micros | None


class Commit(msgspec.Struct, frozen=True):
    """A completed write on the published active timeline."""

    requested_time: Micros
    completion_time: Micros


class Border(msgspec.Struct, frozen=True):
    """Where the active timeline begins: one value beside the log, in the row of the publication.

    Instants that were requested ``before`` are to be in the history only; the last of them completed at
    ``last_completion``. ``written`` is the history in storage, which may have less for a while.
    ``looked_version`` is the version up to which the table was published at the last look; 0 if there is work
    left. ``blocker`` is what held the timeline then, if it has more commits than it should.
    """

    before: Micros = Micros(0)
    last_completion: Micros = Micros(0)
    looked_version: int = 0
    blocker: Blocker | None = None
    written: PublishedHistory | None = None

    def is_due(self, window: Window, published_version: int) -> bool:
        """Whether it is time to look whether commits may leave. A commit is at least one event."""
        looked = published_version - self.looked_version
        return published_version > window.max_commits and looked >= window.look_versions

    def reported(self, report: ReportHistory) -> Border:
        """The border with a history that is in storage. If instants of it are left, the next run continues.

        Raises ``ValueError`` unless the files of the history follow each other up to ``before``.
        """
        former = report.written.former
        begin = format_time(Micros(0)) if former is None else former.before
        ends = [begin, *(file.end for file in report.written.files)]
        begins = [*(file.begin for file in report.written.files), report.written.before]
        if not self.before or begins != ends or report.written.before > format_time(self.before):
            raise ValueError(f"the history ends before {format_time(self.before)} by the last plan")
        looked_version = self.looked_version if report.is_complete else 0
        return msgspec.structs.replace(self, written=report.written, looked_version=looked_version)


class Move(msgspec.Struct, frozen=True):
    """A decision: all instants requested ``before`` may leave, None if none may; and what holds the next."""

    before: Micros | None
    blocker: Blocker | None


def layout(written: PublishedHistory | None, before: str) -> tuple[list[HistoryFile], list[HistoryRange]]:
    """The files of a history that stay, and the ranges to merge, if all instants ``before`` are to be in it.

    The instants after them come into further files.
    """
    if written is None:
        return [], []
    if written.before == before:
        return written.files, []
    kept = [file for file in written.files if file.level]
    small = [*itertools.takewhile(lambda file: file.level == 1, reversed(kept))][::-1]
    if len(small) < HISTORY_MERGED:
        return kept, []
    return kept[: -len(small)], [HistoryRange(small[0].begin, small[-1].end, 2)]


def decide(
    window: Window, commits: Sequence[Commit], total: int, blockers: Sequence[Blocker], now: Micros
) -> Move:
    """Which of the published commits may leave the active timeline.

    ``commits`` are the first ones on it, at least one more than may leave at once, or all, by their requested
    times; ``total`` counts all of them, if only up to some number.
    """
    surplus = total - window.min_commits if total > window.max_commits else 0
    wanted = min(surplus, MOVED_MAX, max(len(commits) - 1, 0))
    oldest = now - window.seconds * MICROS_PER_SECOND
    wanted = next((n for n, commit in enumerate(commits[:wanted]) if commit.completion_time > oldest), wanted)
    first = min(blockers, key=lambda blocker: blocker.bound, default=None)
    # The first commit that stays must not be later than what holds the timeline.
    allowed = wanted
    if first is not None:
        below = sum(commit.requested_time <= first.bound for commit in commits[: wanted + 1])
        allowed = min(wanted, max(below - 1, 0))
    return Move(
        commits[allowed].requested_time if allowed else None,
        first if allowed < wanted else None,
    )
