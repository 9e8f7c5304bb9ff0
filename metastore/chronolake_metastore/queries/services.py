"""Table services: what a round would plan now and why not more, pending plans, and last runs.

A round is decided from one snapshot of the database, without the table's lock; ``commands/services.py`` records
it. Facts of many file groups come as one document, which is decoded and decided beside other requests.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final, TypeVar

import msgspec

from chronolake_metastore import low_priority
from chronolake_metastore.domain import cleans, clusterings, compactions, properties, services
from chronolake_metastore.domain.cleans import Retention
from chronolake_metastore.domain.clusterings import Choice
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.events import Now
from chronolake_metastore.domain.policies import Policies, Strategy
from chronolake_metastore.domain.readable import readable_by
from chronolake_metastore.domain.services import CleanFacts, Held, Look, Round, ServicePlan
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import cursors, tables
from chronolake_metastore.store import catalog, cleans as stored_cleans, clocks, services as stored
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.services import CompletedRun, PendingPlans, UndoneService, WaitingService
from chronolake_model import services as wire
from chronolake_model.files import FileGroupName
from chronolake_model.names import split_table_name
from chronolake_model.service_properties import SERVICE_PROPERTIES, SERVICES_ENABLED
from chronolake_model.times import MICROS_MAX, MICROS_PER_SECOND, Micros, Tick, format_time
from chronolake_model.vocabulary import FILES_TO_CLEAN_MAX, HeldReason, State, TableService, TableType

PENDING_MAX: Final = 100
"""Pending plans of a table in an answer."""
THREAD_BYTES_MAX: Final = 256 * 1024
"""Facts up to this size are decided in a thread, which holds the interpreter's lock for about a millisecond."""
ResultT = TypeVar("ResultT")
_LOGS: Final = frozenset({TableService.COMPACTION, TableService.LOG_COMPACTION})


class SavedLook(msgspec.Struct, frozen=True):
    """A look to be remembered, with the digest of the policy that it was made by."""

    policy: bytes
    look: Look


class DecidedRound(msgspec.Struct, frozen=True):
    """A round that may be recorded: its plans, the retention of its clean, and up to which time it has seen."""

    table: str = ""
    plans: Sequence[ServicePlan] = ()
    held: Sequence[Held] = ()
    clean: Retention | None = None
    seen: Micros = Micros(0)
    look: SavedLook | None = None


class _Part(msgspec.Struct, frozen=True):
    """The part of a round that is of one service or two."""

    of_round: Round = Round()
    clean: Retention | None = None
    look: SavedLook | None = None


class _Asking(msgspec.Struct, frozen=True):
    """A request for a round, and the table at that moment."""

    table: Table
    policies: Policies
    wanted: frozenset[TableService]
    force: bool
    now: Now
    seen: Micros


async def decide(
    ctx: Context,
    database: Database,
    table_name: str,
    wanted: Sequence[TableService] = (),
    force: bool = False,
    stated: Mapping[str, str] | None = None,
) -> DecidedRound:
    """Decide a round of all services, or of those that are ``wanted``.

    Properties of policies that are ``stated`` count in place of those of the table. Raises ``TableNotFound``
    and ``InvalidPlan``.
    """
    details = stated or {}
    stated = {name: text for name, text in details.items() if name in SERVICE_PROPERTIES}
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        properties.refuse_details(details, table.definition.schema)
        policies = Policies.of({**table.definition.properties, **stated})
        asking = _Asking(
            table,
            policies,
            frozenset(wanted or TableService),
            force,
            await clocks.now(connection),
            await clocks.last_time(connection, table.table_id),
        )
        parts = await _parts(connection, asking)
    return DecidedRound(
        table=table.name,
        plans=[plan for part in parts for plan in part.of_round.plans],
        held=[held for part in parts for held in part.of_round.held],
        clean=next((part.clean for part in parts if part.clean is not None), None),
        seen=asking.seen,
        # What another policy has looked at says nothing about that of the table.
        look=None if stated else next((part.look for part in parts if part.look is not None), None),
    )


async def preview(ctx: Context, database: Database, table_name: str) -> wire.ServicesPreview:
    """The plans that a round would record now, and why not more; raises ``TableNotFound``."""
    decided = await decide(ctx, database, table_name)
    plans = [
        wire.PlannedService(
            service=plan.service,
            file_groups=len(plan.file_groups),
            size_bytes=plan.size_bytes,
            files_before=plan.files_before,
            files_after=plan.files_after,
            details=plan.details,
        )
        for plan in decided.plans
    ]
    is_due = bool(plans) or decided.clean is not None or decided.look is not None
    return wire.ServicesPreview(decided.table, plans, held_documents(decided.held), is_due)


def held_documents(held: Sequence[Held]) -> list[wire.HeldService]:
    """Why services are held, as bodies."""
    return [
        wire.HeldService(entry.service, entry.reason, entry.message, entry.file_groups, entry.example)
        for entry in held
    ]


async def status(ctx: Context, database: Database, table_name: str) -> wire.ServicesStatus:
    """Pending plans and last runs of a table; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        [document] = await _statuses(connection, [table])
    return document


async def page(ctx: Context, database: Database, limit: int, cursor: str | None) -> wire.ServicesPage:
    """Pending plans and last runs of tables, in the order of their names; raises ``InvalidCursor``."""
    after = ("", "") if cursor is None else cursors.decode(cursor, tuple[str, str])
    async with database.reading() as connection:
        readable = readable_by(ctx.rights)
        page_of_tables = await catalog.page_of_tables(connection, None, after, limit + 1, readable)
        is_cut, page_of_tables = len(page_of_tables) > limit, page_of_tables[:limit]
        documents = await _statuses(connection, page_of_tables)
    next_cursor = cursors.encode(split_table_name(page_of_tables[-1].name)) if is_cut else None
    return wire.ServicesPage(documents, next_cursor)


async def totals(database: Database) -> stored.ServiceTotals:
    """The figures of all tables, for the metrics."""
    async with database.reading() as connection:
        return await stored.totals(connection)


async def _parts(connection: Connection, asking: _Asking) -> list[_Part]:
    if not asking.policies.are_on and not asking.force:
        message = f"{SERVICES_ENABLED} is false"
        return [_held([Held(service, HeldReason.OFF, message) for service in sorted(asking.wanted)])]
    parts: list[_Part] = []
    if asking.wanted & _LOGS:
        parts.append(await _compactions(connection, asking))
    if TableService.CLUSTERING in asking.wanted:
        # A file group is in one plan: what this round compacts is clustered by a later one.
        compacted = {name for part in parts for plan in part.of_round.plans for name in plan.file_groups}
        parts.append(await _clusterings(connection, asking, compacted))
    if TableService.CLEAN in asking.wanted:
        parts.append(await _clean(connection, asking))
    return parts


async def _apart(plan: Callable[[bytes], ResultT], document: bytes) -> ResultT:
    """Plan beside other requests: in a thread, or in a process if a thread would delay them."""
    if len(document) < THREAD_BYTES_MAX:
        return await asyncio.to_thread(plan, document)
    return await low_priority.run(plan, document)


def _held(held: Sequence[Held]) -> _Part:
    return _Part(Round([], held))


async def _compactions(connection: Connection, asking: _Asking) -> _Part:
    wanted, policy, table_id = asking.wanted & _LOGS, asking.policies.compaction, asking.table.table_id
    if asking.table.definition.type is not TableType.MERGE_ON_READ:
        message = "a copy-on-write table has no log files"
        return _held([Held(service, HeldReason.OFF, message) for service in sorted(wanted)])
    history = await stored.compaction_history(connection, table_id, policy)
    if not asking.force:
        held = compactions.held_by_triggers(policy, history, wanted, asking.now.wall)
        if held is not None:
            return _held(held)
    regex = policy.partition_regex if Strategy.PARTITION_REGEX_BASED in policy.strategies else None
    plan = functools.partial(
        compactions.plan_document,
        policy=policy,
        history=history,
        wanted=wanted,
        now=asking.now.wall,
        instant_bytes_max=asking.policies.instant_bytes_max,
        force=asking.force,
    )
    return _Part(await _apart(plan, await stored.log_groups(connection, table_id, regex)))


async def _clusterings(connection: Connection, asking: _Asking, compacted: Set[FileGroupName]) -> _Part:
    policy, table_id = asking.policies.clustering, asking.table.table_id
    refusal = clusterings.refusal(asking.table, policy, force=asking.force)
    if refusal is not None:
        return _held([Held(TableService.CLUSTERING, HeldReason.OFF, refusal)])
    history = await stored.clustering_history(connection, table_id, policy)
    held = None if asking.force else clusterings.held_by_trigger(policy, history)
    if held is not None:
        return _held([held])
    is_whole = asking.force or clusterings.is_due(policy, history)
    digest = hashlib.blake2b(msgspec.json.encode(policy), digest_size=16).digest()
    look = Look() if asking.force else await stored.look(connection, table_id, digest)
    choice = await _partitions(connection, asking, look, is_whole=is_whole)
    has_looked = choice.taken or choice.postponed
    plan = functools.partial(
        clusterings.plan_document,
        policy=policy,
        history=history,
        compacted=compacted,
        inspected=clusterings.Inspected(look, asking.seen, choice, is_whole),
        force=asking.force,
    )
    document = await stored.small_groups(connection, asking.table, choice.taken, policy, asking.now.steady)
    of_round, next_look = await _apart(plan, document)
    return _Part(of_round, look=SavedLook(digest, next_look) if has_looked and next_look is not None else None)


async def _partitions(connection: Connection, asking: _Asking, look: Look, *, is_whole: bool) -> Choice:
    """The partitions to look at. A round whose trigger has not fired looks only at what others left out."""
    policy, table_id = asking.policies.clustering, asking.table.table_id
    if not is_whole and look.seen_until:
        look = Look(Micros(MICROS_MAX), look.left_out)
    changed = await stored.changed_partitions(connection, table_id, look, policy.partition_regex)
    number = clusterings.counted_partitions(policy)
    of_table = [] if number == 0 else await stored.live_partitions(connection, table_id, number)
    return clusterings.partitions_of(policy, changed, of_table, asking.now.wall)


async def _clean(connection: Connection, asking: _Asking) -> _Part:
    policy, table = asking.policies.cleaning, asking.table
    history = await stored.clean_history(connection, table, policy, asking.now.steady)
    refusal = services.clean_refusal(policy, history, force=asking.force)
    # After a clean its trigger has not fired, and the user asks why files of the past are still there.
    is_pinning = bool(services.pinning(history))
    if refusal is not None and not (is_pinning and refusal.reason is HeldReason.BELOW_THRESHOLD):
        return _held([refusal])
    bounds, now = await stored_cleans.read_bounds(connection, table.table_id, policy.retention)
    scope = cleans.scope_of(table, policy.retention, bounds, now)
    unlimited = {
        HeldReason.PENDING_WRITE: msgspec.structs.replace(bounds, oldest_pending=None),
        HeldReason.READER: msgspec.structs.replace(bounds, followed=None, published=None),
    }
    holders = {
        HeldReason.PENDING_WRITE: f"pending write {_time(table, bounds.oldest_pending)}",
        HeldReason.READER: services.follower(history, bounds),
    }
    limits = {
        reason: holders[reason]
        for reason, without in unlimited.items()
        if cleans.scope_of(table, policy.retention, without, now) != scope
    }
    deletable = [] if scope is None else await _deletable(connection, table, scope)
    pinned = 0
    if scope is not None and scope.protected_times:
        free = msgspec.structs.replace(scope, protected_times=())
        pinned = len(await _deletable(connection, table, free)) - len(deletable)
    files = deletable[:FILES_TO_CLEAN_MAX]
    facts = CleanFacts(
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        has_more=len(deletable) > len(files),
        pinned=max(pinned, 0),
        pinned_by=HeldReason.SAVEPOINT if history.savepoints else HeldReason.READER,
        pinning=services.pinning(history),
        limits=limits,
    )
    if refusal is not None:
        return _held([refusal, *services.pinned_files(facts)])
    of_round = services.plan_clean(facts)
    if of_round.plans or (scope is not None and await _is_empty_due(connection, table, scope, bounds, now)):
        return _Part(of_round, policy.retention)
    return _Part(of_round)


def _time(table: Table, time: Micros | None) -> str | None:
    return None if time is None else format_time(time, table.definition.tick)


async def _is_empty_due(
    connection: Connection, table: Table, scope: cleans.CleanScope, bounds: cleans.CleanBounds, now: Now
) -> bool:
    """Whether a clean without files is due. No executor has work, so a preview does not show it."""
    retained, _ = await stored_cleans.read_retained(connection, table.table_id, scope, [], now.steady)
    return cleans.is_empty_due(table, cleans.Cleanable(retained=retained, last_clean=bounds.last_clean), now)


async def _deletable(
    connection: Connection, table: Table, scope: cleans.CleanScope
) -> list[cleans.FileToClean]:
    return await stored_cleans.read_deletable(connection, table.table_id, scope, FILES_TO_CLEAN_MAX + 1)


async def _statuses(connection: Connection, of_tables: Sequence[Table]) -> list[wire.ServicesStatus]:
    table_ids = [table.table_id for table in of_tables]
    pending = await stored.pending(connection, table_ids, PENDING_MAX)
    runs = await stored.last_runs(connection, table_ids)
    expired = await stored.last_expired(connection, table_ids)
    cancelled = await stored.cancelled_clusterings(connection, table_ids)
    now = await clocks.now(connection)
    return [
        _status(
            table,
            pending.get(table.table_id, PendingPlans()),
            runs.get(table.table_id, []),
            expired.get(table.table_id, []),
            cancelled[table.table_id],
            now,
        )
        for table in of_tables
    ]


def _status(
    table: Table,
    pending: PendingPlans,
    runs: Sequence[CompletedRun],
    expired: Sequence[UndoneService],
    cancelled: int,
    now: Now,
) -> wire.ServicesStatus:
    tick = table.definition.tick
    plans = [_pending(plan, tick, now) for plan in pending.first]
    waiting = [plan.age_seconds for plan in plans if plan.executor is None]
    return wire.ServicesStatus(
        table=table.name,
        pending=plans,
        pending_count=pending.count,
        oldest_waiting_seconds=max(waiting, default=None),
        last_runs=[_run(run, tick) for run in runs],
        expired=[
            wire.ExpiredService(plan.service, format_time(plan.requested_time, tick), plan.reason)
            for plan in expired
        ],
        cancelled_clusterings=cancelled,
    )


def _pending(plan: WaitingService, tick: Tick, now: Now) -> wire.PendingService:
    lease, executions = plan.lease_expires_at, plan.executions
    ended_at = executions.ended_at
    return wire.PendingService(
        service=plan.service,
        requested_time=format_time(plan.requested_time, tick),
        state=plan.state,
        file_groups=plan.file_groups,
        executor=plan.writer if plan.state is State.INFLIGHT else None,
        age_seconds=_seconds(now.wall - plan.requested_time),
        executions=max(executions.taken, int(plan.state is State.INFLIGHT)),
        last_executor=executions.executor,
        last_failure=executions.reason,
        failed_seconds_ago=None if ended_at is None else _seconds(now.wall - ended_at),
        lease_seconds_left=None if lease is None else _seconds(lease - now.steady),
    )


def _run(run: CompletedRun, tick: Tick) -> wire.ServiceRun:
    return wire.ServiceRun(
        service=run.service,
        requested_time=format_time(run.requested_time, tick),
        completion_time=format_time(run.completion_time, tick),
        writer=run.writer,
        files_before=run.files_before,
        bytes_before=run.bytes_before,
        files_after=run.files_after,
        bytes_after=run.bytes_after,
    )


def _seconds(micros: int) -> float:
    return max(micros, 0) / MICROS_PER_SECOND
