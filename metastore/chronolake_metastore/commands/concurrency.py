"""Queries for the concurrent instants that only some completions have in their way (domain/concurrency.py)."""

from __future__ import annotations

from chronolake_metastore.commands.cancelling import Changes
from chronolake_metastore.domain import concurrency, conflicts
from chronolake_metastore.domain.concurrency import LatestInserts
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import CompleteInstant, Instant
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import file_groups, inserts
from chronolake_metastore.store.file_groups import Concurrent
from chronolake_metastore.store.postgres.transaction import Query
from chronolake_model.files import FileGroupName
from chronolake_model.vocabulary import Action, Yields


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
