"""A reader that knows only the events: its state up to a time is compared with the views.

It shares no code with the server. It builds slices by the rule of RFC-66: it visits the barriers, the newest
first, and assigns to each the log files that completed at or after it and are not assigned yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

_EVENTS = """
    SELECT
        e.version, e.type, chronolake.micros(e.instant), chronolake.micros(e.time), e.payload
    FROM event e JOIN lake_table t USING (table_id)
    WHERE t.namespace || '.' || t.name = %s AND t.dropped_at IS NULL
    ORDER BY e.version
"""
_WRITE_STATS = """
    SELECT w.version, w.partition_path, w.file_id, w.file_name, w.kind, w.size_bytes, w.records
    FROM write_stat w JOIN lake_table t USING (table_id)
    WHERE t.namespace || '.' || t.name = %s AND t.dropped_at IS NULL
    ORDER BY w.version, w.kind, w.file_name
"""
_CLEANED = """
    SELECT regexp_replace(l.name, '^.*/', '')
    FROM event_entry l JOIN lake_table t USING (table_id)
    WHERE t.namespace || '.' || t.name = %s AND t.dropped_at IS NULL AND l.list = 'plan-files'
"""
_SERVICES = ("compaction", "logcompaction", "clustering")

Group = tuple[str, str]
Names = tuple[str, ...]


@dataclass(frozen=True)
class File:
    """A data file with the times of the instant that wrote it."""

    group: Group
    name: str
    kind: str
    size_bytes: int
    records: int
    requested_time: int
    completion_time: int


@dataclass(frozen=True)
class Slice:
    """A slice by the names of its files; ``opened_by`` a compaction that is pending, if it is."""

    time: int
    base: str | None
    logs: Names
    is_pending: bool = False
    superseded_at: int | None = None


@dataclass
class State:
    """The state after some events."""

    files: list[File] = field(default_factory=list)
    replaced: dict[Group, tuple[int, int]] = field(default_factory=dict)
    """The requested and the completion time of each group's replacement."""
    pending: dict[tuple[Group, int], str] = field(default_factory=dict)
    """The actions of table services, by file group and requested time."""

    def groups(self) -> list[Group]:
        """The partitions that were ever published to."""
        return sorted({file.group for file in self.files})

    def slices(self, group: Group) -> list[Slice]:
        """All slices of a group, newest last."""
        gone = self.replaced.get(group)
        files = [
            file
            for file in self.files
            if file.group == group and (gone is None or file.completion_time < gone[1])
        ]
        bases = {file.requested_time: file for file in files if file.kind == "base"}
        waiting = {
            time
            for (name, time), action in self.pending.items()
            if name == group and action == "compaction" and time not in bases
        }
        left = [file for file in files if file.kind == "log"]
        parts = []
        for barrier in sorted(bases.keys() | waiting, reverse=True):
            taken = [log for log in left if log.completion_time >= barrier]
            left = [log for log in left if log.completion_time < barrier]
            parts.append((barrier, bases.get(barrier), taken))
        if left:
            parts.append((min(log.requested_time for log in left), None, left))
        return [
            Slice(
                time,
                None if base is None else base.name,
                tuple(log.name for log in logs),
                time in waiting,
                min(
                    [later.completion_time for later in bases.values() if later.requested_time > time]
                    + ([] if gone is None else [gone[1]]),
                    default=None,
                ),
            )
            for time, base, logs in reversed(parts)
        ]

    def seen(self, view: str, before_or_on: int | None = None) -> dict[Group, tuple[str | None, Names]]:
        """Each group as a view shows it: the base file and the log files."""
        shown = {}
        for group in self.groups():
            known = [
                file_slice
                for file_slice in self.slices(group)
                if before_or_on is None or file_slice.time <= before_or_on
            ]
            gone = self.replaced.get(group)
            if not known or (gone is not None and (before_or_on is None or gone[0] <= before_or_on)):
                continue
            if view == "merged":
                while len(known) > 1 and known[-1].is_pending:
                    last, before = known.pop(), known.pop()
                    known.append(Slice(before.time, before.base, before.logs + last.logs, before.is_pending))
            elif view == "read_optimised":
                known = [
                    Slice(file_slice.time, file_slice.base, ())
                    for file_slice in known
                    if file_slice.base is not None
                ]
            if known and (view == "latest" or known[-1].base or known[-1].logs):
                shown[group] = known[-1].base, known[-1].logs
        return shown

    def partitions(self) -> dict[str, tuple[int, int, int, int]]:
        """File groups, files, bytes and records of base files in each partition path."""
        by_name = {(file.group, file.name): file for file in self.files}
        totals: dict[str, tuple[int, int, int, int]] = {}
        for group, (base, logs) in self.seen("merged").items():
            files = [by_name[group, name] for name in (base, *logs) if name is not None]
            records = sum(file.records for file in files if file.kind == "base")
            groups, count, size_bytes, before = totals.get(group[0], (0, 0, 0, 0))
            size_bytes += sum(file.size_bytes for file in files)
            totals[group[0]] = groups + 1, count + len(files), size_bytes, before + records
        return totals


class Log:
    """The events of one table."""

    def __init__(self, connection: psycopg.Connection[Any], table: str) -> None:
        self._events = connection.execute(_EVENTS, [table]).fetchall()
        self._stats = connection.execute(_WRITE_STATS, [table]).fetchall()
        self.cleaned = {name for (name,) in connection.execute(_CLEANED, [table])}
        """The names of all files that cleans were planned to delete."""

    def times(self) -> list[int]:
        """When something happened. A restore happens at once: nothing in the middle of one."""
        restores = {
            instant
            for _, kind, instant, _, payload in self._events
            if kind == "InstantRequested" and payload["action"] == "restore"
        }
        return [
            time
            for _, kind, _, time, payload in self._events
            if not (kind == "InstantRolledBack" and payload["rollback"] in restores)
        ]

    def replayed(self, until: int) -> State:
        """The state after the events up to a time."""
        state = State()
        for version, kind, instant, time, payload in self._events:
            if time > until:
                break
            if kind == "InstantRequested" and payload["action"] in _SERVICES:
                for group in _groups(payload["plan"]["file_groups"]["first"]):
                    state.pending[group, instant] = payload["action"]
            elif kind == "InstantCompleted":
                _settle(state, instant)
                for written_at in payload.get("staged", [version]):
                    state.files += self._files(written_at, instant, time)
                for group in _groups(payload.get("replaced_file_groups", {}).get("first", [])):
                    state.replaced[group] = instant, time
            elif kind == "InstantRolledBack":
                _settle(state, instant)
                state.files = [file for file in state.files if file.requested_time != instant]
                state.replaced = {group: by for group, by in state.replaced.items() if by[0] != instant}
        return state

    def _files(self, version: int, requested: int, completed: int) -> Iterable[File]:
        for at, partition_path, file_id, name, kind, size_bytes, records in self._stats:
            if at == version:
                yield File((partition_path, file_id), name, kind, size_bytes, records, requested, completed)


def _settle(state: State, instant: int) -> None:
    state.pending = {key: action for key, action in state.pending.items() if key[1] != instant}


def _groups(names: Sequence[dict[str, str]]) -> list[Group]:
    return [(name["partition_path"], name["file_id"]) for name in names]
