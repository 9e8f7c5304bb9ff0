"""Resizes: a clustering that gives a table with a bucket index another number of buckets (decision 0053).

It replaces all file groups of the table, and the event of its completion changes the table's definition. So
definition and files always agree, as long as nothing completes that was placed by an earlier number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import conflicts
from chronolake_metastore.domain.actions import WRITES, Rules
from chronolake_metastore.domain.conflicts import ConcurrentInstant, GroupChange, LostConflict
from chronolake_metastore.domain.events import Event, ImpossibleEvent, PlannedWork
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.plans import NewPlan
from chronolake_metastore.domain.tables import FormerBuckets, Table
from chronolake_model.columns import BucketIndex
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, IndexType, State

FORMER_MAX: Final = 1_000
"""Earlier numbers of buckets that a table keeps."""

LeftOut = Sequence[tuple[FileGroup, ConcurrentInstant]]
"""Live file groups that a resize does not replace, each with the instant that wrote to it last."""


def buckets_of(plan: PlannedWork | None) -> int | None:
    """The number of buckets to which an instant with this plan resizes the table; None if it does not."""
    return None if plan is None else plan.buckets


def keeps_plan(rules: Rules, plan: PlannedWork | None) -> bool:
    """Whether an instant goes back to requested if its execution fails.

    Not a resize: its plan has all file groups of the table at its begin, and any write since makes it lose.
    """
    return rules.keeps_plan and buckets_of(plan) is None


def refuse_plan(table: Table, action: Action, plan: NewPlan | None, left_out: LeftOut) -> None:
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


def find_later(table: Table, begun_as: Action, requested_time: Micros) -> LostConflict | None:
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


def refuse_earlier(table: Table, begun_as: Action, requested_time: Micros) -> None:
    """Raise ``WriteConflict`` for an instant that was requested before the table was resized."""
    lost = find_later(table, begun_as, requested_time)
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


def placed_by(table: Table, plan: PlannedWork | None) -> Table:
    """The table with the number of buckets by which an instant with this plan places its files."""
    buckets = buckets_of(plan)
    return table if buckets is None else _with_buckets(table, buckets)


def number_after_restore(table: Table, back_to: Micros) -> int | None:
    """The number of buckets as of a completion time, if it is not the present one."""
    buckets = table.definition.buckets_as_of(back_to)
    return None if buckets == table.definition.index.buckets else buckets


def evolve(table: Table, buckets: int, event: Event) -> Table:
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
