"""Changes by other instants while a group of commands is decided: of file groups, and inserts into partitions.

Two writers must not insert one key into two file groups. A bucket index tells the file group of a new key, so
two writers of one key write one file group and conflict. With other indexes each may open a file group of its
own. So an instant whose writer has looked its keys up conflicts with every instant that has inserted into the
same partitions since it was requested (docs/decisions/0048-reads-of-writers.md). With a record
index, whose keys are unique in the whole table, it conflicts with inserts into any partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import conflicts
from chronolake_metastore.domain.conflicts import ConcurrentInstant, GroupChange, LostConflict
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.tables import Table
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, IndexType

_NAMED_MAX: Final = 100
_IN_TEXT_MAX: Final = 3
_SERVICES: Final = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING})
"""They write records that the table has already."""
KnownGroups = dict[FileGroup, tuple[ConcurrentInstant, ...]]


def plans_groups(instant: Instant) -> bool:
    """Whether the instant has a plan that names file groups."""
    return instant.plan is not None and instant.plan.file_groups.count > 0


def add(
    known: KnownGroups, table_id: UUID, changes: Iterable[tuple[GroupChange, FileGroupName]], instant: Instant
) -> None:
    """Add the changes of ``instant`` to file groups: later commands of the group conflict with them."""
    for change, name in changes:
        group = FileGroup(table_id, name.partition_path, name.file_id)
        concurrent = ConcurrentInstant(
            change=change,
            action=instant.action,
            state=instant.state,
            requested_time=instant.requested_time,
            completion_time=instant.completion_time,
            lease_expires_at=instant.lease_expires_at,
        )
        known[group] = (*known.get(group, ()), concurrent)


def add_plan(known: KnownGroups, table_id: UUID, instant: Instant, groups: Iterable[FileGroupName]) -> None:
    """Add what ``instant`` plans for file groups."""
    change = conflicts.planned_change(instant.begun_as)
    if change is not None:
        add(known, table_id, [(change, name) for name in groups], instant)


def remove_plan(known: KnownGroups, table_id: UUID, instant: Instant) -> Sequence[FileGroupName]:
    """Remove what ``instant`` plans; gives the file groups of its plan, as far as they were loaded."""
    without = {
        group: left
        for group, others in known.items()
        if group.table_id == table_id and len(left := _without_plan(others, instant)) < len(others)
    }
    known.update(without)
    return [FileGroupName(group.partition_path, group.file_id) for group in without]


def update_plan(known: KnownGroups, table_id: UUID, instant: Instant) -> None:
    """Update the plan of ``instant`` with its present state and lease."""
    if plans_groups(instant):
        add_plan(known, table_id, instant, remove_plan(known, table_id, instant))


def _without_plan(others: Sequence[ConcurrentInstant], instant: Instant) -> tuple[ConcurrentInstant, ...]:
    return tuple(
        other
        for other in others
        if other.completion_time is not None or other.requested_time != instant.requested_time
    )


class PartitionKey(msgspec.Struct, frozen=True):
    """A partition of a table."""

    table_id: UUID
    partition_path: str


LatestInserts = Mapping[PartitionKey, ConcurrentInstant]
"""By partition the completed instant that was the last to insert into it."""


def may_insert(stat: WriteStat) -> bool:
    """Whether the file may have records with new keys: it has inserts, or its writer counted nothing."""
    return bool(stat.inserts) or not (stat.updates or stat.deletes)


def partitions_of(
    table_id: UUID, requested_time: Micros, stats: Iterable[WriteStat], concurrent: conflicts.ConcurrentInstants
) -> set[PartitionKey]:
    """The partitions into which an instant with these write stats inserts.

    An update inserts where a compaction of its file group was planned since the instant was requested: it may
    have forgotten that the key was deleted, and another writer may insert the key into another file group.
    """
    return {
        PartitionKey(table_id, stat.partition_path)
        for stat in stats
        if may_insert(stat)
        or conflicts.is_compacted(
            requested_time, concurrent.get(FileGroup(table_id, stat.partition_path, stat.file_id), ())
        )
    }


def inserts_of(
    instant: Instant, stats: Sequence[WriteStat], table_id: UUID, concurrent: conflicts.ConcurrentInstants
) -> LatestInserts:
    """The inserts of an instant that has completed with these write stats."""
    if instant.begun_as in _SERVICES:
        return {}
    other = ConcurrentInstant(
        change=GroupChange.WRITE,
        action=instant.action,
        state=instant.state,
        requested_time=instant.requested_time,
        completion_time=instant.completion_time,
    )
    own = partitions_of(table_id, instant.requested_time, stats, concurrent)
    return dict.fromkeys(own, other)


def compares_inserts(table: Table) -> bool:
    """Whether inserts of one key may be in two file groups of a partition."""
    return table.definition.index.type is not IndexType.BUCKET


def find_inserts(
    mine: Micros, partitions: Iterable[PartitionKey], latest: LatestInserts, *, in_any_partition: bool = False
) -> dict[PartitionKey, ConcurrentInstant]:
    """The partitions, of ``partitions``, into which another instant has inserted since ``mine`` was requested.

    With ``in_any_partition`` an instant that inserts conflicts with inserts into any partition.
    """
    own = set(partitions)
    if in_any_partition:
        tables = {partition.table_id for partition in own}
        own = {partition for partition in latest if partition.table_id in tables}
    others = ((partition, latest[partition]) for partition in own if partition in latest)
    return {
        partition: other
        for partition, other in others
        if other.requested_time != mine and (other.completion_time or 0) > mine
    }


def refuse_inserts(
    table: Table, mine: Micros, partitions: Iterable[PartitionKey], latest: LatestInserts
) -> None:
    """Raise ``WriteConflict`` if another instant has inserted into one of the partitions since."""
    is_global = table.definition.index.type is IndexType.RECORD
    lost = find_inserts(mine, partitions, latest, in_any_partition=is_global)
    if not lost:
        return
    winner = max(lost.values(), key=lambda other: other.completion_time or 0)
    conflict = conflicts.told(table, LostConflict(winner, []))
    paths = sorted(partition.partition_path for partition in lost)
    names = ", ".join([*map(repr, paths[:_IN_TEXT_MAX]), *(["..."] if len(paths) > _IN_TEXT_MAX else [])])
    which = "partition(s)" if is_global else "of the same partition(s)"
    raise errors.WriteConflict(
        f"the instant {conflict.winner} has inserted records into {len(paths)} {which} of {table.name!r} since "
        f"the keys were looked up: {names}; roll back, read the table again and write again",
        **msgspec.to_builtins(conflict),
        partition_paths=paths[:_NAMED_MAX],
    )
