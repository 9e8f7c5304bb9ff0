"""Every projection: the one list that a new projection joins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from chronolake_metastore.domain.changes import ListKey
from chronolake_metastore.domain.state import Loaded, Routes, State
from chronolake_metastore.domain.stored_events import PAYLOADS
from chronolake_metastore.projections.catalog import Locations, Namespaces, Tables
from chronolake_metastore.projections.eras import ArchivedEras
from chronolake_metastore.projections.file_groups import FileGroups
from chronolake_metastore.projections.grants import Grants
from chronolake_metastore.projections.instants import Instants
from chronolake_metastore.projections.logs import AnswerChains, Clocks
from chronolake_metastore.projections.projection import Entries, Named, Projection, Rows
from chronolake_metastore.projections.publication import Publications
from chronolake_metastore.projections.streams import Streams
from chronolake_metastore.projections.tokens import Tokens
from chronolake_metastore.store.postgres.transaction import Query, Statement

PROJECTIONS: Final[tuple[type[Projection], ...]] = (
    Clocks,
    AnswerChains,
    Namespaces,
    Locations,
    ArchivedEras,
    Tables,
    Instants,
    Streams,
    FileGroups,
    Publications,
    Tokens,
    Grants,
)
"""In the order in which they are loaded, follow an event, and are written. The clocks have the locks."""
TABLES: Final = tuple(table for projection in PROJECTIONS for table in projection.tables)
"""The tables that follow from the log."""
_ROUTES: Final[Routes] = {
    payload: [(kind, kind.followed[payload]) for kind in PROJECTIONS if payload in kind.followed]
    for payload in PAYLOADS.values()
}


def state_of(loaded: Loaded) -> State:
    """The state that commands or a replay begin with."""
    return State(loaded, _ROUTES)


def load(named: Named, *others: Query[Any]) -> Rows:
    """Load what is named, in one step, and run the other queries in it, under the locks."""
    loads = [
        projection.load(named)
        for projection in PROJECTIONS
        if any(getattr(named, field) for field in projection.named)
    ]
    yield [*(query for rows in loads for query in next(rows)), *others]
    fields: dict[str, Any] = {}
    for rows in loads:
        try:
            next(rows)
        except StopIteration as ended:
            fields |= ended.value
    return fields


def write(state: State, entries: Entries) -> Iterator[Statement]:
    """Write what has changed. ``entries`` has the lists of the events."""
    for projection in _changed(state):
        yield from projection.write(entries)


def lists(state: State) -> list[ListKey]:
    """The lists of events that ``replay`` needs."""
    return [key for projection in _changed(state) for key in projection.lists()]


def replay(state: State, entries: Entries) -> list[Statement]:
    """Write what has changed into the ``TABLES`` alone."""
    return [
        statement
        for projection in _changed(state)
        if projection.tables
        for statement in projection.write(entries)
    ]


def _changed(state: State) -> Iterator[Projection]:
    for kind in PROJECTIONS:
        if kind in state.evolutions:
            yield state.evolution(kind)
