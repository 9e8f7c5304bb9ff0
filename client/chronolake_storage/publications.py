"""The protocol by which a publisher brings ``.hoodie`` to where the log is. No I/O.

Client and server have an executor each, and run the same protocol (``protocols``). Steps are first executed and
then reported, page by page: after a crash in between, the next publisher executes that page again.
"""

from __future__ import annotations

import typing
from collections.abc import Container, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from typing_extensions import override

from chronolake_model.publication import (
    FOREIGN_FILES_MAX,
    CheckPosition,
    PublicationFiles,
    PublicationLease,
    PublicationPartitions,
    PublicationSteps,
    PublishedFile,
    ReportPublication,
)
from chronolake_storage import archiving
from chronolake_storage.archiving import HistoryExecutor, ReportProgress
from chronolake_storage.protocols import Protocol, Step
from chronolake_storage.publishing import PARTITION_METADATA, PROPERTIES_PATH, Comparison, Owned


class PublicationExecutor(HistoryExecutor, typing.Protocol):
    """Performs the steps of the protocol. Its methods return the answer to a step, or an awaitable of it."""

    def begin(self, files_since: str | None) -> Any:
        """Claim the base path, and fail if another Hudi table is there, or older files; see ``Begin``."""

    def hide(self, *, was_published: bool) -> Any:
        """Hide the table from Hudi's readers, see ``publishing.hide``."""

    def read_steps(self, after: int) -> Any:
        """Read the next page of steps from the metastore."""

    def execute_steps(self, page: PublicationSteps) -> Any:
        """Execute a page of steps, see ``publishing.execute``."""

    def read_files(self, after: int) -> Any:
        """Read from the metastore what the next events have left in ``.hoodie``."""

    def read_partitions(self, after: str) -> Any:
        """Read from the metastore the next page of the metadata of partitions."""

    def find(self, owned: Owned) -> Any:
        """List ``.hoodie``, see ``publishing.find``."""

    def remove(self, paths: Sequence[str]) -> Any:
        """Remove files that a step has removed before."""

    def compare(self, expected: Sequence[PublishedFile], comparison: Comparison) -> Any:
        """Find the files that are missing or differ, see ``publishing.differing``."""

    def put_right(self, expected: Sequence[PublishedFile], comparison: Comparison) -> Any:
        """Write files that are missing or differ, see ``publishing.put_right``."""


@dataclass(frozen=True)
class Begin(Step[None]):
    """Claim the base path; fail if another Hudi table is there, or data files from before ``files_since``."""

    files_since: str | None

    @override
    def perform(self, executor: PublicationExecutor) -> Any:
        return executor.begin(self.files_since)


@dataclass(frozen=True)
class Hide(Step[None]):
    """Hide the table from Hudi's readers."""

    was_published: bool

    @override
    def perform(self, executor: PublicationExecutor) -> Any:
        return executor.hide(was_published=self.was_published)


@dataclass(frozen=True)
class ReadSteps(Step[PublicationSteps]):
    """Read the page of steps after a version."""

    after: int

    @override
    def perform(self, executor: PublicationExecutor) -> Any:
        return executor.read_steps(self.after)


@dataclass(frozen=True)
class ExecuteSteps(Step[None]):
    """Execute a page of steps."""

    page: PublicationSteps

    @override
    def perform(self, executor: PublicationExecutor) -> Any:
        return executor.execute_steps(self.page)


@dataclass(frozen=True)
class ReadFiles(Step[PublicationFiles]):
    """Read what the events after a version have left in ``.hoodie``."""

    after: int

    @override
    def perform(self, executor: PublicationExecutor) -> Any:
        return executor.read_files(self.after)


@dataclass(frozen=True)
class ReadPartitions(Step[PublicationPartitions]):
    """Read the metadata of the partitions after a path."""

    after: str

    @override
    def perform(self, executor: PublicationExecutor) -> Any:
        return executor.read_partitions(self.after)


@dataclass(frozen=True)
class Find(Step[Comparison]):
    """List ``.hoodie``."""

    owned: Owned

    @override
    def perform(self, executor: PublicationExecutor) -> Any:
        return executor.find(self.owned)


@dataclass(frozen=True)
class Remove(Step[None]):
    """Remove files that a step has removed before."""

    paths: Sequence[str]

    @override
    def perform(self, executor: PublicationExecutor) -> Any:
        return executor.remove(self.paths)


@dataclass(frozen=True)
class CompareFiles(Step[list[PublishedFile]]):
    """Find the files that are missing or differ."""

    expected: Sequence[PublishedFile]
    comparison: Comparison

    @override
    def perform(self, executor: PublicationExecutor) -> Any:
        return executor.compare(self.expected, self.comparison)


@dataclass(frozen=True)
class PutRight(Step[list[PublishedFile]]):
    """Write files that are missing or differ; the answer is what was written."""

    expected: Sequence[PublishedFile]
    comparison: Comparison

    @override
    def perform(self, executor: PublicationExecutor) -> Any:
        return executor.put_right(self.expected, self.comparison)


def publish(lease: PublicationLease, *, is_check_due: bool) -> Protocol:
    """Execute all steps after the position of a lease, and check what is published if that is due.

    A publisher that follows another one checks in any case. At last, old instants leave the timeline, if that
    is due. The last report ends the lease. A lease that hides the table does nothing else.
    """
    version, is_last = lease.published_version, False
    if lease.hides:
        is_adopted = lease.files_since is None
        yield from Hide(was_published=version > 0 or is_adopted)
        yield from ReportProgress(
            ReportPublication(lease.publisher, lease.epoch, version, release=True, hidden=True)
        )
        return
    checks = is_check_due or lease.is_new
    archives = lease.history_is_due or (checks and lease.has_history)
    is_longer = checks or archives
    yield from Begin(lease.files_since if version == 0 else None)
    while not is_last:
        page = yield from ReadSteps(version)
        yield from _execute(lease, version, page)
        version, is_last = page.version, page.is_last
        # What is published must be recorded before it is compared with what is there.
        report = ReportPublication(lease.publisher, lease.epoch, version, release=is_last and not is_longer)
        yield from ReportProgress(report)
    if checks:
        yield from _check(lease, version, release=not archives)
    if archives:
        yield from archiving.archive(lease, version)


def changes_visibility(page: PublicationSteps) -> bool:
    """Whether a page writes or removes ``hoodie.properties``."""
    return any(PROPERTIES_PATH in [*step.removes, *(file.path for file in step.writes)] for step in page.steps)


def _execute(lease: PublicationLease, version: int, page: PublicationSteps) -> Protocol:
    """Execute a page; ``hoodie.properties`` is written only if no other publisher has taken over meanwhile.

    Another one may have hidden the table, and then a clean may have deleted its files.
    """
    showing = [any(file.path == PROPERTIES_PATH for file in step.writes) for step in page.steps]
    if True not in showing:
        yield from ExecuteSteps(page)
        return
    first = showing.index(True)
    if first:
        yield from ExecuteSteps(msgspec.structs.replace(page, steps=page.steps[:first]))
    # Without progress it only asks whether the lease is still this publisher's.
    yield from ReportProgress(ReportPublication(lease.publisher, lease.epoch, version))
    yield from ExecuteSteps(msgspec.structs.replace(page, steps=page.steps[first:]))


def _check(lease: PublicationLease, version: int, *, release: bool) -> Protocol:
    """Put right what differs from the publication, and report the first files that no publisher wrote.

    By the listing: all names, and files that were changed since the last check. In turn, a part at each check:
    the contents of all files, and the metadata of partitions.
    """
    position = lease.check_position
    owned = yield from read_owned()
    comparison = yield from Find(owned)
    if comparison.missing:
        # They may have left the timeline: another publisher may have taken over and moved them to the history.
        yield from ReportProgress(ReportPublication(lease.publisher, lease.epoch, version))
    if comparison.removed:
        yield from Remove(comparison.removed)
    if owned.properties is not None:
        yield from PutRight([PublishedFile(PROPERTIES_PATH, owned.properties)], comparison)
    yield from _put_right_suspects(owned, comparison, position)
    content_version = yield from _put_right_contents(owned, comparison, position.content_version, version)
    partitions = yield from ReadPartitions(position.partition)
    yield from PutRight(partitions.files, comparison)
    checked = CheckPosition(version, comparison.changed_at, content_version, partitions.last)
    report = ReportPublication(
        lease.publisher,
        lease.epoch,
        version,
        comparison.foreign[:FOREIGN_FILES_MAX],
        foreign_files_total=len(comparison.foreign),
        release=release,
        check_position=checked,
    )
    yield from ReportProgress(report)


@dataclass
class Inspection:
    """The differences from a publication: foreign files, and damaged files with the reason."""

    foreign: list[str] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)

    def add(self, files: Sequence[PublishedFile], reason: str) -> None:
        """Add damaged files, unless they have a reason already."""
        for file in files:
            self.damaged.setdefault(file.path, reason)


def inspect(result: Inspection, *, is_paused: bool, reads_contents: bool) -> Protocol:
    """Compare the whole publication with storage, and change nothing. Publishers may run meanwhile."""
    owned = yield from read_owned()
    comparison = yield from Find(owned)
    listing = None if owned.history is None else (yield from archiving.FindHistory(owned.history))
    # What was published or removed since the first reading.
    after = yield from read_owned()
    unreported: set[str] = set()
    is_up_to_date = False
    if not is_paused:
        # What a publisher may have written, and not reported yet.
        page = yield from ReadSteps(after.version)
        unreported = {file.path for step in page.steps for file in step.writes}
        is_up_to_date = page.is_last
    result.foreign = sorted({*comparison.foreign} - {*after.timeline} - after.removed - unreported)
    stays = {path for path, version in owned.timeline.items() if after.timeline.get(path) == version}
    result.damaged |= {path: "it is missing or empty" for path in comparison.missing if path in stays}
    result.damaged |= {path: "it was removed, and is there again" for path in comparison.removed}
    if owned.properties is not None and owned.properties == after.properties:
        properties = PublishedFile(PROPERTIES_PATH, owned.properties)
        result.add((yield from CompareFiles([properties], comparison)), "it was changed")
    if owned.history is not None and listing is not None and after.history is not None:
        result.damaged |= yield from archiving.inspect(
            owned.history, listing, after.history, reads_contents=reads_contents
        )
    if reads_contents:
        yield from _inspect_contents(owned, comparison, stays, result)
    if is_up_to_date:
        yield from _inspect_partitions(comparison, unreported, result)


def _inspect_contents(
    owned: Owned, comparison: Comparison, stays: Container[str], result: Inspection
) -> Protocol:
    version = min(owned.timeline.values(), default=1) - 1
    while version < max(owned.timeline.values(), default=0):
        page = yield from ReadSteps(version)
        result.add((yield from CompareFiles(_owned_files(page, owned, stays), comparison)), "it was changed")
        version = page.version


def _inspect_partitions(comparison: Comparison, unreported: Container[str], result: Inspection) -> Protocol:
    after: str | None = ""
    while after is not None:
        page = yield from ReadPartitions(after)
        files = [file for file in page.files if file.path not in unreported]
        result.add(
            (yield from CompareFiles(files, comparison)),
            "it is missing: Hudi's Java readers leave the partition out",
        )
        after = page.last or None


def read_owned() -> Generator[Step[Any], Any, Owned]:
    """The files that the publication has put into ``.hoodie``."""
    owned = Owned()
    version, is_last = 0, False
    while not is_last:
        page = yield from ReadFiles(version)
        owned.add(page)
        version, is_last = page.version, page.is_last
    return owned


def _put_right_suspects(owned: Owned, comparison: Comparison, position: CheckPosition) -> Protocol:
    """Compare files that are missing or empty, or that were changed since they were seen by a check."""
    suspects = set(comparison.missing)
    suspects |= {
        path
        for path, file in comparison.stored.items()
        # Stores may count in whole seconds. What was published since the last check is not suspect.
        if owned.timeline[path] <= position.version and file.changed_at >= position.changed_at
    }
    compared = 0
    for version in sorted(owned.timeline[path] for path in suspects):
        if version > compared:
            page = yield from ReadSteps(version - 1)
            yield from PutRight(_owned_files(page, owned, suspects), comparison)
            compared = page.version


def _put_right_contents(
    owned: Owned, comparison: Comparison, after: int, until: int
) -> Generator[Step[Any], Any, int]:
    """Compare the files of one page of steps; returns the version after which the next check continues."""
    first = min(owned.timeline.values(), default=until) - 1
    page = yield from ReadSteps(after if first <= after < until else first)
    expected = _owned_files(page, owned, owned.timeline)
    expected += [file for step in page.steps for file in step.writes if file.path.endswith(PARTITION_METADATA)]
    yield from PutRight(expected, comparison)
    return page.version if page.version < until else 0


def _owned_files(page: PublicationSteps, owned: Owned, paths: Container[str]) -> list[PublishedFile]:
    """The timeline's files among ``paths`` that the steps of a page wrote, and no later step has written."""
    return [
        file
        for step in page.steps
        for file in step.writes
        if file.path in paths and owned.timeline.get(file.path) == step.version
    ]
