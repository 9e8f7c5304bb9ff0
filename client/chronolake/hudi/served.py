"""Since when a Hudi table can be read as of: from what it wrote, and from what is still there. No I/O."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from chronolake.hudi.stored import StoredInstant
from chronolake_hudi.metadata import NO_COMMIT
from chronolake_model.file_names import FileKind, relative_path

Group = tuple[str, str]
"""Partition path and file id."""


class KnownFile(msgspec.Struct, frozen=True):
    """A file that a completed instant wrote."""

    group: Group
    path: str
    kind: FileKind
    requested_time: str
    completion_time: str
    exists: bool
    is_archived: bool = False


class MissingFile(Exception):
    """A live file is not there: the table is damaged."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def first_servable(
    known: Iterable[KnownFile], writes: Sequence[StoredInstant], completions: Mapping[str, str], border: str
) -> str | None:
    """The first completion time as of which every file of the table is there; None if it is any time.

    ``completions`` are the completion times of the ``writes``. If a file of an archived instant was removed and
    none took its place, the table is served from the ``border`` on: Hudi's readers do not miss it. Raises
    ``MissingFile`` for such a file of an active instant.
    """
    files = list(known)
    replaced = {
        (path, file_id): completions[instant.requested_time]
        for instant in writes
        for path, ids in instant.replaced.items()
        for file_id in ids
    }
    by_group: dict[Group, list[KnownFile]] = {}
    for file in files:
        by_group.setdefault(file.group, []).append(file)
    bases = {group: _Bases(of_group) for group, of_group in by_group.items()}
    times = [_left_at(file, bases[file.group], replaced, border) for file in files if not file.exists]
    # Files of archived instants that were cleaned are named by what took their place.
    times += [time for group, time in replaced.items() if group not in by_group]
    times += _replaced_bases(writes, files, completions)
    times += _compacted_logs(writes, files, completions)
    return max(times, default=None)


class _Bases:
    """The base files of one file group: a group may have a hundred thousand of them, most of them cleaned."""

    def __init__(self, files: Iterable[KnownFile]) -> None:
        bases = sorted((file for file in files if file.kind is FileKind.BASE), key=_requested_time)
        self._requested = [file.requested_time for file in bases]
        completed_first = itertools.accumulate((file.completion_time for file in reversed(bases)), min)
        self._completed_first = [*completed_first][::-1]

    def completed_first_after(self, time: str) -> str | None:
        """The first completion time among those that were requested after a time."""
        at = bisect.bisect_right(self._requested, time)
        return self._completed_first[at] if at < len(self._requested) else None


def _requested_time(file: KnownFile) -> str:
    return file.requested_time


def _left_at(file: KnownFile, bases: _Bases, replaced: Mapping[Group, str], border: str) -> str:
    """When a file left the latest slices; see the slicing rule in docs/architecture.md#file-slices."""
    since = file.requested_time if file.kind is FileKind.BASE else file.completion_time
    next_base = bases.completed_first_after(since)
    times = [next_base] if next_base is not None else []
    if file.group in replaced:
        times.append(replaced[file.group])
    if not times and not file.is_archived:
        raise MissingFile(file.path)
    return min(times, default=border)


def _replaced_bases(
    instants: Sequence[StoredInstant], files: Iterable[KnownFile], completions: Mapping[str, str]
) -> list[str]:
    present = {(*file.group, file.requested_time) for file in files if file.exists}
    times = []
    for instant in instants:
        for path, stats in instant.commit.partition_to_write_stats.items() if instant.commit else ():
            for stat in stats:
                is_new = stat.prev_commit in (NO_COMMIT, "", instant.requested_time)
                is_known = is_new or (path, stat.file_id, stat.prev_commit) in present
                is_log = ".log." in stat.path
                if not is_known and not is_log:
                    times.append(completions[instant.requested_time])
    return times


def _compacted_logs(
    instants: Sequence[StoredInstant], files: Iterable[KnownFile], completions: Mapping[str, str]
) -> list[str]:
    present = {file.path for file in files if file.exists}
    return [
        completions[instant.requested_time]
        for instant in instants
        if instant.is_completed_write and instant.plan is not None
        for operation in instant.plan.operations
        for name in operation.delta_file_paths
        if relative_path(operation.partition_path, name.rpartition("/")[2]) not in present
    ]
