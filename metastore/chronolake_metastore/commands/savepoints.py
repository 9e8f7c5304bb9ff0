"""Savepoints, and restoring a table to one."""

from __future__ import annotations

from typing_extensions import override

from chronolake_metastore.commands.handler import (
    Handler,
    Loading,
    Names,
    Sharing,
    instant_result,
    single_query,
)
from chronolake_metastore.commands.rollbacks import plan_of, roll_back
from chronolake_metastore.domain import lists, restores, rollbacks, savepoints
from chronolake_metastore.domain.active_window import Border
from chronolake_metastore.domain.events import Now, Origin
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.restores import RestoreTable
from chronolake_metastore.domain.results import AnyResult
from chronolake_metastore.domain.savepoints import CreateSavepoint
from chronolake_metastore.domain.state import State
from chronolake_metastore.store import instants as stored, published_history


class CreateSavepointHandler(Handler[CreateSavepoint, Border | None]):
    """Pins an instant; one that is pinned already is answered with its savepoint."""

    command = CreateSavepoint

    @override
    def names(self, command: CreateSavepoint) -> Names:
        return Names(
            tables=[command.table],
            instants=[] if command.target is None else [(command.table, command.target)],
            instant_queries=[stored.find_savepoints([command.table])],
        )

    @override
    def load(
        self, state: State, command: CreateSavepoint, evidence: Border | None, now: Now
    ) -> Loading[Border | None] | None:
        table = state.locked_table(command.table)
        return None if table is None else single_query(published_history.find_border(table.table_id))

    @override
    def decide(
        self, state: State, command: CreateSavepoint, evidence: Border | None, origin: Origin
    ) -> AnyResult:
        table = state.table(command.table)
        if command.target is not None:
            state.refuse_archived(table, command.target)
        known = state.instants_of(table.table_id)
        target = savepoints.target_of(table, command, known)
        existing = savepoints.existing(target, known)
        if existing is not None:
            return instant_result(state, table, existing.requested_time)
        border = evidence or Border()
        payload = savepoints.create(table, command, target, known, border.last_completion, origin.now.steady)
        savepoint = state.append(table.table_id, origin, payload)
        empty_completion = rollbacks.empty_completion(command.comment)
        state.append(table.table_id, origin, empty_completion, savepoint.time)
        return instant_result(state, table, savepoint.time, is_new=True)


class RestoreTableHandler(Handler[RestoreTable, None]):
    """Undoes all instants that its plan names, in its order, and completes.

    A pending instant with marked files is rolled back first, by a rollback of its own that waits for an
    executor. The streams of the table are closed: otherwise their tasks would continue what was undone.
    """

    command = RestoreTable

    @override
    def names(self, command: RestoreTable) -> Names:
        savepoint = command.table, command.savepoint
        instants = [stored.find_savepoints([command.table]), stored.find_after_savepoints([savepoint])]
        return Names(tables=[command.table], instant_queries=instants, tables_of_streams=[command.table])

    @override
    def sharing(self, command: RestoreTable) -> Sharing:
        # It brings back files of file groups, which later commands of the group have not loaded.
        return Sharing.LAST

    @override
    def decide(self, state: State, command: RestoreTable, evidence: None, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        state.refuse_archived(table, command.savepoint)
        undone: list[Instant] = []
        known = state.instants_of(table.table_id)
        for instant in restores.plan(table, command, known):
            rollback = restores.rollback(command, instant)
            plan = plan_of(state, table, rollback, instant)
            if instant.state.is_pending and rollbacks.has_files(plan):
                roll_back(state, table, rollback, plan, origin)
            else:
                undone.append(instant)
        entries_by_list = lists.entries_by_list(plan_instants=[instant.requested_time for instant in undone])
        request = restores.request(command, undone, origin.now.steady)
        requested = state.append(table.table_id, origin, request, entries_by_list=entries_by_list)
        undo = restores.undo(command, requested.time)
        for instant in undone:
            state.append(table.table_id, origin, undo, instant.requested_time)
        completion = restores.completion(table, command, known)
        state.append(table.table_id, origin, completion, requested.time)
        for stream in state.streams_of(table.table_id):
            if stream.is_open:
                state.append(table.table_id, origin, restores.closing(table, command, stream))
        return instant_result(state, table, requested.time)
