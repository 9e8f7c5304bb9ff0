"""The file groups that get the rows of a write without a bucket index.

They are the candidates that have keys of the rows, and for all other rows those that the assigner chooses:
small ones, and new ones.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from chronolake import _keys
from chronolake.indexes import assigner, partial_snapshots
from chronolake.indexes.assigner import AssignableGroup, Share
from chronolake.indexes.candidates import Candidates
from chronolake.indexes.tables import BlockingTable
from chronolake.slices import stored_slices
from chronolake.slices.stored_slices import NumberedGroup
from chronolake_model.file_sizes import FileSizes
from chronolake_model.files import FileSlice
from chronolake_model.vocabulary import Action, Direction, State, TableType, TimeOrder

COMMITS_READ_MAX: Final = 20
"""The newest commits, one of which should be large enough to say how large a record is."""
_WRITES: Final = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)


class RowTotals(NamedTuple):
    """The rows that upsert or insert a record, and those that delete one."""

    upserts: int = 0
    deletes: int = 0


Profile: TypeAlias = Mapping[tuple[str, int | None], RowTotals]
"""The rows, by partition path and the number of the file group that has the key."""


@dataclass(frozen=True, slots=True)
class Targets:
    """The file groups that get rows, and by partition path the slots of the rows without a known file group."""

    groups: Sequence[NumberedGroup]
    slots: Mapping[str, Sequence[int]]

    def numbers(self, keys: pa.Array, partition_paths: pa.Array) -> pa.Array:
        """The numbers of the file groups of rows without a known one, by their record keys."""
        paths = partition_paths.dictionary_encode()
        slots = [self.slots[path] for path in paths.dictionary.to_pylist()]
        counts = np.array([len(numbers) for numbers in slots], np.int64)
        starts = np.cumsum(counts) - counts
        codes = paths.indices.to_numpy(zero_copy_only=False)
        hashes = _keys.xxhash64([keys.cast(pa.large_string())]).view(np.int64)
        chosen = starts[codes] + np.mod(hashes, counts[codes])
        flat = pa.array(itertools.chain.from_iterable(slots), pa.int32())
        return flat.take(pa.array(chosen))


def of(table: BlockingTable, eligible: Candidates, profile: Profile) -> Targets:
    """The targets of rows with this profile."""
    inserts = {path: counts.upserts for (path, number), counts in profile.items() if number is None}
    touched = {number for _, number in profile if number is not None}
    is_merge_on_read = table.definition.type is TableType.MERGE_ON_READ
    # A base file keeps no trace of a delete, and a log file does: an older record must not come back.
    unfilled = {number for (_, number), counts in profile.items() if counts.deletes and is_merge_on_read}
    filled: set[int] = set()
    new: list[NumberedGroup] = []
    slots: dict[str, Sequence[int]] = {}
    # Deletes of unknown keys fill nothing.
    filling = {path for path, count in inserts.items() if count}
    slices = [*eligible.slices, *_others(table, eligible, filling)]
    numbers = itertools.count(len(slices))
    sizes = _sizes(table) if filling else FileSizes()
    stored = _stored_groups(table, slices) if filling and eligible.fills_as_of is not None else {}
    for path, count in sorted(inserts.items()):
        small = [group for group in stored.get(path, ()) if group.number not in unfilled]
        shares = assigner.shares(count, small, sizes)
        opened = [NumberedGroup(next(numbers), path, f"{uuid.uuid4()}-0") for _ in _without_number(shares)]
        new += opened
        old = [share.number for share in shares if share.number is not None]
        filled.update(old)
        slots[path] = assigner.slots(shares, [*old, *(group.number for group in opened)])
    known = [
        NumberedGroup(
            number,
            slices[number].partition_path,
            slices[number].file_id,
            stored_slices.of(slices[number]),
            # The keys in log files are not looked up quickly, so inserts go to the base file.
            rewrites=is_merge_on_read and number in filled,
        )
        for number in sorted(touched | filled)
    ]
    return Targets([*known, *new], slots)


def records_per_group(table: BlockingTable) -> int:
    """The records of a new file group at most."""
    return assigner.records_per_group(_sizes(table))


def _without_number(shares: Sequence[Share]) -> list[Share]:
    return [share for share in shares if share.number is None]


def _sizes(table: BlockingTable) -> FileSizes:
    sizes = FileSizes.of(table.definition.properties)
    commits = table.instants(
        state=State.COMPLETED,
        action=_WRITES,
        order_by=TimeOrder.COMPLETION_TIME,
        direction=Direction.DESCENDING,
        limit=COMMITS_READ_MAX,
    )
    summaries = (commit.summary for commit in commits if commit.summary is not None)
    return msgspec.structs.replace(sizes, record_size=assigner.record_size(summaries, sizes))


def _others(table: BlockingTable, eligible: Candidates, paths: Set[str]) -> list[FileSlice]:
    """The slices of partitions that are no candidates, but may be small."""
    unknown = paths - eligible.whole_partitions
    if eligible.fills_as_of is None or not unknown:
        return []
    known = {(slice_.partition_path, slice_.file_id) for slice_ in eligible.slices}
    return [
        slice_
        for slice_ in partial_snapshots.of_partitions(table, eligible.fills_as_of, unknown)
        if (slice_.partition_path, slice_.file_id) not in known
    ]


def _stored_groups(table: BlockingTable, slices: Sequence[FileSlice]) -> dict[str, list[AssignableGroup]]:
    """The sizes of file groups, which are numbered by their places, by partition path."""
    if not slices:
        return {}
    pending = table.pending_file_groups().file_groups
    planned = {(group.partition_path, group.file_id) for group in pending}
    by_partition: dict[str, list[AssignableGroup]] = {}
    for number, slice_ in enumerate(slices):
        stored = AssignableGroup(
            number,
            base_bytes=0 if slice_.base_file is None else slice_.base_file.size_bytes,
            log_bytes=sum(file.size_bytes for file in slice_.log_files),
            is_planned=(slice_.partition_path, slice_.file_id) in planned,
        )
        by_partition.setdefault(slice_.partition_path, []).append(stored)
    return by_partition
