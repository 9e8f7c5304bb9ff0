"""From changes to the statements that write them: the log first, then its projections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from chronolake_metastore.domain.changes import ListKey
from chronolake_metastore.domain.lists import ListEntry
from chronolake_metastore.domain.state import State
from chronolake_metastore.store import (
    base_paths,
    buffered_files,
    catalog,
    cleans,
    clocks,
    deletions,
    event_lists,
    event_log,
    file_groups,
    files,
    instants,
    publication,
    reconciling,
    schemas,
    streams,
)
from chronolake_metastore.store.postgres.transaction import Statement

_NOTHING: Final[Mapping[ListKey, Sequence[ListEntry]]] = {}


def write(state: State) -> Iterator[Statement]:
    """Append the events with their rows, and write their changes.

    Statements are made one by one: PostgreSQL runs the first while the next ones are made.
    """
    changes = state.changes
    yield from append_events(state)
    if not changes.appended:
        return
    if changes.written:
        yield event_log.append_write_stats(changes.written)
    if changes.lists:
        # Before the projections, which are made of them.
        yield event_lists.append(changes.lists)
    yield from project(state, {of_event.key: of_event.entries for of_event in changes.lists})
    if changes.adopted:
        # No projection: how far a table is published is not in the log.
        yield publication.begin_behind(changes.adopted)
    if changes.found:
        yield publication.pass_over(changes.found)
    # After the instant's row, which a transaction that creates markers locks before it writes markers.
    for reported in changes.reported:
        yield deletions.append(reported)
    # After all that ends instants.
    yield from _refuse_late_markers(state)


def append_events(state: State) -> Iterator[Statement]:
    """Append the events that were not appended before."""
    changes = state.changes
    if changes.events:
        yield event_log.append(changes.events)
        changes.appended += len(changes.events)
        changes.events = []


def _refuse_late_markers(state: State) -> list[Statement]:
    """Abort the transaction if an instant that it ends as one without markers has got markers meanwhile."""
    ended = [
        key
        for key, marks in state.marks.items()
        if not marks.has_markers and key in state.changes.instants and not state.instants[key].state.is_pending
    ]
    return [reconciling.refuse_late(ended)] if ended else []


def project(state: State, entries: Mapping[ListKey, Sequence[ListEntry]] = _NOTHING) -> list[Statement]:
    """Write the changes of ``state`` into the projections.

    ``entries`` has the files of cleans that were planned; the other lists are read from the database.
    """
    changes = state.changes
    statements: list[Statement] = []
    if changes.dropped_namespaces:
        statements.append(catalog.delete_namespaces(changes.dropped_namespaces))
    if changes.created_namespaces:
        created = [state.namespaces[name] for name in changes.created_namespaces]
        statements.append(catalog.save_namespaces(created))
    if changes.tables:
        statements.append(catalog.save_tables(list(changes.tables.values())))
    statements.extend(base_paths.save(changes.base_paths, changes.taken_base_paths))
    if changes.schemas:
        statements.append(schemas.append(changes.schemas))
    statements.extend(_project_instants(state))
    statements.extend(_project_streams(state))
    statements.extend(file_groups.project_plans(changes.planned, changes.settled))
    if changes.publications:
        statements.extend(files.project(changes.publications))
    if changes.replacements:
        statements.extend(file_groups.project_replacements(changes.replacements))
    if changes.restored:
        statements.extend(file_groups.restore(changes.restored))
    if changes.cleaned:
        statements.append(cleans.project([(clean, entries[clean.files]) for clean in changes.cleaned]))
    statements.append(clocks.save(state.clocks.values()))
    return statements


def _project_instants(state: State) -> Iterator[Statement]:
    begun, changed = state.changes.begun, state.changes.instants.difference(state.changes.begun)
    if begun:
        yield instants.add([(key[0], state.instants[key]) for key in begun])
    if changed:
        # In the same order as transactions that create markers, which lock the rows of several instants too.
        yield instants.save([(key[0], state.instants[key]) for key in sorted(changed)])


def _project_streams(state: State) -> list[Statement]:
    changes = state.changes
    statements: list[Statement] = []
    if changes.unbuffered:
        # First: a checkpoint may have got another instant since.
        statements.append(streams.delete_checkpoints(changes.unbuffered))
    if changes.streams:
        statements.append(streams.save([(key[0], state.streams[key]) for key in sorted(changes.streams)]))
    buffered = {
        (key, number): state.streams[key].checkpoints[number]
        for key, number in changes.checkpoints
        if number in state.streams[key].checkpoints
    }
    if buffered:
        statements.append(streams.save_checkpoints(buffered))
    statements.extend(buffered_files.project(changes.buffered, changes.dropped, changes.unbuffered))
    return statements
