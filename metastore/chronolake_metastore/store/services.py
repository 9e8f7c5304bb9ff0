"""Facts for planning table services, and what their pending plans and last runs are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.clusterings import ClusteringHistory
from chronolake_metastore.domain.compactions import CompactionHistory
from chronolake_metastore.domain.policies import CleaningPolicy, ClusteringPolicy, CompactionPolicy
from chronolake_metastore.domain.services import SERVICE_OF, CleansSince, Commits, Look
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Rows, read
from chronolake_model import decoding
from chronolake_model.service_properties import PLAN_EXPIRES_SECONDS, SERVICE_PROPERTIES
from chronolake_model.times import Micros, Tick
from chronolake_model.vocabulary import Action, PlanExecutions, State, TableService

_COMPACTION_HISTORY: Final = statements.load("services/compaction_history")
_CLUSTERING_HISTORY: Final = statements.load("services/clustering_history")
_CLEAN_HISTORY: Final = statements.load("services/clean_history")
_LOG_GROUPS: Final = statements.load("services/log_groups")
_CHANGED_PARTITIONS: Final = statements.load("services/changed_partitions")
_LIVE_PARTITIONS: Final = statements.load("services/live_partitions")
_SMALL_GROUPS: Final = statements.load("services/small_groups")
_GET_LOOK: Final = """
    SELECT micros(seen_until), left_out
    FROM clustering_look
    WHERE table_id = %(table_id)s AND policy = %(policy)s
"""
_SAVE_LOOK: Final = statements.load("services/save_look")
_PENDING: Final = statements.load("services/pending")
_LAST_RUNS: Final = statements.load("services/last_runs")
_LAST_EXPIRED: Final = statements.load("services/last_expired")
_CANCELLED: Final = statements.load("services/count_cancelled")
_EXPIRED: Final = statements.load("services/expired_plans")
_TOTALS: Final = statements.load("services/totals")
_TABLES: Final = "SELECT table_id FROM lake_table WHERE dropped_at IS NULL"


class WaitingService(msgspec.Struct, frozen=True):
    """A pending plan of a table service. The lease ends by the steady clock."""

    service: TableService
    requested_time: Micros
    state: State
    writer: str
    file_groups: int
    executions: PlanExecutions
    lease_expires_at: Micros | None


class PendingPlans(msgspec.Struct, frozen=True):
    """The first pending plans of a table, oldest first, and the count of all."""

    first: Sequence[WaitingService] = ()
    count: int = 0


class CompletedRun(msgspec.Struct, frozen=True):
    """A completed run, the files that left the latest slices by it, and those that came."""

    service: TableService
    requested_time: Micros
    completion_time: Micros
    writer: str
    files_before: int
    bytes_before: int | None
    files_after: int
    bytes_after: int


class UndoneService(msgspec.Struct, frozen=True):
    """The newest plan of a service, which expired."""

    service: TableService
    requested_time: Micros
    reason: str


class ExpiredPlan(msgspec.Struct, frozen=True):
    """A plan that is too old, and that no executor has."""

    table: str
    action: Action
    requested_time: Micros
    tick: Tick
    waited_us: int
    failure: str | None
    """The reason of the last execution that ended without success."""


class ServiceTotals(msgspec.Struct, frozen=True):
    """Pending plans of all tables by service, the age of the oldest that waits, cancelled clusterings.

    ``executions_max`` is how often one of the plans was taken at most.
    """

    pending: dict[TableService, int]
    oldest_waiting_us: int = 0
    executions_max: int = 0
    cancelled_clusterings: int = 0


async def compaction_history(
    connection: Connection, table_id: UUID, policy: CompactionPolicy
) -> CompactionHistory:
    """The figures of the triggers of compaction and of log compaction."""
    limit = max(policy.delta_commits_max, policy.log_threshold)
    [row] = await read(connection, _of_table(_COMPACTION_HISTORY, table_id, limit=limit))
    completed, first_completed, requested, first_requested, logs, last_requested, has_pending = row
    return CompactionHistory(
        Commits(completed, _micros(first_completed)),
        Commits(requested, _micros(first_requested)),
        Commits(logs),
        _micros(last_requested),
        has_pending,
    )


async def clustering_history(
    connection: Connection, table_id: UUID, policy: ClusteringPolicy
) -> ClusteringHistory:
    """The figures of the trigger of clustering."""
    [row] = await read(connection, _of_table(_CLUSTERING_HISTORY, table_id, limit=policy.commits_max))
    number, first, last_requested, has_pending = row
    return ClusteringHistory(Commits(number, _micros(first)), _micros(last_requested), has_pending)


async def clean_history(
    connection: Connection, table: Table, policy: CleaningPolicy, now: Micros
) -> CleansSince:
    """The figures of the trigger of cleans, savepoints and readers; ``now`` is by the steady clock."""
    tick_us = table.definition.tick.micros
    query = _of_table(_CLEAN_HISTORY, table.table_id, limit=policy.commits_max, tick_us=tick_us, now=now)
    [[number, first, *holders]] = await read(connection, query)
    return CleansSince(Commits(number, _micros(first)), *holders)


async def log_groups(connection: Connection, table_id: UUID, partition_regex: str | None) -> bytes:
    """The file groups with log files, encoded; see ``compactions.plan_document``."""
    return await read(connection, _document(_LOG_GROUPS, table_id, regex=partition_regex))


async def small_groups(
    connection: Connection,
    table: Table,
    partition_paths: Sequence[str],
    policy: ClusteringPolicy,
    now: Micros,
) -> bytes:
    """The small file groups of some partitions, encoded; ``now`` is by the steady clock."""
    query = _document(
        _SMALL_GROUPS,
        table.table_id,
        tick_us=table.definition.tick.micros,
        partition_paths=list(partition_paths),
        small_file_limit=policy.small_file_limit,
        sorts=bool(policy.sort_columns),
        now=now,
    )
    return await read(connection, query)


async def changed_partitions(
    connection: Connection, table_id: UUID, look: Look, partition_regex: str | None
) -> list[str]:
    """The partitions that changed since a look at the table, and those that it left out."""
    query = _of_table(
        _CHANGED_PARTITIONS,
        table_id,
        since=look.seen_until,
        left_out=list(look.left_out),
        regex=partition_regex,
    )
    return [path for (path,) in await read(connection, query)]


async def live_partitions(connection: Connection, table_id: UUID, number: int | None) -> list[str]:
    """The last ``number`` partition paths with live files, or all, in the order of the paths."""
    rows = await read(connection, _of_table(_LIVE_PARTITIONS, table_id, number=number))
    return [path for (path,) in reversed(rows)]


async def look(connection: Connection, table_id: UUID, policy: bytes) -> Look:
    """How far clustering by this policy has looked at a table."""
    rows = await read(connection, _of_table(_GET_LOOK, table_id, policy=policy))
    return Look(Micros(rows[0][0]), rows[0][1]) if rows else Look()


async def save_look(connection: Connection, table_id: UUID, policy: bytes, seen: Look) -> None:
    """Remember how far clustering by this policy has looked at a table."""
    parameters = {
        "table_id": table_id,
        "policy": policy,
        "seen_until": seen.seen_until,
        "left_out": list(seen.left_out),
    }
    await connection.execute(_SAVE_LOOK, parameters)


async def pending(connection: Connection, table_ids: Iterable[UUID], limit: int) -> dict[UUID, PendingPlans]:
    """The first ``limit`` pending plans of services of each table that has any."""
    rows = await connection.execute(_PENDING, {"table_ids": list(table_ids), "limit": limit})
    by_table: dict[UUID, PendingPlans] = {}
    for table_id, action, requested, state, writer, groups, executions, lease, count in rows:
        plan = WaitingService(
            SERVICE_OF[Action(action)],
            Micros(requested),
            State(state),
            writer,
            groups,
            PlanExecutions() if executions is None else decoding.decode(executions, PlanExecutions),
            _micros(lease),
        )
        before = by_table.get(table_id, PendingPlans())
        by_table[table_id] = PendingPlans([*before.first, plan], count)
    return by_table


async def last_runs(connection: Connection, table_ids: Iterable[UUID]) -> dict[UUID, list[CompletedRun]]:
    """The last completed run of each service of each table."""
    rows = await connection.execute(_LAST_RUNS, {"table_ids": list(table_ids)})
    by_table: dict[UUID, list[CompletedRun]] = {}
    for table_id, service, requested, completed, writer, before, bytes_before, after, bytes_after in rows:
        run = CompletedRun(
            TableService(service),
            Micros(requested),
            Micros(completed),
            writer,
            int(before),
            None if bytes_before is None else int(bytes_before),
            after,
            bytes_after,
        )
        by_table.setdefault(table_id, []).append(run)
    return by_table


async def last_expired(connection: Connection, table_ids: Iterable[UUID]) -> dict[UUID, list[UndoneService]]:
    """The plans of each table that expired, and are the newest of their services."""
    by_table: dict[UUID, list[UndoneService]] = {}
    rows = await connection.execute(_LAST_EXPIRED, {"table_ids": list(table_ids)})
    for table_id, service, requested, reason in rows:
        plan = UndoneService(TableService(service), Micros(requested), reason)
        by_table.setdefault(table_id, []).append(plan)
    return by_table


async def cancelled_clusterings(connection: Connection, table_ids: Iterable[UUID]) -> dict[UUID, int]:
    """The clusterings of each table that were rolled back since the last completed one."""
    rows = await connection.execute(_CANCELLED, {"table_ids": list(table_ids)})
    return {table_id: count for table_id, count in rows}


async def expired_plans(connection: Connection, limit: int) -> list[ExpiredPlan]:
    """The first plans that are older than their tables allow, and that no executor has."""
    parameters = {"limit": limit, "default_seconds": int(SERVICE_PROPERTIES[PLAN_EXPIRES_SECONDS].default)}
    rows = await connection.execute(_EXPIRED, parameters)
    return [
        ExpiredPlan(table, Action(action), Micros(requested), Tick(tick), int(waited), failure)
        for table, action, requested, tick, waited, failure in rows
    ]


async def totals(connection: Connection) -> ServiceTotals:
    """The totals over all tables."""
    by_service: dict[TableService, int] = {}
    oldest = executions_max = 0
    for action, count, waiting, executions in await connection.execute(_TOTALS):
        by_service[SERVICE_OF[Action(action)]] = count
        oldest, executions_max = max(oldest, waiting), max(executions_max, executions)
    table_ids = [table_id for (table_id,) in await connection.execute(_TABLES)]
    cancelled = await cancelled_clusterings(connection, table_ids)
    return ServiceTotals(by_service, oldest, executions_max, sum(cancelled.values()))


def _of_table(sql: str, table_id: UUID, **parameters: object) -> Query[Rows]:
    return Query(sql, {"table_id": table_id, **parameters}, lambda rows: rows)


def _document(sql: str, table_id: UUID, **parameters: object) -> Query[bytes]:
    return Query(sql, {"table_id": table_id, **parameters}, lambda rows: rows[0][0].encode())


def _micros(time: int | None) -> Micros | None:
    return None if time is None else Micros(time)
