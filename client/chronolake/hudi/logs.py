"""Log files of a Hudi table before its adoption: what is in them, and why some cannot come in.

From table version 8 on, the name of a log file has the instant that wrote it, which must have completed. In
version 6 it has the instant of the base file, and blocks of writes that failed stay in it. Such a log file
comes in under the delta commit that wrote it, if all its blocks are of this one, and if it belongs to the same
slice by the completion of its instant as by its name. Hudi's readers, which find it in the published table by
its name alone, then read the same.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from chronolake.hudi import requirements
from chronolake.hudi.stored import READERS, LogFacts, StoredInstant, StoredTable
from chronolake_hudi import log_blocks, log_files
from chronolake_hudi.errors import HudiFormatError
from chronolake_hudi.log_files import BlockType
from chronolake_hudi.properties import HudiMergeMode
from chronolake_hudi.timeline_files import Layout
from chronolake_model.file_names import DataFileName, FileKind
from chronolake_storage.files import StoredFile

_BUFFER_BYTES: Final = 1 << 16
CDC_KEY: Final = "hoodie.table.cdc.enabled"
_CAPTURE: Final = re.compile(r"\.log\.[0-9]+_.*\.cdc$", re.ASCII)
_REASONS_MAX: Final = 10
_COMPACT: Final = "compact its file group with Hudi"
_Group = tuple[str, str]


def with_facts(table: StoredTable, filesystem: Any, root: str) -> StoredTable:
    """The table with what is in its log files, from the headers of their blocks.

    ``filesystem`` is pyarrow's, ``root`` the base path in it.
    """
    fields = _ordering_fields(table)

    def facts(file: StoredFile) -> LogFacts:
        try:
            with filesystem.open_input_file(f"{root}/{file.path}") as raw:
                stream = io.BufferedReader(raw, _BUFFER_BYTES)
                return _facts(log_files.heads(stream, file.size_bytes, file.path), fields)
        except HudiFormatError as exc:
            return LogFacts(problem=f"{exc.problem}; {exc.advice}")

    logs = [file for file, name in table.data_files if name.kind is FileKind.LOG]
    with ThreadPoolExecutor(READERS) as readers:
        facts_of_logs = list(readers.map(facts, logs))
    by_path = {file.path: facts_of_file for file, facts_of_file in zip(logs, facts_of_logs, strict=True)}
    return msgspec.structs.replace(table, logs=by_path)


def writers_of(table: StoredTable) -> dict[str, StoredInstant]:
    """The completed instant that wrote each file, by path, as far as an instant of the timeline names it."""
    return {
        stat.path: instant
        for instant in (*table.archived.values(), *table.instants)
        if instant.is_completed_write and instant.commit is not None
        for stats in instant.commit.partition_to_write_stats.values()
        for stat in stats
        if stat.path
    }


def obstacles(table: StoredTable) -> Iterator[str]:
    """Why log files of the latest slices cannot be read, one sentence for each of the first such files."""
    reasons = list(_obstacles(table))
    yield from reasons[:_REASONS_MAX]
    if len(reasons) > _REASONS_MAX:
        yield f"{len(reasons) - _REASONS_MAX} more log files cannot be read"


def _obstacles(table: StoredTable) -> Iterator[str]:
    writers, slices = writers_of(table), StoredSlices(table)
    for file, name in table.data_files:
        facts = table.logs.get(file.path)
        if name.kind is not FileKind.LOG or facts is None:
            continue
        writer = writers.get(file.path)
        group = file.partition_path, name.file_id
        is_version_6 = table.layout is Layout.ONE or (
            writer is not None and writer.requested_time != name.requested_time
        )
        if is_version_6:
            reason = slices.reason_of_version_6(group, name, writer, facts)
        else:
            time = None if writer is None else _completed(writer)
            if writer is None and slices.counts(name.requested_time):
                time = name.requested_time  # Archived.
            reason = facts.problem if time is not None and slices.is_live(group, time) else None
        if reason is not None:
            yield f"the log file {file.path}: {reason}"


def notes(table: StoredTable) -> Iterator[str]:
    """Differences of the log files from Hudi's own view, for the operator."""
    writers = writers_of(table)
    moved = [
        file.path
        for file, name in table.data_files
        if (writer := writers.get(file.path)) is not None and writer.requested_time != name.requested_time
    ]
    if moved:
        yield (
            f"{len(moved)} log file(s) are named after their base file, as in table version 6, such as "
            f"{moved[0]}: they come in under the delta commits that wrote them"
        )
    captured = [file.path for file in table.other_files if _CAPTURE.search(file.file_name)]
    if captured or table.config.others.get(CDC_KEY, "false").lower() == "true":
        yield (
            f"{len(captured)} log file(s) of change data capture are not brought in, and stay where they are. "
            f"Chronolake writes none, so {CDC_KEY} is false from now on, also after a release"
        )


def _ordering_fields(table: StoredTable) -> Sequence[str]:
    is_ordered = requirements.merge_mode_of(table.config) is HudiMergeMode.EVENT_TIME
    return table.config.ordering_fields if is_ordered else ()


def _facts(blocks: Iterable[log_files.LogBlock], ordering_fields: Sequence[str]) -> LogFacts:
    instants: set[str] = set()
    problem: str | None = None
    for block in blocks:
        reason = log_blocks.obstacle(block, ordering_fields)
        if reason is not None and problem is None:
            problem = f"{reason}; {log_blocks.COMPACT}"
        if block.type is not BlockType.COMMAND:
            instants.add(block.instant_time or "")
    return LogFacts(instants=frozenset(instants), problem=problem)


def _completed(instant: StoredInstant) -> str:
    # Without completion times, in layout 1, an instant completes directly after its requested time.
    return instant.completion_time or instant.requested_time


class StoredSlices:
    """The base files of each file group, in order, and the instants that count."""

    def __init__(self, table: StoredTable) -> None:
        completed = [instant for instant in table.instants if instant.is_completed_write]
        self._listed = {instant.requested_time for instant in table.instants}
        self._completed = {instant.requested_time for instant in completed}
        self._first = table.first_active or ""
        self._replaced = {
            (path, file_id)
            for instant in (*table.archived.values(), *completed)
            for path, ids in instant.replaced.items()
            for file_id in ids
        }
        bases: dict[_Group, set[str]] = {}
        for file, name in table.data_files:
            if name.kind is FileKind.BASE and self.counts(name.requested_time):
                bases.setdefault((file.partition_path, name.file_id), set()).add(name.requested_time)
        self._bases: Mapping[_Group, list[str]] = {group: sorted(times) for group, times in bases.items()}

    def is_live(self, group: _Group, time: str) -> bool:
        """Whether what completed at a time is in the latest slice of a file group."""
        return group not in self._replaced and self._slice_at(group, time) == len(self._bases.get(group, ()))

    def is_latest_base(self, partition_path: str, name: DataFileName) -> bool:
        """Whether a file is the base file of a latest slice."""
        time = name.requested_time
        is_base = name.kind is FileKind.BASE and self.counts(time)
        return is_base and self.is_live((partition_path, name.file_id), time)

    def reason_of_version_6(
        self, group: _Group, name: DataFileName, writer: StoredInstant | None, facts: LogFacts
    ) -> str | None:
        """Why a log file that is named after its base file cannot come in; None if it can."""
        base = name.requested_time
        if not self.is_live(group, base):
            is_moved = writer is not None and self.is_live(group, _completed(writer))
            return self._other_slice(writer, base) if is_moved else None
        if not self.counts(base):
            return f"it is named after the compaction {base}, which is not completed; complete it with Hudi"
        if facts.problem is not None or writer is None:
            return facts.problem or self._without_writer(facts)
        if self._slice_at(group, base) != self._slice_at(group, _completed(writer)):
            return self._other_slice(writer, base)
        others = sorted(facts.instants ^ {writer.requested_time})
        if others:
            return (
                f"it is of the instant {writer.requested_time}, and has other blocks ({', '.join(others)}), "
                f"which Hudi's readers of the published table would read; {_COMPACT}"
            )
        return None

    def _without_writer(self, facts: LogFacts) -> str | None:
        if not facts.instants:
            return None  # Only rollbacks, of blocks that are not there.
        time = min(facts.instants)
        if time not in self._listed and time < self._first:
            return f"its instant {time} is archived, and what it wrote is not known; {_COMPACT}"
        return (
            f"it has blocks of the instant {time}, which did not complete: Hudi's readers of the published "
            f"table would read them; {_COMPACT}"
        )

    def _other_slice(self, writer: StoredInstant | None, base: str) -> str:
        assert writer is not None
        return (
            f"by its name it belongs to the base file of {base}, and its instant {writer.requested_time} "
            f"completed after the next one; {_COMPACT}"
        )

    def _slice_at(self, group: _Group, time: str) -> int:
        return bisect_right(self._bases.get(group, []), time)

    def counts(self, requested_time: str) -> bool:
        """Whether an instant has completed, or is archived and so has completed too."""
        is_archived = requested_time not in self._listed and requested_time < self._first
        return is_archived or requested_time in self._completed
