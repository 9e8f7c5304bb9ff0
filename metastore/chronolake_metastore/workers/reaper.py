"""The reaper: rolls back instants whose writers are silent, so that a dead writer holds nothing (promise 6).

Every replica has one, and one of them runs at a time. Whether a lease has ended is decided again under the
table's lock, so a heartbeat or a completion that comes first wins.
"""

from __future__ import annotations

import asyncio
from typing import Final

from chronolake_metastore import errors, telemetry
from chronolake_metastore.domain import actions
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.instants import ReturnToRequested
from chronolake_metastore.domain.rollbacks import RollbackInstant
from chronolake_metastore.domain.streams import ExpireStream
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.service.service import Service
from chronolake_metastore.store import leases, services, streams
from chronolake_metastore.store.leases import ExpiredLease
from chronolake_metastore.store.postgres import advisory_locks
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.services import ExpiredPlan
from chronolake_metastore.store.streams import ExpiredStream
from chronolake_metastore.workers.worker import Resources, Worker, run_periodically, submit
from chronolake_model.service_properties import PLAN_EXPIRES_SECONDS
from chronolake_model.times import MICROS_PER_SECOND, format_time
from chronolake_model.vocabulary import RollbackCause, State

NAME: Final = "reaper"
WRITER: Final = "chronolake-reaper"
BATCH: Final = 500
"""Maximum number of leases ended per run; others wait for the next run."""
_FAILURE_SHOWN: Final = 1_000
"""Characters of the reason of an execution that ended without success."""

_log = telemetry.logger(__name__)


async def run(resources: Resources) -> None:
    """Reap periodically, until cancelled. While the database is unavailable, it is retried."""
    database, service, metrics = resources.database, resources.service, resources.metrics
    interval_seconds = resources.settings.reaper_seconds
    await run_periodically(NAME, lambda: reap(database, service, metrics), interval_seconds, metrics)


async def reap(database: Database, service: Service, metrics: Metrics) -> int:
    """End expired leases and plans, if this server is the leader; gives their number."""
    async with advisory_locks.leadership(database, NAME) as ours:
        if ours is None:
            _show(metrics, streams.Totals())
            return 0
        expired = await leases.expired(ours, BATCH)
        plans = await services.expired_plans(ours, BATCH)
        silent = await streams.expired(ours, BATCH)
        endings = [
            *(_end(service, lease) for lease in expired),
            *(_close(service, stream) for stream in silent),
        ]
        cancelling = (_cancel(service, plan) for plan in plans)
        reaped = await asyncio.gather(*endings, *cancelling, return_exceptions=True)
        _show(metrics, await streams.totals(ours))
    metrics.leases_expired.inc(sum(result is True for result in reaped[: len(endings)]))
    failures = [result for result in reaped if isinstance(result, BaseException)]
    if failures:
        raise failures[0]
    return sum(result is True for result in reaped)


def _show(metrics: Metrics, totals: streams.Totals) -> None:
    metrics.stream_instants.set(totals.instants)
    metrics.stream_bytes.set(totals.size_bytes)
    metrics.stream_oldest_seconds.set(totals.oldest_seconds)


async def _end(service: Service, lease: ExpiredLease) -> bool:
    try:
        await _submit(service, _ending_of(lease))
    except (errors.Conflict, errors.NotFound):
        # It was renewed or completed, or its table was dropped, since we looked.
        return False
    instant = format_time(lease.requested_time, lease.tick)
    _log.info("lease expired", table=lease.table, instant=instant, writer=lease.writer)
    return True


async def _cancel(service: Service, plan: ExpiredPlan) -> bool:
    seconds = plan.waited_us / MICROS_PER_SECOND
    reason = f"no executor has completed the plan in {seconds:.0f} s ({PLAN_EXPIRES_SECONDS})"
    if plan.failure:
        reason += f"; the last execution: {plan.failure[:_FAILURE_SHOWN]}"
    try:
        # Without the lease of an executor that has taken it meanwhile, the plan is free for anybody to end.
        command = RollbackInstant(
            plan.table, plan.requested_time, WRITER, reason, execute=False, cause=RollbackCause.EXPIRED
        )
        await _submit(service, command)
    except (errors.Conflict, errors.NotFound):
        # It was taken, completed or rolled back, or its table was dropped, since we looked.
        return False
    instant = format_time(plan.requested_time, plan.tick)
    _log.info("plan expired", table=plan.table, instant=instant, action=plan.action, waited_seconds=seconds)
    return True


async def _close(service: Service, stream: ExpiredStream) -> bool:
    try:
        await _submit(service, ExpireStream(stream.table, stream.stream, WRITER))
    except (errors.Conflict, errors.NotFound):
        # Its writer came back, or its table was dropped, since we looked.
        return False
    _log.info("stream expired", table=stream.table, stream=stream.stream, writer=stream.writer)
    return True


async def _submit(service: Service, command: Command) -> None:
    await submit(service, command, NAME, WRITER, records_refusal=False)


def _ending_of(lease: ExpiredLease) -> Command:
    """A write, or a resize, is rolled back. Another instant that keeps its plan waits for another executor."""
    reason = f"the lease of {lease.writer} ended {lease.expired_us / MICROS_PER_SECOND:.1f} s ago"
    if lease.state is State.INFLIGHT and actions.RULES[lease.action].keeps_plan and not lease.is_resize:
        return ReturnToRequested(lease.table, lease.requested_time, WRITER, reason)
    # It deletes no files: the plan waits for an executor.
    return RollbackInstant(lease.table, lease.requested_time, WRITER, reason, execute=False)


WORKER: Final = Worker(
    name=NAME,
    does="rolls back instants whose lease has ended, returns plans, and cancels those that nobody executes",
    run=run,
    setting="reaper_seconds",
    has_leader=True,
)
