"""The protocol by which a publisher brings ``.hoodie`` to where the log is. No I/O.

Client and server have an executor each, and run the same protocol (``protocols``). Steps are first executed and
then reported, page by page: after a crash in between, the next publisher executes that page again.
"""

from __future__ import annotations

import typing
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from chronolake_model.publication import (
    FOREIGN_FILES_MAX,
    PublicationFiles,
    PublicationLease,
    PublicationStep,
    PublicationSteps,
    ReportPublication,
)
from chronolake_storage.protocols import Protocol, Step
from chronolake_storage.publishing import Found, Owned


class Executor(typing.Protocol):
    """Performs the steps of the protocol. Its methods return the answer to a step, or an awaitable of it."""

    def begin(self, is_first: bool) -> Any:
        """Claim the base path. Before the first step, fail if another Hudi table is there."""

    def read_steps(self, after: int) -> Any:
        """Read the next page of steps from the metastore."""

    def execute_steps(self, page: PublicationSteps) -> Any:
        """Execute a page of steps, see ``publishing.execute``."""

    def report(self, report: ReportPublication) -> Any:
        """Report to the metastore."""

    def read_files(self, after: int) -> Any:
        """Read from the metastore what the next events have left in ``.hoodie``."""

    def check(self, owned: Owned) -> Any:
        """Compare ``.hoodie`` with what is published, see ``publishing.check``."""

    def repair(self, steps: Sequence[PublicationStep], missing: Collection[str]) -> Any:
        """Write those files of steps that are missing."""


@dataclass(frozen=True)
class Begin(Step[None]):
    """Claim the base path."""

    is_first: bool

    @override
    def perform(self, executor: Executor) -> Any:
        return executor.begin(self.is_first)


@dataclass(frozen=True)
class ReadSteps(Step[PublicationSteps]):
    """Read the page of steps behind a version."""

    after: int

    @override
    def perform(self, executor: Executor) -> Any:
        return executor.read_steps(self.after)


@dataclass(frozen=True)
class ExecuteSteps(Step[None]):
    """Execute a page of steps."""

    page: PublicationSteps

    @override
    def perform(self, executor: Executor) -> Any:
        return executor.execute_steps(self.page)


@dataclass(frozen=True)
class Report(Step[None]):
    """Report to the metastore."""

    report: ReportPublication

    @override
    def perform(self, executor: Executor) -> Any:
        return executor.report(self.report)


@dataclass(frozen=True)
class ReadFiles(Step[PublicationFiles]):
    """Read what the events behind a version have left in ``.hoodie``."""

    after: int

    @override
    def perform(self, executor: Executor) -> Any:
        return executor.read_files(self.after)


@dataclass(frozen=True)
class Check(Step[Found]):
    """Compare ``.hoodie`` with what is published."""

    owned: Owned

    @override
    def perform(self, executor: Executor) -> Any:
        return executor.check(self.owned)


@dataclass(frozen=True)
class Repair(Step[None]):
    """Write those files of steps that are missing."""

    steps: Sequence[PublicationStep]
    missing: Collection[str]

    @override
    def perform(self, executor: Executor) -> Any:
        return executor.repair(self.steps, self.missing)


def publish(lease: PublicationLease, *, is_check_due: bool) -> Protocol:
    """Execute all steps behind the position of a lease, and check what is published if that is due.

    A publisher that follows another one checks in any case. The last report ends the lease.
    """
    version, is_last = lease.published_version, False
    checks = is_check_due or lease.is_new
    if lease.is_new or version == 0:
        yield from Begin(version == 0)
    while not is_last:
        page = yield from ReadSteps(version)
        yield from ExecuteSteps(page)
        version, is_last = page.version, page.is_last
        # What is published must be recorded before it is compared with what is there.
        report = ReportPublication(lease.publisher, lease.epoch, version, release=is_last and not checks)
        yield from Report(report)
    if checks:
        foreign = yield from _check()
        yield from Report(ReportPublication(lease.publisher, lease.epoch, version, foreign, release=True))


def _check() -> typing.Generator[Step[Any], Any, list[str]]:
    """Put right what is missing of the publication; returns the first files that no publisher wrote."""
    owned = Owned()
    version, is_last = 0, False
    while not is_last:
        page = yield from ReadFiles(version)
        owned.add(page)
        version, is_last = page.version, page.is_last
    found = yield from Check(owned)
    repaired = 0
    for version in sorted(owned.timeline[path] for path in found.missing):
        if version > repaired:
            steps = yield from ReadSteps(version - 1)
            yield from Repair(steps.steps, found.missing)
            repaired = steps.version
    return found.foreign[:FOREIGN_FILES_MAX]
