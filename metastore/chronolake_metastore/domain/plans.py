"""Plans: the file groups that an instant will change, and the comparison with those that it changed.

File groups are known by the concurrent instants that changed them (conflicts.py).

A resize is a clustering that gives a table with a bucket index another number of buckets
(docs/decisions/0053-resizes.md). It replaces all file groups of the table, and the event of its completion
changes the table's definition. So definition and files always agree, as long as nothing completes that was
placed by an earlier number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import conflicts, properties
from chronolake_metastore.domain.actions import RULES, WRITES, Rules
from chronolake_metastore.domain.conflicts import (
    GROUPS_NAMED_MAX,
    REPLACING,
    ConcurrentInstant,
    ConcurrentInstants,
    GroupChange,
    LostConflict,
)
from chronolake_metastore.domain.events import Event, ImpossibleEvent
from chronolake_metastore.domain.files import FileGroup, Touched
from chronolake_metastore.domain.lists import PlannedWork
from chronolake_metastore.domain.tables import FormerBuckets, Table
from chronolake_model.columns import BucketIndex
from chronolake_model.file_names import bucket_file_id, bucket_of, generation_of
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, IndexType, State, Touch

FORMER_MAX: Final = 1_000
"""Earlier numbers of buckets that a table keeps."""

LeftOut = Sequence[tuple[FileGroup, ConcurrentInstant]]
"""Live file groups that a resize does not replace, each with the instant that wrote to it last."""


class LostRecords(msgspec.Struct, frozen=True):
    """A partition in which a clustering reports fewer records than it must: those that no log file changes."""

    partition_path: str
    stored: int
    reported: int


class NewPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan as a writer states it: the file groups that its instant will change.

    ``details`` are for its executor. A clustering with ``buckets`` resizes the table to this number of them.
    """

    file_groups: Sequence[FileGroupName] = ()
    details: dict[str, str] = {}
    buckets: int | None = None


def check(
    table: Table,
    action: Action,
    plan: NewPlan | None,
    rules: Rules,
    concurrent: ConcurrentInstants,
    *,
    has_count: bool,
) -> None:
    """Raise ``InvalidPlan``, or ``WriteConflict`` when another plan has the same file groups."""
    groups = () if plan is None else plan.file_groups
    is_resize = plan is not None and plan.buckets is not None
    if rules.needs_groups and not groups and not is_resize:
        raise errors.InvalidPlan(f"a {action} must begin with a plan that names its file groups")
    if len(set(groups)) < len(groups):
        raise errors.InvalidPlan("the plan names a file group twice")
    if has_count and plan is not None:
        raise errors.InvalidPlan("a plan is for one instant: leave count out")
    if rules.needs_groups:
        properties.refuse_details({} if plan is None else plan.details, table.definition.schema)
        missing = [name for name in groups if not _is_live(_key(table, name), concurrent)]
        if missing:
            raise errors.InvalidPlan(
                f"{len(missing)} of the file groups have no files in {table.name!r}, or were replaced; the "
                f"first is {missing[0].file_id!r} in the partition {missing[0].partition_path!r}",
                file_groups=[msgspec.to_builtins(name) for name in missing[:GROUPS_NAMED_MAX]],
            )
        conflicts.refuse_shared_plan(table, groups, concurrent)


def check_touched(
    action: Action,
    plan: PlannedWork | None,
    written: Sequence[Touched],
    replaced: Sequence[FileGroupName],
    unplanned: Sequence[FileGroupName],
) -> None:
    """Raise ``InvalidPlan`` if the action may not change file groups so, or its plan lacks them.

    ``unplanned`` are those of the file groups that the plan does not name.
    """
    check_written(action, written, unplanned)
    if replaced and Touch.REPLACED not in RULES[action].touches:
        raise errors.InvalidPlan(f"a {action} has no {Touch.REPLACED} files", action=action)
    if len(set(replaced)) < len(replaced):
        raise errors.InvalidPlan("replaced_file_groups names a file group twice")
    names = {name for _, name in written}
    if not names.isdisjoint(replaced):
        raise errors.InvalidPlan(
            "an instant cannot replace a file group and also write to it: no reader would see the file; write "
            "to another file group",
            file_groups=[msgspec.to_builtins(name) for name in replaced if name in names][:GROUPS_NAMED_MAX],
        )
    planned = 0 if plan is None else plan.file_groups.count
    if action is Action.CLUSTERING and (unplanned or len(replaced) != planned):
        raise errors.InvalidPlan("a clustering replaces all file groups of its plan, and no others")


def groups_of_plan(
    action: Action, written: Sequence[WriteStat], replaced: Sequence[FileGroupName]
) -> list[FileGroupName]:
    """The file groups of a request that the plan of an instant with this action has to name."""
    match action:
        case Action.COMPACTION | Action.LOGCOMPACTION:
            return list(dict.fromkeys(FileGroupName(stat.partition_path, stat.file_id) for stat in written))
        case Action.CLUSTERING:
            return list(dict.fromkeys(replaced))
        case _:
            return []


def check_written(action: Action, written: Sequence[Touched], unplanned: Sequence[FileGroupName]) -> None:
    """Raise ``InvalidPlan`` if the action may not write to file groups so, or its plan lacks them."""
    strange_touches = {touch for touch, _ in written} - RULES[action].touches
    if strange_touches:
        raise errors.InvalidPlan(
            f"a {action} has no {' and no '.join(sorted(strange_touches))} files", action=action
        )
    if unplanned and action in (Action.COMPACTION, Action.LOGCOMPACTION):
        raise errors.InvalidPlan(
            f"{len(unplanned)} of the file groups are not in the plan of the {action}; one is "
            f"{min(name.file_id for name in unplanned)!r}"
        )


def check_groups(
    table: Table, touched: Sequence[tuple[GroupChange, FileGroupName]], concurrent: ConcurrentInstants
) -> None:
    """Raise ``InvalidPlan`` if a replaced group does not exist, or a bucket would have two groups.

    Groups that were replaced since are conflicts already.
    """
    replaced = {name for change, name in touched if change in REPLACING}
    for change, name in touched:
        if change in REPLACING:
            if not _is_live(_key(table, name), concurrent):
                raise errors.InvalidPlan(
                    f"the file group {name.file_id!r} in the partition {name.partition_path!r} of "
                    f"{table.name!r} has no files, so it cannot be replaced"
                )
        elif table.definition.index.type is IndexType.BUCKET and (before := generation_of(name.file_id)):
            previous = FileGroupName(name.partition_path, bucket_file_id(bucket_of(name.file_id), before - 1))
            if previous not in replaced and not _is_replaced(_key(table, previous), concurrent):
                raise errors.InvalidPlan(
                    f"the file group of this bucket is {previous.file_id!r} or one before it, as long as that "
                    f"is not replaced; not {name.file_id!r}"
                )


def previous_group(name: FileGroupName) -> FileGroupName | None:
    """The file group that a bucket had before this one, if the file id says that there was one."""
    try:
        bucket, generation = bucket_of(name.file_id), generation_of(name.file_id)
    except ValueError:
        return None
    if generation == 0:
        return None
    return FileGroupName(name.partition_path, bucket_file_id(bucket, generation - 1))


def buckets_of(plan: PlannedWork | None) -> int | None:
    """The number of buckets to which an instant with this plan resizes the table; None if it does not."""
    return None if plan is None else plan.buckets


def keeps_plan(rules: Rules, plan: PlannedWork | None) -> bool:
    """Whether an instant goes back to requested if its execution fails.

    Not a resize: its plan has all file groups of the table at its begin, and any write since makes it lose.
    """
    return rules.keeps_plan and buckets_of(plan) is None


def refuse_resize(table: Table, action: Action, plan: NewPlan | None, left_out: LeftOut) -> None:
    """Refuse a resize that cannot begin.

    Raises ``InvalidPlan``, and ``WriteConflict`` if the plan lacks a file group: it was opened meanwhile.
    """
    buckets = None if plan is None else plan.buckets
    if buckets is None:
        return
    index = table.definition.index
    if action is not Action.CLUSTERING or index.type is not IndexType.BUCKET:
        raise errors.InvalidPlan(
            f"only a clustering of a table with a bucket index changes the number of buckets, not a "
            f"{action} of {table.name!r}, which has the index {index.type}; leave buckets out of the "
            "plan",
            table=table.name,
        )
    if buckets == index.buckets:
        raise errors.InvalidPlan(
            f"{table.name!r} has {buckets} buckets already", table=table.name, buckets=buckets
        )
    if len(table.definition.former) >= FORMER_MAX:
        raise errors.InvalidPlan(
            f"{table.name!r} has had {FORMER_MAX:,} other numbers of buckets, and keeps no more; create "
            "another table, and write the records into it",
            table=table.name,
        )
    refuse_left_out(table, left_out)


def refuse_other_number(table: Table, plan: PlannedWork | None, stated: int | None) -> None:
    """Raise ``InvalidPlan`` unless the completion states the number of buckets of its plan.

    An executor that does not know of resizes states none. It would place the records by the present number.
    """
    buckets = buckets_of(plan)
    if stated != buckets:
        raise errors.InvalidPlan(
            "the instant does not resize the table; leave buckets out"
            if buckets is None
            else f"the plan divides {table.name!r} into {buckets} buckets: place its records by this number, "
            f"and complete with buckets: {buckets}",
            table=table.name,
            buckets=buckets,
        )


def find_later_resize(table: Table, begun_as: Action, requested_time: Micros) -> LostConflict | None:
    """The conflict of an instant with a resize that has completed since it was requested.

    Its records are placed by an earlier number, also in buckets without files, where no file group is in
    common.
    """
    former = table.definition.former
    if begun_as not in WRITES or not former or requested_time > former[-1].until:
        return None
    resized = former[-1]
    winner = ConcurrentInstant(
        change=GroupChange.CLUSTER,
        action=Action.REPLACECOMMIT,
        state=State.COMPLETED,
        requested_time=resized.changed_by,
        completion_time=resized.until,
    )
    return LostConflict(winner, [])


def refuse_before_resize(table: Table, begun_as: Action, requested_time: Micros) -> None:
    """Raise ``WriteConflict`` for an instant that was requested before the table was resized."""
    lost = find_later_resize(table, begun_as, requested_time)
    if lost is None:
        return
    conflict, buckets = conflicts.told(table, lost), table.definition.index.buckets
    raise errors.WriteConflict(
        f"the instant {conflict.winner} has changed the number of buckets of {table.name!r} to {buckets} "
        "since; roll back, begin again, and place the records by the new number",
        **msgspec.to_builtins(conflict),
        buckets=buckets,
    )


def refuse_left_out(table: Table, left_out: LeftOut) -> None:
    """Raise ``WriteConflict`` if a resize does not replace some file groups: they were opened meanwhile."""
    if not left_out:
        return
    # The one that completed last comes first.
    _, winner = left_out[0]
    groups = [group for group, _ in left_out]
    conflict = conflicts.told(table, LostConflict(winner, groups))
    raise errors.WriteConflict(
        f"a resize replaces all file groups of {table.name!r}, and the plan lacks "
        f"{conflicts.names_of(groups)}, which the instant {conflict.winner} has written; roll back, read the "
        "table again and plan again",
        **msgspec.to_builtins(conflict),
    )


def refuse_lost_records(table: Table, lost: LostRecords | None) -> None:
    """Raise ``InvalidWriteStat`` if a clustering reports too few records: its executor is wrong."""
    if lost is None:
        return
    raise errors.InvalidWriteStat(
        f"the clustering reports {lost.reported} records in the partition {lost.partition_path!r} of "
        f"{table.name!r}, and the base files that it takes the place of have {lost.stored} that no log file "
        "changes: records would be lost; report the files of all records, or return the plan",
        **msgspec.to_builtins(lost),
    )


def placed_by(table: Table, plan: PlannedWork | None) -> Table:
    """The table with the number of buckets by which an instant with this plan places its files."""
    buckets = buckets_of(plan)
    return table if buckets is None else _with_buckets(table, buckets)


def number_after_restore(table: Table, back_to: Micros) -> int | None:
    """The number of buckets as of a completion time, if it is not the present one."""
    buckets = table.definition.buckets_as_of(back_to)
    return None if buckets == table.definition.index.buckets else buckets


def evolve_resized(table: Table, buckets: int, event: Event) -> Table:
    """The table after ``event``, the completion of an instant that changed the number of buckets.

    Raises ``ImpossibleEvent``.
    """
    before = table.definition
    if before.index.type is not IndexType.BUCKET or event.instant is None:
        raise ImpossibleEvent("the table has no buckets")
    former = FormerBuckets(before.index.buckets, event.time, event.instant)
    resized = _with_buckets(table, buckets)
    definition = msgspec.structs.replace(resized.definition, former_buckets=[*before.former, former])
    return msgspec.structs.replace(resized, definition=definition)


def _with_buckets(table: Table, buckets: int) -> Table:
    index = BucketIndex(table.definition.index.type, buckets)
    definition = msgspec.structs.replace(table.definition, index=index)
    return msgspec.structs.replace(table, definition=definition)


def _key(table: Table, name: FileGroupName) -> FileGroup:
    return FileGroup(table.table_id, name.partition_path, name.file_id)


def _is_replaced(group: FileGroup, concurrent: ConcurrentInstants) -> bool:
    return any(
        other.completion_time is not None and other.change in REPLACING for other in concurrent.get(group, ())
    )


def _is_live(group: FileGroup, concurrent: ConcurrentInstants) -> bool:
    completed = [other for other in concurrent.get(group, ()) if other.completion_time is not None]
    return bool(completed) and not _is_replaced(group, concurrent)
