"""The protocols by which rollbacks, cleans, completions and sweeps delete files of a table. No I/O.

Client and server have an executor each, and run the same protocols (``protocols``). Files are first deleted
from storage and then reported, part by part: after a crash in between, the next executor deletes and reports
that part again.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from typing_extensions import override

from chronolake_model.markers import DeletedFile
from chronolake_model.vocabulary import Action
from chronolake_storage.protocols import Protocol, Step

FILES_AT_ONCE: Final = 5_000
"""The files that are deleted, and then reported, at a time."""

Files: TypeAlias = Sequence[DeletedFile]


class Source(enum.Enum):
    """A list of files to delete."""

    PLAN = enum.auto()
    """The plan of a clean or a rollback; without the files of a clean that are reported as deleted."""
    MARKERS = enum.auto()
    """Markers that the server keeps."""
    DIRECT_MARKERS = enum.auto()
    """Markers in the table's storage."""
    DELETED = enum.auto()
    """Files that were reported as deleted, and that are not published."""


class DeletionExecutor(typing.Protocol):
    """Performs the steps of a protocol. Its methods return the answer to a step, or an awaitable of it."""

    def list_files(self, source: Source) -> Any:
        """The next page of files of a source; None after the last page."""

    def find_files(self, files: Files) -> Any:
        """The files that are in storage."""

    def delete_files(self, files: Files) -> Any:
        """Delete files through the guard; returns the reasons of failures by path."""

    def report_files(self, files: Files) -> Any:
        """Report files to the metastore as deleted."""

    def delete_markers(self, files: Iterable[DeletedFile]) -> Any:
        """Delete the direct markers of files that are deleted and reported."""


@dataclass(frozen=True)
class ListFiles(Step[Files | None]):
    """List the next page of files of a source; the answer is None after the last page."""

    source: Source

    @override
    def perform(self, executor: DeletionExecutor) -> Any:
        return executor.list_files(self.source)


@dataclass(frozen=True)
class FindFiles(Step[Files]):
    """Find the files that are in storage."""

    files: Files

    @override
    def perform(self, executor: DeletionExecutor) -> Any:
        return executor.find_files(self.files)


@dataclass(frozen=True)
class DeleteFiles(Step[Mapping[str, str]]):
    """Delete files through the guard; the answer has the reasons of failures by path."""

    files: Files

    @override
    def perform(self, executor: DeletionExecutor) -> Any:
        return executor.delete_files(self.files)


@dataclass(frozen=True)
class ReportFiles(Step[None]):
    """Report files to the metastore as deleted. A sweep that found no file reports an empty list."""

    files: Files

    @override
    def perform(self, executor: DeletionExecutor) -> Any:
        return executor.report_files(self.files)


@dataclass(frozen=True)
class DeleteMarkers(Step[None]):
    """Delete the direct markers of files that are deleted and reported."""

    files: Iterable[DeletedFile]

    @override
    def perform(self, executor: DeletionExecutor) -> Any:
        return executor.delete_markers(self.files)


@dataclass
class DeletionResult:
    """The result for the files so far; it is valid also if the protocol fails."""

    listed: int = 0
    """The number of names that were listed."""
    deleted: dict[DeletedFile, None] = field(default_factory=dict)
    """The files that are deleted and reported, in order."""
    failures: dict[str, str] = field(default_factory=dict)
    """The reasons why other files could not be deleted, by path."""

    @property
    def first_failure(self) -> str:
        """One failure for a message; empty when there is none."""
        return next((f"{path}: {reason}" for path, reason in self.failures.items()), "")


def sources_of(action: Action, *, is_planned: bool, by_markers: bool, direct_markers: bool) -> list[Source]:
    """The lists of the files that an instant deletes.

    ``is_planned``: the server made the plan of a clean. ``by_markers``: a rollback deletes the files that its
    target has marked, and not those in its plan. Other instants delete marked files of failed attempts.
    """
    if (action is Action.CLEAN and is_planned) or (action is Action.ROLLBACK and not by_markers):
        return [Source.PLAN]
    return [Source.MARKERS, Source.DIRECT_MARKERS] if direct_markers else [Source.MARKERS]


def delete_files(
    sources: Iterable[Source], result: DeletionResult, published: Container[DeletedFile] = ()
) -> Protocol:
    """Delete and report all files in the sources, except ``published`` ones."""
    for source in sources:
        while (page := (yield from ListFiles(source))) is not None:
            result.listed += len(page)
            yield from _delete([file for file in page if file not in published], result)


def sweep(result: DeletionResult, *, has_direct_markers: bool) -> Protocol:
    """Delete late files, which were written again after their deletion, and report them again.

    With ``has_direct_markers``, files with new direct markers are deleted and reported too, also if they do not
    exist: the report makes their names known to the next sweep.
    """
    while (page := (yield from ListFiles(Source.DELETED))) is not None:
        result.listed += len(page)
        yield from _delete((yield from FindFiles(page)), result)
    if has_direct_markers:
        while (page := (yield from ListFiles(Source.DIRECT_MARKERS))) is not None:
            result.listed += len(page)
            yield from _delete(page, result)
        yield from DeleteMarkers(result.deleted)
    if not result.deleted and not result.failures:
        yield from ReportFiles(())


def _delete(files: Files, result: DeletionResult) -> Protocol:
    for first in range(0, len(files), FILES_AT_ONCE):
        part = files[first : first + FILES_AT_ONCE]
        failures = yield from DeleteFiles(part)
        deleted = [file for file in part if file.path not in failures]
        if deleted:
            yield from ReportFiles(deleted)
        result.deleted.update(dict.fromkeys(deleted))
        result.failures.update(failures)
