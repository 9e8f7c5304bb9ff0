"""The index of instants of a run: what its events changed in each instant, by table and requested time.

Requested times increase with the versions of a table. So the entries of instants that were requested in earlier
runs are the first of their table, and the others are in the order of their requests.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from chronolake_metastore.archive.rows import Row
from chronolake_metastore.domain import archived_instants
from chronolake_metastore.domain.archived_instants import InstantChange
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Operation, State

_TABLE, _VERSION, _TYPE, _INSTANT, _TIME, _PAYLOAD = 0, 1, 4, 5, 6, 10
"""Columns of an event's row."""
_BEGUN_AS: Final = 2
_KEY: Final = 2
"""The columns of the key of an entry: the table and the requested time."""


def entry(table_id: UUID, change: InstantChange) -> Row:
    """The row of an entry."""
    return (
        table_id,
        change.requested_time,
        change.begun_as,
        change.operation,
        change.writer,
        change.state,
        change.completed_at,
        change.first_version,
        change.version,
    )


def change_of(row: Row) -> InstantChange:
    """The change that an entry says. Raises ``ValueError``."""
    _, requested_time, begun_as, operation, writer, state, completed_at, first_version, version = row
    return InstantChange(
        Micros(requested_time),
        first_version,
        version,
        None if begun_as is None else Action(begun_as),
        None if operation is None else Operation(operation),
        writer,
        None if state is None else State(state),
        None if completed_at is None else Micros(completed_at),
    )


def merged(entries: Sequence[Iterator[Row]]) -> Iterator[Row]:
    """The entries of runs, in their order, that become one run."""
    before: Row | None = None
    for row in heapq.merge(*entries, key=lambda row: row[:_KEY]):
        if before is not None and before[:_KEY] == row[:_KEY]:
            before = entry(row[0], archived_instants.join(change_of(before), change_of(row)))
        else:
            if before is not None:
                yield before
            before = row
    if before is not None:
        yield before


class InstantEntries:
    """The entries of a run, from its events. They are all in memory, so only a small run is written so."""

    def __init__(self) -> None:
        self._changes: dict[tuple[UUID, Micros], InstantChange] = {}

    def add(self, event: Row) -> None:
        """Add the row of the next event."""
        change = _change(event)
        if change is not None:
            key = event[_TABLE], change.requested_time
            before = self._changes.get(key)
            self._changes[key] = change if before is None else archived_instants.join(before, change)

    def rows(self) -> Iterator[Row]:
        """The entries, in order."""
        for key in sorted(self._changes):
            yield entry(key[0], self._changes[key])


class InstantCheck:
    """Compares the entries of a run with its events, and holds those of unfinished instants only."""

    def __init__(self, entries: Iterator[Row]) -> None:
        self._entries = entries
        self._next: Row | None = None
        self._table_id: UUID | None = None
        self._open: dict[Micros, tuple[Row, InstantChange | None]] = {}
        """Entries whose last event was not read yet, with the changes so far."""
        self._fits = True

    def watch(self, events: Iterator[Row]) -> Iterator[Row]:
        """The rows of the events, in their order."""
        self._next = next(self._entries, None)
        for event in events:
            if self._fits:
                self._add(event)
            yield event

    def fits(self) -> bool:
        """Whether the entries were those of the events, in order. The events must have been read before."""
        return self._fits and not self._open and self._next is None

    def _add(self, event: Row) -> None:
        change = _change(event)
        if event[_TABLE] != self._table_id:
            self._begin(event[_TABLE])
        if change is None:
            return
        if change.begun_as is not None and self._next and self._next[:_KEY] == (event[0], event[_INSTANT]):
            self._take(self._next)
        of_instant = self._open.pop(change.requested_time, None)
        if of_instant is None:
            self._fits = False
            return
        row, before = of_instant
        change = change if before is None else archived_instants.join(before, change)
        if change.version != row[-1]:
            self._open[change.requested_time] = row, change
        elif row != entry(event[_TABLE], change):
            self._fits = False

    def _begin(self, table_id: UUID) -> None:
        """Take the entries of instants of a table that were requested in earlier runs."""
        self._fits = self._fits and not self._open
        self._table_id = table_id
        before = -1
        while (row := self._next) and row[0] == table_id and row[_BEGUN_AS] is None and row[1] > before:
            before = row[1]
            self._take(row)

    def _take(self, row: Row) -> None:
        self._open[Micros(row[1])] = row, None
        self._next = next(self._entries, None)


def _change(event: Row) -> InstantChange | None:
    """The change by an event; None by one whose payload is damaged, which the checks of the log report."""
    try:
        return archived_instants.change(
            event[_TYPE], event[_INSTANT], event[_TIME], event[_VERSION], event[_PAYLOAD]
        )
    except ValueError:
        return None
