"""Conflicts in plain Python, beside ``model.py``: which of two instants wins, and which updates must stay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from chronolake_model.vocabulary import Action, Touch
from tests.store.model_of_instants import SERVICES, WRITES, Group, Instant, Slice, Touched

if TYPE_CHECKING:
    from tests.store.model import Timeline


def conflict(timeline: Timeline, time: int, touched: Iterable[Touched], now: int) -> int | None:
    """The instant that wins when this one completes, if there is one."""
    mine = timeline.instants[time]
    others = [other for other in timeline.instants.values() if other.time != time]
    winners = [
        (other.completed or 0, other.time)
        for how, group in touched
        for other in others
        if _is_in_the_way(timeline, mine, _change_of(mine.action, how), group, other, now)
    ]
    return max(winners)[1] if winners else None


def _is_in_the_way(
    timeline: Timeline, mine: Instant, change: str, group: Group, other: Instant, now: int
) -> bool:
    if other.is_pending and group in other.plan:
        return _plan_stands(timeline, mine, change, other, now)
    if change in ("compact", "log_compact") and group in timeline.replaced():
        return False  # no reader sees the group any more, and the file adds no record
    return other.completed is not None and any(
        _spoils(mine, change, other, other.completed, _change_of(other.action, how))
        for how, theirs in other.touched
        if theirs == group
    )


def _plan_stands(timeline: Timeline, mine: Instant, change: str, other: Instant, now: int) -> bool:
    """Whether a pending plan for the group is in the way: one side gives way, as the table says."""
    if other.action not in SERVICES and (other.lease_end is None or other.lease_end <= now):
        return False
    if not timeline.writers_yield:
        return change == "cluster" and other.action in WRITES
    if change not in ("append", "write", "replace"):
        return False
    if other.action is Action.CLUSTERING:
        return True
    was_scheduled_after = other.time > mine.time
    if other.action is Action.COMPACTION:
        return change != "append" and was_scheduled_after
    return other.action is Action.REPLACECOMMIT and was_scheduled_after


def cancelled(timeline: Timeline, time: int, touched: Iterable[Touched]) -> list[int]:
    """The pending clusterings of file groups that this instant changes: they cannot complete any more."""
    action = timeline.instants[time].action
    changed = {
        group for how, group in touched if _change_of(action, how) in ("append", "write", "replace", "cluster")
    }
    return sorted(
        other.time
        for other in timeline.instants.values()
        if other.time != time
        and other.is_pending
        and other.action is Action.CLUSTERING
        and not changed.isdisjoint(other.plan)
    )


def lost_updates(timeline: Timeline) -> list[tuple[int, int]]:
    """Pairs of completed instants of which the second discarded a concurrent change of the first."""
    return [
        (first.time, second.time)
        for second in timeline.completed()
        for how, group in second.instant.touched
        if _change_of(second.instant.action, how) in ("write", "replace", "cluster")
        for first in timeline.completed()
        if second.time < first.completed < second.completed
        and any(
            _change_of(first.instant.action, touch) in ("write", "append", "replace", "cluster")
            for touch, theirs in first.instant.touched
            if theirs == group
        )
    ]


def unseen(timeline: Timeline) -> list[tuple[int, Group]]:
    """Completed writes that no snapshot ever showed, and the groups.

    A compaction of a group that was replaced meanwhile has nothing to show.
    """
    return [
        (write.time, group)
        for write in timeline.completed()
        for how, group in write.instant.touched
        if (change := _change_of(write.instant.action, how)) in ("write", "append", "compact")
        and not (change == "compact" and timeline.replaced_by(group, write.completed))
        and write.time not in _instants_of(timeline.seen(write.completed).get(group))
    ]


def _change_of(action: Action, how: Touch) -> str:
    match how:
        case Touch.REPLACED:
            return "cluster" if action is Action.CLUSTERING else "replace"
        case Touch.LOG:
            return "log_compact" if action is Action.LOGCOMPACTION else "append"
        case Touch.BASE:
            return "compact" if action is Action.COMPACTION else "write"


def _spoils(mine: Instant, change: str, other: Instant, completed: int, others_change: str) -> bool:
    """Whether a completed change of another instant in a file group excludes the change of ``mine``."""
    if others_change in ("replace", "cluster"):
        return change not in ("compact", "log_compact")  # they add no records that could be lost
    if change == "append":
        return False
    if others_change == "compact":
        return change != "compact" and other.time > mine.time
    # A base file takes the place of records, so all of them must have been read.
    reads = {
        "write": {"write", "append", "log_compact"},
        "replace": {"write", "append"},
        "cluster": {"write", "append"},
        "compact": {"write"},
        "log_compact": {"write"},
    }
    return others_change in reads[change] and completed > mine.time


def _instants_of(file_slice: Slice | None) -> set[int | None]:
    return set() if file_slice is None else {file_slice[0], *file_slice[1]}
