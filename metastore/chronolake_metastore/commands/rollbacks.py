"""Rolling back an instant: an instant of its own, with an event of the instant that it undoes."""

from __future__ import annotations

from typing_extensions import override

from chronolake_metastore.commands.handler import Handler, Names, instant_result
from chronolake_metastore.domain import lists, rollbacks, streams
from chronolake_metastore.domain.events import Origin
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.lists import PlannedWork
from chronolake_metastore.domain.results import AnyResult
from chronolake_metastore.domain.rollbacks import RollbackInstant
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import instants as stored
from chronolake_model.vocabulary import State as InstantState


class RollbackInstantHandler(Handler[RollbackInstant, None]):
    """Rolls back a pending instant at once; its rollback completes too when there is nothing to delete."""

    command = RollbackInstant

    @override
    def names(self, command: RollbackInstant) -> Names:
        target = command.table, command.requested_time
        return Names(
            tables=[command.table],
            instants=[target],
            ending=True,
            instant_queries=[stored.find_rollbacks([target])],
        )

    @override
    def decide(self, state: State, command: RollbackInstant, evidence: None, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        target = state.instant(table, command.requested_time)
        if target.state.is_pending:
            streams.refuse_member(table, target, "be rolled back")
        if target.state is InstantState.ROLLED_BACK:
            _resume(state, table, target, command, origin)
        else:
            rollbacks.refuse_rollback(table, target, command, origin.now.steady)
            roll_back(state, table, command, plan_of(state, table, command, target), origin)
        return instant_result(state, table, target.requested_time)


def plan_of(state: State, table: Table, command: RollbackInstant, target: Instant) -> PlannedWork:
    """The plan of the files that a rollback of ``target`` has to delete."""
    return rollbacks.plan(command, target, is_marked=state.has_markers(table, target))


def roll_back(state: State, table: Table, command: RollbackInstant, plan: PlannedWork, origin: Origin) -> None:
    """Append the rollback and what it does to its target."""
    entries_by_list = lists.entries_by_list(plan_files=command.files_to_delete)
    request = rollbacks.request(command, plan, origin.now.steady)
    requested = state.append(table.table_id, origin, request, entries_by_list=entries_by_list)
    undo = rollbacks.undo(command, requested.time)
    state.append(table.table_id, origin, undo, command.requested_time)
    if not rollbacks.has_files(plan):
        state.append(table.table_id, origin, rollbacks.empty_completion(), requested.time)


def _resume(state: State, table: Table, target: Instant, command: RollbackInstant, origin: Origin) -> None:
    """Let the caller execute the existing rollback."""
    if target.rolled_back_by is None:
        return
    rollback = state.instant(table, target.rolled_back_by)
    resumed = rollbacks.resume(rollback, command, origin.now.steady)
    if resumed is not None:
        state.append(table.table_id, origin, resumed, rollback.requested_time)
