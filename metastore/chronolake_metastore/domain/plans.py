"""Plans: the file groups that an instant will change, and the comparison with those that it changed.

File groups are known by the concurrent instants that changed them (conflicts.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import conflicts
from chronolake_metastore.domain.actions import RULES, Rules
from chronolake_metastore.domain.conflicts import GROUPS_NAMED_MAX, REPLACING, ConcurrentInstants, GroupChange
from chronolake_metastore.domain.events import PlannedWork
from chronolake_metastore.domain.files import FileGroup, Touched
from chronolake_metastore.domain.tables import Table
from chronolake_model.file_names import bucket_file_id, bucket_of, generation_of
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.vocabulary import Action, IndexType, Touch


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


def _key(table: Table, name: FileGroupName) -> FileGroup:
    return FileGroup(table.table_id, name.partition_path, name.file_id)


def _is_replaced(group: FileGroup, concurrent: ConcurrentInstants) -> bool:
    return any(
        other.completion_time is not None and other.change in REPLACING for other in concurrent.get(group, ())
    )


def _is_live(group: FileGroup, concurrent: ConcurrentInstants) -> bool:
    completed = [other for other in concurrent.get(group, ()) if other.completion_time is not None]
    return bool(completed) and not _is_replaced(group, concurrent)
