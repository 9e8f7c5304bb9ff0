"""Conflicts between instants: the table action x action (docs/architecture.md#instants, docs/decisions/0011).

Two instants conflict if they change a common file group and the rule for their changes says so. It is decided
when one of them completes, under the table's lock, so the other has completed or is still pending.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.files import FileGroup, Touched
from chronolake_metastore.domain.tables import Table
from chronolake_model.files import FileGroupName
from chronolake_model.times import Micros, format_time
from chronolake_model.vocabulary import Action, State, Touch, Yields

GROUPS_NAMED_MAX: Final = 100
"""File groups that a conflict names; it may have more."""
_GROUPS_IN_TEXT_MAX: Final = 3


class GroupChange(enum.StrEnum):
    """The kind of change that an instant makes to one file group."""

    APPEND = "append"
    """Adds a log file."""
    WRITE = "write"
    """Writes a base file, which replaces the content of the group."""
    REPLACE = "replace"
    """Replaces the group by other content (insert overwrite, delete partition)."""
    CLUSTER = "cluster"
    """Replaces the group by one with the same records."""
    COMPACT = "compact"
    """Writes a base file with the records of the group's logs."""
    LOG_COMPACT = "log_compact"
    """Adds a log file with the records of others."""


class Rule(enum.StrEnum):
    """When the change of another instant to a common file group is a conflict for the completing one."""

    NEVER = "never"
    SINCE = "since"
    """If the other completed after the completing one was requested: it cannot have been read."""
    SCHEDULED_AFTER = "scheduled after"
    """If the other was requested after the completing one, whose plan does not contain it."""
    ALWAYS = "always"


_SERVICES: Final = {
    Action.CLUSTERING: GroupChange.CLUSTER,
    Action.COMPACTION: GroupChange.COMPACT,
    Action.LOGCOMPACTION: GroupChange.LOG_COMPACT,
}
REPLACING: Final = frozenset({GroupChange.REPLACE, GroupChange.CLUSTER})
"""The changes that replace a file group."""
SERVICES: Final = frozenset(_SERVICES.values())
"""The changes of table services, of whose pending plans one at a time may name a file group."""
_KEEPING: Final = frozenset({GroupChange.COMPACT, GroupChange.LOG_COMPACT})
"""The changes that keep the records of a file group where they are."""
_N, _S, _A, _E = Rule.NEVER, Rule.SINCE, Rule.SCHEDULED_AFTER, Rule.ALWAYS


def _row(*rules: Rule) -> dict[GroupChange, Rule]:
    return dict(zip(GroupChange, rules, strict=True))


COMPLETED: Final[Mapping[GroupChange, Mapping[GroupChange, Rule]]] = {
    # who completes        append write replace cluster compact log_compact   <- what another has completed
    GroupChange.APPEND: _row(_N, _N, _E, _E, _N, _N),
    GroupChange.WRITE: _row(_S, _S, _E, _E, _A, _S),
    GroupChange.REPLACE: _row(_S, _S, _E, _E, _A, _N),
    GroupChange.CLUSTER: _row(_S, _S, _E, _E, _A, _N),
    GroupChange.COMPACT: _row(_N, _S, _N, _N, _N, _N),
    GroupChange.LOG_COMPACT: _row(_N, _S, _N, _N, _A, _N),
}
"""A replaced group is never used again, so every later write to it loses, whenever it began.

A compaction or log compaction does not: its file has no record of its own, and no reader sees it. So it keeps
its work for the other file groups of its plan.
"""

PENDING: Final[Mapping[Yields, Mapping[GroupChange, Mapping[GroupChange, Rule]]]] = {
    Yields.TABLE_SERVICE: {
        # who completes        append write replace cluster compact log_compact   <- what another plans
        GroupChange.APPEND: _row(_N, _N, _N, _N, _N, _N),
        GroupChange.WRITE: _row(_N, _N, _N, _N, _N, _N),
        GroupChange.REPLACE: _row(_N, _N, _N, _N, _N, _N),
        GroupChange.CLUSTER: _row(_E, _E, _E, _N, _N, _N),
        GroupChange.COMPACT: _row(_N, _N, _N, _N, _N, _N),
        GroupChange.LOG_COMPACT: _row(_N, _N, _N, _N, _N, _N),
    },
    Yields.WRITER: {
        GroupChange.APPEND: _row(_N, _N, _A, _E, _N, _N),
        GroupChange.WRITE: _row(_N, _N, _A, _E, _A, _N),
        GroupChange.REPLACE: _row(_N, _N, _A, _E, _A, _N),
        GroupChange.CLUSTER: _row(_N, _N, _N, _N, _N, _N),
        GroupChange.COMPACT: _row(_N, _N, _N, _N, _N, _N),
        GroupChange.LOG_COMPACT: _row(_N, _N, _N, _N, _N, _N),
    },
}
"""Rules for pending instants. Only the plan of such an instant counts, and only while its lease runs."""


_LOST_BY_CLUSTERING: Final = frozenset(
    change for change, rule in COMPLETED[GroupChange.CLUSTER].items() if rule in (Rule.SINCE, Rule.ALWAYS)
)
"""The changes after which a clustering of their file group that was pending cannot complete."""


class ConcurrentInstant(msgspec.Struct, frozen=True):
    """Another instant that changes a file group; it is pending if it has no completion time.

    It ``is_promised`` if the change is a reported file of a stream's instant that began without blocking.
    """

    change: GroupChange
    action: Action
    state: State
    requested_time: Micros
    completion_time: Micros | None = None
    lease_expires_at: Micros | None = None
    is_promised: bool = False


ConcurrentInstants = Mapping[FileGroup, Sequence[ConcurrentInstant]]
"""The concurrent instants of file groups: the latest completed one of each change, and all pending ones."""


class LostConflict(msgspec.Struct, frozen=True):
    """A conflict: the winner, and the file groups in common."""

    winner: ConcurrentInstant
    file_groups: Sequence[FileGroup]


class ToldConflict(msgspec.Struct, frozen=True):
    """A lost conflict for programs: the context of a refusal.

    ``rebase_on`` is the completion time to read the table as of before writing again, None while the winner is
    pending. ``file_groups`` are the first of those in common.
    """

    winner: str
    winner_action: Action
    winner_state: State
    rebase_on: str | None
    file_groups: list[FileGroupName]
    file_groups_in_common: int


def group_changes(
    action: Action, written: Sequence[Touched], replaced: Sequence[FileGroupName]
) -> list[tuple[GroupChange, FileGroupName]]:
    """The change of each file group by a completing instant."""
    gone = [(Touch.REPLACED, name) for name in dict.fromkeys(replaced)]
    return [(change_of(action, touch), name) for touch, name in [*written, *gone]]


def joined(concurrent: ConcurrentInstants, further: ConcurrentInstants) -> ConcurrentInstants:
    """The concurrent instants, with further ones."""
    if not further:
        return concurrent
    return {**concurrent, **{group: [*concurrent.get(group, ()), *others] for group, others in further.items()}}


def is_compacted(requested_time: Micros, others: Iterable[ConcurrentInstant]) -> bool:
    """Whether a compaction of a file group has completed that was planned after an instant was requested."""
    return any(
        other.change is GroupChange.COMPACT
        and other.completion_time is not None
        and other.requested_time > requested_time
        for other in others
    )


def completed(concurrent: ConcurrentInstants) -> ConcurrentInstants:
    """The completed ones, without those that are pending."""
    return {
        group: [other for other in others if other.completion_time is not None]
        for group, others in concurrent.items()
    }


def change_of(action: Action, touch: Touch) -> GroupChange:
    """The change by which an instant of this action touches a file group."""
    match touch:
        case Touch.BASE:
            return GroupChange.COMPACT if action is Action.COMPACTION else GroupChange.WRITE
        case Touch.LOG:
            return GroupChange.LOG_COMPACT if action is Action.LOGCOMPACTION else GroupChange.APPEND
        case Touch.REPLACED:
            return GroupChange.CLUSTER if action is Action.CLUSTERING else GroupChange.REPLACE


def planned_change(action: Action) -> GroupChange | None:
    """The change that a pending instant of this action is assumed to make to the file groups of its plan.

    None if it writes no data: no instant conflicts with a clean or an indexing.
    """
    match action:
        case Action.COMPACTION | Action.LOGCOMPACTION | Action.CLUSTERING:
            return _SERVICES[action]
        case Action.REPLACECOMMIT:
            return GroupChange.REPLACE
        case Action.DELTACOMMIT:
            return GroupChange.APPEND
        case Action.COMMIT:
            return GroupChange.WRITE
        case _:
            return None


def find(
    table: Table,
    mine: Micros,
    touched: Iterable[tuple[GroupChange, FileGroupName]],
    concurrent: ConcurrentInstants,
    now: Micros,
) -> LostConflict | None:
    """The conflict that the instant requested at ``mine`` would lose if it completed, or None.

    ``now`` is the wall's time.

    The winner is the one that completed last; of pending ones, when none has completed, the last requested.
    """
    in_common: dict[FileGroup, None] = {}
    winner: ConcurrentInstant | None = None
    yields = table.yields
    for change, name in touched:
        group = FileGroup(table.table_id, name.partition_path, name.file_id)
        for other in concurrent.get(group, ()):
            if other.requested_time != mine and _conflicts(yields, change, mine, other, now):
                in_common[group] = None
                winner = other if winner is None else max(winner, other, key=_precedence)
    return None if winner is None else LostConflict(winner, list(in_common))


def refuse(
    table: Table,
    mine: Micros,
    touched: Iterable[tuple[GroupChange, FileGroupName]],
    concurrent: ConcurrentInstants,
    now: Micros,
) -> None:
    """Raise ``WriteConflict`` when completing the instant requested at ``mine`` loses a conflict."""
    lost = find(table, mine, touched, concurrent, now)
    if lost is None:
        return
    conflict = told(table, lost)
    if lost.winner.completion_time is None:
        what = f"the pending {conflict.winner_action} {conflict.winner} plans for"
        then = "roll back, wait for it to end, and write again"
    else:
        what = f"the instant {conflict.winner} has changed"
        then = "roll back, read the table again and write again"
    raise errors.WriteConflict(
        f"{what} {len(lost.file_groups)} of the same file group(s) of {table.name!r}: "
        f"{names_of(lost.file_groups)}; {then}",
        **msgspec.to_builtins(conflict),
    )


def refuse_based_on_reads(
    table: Table,
    mine: Micros,
    touched: Iterable[tuple[GroupChange, FileGroupName]],
    concurrent: ConcurrentInstants,
    now: Micros,
) -> None:
    """Raise ``WriteConflict`` if the records of a file group that was read and appended to may have changed.

    Then an append is judged like a base file; but compactions and log compactions change no records.
    """
    appended = [(GroupChange.WRITE, name) for change, name in touched if change is GroupChange.APPEND]
    changes = {
        group: [other for other in others if other.change not in _KEEPING]
        for group, others in concurrent.items()
    }
    refuse(table, mine, appended, changes, now)


def lost_clusterings(
    table: Table,
    mine: Micros,
    touched: Iterable[tuple[GroupChange, FileGroupName]],
    concurrent: ConcurrentInstants,
) -> dict[Micros, list[FileGroup]]:
    """The pending clusterings that cannot complete once the instant requested at ``mine`` has completed.

    By their requested times, with the file groups in common.
    """
    lost: dict[Micros, list[FileGroup]] = {}
    for change, name in touched:
        if change not in _LOST_BY_CLUSTERING:
            continue
        group = FileGroup(table.table_id, name.partition_path, name.file_id)
        for other in concurrent.get(group, ()):
            is_pending = other.completion_time is None and other.change is GroupChange.CLUSTER
            if is_pending and other.requested_time != mine:
                lost.setdefault(other.requested_time, []).append(group)
    return lost


def refuse_shared_plan(table: Table, groups: Iterable[FileGroupName], concurrent: ConcurrentInstants) -> None:
    """Raise ``WriteConflict`` when a pending table service has planned for one of ``groups`` already."""
    planned: dict[FileGroup, ConcurrentInstant] = {}
    for name in groups:
        group = FileGroup(table.table_id, name.partition_path, name.file_id)
        for other in concurrent.get(group, ()):
            if other.completion_time is None and other.change in SERVICES:
                planned[group] = other
    if not planned:
        return
    conflict = told(table, LostConflict(max(planned.values(), key=_precedence), list(planned)))
    raise errors.WriteConflict(
        f"the pending {conflict.winner_action} {conflict.winner} has planned for {len(planned)} of these file "
        "group(s) already; leave them out, or wait for it to end",
        **msgspec.to_builtins(conflict),
    )


def told(table: Table, lost: LostConflict) -> ToldConflict:
    """The conflict as a refusal tells it."""
    winner, tick = lost.winner, table.definition.tick
    completed = winner.completion_time
    return ToldConflict(
        winner=format_time(winner.requested_time, tick),
        winner_action=winner.action,
        winner_state=winner.state,
        rebase_on=None if completed is None else format_time(completed, tick),
        file_groups=[
            FileGroupName(group.partition_path, group.file_id) for group in lost.file_groups[:GROUPS_NAMED_MAX]
        ],
        file_groups_in_common=len(lost.file_groups),
    )


def names_of(groups: Sequence[FileGroup]) -> str:
    """The first of these file groups, for a text."""
    names = [f"{group.file_id} in partition {group.partition_path!r}" for group in groups[:_GROUPS_IN_TEXT_MAX]]
    return ", ".join([*names, "..."] if len(groups) > len(names) else names)


def _conflicts(
    yields: Yields, mine: GroupChange, requested_time: Micros, other: ConcurrentInstant, now: Micros
) -> bool:
    if other.completion_time is None:
        # A dead writer holds nothing; a plan without an executor still stands.
        is_alive = other.change in SERVICES or (other.lease_expires_at or now) > now
        rule = PENDING[yields][mine][other.change] if is_alive else Rule.NEVER
    else:
        rule = COMPLETED[mine][other.change]
    match rule:
        case Rule.NEVER:
            return False
        case Rule.SINCE:
            assert other.completion_time is not None
            return other.completion_time > requested_time
        case Rule.SCHEDULED_AFTER:
            return other.requested_time > requested_time
        case Rule.ALWAYS:
            return True
        case _:
            assert_never(rule)


def _precedence(other: ConcurrentInstant) -> tuple[int, int]:
    return other.completion_time or 0, other.requested_time
