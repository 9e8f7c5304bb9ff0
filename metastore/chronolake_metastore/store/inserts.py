"""Inserts as the write stats of completed instants have them, by partition."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from chronolake_metastore.domain.concurrency import LatestInserts, PartitionKey
from chronolake_metastore.domain.conflicts import ConcurrentInstant, GroupChange
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.transaction import Query, Rows
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, State

_FIND_SINCE: Final = statements.load("inserts/find_since")


def find_since(
    table: str, requested_time: Micros, paths: Collection[str], staged: Sequence[int]
) -> Query[LatestInserts]:
    """The latest inserts since an instant was requested, into partitions, by their paths.

    Into those too that its write stats insert into which were staged under the versions ``staged``; with a
    record index, into all partitions, if there is any. Fetch it in sets.
    """
    namespace, name = split_table_name(table)
    if not paths and not staged:
        return Query.known({})
    parameters = {
        "namespace": namespace,
        "name": name,
        "requested_time": requested_time,
        "partition_paths": sorted(paths),
        "staged": list(staged),
    }
    return Query(_FIND_SINCE, parameters, _latest)


def _latest(rows: Rows) -> LatestInserts:
    return {
        PartitionKey(table_id, partition_path): ConcurrentInstant(
            change=GroupChange.WRITE,
            action=Action(action),
            state=State(state),
            requested_time=Micros(requested),
            completion_time=Micros(completed),
        )
        for table_id, partition_path, action, state, requested, completed in rows
    }
