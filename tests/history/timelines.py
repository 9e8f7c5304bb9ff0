"""The final timeline of each table, built from the log: the reference for a history."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from tests.history.records import Event, Group, Log, ShownFile, by_table

WRITES = frozenset({"commit", "deltacommit"})
"""The actions that clients begin. A table may have others, begun by the server or by operators."""


@dataclass
class Timeline:
    """The instants of one table. ``completions`` are those of writes, by completion time."""

    requested: dict[str, Event] = field(default_factory=dict)
    completions: list[Event] = field(default_factory=list)
    completed: dict[str, list[Event]] = field(default_factory=dict)
    rolled_back: dict[str, Event] = field(default_factory=dict)

    def writes(self, instant: str | None) -> bool:
        """Whether an instant is a write."""
        requested = self.requested.get(instant or "")
        return requested is not None and requested.action in WRITES

    def upto(self, time: str) -> int:
        """How many writes completed at ``time`` or before."""
        return bisect_right(self.completions, time, key=lambda event: event.time)

    def between(self, after: str, upto: str) -> list[tuple[str, str]]:
        """Requested and completion times of the writes that completed in (after, upto]."""
        events = self.completions[self.upto(after) : self.upto(upto)]
        return [(event.instant or "", event.time) for event in events]

    def files_as_of(self, time: str) -> frozenset[ShownFile]:
        """The files that a snapshot shows: a base file replaces its group, a log file adds to it."""
        groups: dict[Group, set[ShownFile]] = {}
        for event in self.completions[: self.upto(time)]:
            for group in event.groups:
                groups[group] = {(*group, event.instant or "")}
            for group in event.appended:
                groups.setdefault(group, set()).add((*group, event.instant or ""))
        return frozenset(file for files in groups.values() for file in files)


def of(log: Log) -> dict[str, Timeline]:
    """The timeline of each table, by its id."""
    return {table_id: _of_table(events) for table_id, events in by_table(log).items()}


def _of_table(events: list[Event]) -> Timeline:
    timeline = Timeline()
    for event in events:
        instant = event.instant or ""
        match event.type:
            case "InstantRequested":
                timeline.requested[instant] = event
            case "InstantCompleted":
                timeline.completed.setdefault(instant, []).append(event)
            case "InstantRolledBack":
                timeline.rolled_back.setdefault(instant, event)
            case _:
                pass
    completions = [event for completed in timeline.completed.values() for event in completed]
    timeline.completions = sorted(
        (event for event in completions if timeline.writes(event.instant)), key=lambda event: event.time
    )
    return timeline
