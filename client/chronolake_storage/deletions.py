"""How files of a table are deleted: by rollbacks, cleans, completions and sweeps. No I/O.

A protocol is a generator of steps. An executor performs each step with its own storage and metastore. Client
and server have an executor each, and run the same protocols. Files are first deleted from storage and then
reported, part by part: after a crash in between, the next executor deletes and reports that part again.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

from chronolake_model.markers import DeletedFile
from chronolake_model.vocabulary import Action

FILES_AT_ONCE: Final = 5_000
"""Files that are deleted, and then reported."""

Answer = TypeVar("Answer")
Files: TypeAlias = Sequence[DeletedFile]


class Source(enum.Enum):
    """Where the names of files are listed."""

    PLAN = enum.auto()
    """The plan of a clean or a rollback; without the files of a clean that are reported as deleted."""
    MARKERS = enum.auto()
    """Markers that the server keeps."""
    DIRECT_MARKERS = enum.auto()
    """Markers in the table's storage."""
    DELETED = enum.auto()
    """Files that were reported as deleted, and that are not published."""


class Executor(typing.Protocol):
    """Performs the steps of a protocol. Its methods give the answer of a step, or an awaitable of it."""

    def list_files(self, source: Source) -> Any:
        """The next page of files of a source; None after the last page."""

    def find_files(self, files: Files) -> Any:
        """Those of the files that are in storage."""

    def delete_files(self, files: Files) -> Any:
        """Delete files through the guard; gives why some of them could not be deleted, by path."""

    def report_files(self, files: Files) -> Any:
        """Report files to the metastore as deleted."""

    def delete_markers(self, files: Iterable[DeletedFile]) -> Any:
        """Delete the direct markers of files that are deleted and reported."""


class Step(Generic[Answer]):
    """What the executor is to do; ``yield from`` a step gives the answer."""

    def __iter__(self) -> Generator[Step[Any], Any, Answer]:
        answer: Answer = yield self
        return answer


@dataclass(frozen=True)
class ListFiles(Step[Files | None]):
    """List the next page of files of a source; the answer is None after the last page."""

    source: Source


@dataclass(frozen=True)
class FindFiles(Step[Files]):
    """Find which of the files are in storage."""

    files: Files


@dataclass(frozen=True)
class DeleteFiles(Step[Mapping[str, str]]):
    """Delete files through the guard; the answer is why some of them could not be deleted, by path."""

    files: Files


@dataclass(frozen=True)
class ReportFiles(Step[None]):
    """Report files to the metastore as deleted. A sweep reports no files when it found none."""

    files: Files


@dataclass(frozen=True)
class DeleteMarkers(Step[None]):
    """Delete the direct markers of files that are deleted and reported."""

    files: Iterable[DeletedFile]


Protocol: TypeAlias = Generator[Step[Any], Any, None]


@dataclass
class Result:
    """What became of the files so far; it is valid when the protocol fails too."""

    listed: int = 0
    """How many names were listed."""
    deleted: dict[DeletedFile, None] = field(default_factory=dict)
    """The files that are deleted and reported, in order."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why the other files could not be deleted, by path."""

    @property
    def first_failure(self) -> str:
        """One failure for a message; empty when there is none."""
        return next((f"{path}: {reason}" for path, reason in self.failures.items()), "")


def sources_of(action: Action, *, is_planned: bool, by_markers: bool, direct_markers: bool) -> list[Source]:
    """Where an instant's files to delete are listed.

    ``is_planned`` says whether a clean has a plan of the server; ``by_markers`` whether a rollback deletes what
    its target has marked, and not what its plan names. Another instant deletes what its failed attempts have
    marked.
    """
    if (action is Action.CLEAN and is_planned) or (action is Action.ROLLBACK and not by_markers):
        return [Source.PLAN]
    return [Source.MARKERS, Source.DIRECT_MARKERS] if direct_markers else [Source.MARKERS]


def delete_files(sources: Iterable[Source], result: Result, published: Container[DeletedFile] = ()) -> Protocol:
    """Delete and report all files that the sources list, but for those that are ``published``."""
    for source in sources:
        while (page := (yield from ListFiles(source))) is not None:
            result.listed += len(page)
            yield from _delete([file for file in page if file not in published], result)


def sweep(result: Result, *, has_direct_markers: bool) -> Protocol:
    """Delete files that were finished after they had been deleted, and report them again.

    With ``has_direct_markers`` also all files that were marked in storage since: found or not, for the report
    makes their names known to the next sweep.
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


def _delete(files: Files, result: Result) -> Protocol:
    for first in range(0, len(files), FILES_AT_ONCE):
        part = files[first : first + FILES_AT_ONCE]
        failures = yield from DeleteFiles(part)
        deleted = [file for file in part if file.path not in failures]
        if deleted:
            yield from ReportFiles(deleted)
        result.deleted.update(dict.fromkeys(deleted))
        result.failures.update(failures)


async def run(protocol: Protocol, executor: Executor) -> None:
    """Perform the steps of a protocol to its end, and await each; raises what the executor raises."""
    answer = None
    while (step := _next_step(protocol, answer)) is not None:
        answer = await _perform(step, executor)


def run_blocking(protocol: Protocol, executor: Executor) -> None:
    """The same for an executor whose methods block."""
    answer = None
    while (step := _next_step(protocol, answer)) is not None:
        answer = _perform(step, executor)


def _next_step(protocol: Protocol, answer: Any) -> Step[Any] | None:
    try:
        return protocol.send(answer)
    except StopIteration:
        return None


def _perform(step: Step[Any], executor: Executor) -> Any:
    match step:
        case ListFiles(source):
            return executor.list_files(source)
        case FindFiles(files):
            return executor.find_files(files)
        case DeleteFiles(files):
            return executor.delete_files(files)
        case ReportFiles(files):
            return executor.report_files(files)
        case DeleteMarkers(files):
            return executor.delete_markers(files)
        case _:
            raise AssertionError(f"there is no step {step}")
