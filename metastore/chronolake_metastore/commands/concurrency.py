"""Concurrent instants of a completion: queries for those that only some completions have in their way
(domain/concurrency.py), and rollbacks of the pending clusterings that lose their file groups to a write.
"""

from __future__ import annotations

from collections.abc import Sequence

from chronolake_metastore.commands.handler import Loading, single_query
from chronolake_metastore.commands.rollbacks import plan_of, roll_back
from chronolake_metastore.domain import concurrency, conflicts, rollbacks
from chronolake_metastore.domain.concurrency import LatestInserts
from chronolake_metastore.domain.conflicts import GroupChange
from chronolake_metastore.domain.events import Origin
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import CompleteInstant, Instant
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import file_groups, inserts, instants as stored
from chronolake_metastore.store.file_groups import Concurrent
from chronolake_metastore.store.instants import NO_INSTANTS, FoundInstants
from chronolake_metastore.store.postgres.transaction import Query
from chronolake_model.files import FileGroupName
from chronolake_model.vocabulary import Action, Yields

Changes = Sequence[tuple[GroupChange, FileGroupName]]


def find_further(
    table: Table,
    instant: Instant,
    command: CompleteInstant,
    changes: Changes,
    concurrent: Concurrent,
) -> Query[Concurrent] | None:
    """The pending writes of a clustering's file groups; the writes since reads that a compaction superseded.

    A clustering replaces its file groups, so a write that has marked a file there would lose for good.
    """
    if instant.begun_as is Action.CLUSTERING and command.buckets is None:
        if table.yields is Yields.WRITER:
            return None
        return file_groups.find_marked(table.table_id, command.replaced_file_groups)
    compacted = _compacted(table, command, changes, concurrent) if command.based_on_reads else []
    if not compacted:
        return None
    return file_groups.find_written_since(table.table_id, command.requested_time, compacted)


def _compacted(
    table: Table,
    command: CompleteInstant,
    changes: Changes,
    concurrent: Concurrent,
) -> list[FileGroupName]:
    """The file groups that were compacted by plans that were made since the instant was requested."""
    return [
        name
        for _, name in changes
        if conflicts.is_compacted(
            command.requested_time,
            concurrent.get(FileGroup(table.table_id, name.partition_path, name.file_id), ()),
        )
    ]


def find_inserted(
    table: Table,
    command: CompleteInstant,
    changes: Changes,
    concurrent: Concurrent,
) -> Query[LatestInserts]:
    """The inserts of others into the partitions of an instant whose keys were looked up."""
    if not command.keys_looked_up or not concurrency.compares_inserts(table):
        return Query.known({})
    # A compaction in the same group of commands may make an update an insert. Staged files come alone.
    may_insert = concurrency.may_insert
    paths = {stat.partition_path for stat in command.write_stats if not command.staged or may_insert(stat)}
    paths |= {name.partition_path for name in _compacted(table, command, changes, concurrent)}
    return inserts.find_since(command.table, command.requested_time, paths, command.staged)


def load_lost_clusterings(
    table: Table, write: Instant, changes: Changes, concurrent: Concurrent
) -> Loading[FoundInstants]:
    """The clusterings that ``changes`` of a write cancel. A write that meets none costs no statement.

    Their rows are locked later than that of the write. If a request for markers has locked them in the other
    order, PostgreSQL aborts one of the two, which is executed again.
    """
    lost = conflicts.lost_clusterings(table, write.requested_time, changes, concurrent)
    named = {(table.name, clustering) for clustering in lost}
    return (yield from single_query(stored.find(named, named))) if named else NO_INSTANTS


def cancel_lost_clusterings(
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
