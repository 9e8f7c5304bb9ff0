"""Inserts as the write stats of completed instants have them, by partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from chronolake_metastore.domain.concurrency import LatestInserts, PartitionKey, may_insert
from chronolake_metastore.domain.conflicts import ConcurrentInstant, GroupChange
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.transaction import Query, Rows
from chronolake_model.files import WriteStat
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, State

_FIND_SINCE: Final = statements.load("inserts/find_since")


def find_since(
    table: str, requested_time: Micros, stats: Sequence[WriteStat], staged: Sequence[int]
) -> Query[LatestInserts]:
    """The latest inserts since an instant was requested, into the partitions into which it inserts itself.

    With a record index, into all partitions, if it inserts.

    Its write stats are ``stats``, and those that were staged under the versions ``staged``. Fetch it in sets.
    """
    namespace, name = split_table_name(table)
    paths = sorted({stat.partition_path for stat in stats if may_insert(stat)})
    if not paths and not staged:
        return Query.known({})
    parameters = {
        "namespace": namespace,
        "name": name,
        "requested_time": requested_time,
        "partition_paths": paths,
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
