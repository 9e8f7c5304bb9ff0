"""File groups while a group of commands is decided: which other instants changed them, or plan to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from chronolake_metastore.domain import conflicts
from chronolake_metastore.domain.conflicts import ConcurrentInstant, GroupChange
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import Instant
from chronolake_model.files import FileGroupName

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
