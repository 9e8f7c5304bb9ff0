"""Instants: one row each, in its present state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from typing_extensions import override

from chronolake_metastore.domain import events, instants, sweeps
from chronolake_metastore.domain.changes import InstantKey
from chronolake_metastore.domain.events import Event, ImpossibleEvent
from chronolake_metastore.domain.instants import Marks
from chronolake_metastore.domain.state import State
from chronolake_metastore.projections.projection import Entries, Followed, Named, Projection, Rows
from chronolake_metastore.store import instants as stored, reconciling
from chronolake_metastore.store.instants import FoundInstants
from chronolake_metastore.store.postgres.transaction import Statement


class Instants(Projection):
    """The instants, with the marks of those that may end."""

    tables = ("instant",)
    named = ("instants", "instant_queries")
    followed: ClassVar[Followed] = {
        events.InstantRequested: None,
        events.InstantCompleted: None,
        events.InstantInflight: None,
        events.InstantReturnedToRequested: None,
        events.WriteStatsStaged: None,
        events.InstantRolledBack: None,
        events.SavepointReleased: None,
        events.LeaseRenewed: None,
        events.FilesDeleted: None,
        events.DeletionsSwept: None,
    }

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.begun: list[InstantKey] = []
        """New instants."""
        self.changed: set[InstantKey] = set()
        """Instants that have changed since they were begun."""

    @override
    @classmethod
    def load(cls, named: Named) -> Rows:
        queries = [*named.instant_queries]
        if named.instants:
            queries.append(stored.find(named.instants, named.ending))
        yield queries
        results = [query.result for query in queries]
        return {
            "instants": {
                (table_id, instant.requested_time): instant
                for result in results
                for table_id, instant in result.instants
            },
            "marks": _all_marks(results),
        }

    @override
    def evolve(self, event: Event) -> None:
        instants_by_key, payload = self.state.instants, event.payload
        if isinstance(payload, events.FilesDeleted | events.DeletionsSwept):
            after = sweeps.evolve(self.state.instant_of(event), event)
        elif event.instant is None:
            raise ImpossibleEvent("the event names no instant")
        else:
            after = instants.evolve(instants_by_key.get((event.table_id, event.instant)), event)
        key = event.table_id, after.requested_time
        instants_by_key[key] = after
        if isinstance(payload, events.InstantRequested):
            self.begun.append(key)
        else:
            self.changed.add(key)

    @override
    def write(self, entries: Entries) -> Iterator[Statement]:
        by_key = self.state.instants
        yield from self.add_begun()
        if self.changed:
            # In the order in which transactions that create markers lock the rows of several instants.
            yield stored.save([(key[0], by_key[key]) for key in sorted(self.changed)])

    def add_begun(self) -> Iterator[Statement]:
        """Add the new instants that were not added before, in their present state."""
        by_key, changed = self.state.instants, self.changed.intersection(self.begun)
        plain, others = list[InstantKey](), list[InstantKey]()
        for key in self.begun:
            (others if key in changed or by_key[key].executions is not None else plain).append(key)
        if plain:
            yield stored.add_begun([(key[0], by_key[key]) for key in plain])
        if others:
            yield stored.add([(key[0], by_key[key]) for key in others])
        self.changed -= changed
        self.begun = []

    def refuse_late_markers(self) -> Iterator[Statement]:
        """Abort the transaction if an instant that it ends as one without markers has got markers meanwhile."""
        by_key = self.state.instants
        ended = [
            key
            for key, marks in self.state.marks.items()
            if not marks.has_markers and key in self.changed and not by_key[key].state.is_pending
        ]
        if ended:
            yield reconciling.refuse_late(ended)

    def delete_markers(self) -> Iterator[Statement]:
        """Delete the markers of instants that it completes, if they are few.

        A complete is refused unless the file of each marker is published or deleted.
        """
        by_key = self.state.instants
        completed = [
            key
            for key, marks in self.state.marks.items()
            if marks.has_markers and key in self.changed and by_key[key].completion_time is not None
        ]
        if completed:
            yield reconciling.delete_few(completed)


def _all_marks(results: Sequence[FoundInstants]) -> dict[InstantKey, Marks]:
    """The marks by instant, merged, because one query may know less than another."""
    first, *others = results
    known = dict(first.marks)
    for result in others:
        for key, marks in result.marks.items():
            before = known.get(key, marks)
            known[key] = Marks(
                before.has_markers or marks.has_markers, before.had_deletions or marks.had_deletions
            )
    return known
