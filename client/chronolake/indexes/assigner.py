"""The bucket assigner: the file groups that get the records which a write inserts. No storage.

Small file groups are filled first, and new groups are opened for the rest, as Hudi does (WriteProfile,
BucketAssigner, UpsertPartitioner). A record goes to one of them by a hash of its key. So rows of one key meet
in one group, and a repeated attempt of a task assigns the same group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from chronolake_model.file_sizes import FileSizes
from chronolake_model.instants import WriteSummary

LOG_COMPRESSION_RATIO: Final = 0.35
"""Bytes in a base file for one byte in a log file (hoodie.logfile.to.parquet.compression.ratio)."""
SLOTS_MAX: Final = 65_536
"""Slots of a partition, unless it has more file groups."""
_SLOTS_PER_GROUP: Final = 16


@dataclass(frozen=True, slots=True)
class AssignableGroup:
    """A file group that exists, by its number: the bytes of its base file and of its log files.

    ``is_planned`` if a pending table service, such as a compaction, has it in its plan.
    """

    number: int
    base_bytes: int
    log_bytes: int = 0
    is_planned: bool = False


@dataclass(frozen=True, slots=True)
class Share:
    """How many of the inserted records a file group gets, about; without a number it is a new group."""

    number: int | None
    records: int


def shares(
    inserts: int, groups: Iterable[AssignableGroup], sizes: FileSizes, *, fills_logs: bool = False
) -> list[Share]:
    """The file groups of one partition that get ``inserts`` records, at least one group.

    The smallest groups come first. Groups with log files are filled only if ``fills_logs``: the keys in log
    files must be found again.
    """
    left, chosen = inserts, []
    for group in sorted(groups, key=lambda group: (_bytes_of(group), group.number)):
        capacity = _capacity(group, sizes, fills_logs=fills_logs)
        if left > 0 and capacity > 0:
            chosen.append(Share(group.number, min(capacity, left)))
            left -= chosen[-1].records
    if left > 0 or not chosen:
        chosen += _new_groups(left, sizes)
    return chosen


def slots(shares: Sequence[Share], numbers: Sequence[int]) -> list[int]:
    """The numbers of the groups, each as often as its share asks for.

    The group of a record is that at the hash of its key modulo the length.
    """
    if len(shares) == 1:
        return [numbers[0]]
    total = sum(share.records for share in shares)
    count = max(len(shares), min(SLOTS_MAX, _SLOTS_PER_GROUP * len(shares)))
    exact = [share.records * count / total for share in shares]
    counts = [math.floor(slots) for slots in exact]
    by_remainder = sorted(range(len(shares)), key=lambda index: (counts[index] - exact[index], index))
    for index in by_remainder[: count - sum(counts)]:
        counts[index] += 1
    return [number for number, times in zip(numbers, counts, strict=True) for _ in range(times)]


def record_size(newest_first: Iterable[WriteSummary], sizes: FileSizes) -> int:
    """The average bytes of a record, by the newest commit that wrote more bytes than a small file has."""
    for summary in newest_first:
        if summary.size_bytes > sizes.small_file_limit and summary.records:
            return math.ceil(summary.size_bytes / summary.records)
    return sizes.record_size


def records_per_group(sizes: FileSizes) -> int:
    """The records of a new file group at most."""
    return max(1, sizes.max_file_size // sizes.record_size)


def _bytes_of(group: AssignableGroup) -> float:
    return group.base_bytes + LOG_COMPRESSION_RATIO * group.log_bytes


def _capacity(group: AssignableGroup, sizes: FileSizes, *, fills_logs: bool) -> int:
    """The records that a small group still takes."""
    size = _bytes_of(group)
    if group.is_planned or (group.log_bytes and not fills_logs) or not 0 < size < sizes.small_file_limit:
        return 0
    return max(0, int((sizes.max_file_size - size) // sizes.record_size))


def _new_groups(inserts: int, sizes: FileSizes) -> list[Share]:
    """New groups of about the same size."""
    count = max(1, math.ceil(inserts / records_per_group(sizes)))
    share, larger = divmod(inserts, count)
    return [Share(None, share + (index < larger)) for index in range(count)]
