"""From changes to the statements that write them: the log first, then its projections."""

from __future__ import annotations

from collections.abc import Iterator

from chronolake_metastore.domain.state import State
from chronolake_metastore.projections import registry as projections
from chronolake_metastore.projections.instants import Instants
from chronolake_metastore.store import deletions, event_lists, event_log
from chronolake_metastore.store.postgres.transaction import Statement


def write(state: State) -> Iterator[Statement]:
    """Append the events with their rows, and write their changes.

    Statements are made one by one: PostgreSQL runs the first while the next ones are made.
    """
    changes = state.changes
    yield from append_events(state)
    if changes.written:
        yield event_log.append_write_stats(changes.written)
    if changes.lists:
        # Before the projections, which are made of them.
        yield event_lists.append(changes.lists)
    yield from projections.write(state, {of_event.key: of_event.entries for of_event in changes.lists})
    # After the instant's row, which a transaction that creates markers locks before it writes markers.
    for reported in changes.reported:
        yield deletions.append(reported)
    # After all that ends instants.
    if Instants in state.evolutions:
        yield from state.evolution(Instants).refuse_late_markers()


def append_events(state: State) -> Iterator[Statement]:
    """Append the events that were not appended before."""
    changes = state.changes
    if changes.events:
        yield event_log.append(changes.events)
        changes.appended += len(changes.events)
        changes.events = []
