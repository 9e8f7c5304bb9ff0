"""The counts of a task for a checkpoint, merged over its flushes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from chronolake_model.file_names import FileKind, parse_file_name
from chronolake_model.files import WriteStat
from chronolake_model.instants import WriteSummary


class Written(msgspec.Struct, frozen=True):
    """The counts of a task for a checkpoint; ``requested_time`` is None without an instant.

    ``rows`` = inserts + updates + deletes + superseded + unchanged. ``superseded`` rows had the record key of a
    row of the same flush that won; ``unchanged`` rows changed nothing. ``files`` has the other counts. A log
    file is written without a look at the stored records, so its rows count as updates, and as deletes.
    """

    checkpoint: int
    requested_time: str | None = None
    rows: int = 0
    superseded: int = 0
    unchanged: int = 0
    flushes: int = 0
    files: WriteSummary = WriteSummary()


class WriteStats:
    """The write stats of a checkpoint."""

    def __init__(self) -> None:
        self._log_files: list[WriteStat] = []
        self._base_files: dict[tuple[str, str], WriteStat] = {}
        self._reported = WriteSummary()

    def add(self, stat: WriteStat) -> None:
        """Add the file of a flush. A base file takes the place of the earlier one of its file group."""
        if parse_file_name(stat.file_name).kind is FileKind.LOG:
            self._log_files.append(stat)
            return
        group = (stat.partition_path, stat.file_id)
        earlier = self._base_files.get(group)
        self._base_files[group] = stat if earlier is None else _with_counts_of(earlier, stat)

    @property
    def log_files(self) -> list[WriteStat]:
        """The log files that are not reported. They are final; a base file may be replaced until the end."""
        return list(self._log_files)

    @property
    def unreported(self) -> list[WriteStat]:
        """All files that are not reported."""
        return [*self._log_files, *self._base_files.values()]

    def log_files_reported(self) -> None:
        """The log files are reported: forget them, but count them."""
        self._reported = self._summary(self._log_files)
        self._log_files = []

    def summary(self) -> WriteSummary:
        """The totals of all files."""
        return self._summary(self.unreported)

    def _summary(self, stats: Iterable[WriteStat]) -> WriteSummary:
        """The totals of what is reported, and of these."""
        total = self._reported
        for stat in stats:
            total = WriteSummary(
                total.files + 1,
                total.size_bytes + stat.size_bytes,
                total.records + stat.records,
                total.inserts + stat.inserts,
                total.updates + stat.updates,
                total.deletes + stat.deletes,
            )
        return total


def _with_counts_of(earlier: WriteStat, stat: WriteStat) -> WriteStat:
    """The stat of a file that has replaced an earlier one, with what both flushes have changed."""
    return msgspec.structs.replace(
        stat,
        inserts=earlier.inserts + stat.inserts,
        updates=earlier.updates + stat.updates,
        deletes=earlier.deletes + stat.deletes,
    )
