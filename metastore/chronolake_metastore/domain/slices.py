"""File slices: how the files of a file group are cut by completion time (Hudi: RFC-66).

A log file belongs to the slice with the largest base requested time at or before the log's completion time. A
file that has not completed is in no slice. For reads as of a time, pass what was published, pending and
replaced at that time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from chronolake_model.file_names import FileKind
from chronolake_model.times import Micros


class Published(Protocol):
    """A data file that an instant published."""

    @property
    def kind(self) -> FileKind:
        """Whether it is a base file or a log file."""

    @property
    def requested_time(self) -> Micros:
        """The requested time of the instant that wrote it."""

    @property
    def completion_time(self) -> Micros:
        """The completion time of the instant that wrote it."""


File = TypeVar("File", bound=Published)


class Replacement(msgspec.Struct, frozen=True):
    """The two times of the instant that replaced a file group."""

    requested_time: Micros
    completion_time: Micros


class FileSlice(msgspec.Struct, Generic[File], frozen=True):
    """A base file and the log files that belong to it, by completion time.

    ``time`` is the base file's requested time; that of the compaction that ``is_pending``, which opened the
    slice; or, where there are only log files, the smallest of theirs.
    """

    time: Micros
    base: File | None
    logs: tuple[File, ...]
    is_pending: bool = False

    def files(self) -> tuple[File, ...]:
        """The base file, if there is one, and the log files."""
        return self.logs if self.base is None else (self.base, *self.logs)


class Slices(msgspec.Struct, Generic[File], frozen=True):
    """All slices of a file group, newest last; once the group is replaced, those that it had."""

    all: tuple[FileSlice[File], ...]
    replacement: Replacement | None = None

    def latest(self) -> FileSlice[File] | None:
        """The newest slice, also the empty one of a pending compaction."""
        return self.all[-1] if self.all and self.replacement is None else None

    def merged(self) -> FileSlice[File] | None:
        """The slice to read. While a compaction is pending: the base file before it and all log files since."""
        if self.replacement is not None:
            return None
        completed = [number for number, file_slice in enumerate(self.all) if not file_slice.is_pending]
        together = self.all[completed[-1] if completed else 0 :]
        base = together[0].base if together else None
        logs = tuple(log for file_slice in together for log in file_slice.logs)
        return FileSlice(_time(base, logs), base, logs) if base is not None or logs else None

    def read_optimised(self) -> FileSlice[File] | None:
        """The latest base file, as a slice without logs."""
        bases = [
            file_slice.base
            for file_slice in self.all
            if file_slice.base is not None and self.replacement is None
        ]
        return FileSlice(bases[-1].requested_time, bases[-1], ()) if bases else None

    def before_or_on(self, time: Micros) -> Slices[File]:
        """The slices whose own times are ``time`` or before; replaced only by instants requested by then."""
        gone = self.replacement is not None and self.replacement.requested_time <= time
        return Slices(
            tuple(file_slice for file_slice in self.all if file_slice.time <= time),
            self.replacement if gone else None,
        )

    def superseded_at(self, of: FileSlice[File]) -> Micros | None:
        """When a newer base file completed, or the group was replaced."""
        ends = [
            file_slice.base.completion_time
            for file_slice in self.all
            if file_slice.base is not None and file_slice.time > of.time
        ]
        if self.replacement is not None:
            ends.append(self.replacement.completion_time)
        return min(ends, default=None)


def cut(
    files: Iterable[File], compactions: Iterable[Micros] = (), replacement: Replacement | None = None
) -> Slices[File]:
    """The slices of a file group's published ``files``, with those that pending ``compactions`` opened.

    ``compactions`` are their requested times. A file that completes after its group was replaced is never seen.
    """
    seen = [file for file in files if replacement is None or file.completion_time < replacement.completion_time]
    bases = {file.requested_time: file for file in seen if file.kind == FileKind.BASE}
    opened = sorted(bases.keys() | set(compactions))
    logs: dict[int, list[File]] = defaultdict(list)
    for file in sorted(seen, key=lambda file: file.completion_time):
        if file.kind == FileKind.LOG:
            # Equality goes to the new slice. Slice 0 is that of the logs before all base files.
            logs[bisect_right(opened, file.completion_time)].append(file)
    slices = [
        FileSlice(time, bases.get(time), tuple(logs[number]), is_pending=time not in bases)
        for number, time in enumerate(opened, start=1)
    ]
    if first := tuple(logs[0]):
        slices.insert(0, FileSlice(_time(None, first), None, first))
    return Slices(tuple(slices), replacement)


def _time(base: File | None, logs: Sequence[File]) -> Micros:
    return base.requested_time if base is not None else min(log.requested_time for log in logs)
