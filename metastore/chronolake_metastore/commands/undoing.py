"""Rollback, savepoint and restore: each an instant of its own, with events of the instants that it is about."""

from __future__ import annotations

from typing import assert_never

from chronolake_metastore.commands.answers import Answer, answer_instant
from chronolake_metastore.commands.lake import Lake
from chronolake_metastore.domain import lists, restores, rollbacks, savepoints
from chronolake_metastore.domain.events import Origin, Plan
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.tables import Table
from chronolake_model.vocabulary import State

Command = rollbacks.RollbackInstant | savepoints.CreateSavepoint | restores.RestoreTable


def carry_out(lake: Lake, command: Command, origin: Origin) -> Answer:
    """Decide ``command`` and append what follows; raises ``TimelineError``."""
    match command:
        case rollbacks.RollbackInstant():
            return _roll_back(lake, command, origin)
        case savepoints.CreateSavepoint():
            return _create_savepoint(lake, command, origin)
        case restores.RestoreTable():
            return _restore(lake, command, origin)
        case _:
            assert_never(command)


def _roll_back(lake: Lake, command: rollbacks.RollbackInstant, origin: Origin) -> Answer:
    """Undo an instant at once; its rollback completes too when there is nothing to delete."""
    table = lake.table(command.table)
    target = lake.instant(table, command.requested_time)
    if target.state is State.ROLLED_BACK:
        if target.rolled_back_by is not None:
            rollback = lake.instant(table, target.rolled_back_by)
            resumed = rollbacks.resume(rollback, command, origin.now)
            if resumed is not None:
                lake.append(table.table_id, origin, resumed, rollback.requested_time)
        return answer_instant(200, lake, table, target.requested_time)
    rollbacks.refuse_rollback(table, target, command, origin.now)
    _undo(lake, table, command, _plan(lake, table, command, target), origin)
    return answer_instant(200, lake, table, target.requested_time)


def _plan(lake: Lake, table: Table, command: rollbacks.RollbackInstant, target: Instant) -> Plan:
    is_marked = (table.table_id, target.requested_time) in lake.marked
    return rollbacks.plan(command, target, is_marked=is_marked)


def _undo(lake: Lake, table: Table, command: rollbacks.RollbackInstant, plan: Plan, origin: Origin) -> None:
    listed = lists.listed(plan_files=command.request.files_to_delete)
    requested = lake.append(table.table_id, origin, rollbacks.request(command, plan, origin.now), listed=listed)
    undo = rollbacks.undo(command, requested.time)
    lake.append(table.table_id, origin, undo, command.requested_time)
    if not rollbacks.has_files(plan):
        lake.append(table.table_id, origin, rollbacks.settled(), requested.time)


def _create_savepoint(lake: Lake, command: savepoints.CreateSavepoint, origin: Origin) -> Answer:
    """Pin an instant; one that is pinned already is answered with its savepoint."""
    table = lake.table(command.table)
    known = lake.instants_of(table.table_id)
    target = savepoints.target_of(table, command, known)
    existing = savepoints.existing(target, known)
    if existing is not None:
        return answer_instant(200, lake, table, existing.requested_time)
    payload = savepoints.create(table, command, target, known, origin.now)
    savepoint = lake.append(table.table_id, origin, payload)
    lake.append(table.table_id, origin, rollbacks.settled(command.request.comment), savepoint.time)
    return answer_instant(201, lake, table, savepoint.time)


def _restore(lake: Lake, command: restores.RestoreTable, origin: Origin) -> Answer:
    """Undo all that its plan names, in its order, and complete.

    What is pending and has marked files is undone before, by a rollback of its own that waits for whoever
    deletes them.
    """
    table = lake.table(command.table)
    undone: list[Instant] = []
    for instant in restores.plan(table, command, lake.instants_of(table.table_id)):
        rollback = restores.rollback(command, instant)
        plan = _plan(lake, table, rollback, instant)
        if instant.state.is_pending and rollbacks.has_files(plan):
            _undo(lake, table, rollback, plan, origin)
        else:
            undone.append(instant)
    listed = lists.listed(plan_instants=[instant.requested_time for instant in undone])
    request = restores.request(command, undone, origin.now)
    requested = lake.append(table.table_id, origin, request, listed=listed)
    undo = restores.undo(command, requested.time)
    for instant in undone:
        lake.append(table.table_id, origin, undo, instant.requested_time)
    lake.append(table.table_id, origin, rollbacks.settled(command.request.reason), requested.time)
    return answer_instant(200, lake, table, requested.time)
