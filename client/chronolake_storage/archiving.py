"""The protocol by which a publisher moves old instants from the published timeline to its history. No I/O.

Each step may be repeated. The history is written and shown before an instant leaves the timeline, and is
compared with its last report in each run: what is damaged is written again from the log.
"""

from __future__ import annotations

import typing
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from chronolake_model.publication import (
    FormerFile,
    FormerHistory,
    HistoryFile,
    HistoryInstant,
    HistoryPage,
    HistoryPlan,
    HistoryRange,
    PlanHistory,
    PublicationLease,
    PublishedHistory,
    ReportHistory,
    ReportPublication,
)
from chronolake_storage.protocols import Protocol, Step
from chronolake_storage.published_history import VERSION_PATH, HistoryListing, HistorySource
from chronolake_storage.publishing import HISTORY_FOLDER


class HistoryExecutor(typing.Protocol):
    """Performs the steps of the protocol, see ``PublicationExecutor``."""

    def report(self, report: ReportPublication) -> Any:
        """Report to the metastore."""

    def plan_history(self, body: PlanHistory) -> Any:
        """Let the metastore decide what the history is to have."""

    def read_history(self, range_: HistoryRange, after: int) -> Any:
        """Read from the metastore the next instants of a range."""

    def find_history(self, written: PublishedHistory | None) -> Any:
        """Compare the history in storage, see ``published_history.find``."""

    def write_history(self, range_: HistoryRange, source: HistorySource) -> Any:
        """Write a file, see ``published_history.write``."""

    def compare_history(self, name: str, instants: Sequence[HistoryInstant]) -> Any:
        """Compare the instants in a file, see ``published_history.differs``."""

    def show_history(self, history: PublishedHistory) -> Any:
        """Let readers find a history, see ``published_history.show``."""

    def remove_archived(self, before: str) -> Any:
        """Remove instants from the timeline, see ``published_history.remove_archived``."""

    def remove_unused_history(self, history: PublishedHistory) -> Any:
        """Remove old files of a history, see ``published_history.remove_unused``."""


@dataclass(frozen=True)
class ReportProgress(Step[None]):
    """Report to the metastore."""

    report: ReportPublication

    @override
    def perform(self, executor: HistoryExecutor) -> Any:
        return executor.report(self.report)


@dataclass(frozen=True)
class DecideHistory(Step[HistoryPlan]):
    """Let the metastore decide what the history is to have."""

    body: PlanHistory

    @override
    def perform(self, executor: HistoryExecutor) -> Any:
        return executor.plan_history(self.body)


@dataclass(frozen=True)
class ReadHistory(Step[HistoryPage]):
    """Read the instants of a range after a version."""

    range_: HistoryRange
    after: int

    @override
    def perform(self, executor: HistoryExecutor) -> Any:
        return executor.read_history(self.range_, self.after)


@dataclass(frozen=True)
class FindHistory(Step[HistoryListing]):
    """Compare the history in storage with what was reported of it."""

    written: PublishedHistory | None

    @override
    def perform(self, executor: HistoryExecutor) -> Any:
        return executor.find_history(self.written)


@dataclass(frozen=True)
class WriteHistory(Step[HistoryFile]):
    """Write the file of a range."""

    range_: HistoryRange
    source: HistorySource

    @override
    def perform(self, executor: HistoryExecutor) -> Any:
        return executor.write_history(self.range_, self.source)


@dataclass(frozen=True)
class CompareHistory(Step[bool]):
    """Whether a file has other instants than the log."""

    name: str
    instants: Sequence[HistoryInstant]

    @override
    def perform(self, executor: HistoryExecutor) -> Any:
        return executor.compare_history(self.name, self.instants)


@dataclass(frozen=True)
class ShowHistory(Step[None]):
    """Let readers find a history."""

    history: PublishedHistory

    @override
    def perform(self, executor: HistoryExecutor) -> Any:
        return executor.show_history(self.history)


@dataclass(frozen=True)
class RemoveArchived(Step[bool]):
    """Remove instants from the timeline; the answer is whether some are left."""

    before: str

    @override
    def perform(self, executor: HistoryExecutor) -> Any:
        return executor.remove_archived(self.before)


@dataclass(frozen=True)
class RemoveUnused(Step[None]):
    """Remove old files of a history."""

    history: PublishedHistory

    @override
    def perform(self, executor: HistoryExecutor) -> Any:
        return executor.remove_unused_history(self.history)


def archive(lease: PublicationLease, version: int) -> Protocol:
    """Bring the history to where the metastore wants it, and remove its instants from the timeline.

    One run writes the instants that may leave by now, and removes some files; later runs remove the others. The
    last report ends the lease. ``version`` is the one that is published.
    """
    former: PublishedHistory | None = None
    if lease.files_since is None and not lease.has_history:
        former = (yield from FindHistory(None)).former
    plan = yield from DecideHistory(PlanHistory(lease.publisher, lease.epoch, former))
    last = ReportPublication(lease.publisher, lease.epoch, version, release=True)
    if plan.before is None:
        yield from ReportProgress(last)
        return
    listing = yield from FindHistory(plan.written)
    copied = yield from _copy(plan)
    files = yield from _write(plan, listing)
    history = plan.written
    is_written = history is not None and (files, copied) == (history.files, history.former)
    if history is None or not is_written or not listing.is_current:
        history = PublishedHistory(plan.before, listing.last_manifest + 1, files, copied)
        # Without progress it only asks whether the lease is still this publisher's.
        yield from ReportProgress(ReportPublication(lease.publisher, lease.epoch, version))
        yield from ShowHistory(history)
        report = ReportHistory(history, is_complete=False)
        yield from ReportProgress(ReportPublication(lease.publisher, lease.epoch, version, history=report))
    is_left = yield from RemoveArchived(history.before)
    yield from RemoveUnused(history)
    report = ReportHistory(history, is_complete=not is_left)
    yield from ReportProgress(
        ReportPublication(lease.publisher, lease.epoch, version, release=True, history=report)
    )


def _copy(plan: HistoryPlan) -> Generator[Step[Any], Any, FormerHistory | None]:
    """The part of the history that is Hudi's, with what leaves the timeline of it."""
    former = None if plan.written is None else plan.written.former
    if former is None or plan.copied is None:
        return former
    file = yield from WriteHistory(plan.copied, former)
    return FormerHistory(plan.copied.end, [*former.files, FormerFile(file.name, file.size_bytes)])


def _write(plan: HistoryPlan, listing: HistoryListing) -> Generator[Step[Any], Any, list[HistoryFile]]:
    files: list[HistoryFile] = []
    for file in plan.kept:
        is_valid = file.name in listing.valid
        files.append(
            file if is_valid else (yield from _write_range(HistoryRange(file.begin, file.end, file.level)))
        )
    for range_ in plan.ranges:
        files.append((yield from _write_range(range_)))
    return files


def _write_range(range_: HistoryRange) -> Generator[Step[Any], Any, HistoryFile]:
    return (yield from WriteHistory(range_, (yield from _read_range(range_))))


def _read_range(range_: HistoryRange) -> Generator[Step[Any], Any, list[HistoryInstant]]:
    instants: list[HistoryInstant] = []
    after, is_last = 0, False
    while not is_last:
        page = yield from ReadHistory(range_, after)
        instants += page.instants
        after, is_last = page.version, page.is_last
    return instants


def inspect(
    history: PublishedHistory, listing: HistoryListing, after: PublishedHistory, *, reads_contents: bool
) -> Generator[Step[Any], Any, dict[str, str]]:
    """The damaged files of a history, with the reason.

    The history was reported before the ``listing``, and ``after`` it. A file counts if both name it. A manifest
    after the reported one may be that of a publisher that has not reported yet. The log does not have the rows
    of the former history.
    """
    damaged: dict[str, str] = {}
    if history == after and not listing.is_current and listing.last_manifest == history.manifest:
        damaged[VERSION_PATH] = "it or its manifest is missing, or was changed"
    stays = {file.name for file in _files_of(after)}
    missing = [file.name for file in _files_of(history) if file.name not in listing.valid]
    damaged |= {
        f"{HISTORY_FOLDER}/{name}": "it is missing, or has another size" for name in missing if name in stays
    }
    for file in history.files if reads_contents else ():
        if file.name in stays and file.name in listing.valid:
            instants = yield from _read_range(HistoryRange(file.begin, file.end, file.level))
            if (yield from CompareHistory(file.name, instants)):
                damaged[f"{HISTORY_FOLDER}/{file.name}"] = "its instants are not those of the log"
    return damaged


def _files_of(history: PublishedHistory) -> list[FormerFile | HistoryFile]:
    former = [] if history.former is None else history.former.files
    return [*former, *history.files]
