"""The file groups that a read or a write will touch, as values and as a text for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from chronolake_model.files import DataFile, FileSlice
from chronolake_model.names import counted

_SHOWN: int = 5
_UNITS = ("B", "KB", "MB", "GB", "TB")


class FileTotals(msgspec.Struct, frozen=True):
    """Some files; ``paths`` has the first of them, relative to the table's base path."""

    count: int
    size_bytes: int
    paths: list[str]


class Groups(msgspec.Struct, frozen=True):
    """Some file groups with their files; ``partition_paths`` has the first of their ``partitions``."""

    count: int
    partitions: int
    partition_paths: list[str]
    base_files: FileTotals
    log_files: FileTotals


class Part(msgspec.Struct, frozen=True):
    """Some file groups, and what happens to them or why they are left out."""

    what: str
    groups: Groups


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The file groups that a read or a write of a table will touch, as of now; ``str`` gives a text.

    ``as_of`` is the completion time of the state, None before the first. ``touched`` are all file groups that
    are read or written, ``parts`` the same ones by what happens to them. ``pruned`` are those left out.
    ``new_groups`` is the number of file groups that a write opens. ``conflicts`` says what would make a write
    lose a conflict.
    """

    table: str
    operation: str
    type: str
    index: str
    as_of: str | None
    view: str | None = None
    filter: str | None = None
    columns: list[str]
    touched: Groups
    parts: list[Part]
    pruned: list[Part] = []
    new_groups: int = 0
    conflicts: str | None = None

    def __str__(self) -> str:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        """The explanation, for people."""
        lines = [
            f"{self.operation} {self.table} ({self.type}, index: {self.index})",
            f"  state:   as of {self.as_of}" if self.as_of else "  state:   nothing has completed yet",
        ]
        if self.view is not None:
            lines.append(f"  view:    {self.view}")
        if self.filter is not None:
            lines.append(f"  filter:  {self.filter}")
        lines += [f"  columns: {', '.join(self.columns)}", f"  touches: {_text(self.touched)}"]
        for part in self.parts:
            lines += [f"  {part.what}: {_text(part.groups)}", *_paths(part.groups)]
        if self.new_groups:
            lines.append(f"  new file groups, each with a new base file: {self.new_groups:,}")
        lines += [f"  left out, {part.what}: {_text(part.groups)}" for part in self.pruned]
        if self.conflicts is not None:
            lines.append(f"  conflicts: {self.conflicts}")
        return "\n".join(lines)


def groups_of(slices: Sequence[FileSlice]) -> Groups:
    """The file groups of slices, with all their files."""
    partition_paths = sorted({slice_.partition_path for slice_ in slices})
    return Groups(
        len(slices),
        len(partition_paths),
        partition_paths[:_SHOWN],
        _files(slice_.base_file for slice_ in slices if slice_.base_file is not None),
        _files(file for slice_ in slices for file in slice_.log_files),
    )


def parts_of(slices: Sequence[FileSlice], what: Callable[[FileSlice], str]) -> list[Part]:
    """The slices by what happens to them, in the order of their first."""
    by_text: dict[str, list[FileSlice]] = {}
    for slice_ in slices:
        by_text.setdefault(what(slice_), []).append(slice_)
    return [Part(text, groups_of(members)) for text, members in by_text.items()]


def _files(files: Iterable[DataFile]) -> FileTotals:
    listed = list(files)
    size_bytes = sum(file.size_bytes for file in listed)
    return FileTotals(len(listed), size_bytes, [file.path for file in listed[:_SHOWN]])


def _text(groups: Groups) -> str:
    if not groups.count:
        return "nothing"
    parts = [counted(groups.count, "file group")]
    if groups.partition_paths != [""]:
        paths = ", ".join(path or "(none)" for path in groups.partition_paths)
        dots = ", …" if groups.partitions > len(groups.partition_paths) else ""
        parts.append(f"{counted(groups.partitions, 'partition')} ({paths}{dots})")
    for files, name in ((groups.base_files, "base file"), (groups.log_files, "log file")):
        if files.count:
            parts.append(f"{counted(files.count, name)} of {_size(files.size_bytes)}")
    return ", ".join(parts)


def _paths(groups: Groups) -> list[str]:
    lines = []
    for files in (groups.base_files, groups.log_files):
        lines += [f"    {path}" for path in files.paths]
        if files.count > len(files.paths):
            lines.append(f"    … and {files.count - len(files.paths):,} more")
    return lines


def _size(size_bytes: int) -> str:
    size, unit = float(size_bytes), 0
    while size >= 1_000 and unit < len(_UNITS) - 1:
        size, unit = size / 1_000, unit + 1
    return f"{size:,.0f} {_UNITS[unit]}" if unit == 0 else f"{size:,.1f} {_UNITS[unit]}"
