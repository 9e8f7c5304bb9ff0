"""Cleans: what is looked up when their table is locked, and how they are decided.

Whoever takes or renews the lease of a reader shares a lock that planning holds alone (docs/decisions/0021):
either the plan sees the lease, or who asks for it sees from which time on the table is served.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from chronolake_metastore.commands.answers import Answer, answer
from chronolake_metastore.commands.lake import Lake
from chronolake_metastore.domain import cleans, instants, lists
from chronolake_metastore.domain.cleans import PlanClean, PlannedAhead
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import Origin
from chronolake_metastore.domain.instants import CompleteInstant
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.domain.transactions import CompleteTogether
from chronolake_metastore.store import cleans as stored, instants as stored_instants, readers
from chronolake_metastore.store.transaction import Transaction
from chronolake_model.cleans import FILES_TO_CLEAN_MAX, PlannedClean
from chronolake_model.times import Micros


def plans(command: Command) -> bool:
    """Whether a command plans a clean; it has a transaction to itself."""
    return isinstance(command, PlanClean)


async def load(tx: Transaction, lake: Lake, commands: Sequence[Command], now: Micros) -> None:
    """Have ``lake`` know what may be deleted, and of cleans that complete what was not."""
    match commands:
        case [PlanClean() as command] if (table := lake.tables.get(command.table)) is not None:
            if table.table_id in lake.clocks:
                lake.planned_ahead = await _look(tx, lake, table, command, now)
        case _:
            await _count(tx, lake, [key for command in commands for key in _completed(lake, command)])


async def _look(tx: Transaction, lake: Lake, table: Table, command: PlanClean, now: Micros) -> PlannedAhead:
    [pending] = await tx.batch([stored.find_pending(table.table_id)])
    if pending:
        [(_, clean)] = stored_instants.found(pending)
        lake.instants[table.table_id, clean.requested_time] = clean
        return PlannedAhead(pending=clean)
    policy = command.request
    _, _, found = await tx.batch(
        [
            readers.lock(table.table_id),
            readers.forget_expired(table.table_id, now),
            stored.find_bounds(table.table_id, policy.commits, now),
        ]
    )
    wanted = cleans.wanted(table, policy, stored.found_bounds(found), now)
    if wanted is None:
        return PlannedAhead()
    [rows] = await tx.batch([stored.find_deletable(table.table_id, wanted, FILES_TO_CLEAN_MAX)])
    return PlannedAhead(files=stored.found_deletable(rows))


async def _count(tx: Transaction, lake: Lake, completed: Sequence[tuple[UUID, Micros]]) -> None:
    keys = sorted(set(completed))
    if keys:
        found = await tx.batch([stored.count_undeleted(*key) for key in keys])
        lake.undeleted = {
            key: (one.files, one.path)
            for key, rows in zip(keys, found, strict=True)
            for one in [stored.counted_undeleted(rows)]
        }


def carry_out(lake: Lake, command: PlanClean, origin: Origin) -> Answer:
    """Plan a clean, or go on with the one that is pending; raises ``TimelineError``."""
    table = lake.table(command.table)
    pending = lake.planned_ahead.pending
    if pending is not None:
        resumed = cleans.resume(table, pending, command, origin.now)
        if resumed is not None:
            lake.append(table.table_id, origin, resumed, pending.requested_time)
        return _answer(200, lake, table, pending.requested_time)
    plan = cleans.plan(lake.planned_ahead.files)
    if plan is None:
        return answer(200, PlannedClean(table.name, None), table.table_id)
    listed = lists.listed(plan_files=[one.path for one in lake.planned_ahead.files])
    request = cleans.request(table, command, plan, origin.now)
    event = lake.append(table.table_id, origin, request, listed=listed)
    return _answer(201, lake, table, event.time)


def _answer(status: int, lake: Lake, table: Table, requested_time: Micros) -> Answer:
    clean = instants.document(table, lake.instants[table.table_id, requested_time])
    return answer(status, PlannedClean(table.name, clean), table.table_id)


def _completed(lake: Lake, command: Command) -> Iterator[tuple[UUID, Micros]]:
    """The cleans that the server planned and a command completes."""
    members: Sequence[CompleteInstant] = []
    match command:
        case CompleteInstant():
            members = [command]
        case CompleteTogether():
            members = command.members
        case _:
            pass
    for member in members:
        table = lake.tables.get(member.table)
        key = None if table is None else (table.table_id, member.requested_time)
        if key is not None and (instant := lake.instants.get(key)) is not None and cleans.is_planned(instant):
            yield key
