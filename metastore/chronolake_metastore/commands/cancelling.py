"""Rolling back the pending clusterings that lose their file groups to a write, in the write's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from chronolake_metastore.commands.handler import Loading, single_query
from chronolake_metastore.commands.rollbacks import plan_of, roll_back
from chronolake_metastore.domain import conflicts, rollbacks
from chronolake_metastore.domain.conflicts import GroupChange
from chronolake_metastore.domain.events import Origin
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import instants as stored
from chronolake_metastore.store.file_groups import Concurrent
from chronolake_metastore.store.instants import NO_INSTANTS, FoundInstants
from chronolake_model.files import FileGroupName

Changes = Sequence[tuple[GroupChange, FileGroupName]]


def load(table: Table, write: Instant, changes: Changes, concurrent: Concurrent) -> Loading[FoundInstants]:
    """The clusterings that ``changes`` of a write cancel. A write that meets none costs no statement.

    Their rows are locked later than that of the write. If a request for markers has locked them in the other
    order, PostgreSQL aborts one of the two, which is executed again.
    """
    lost = conflicts.lost_clusterings(table, write.requested_time, changes, concurrent)
    named = {(table.name, clustering) for clustering in lost}
    return (yield from single_query(stored.find(named, named))) if named else NO_INSTANTS


def cancel(
    state: State,
    table_name: str,
    write: Instant,
    changes: Changes,
    concurrent: Concurrent,
    loaded: FoundInstants,
    origin: Origin,
) -> None:
    """Roll back the clusterings that cannot complete any more, because ``write`` has completed."""
    table = state.table(table_name)
    for table_id, clustering in loaded.instants:
        state.add_loaded(table_id, clustering, loaded.marks[table_id, clustering.requested_time])
    lost = conflicts.lost_clusterings(table, write.requested_time, changes, concurrent)
    for requested_time, in_common in sorted(lost.items()):
        clustering = state.instant(table, requested_time)
        if clustering.state.is_pending:
            command = rollbacks.of_lost_clustering(table, requested_time, write, in_common)
            roll_back(state, table, command, plan_of(state, table, command, clustering), origin)
