"""Planning a clean.

Taking or renewing a reader's lease shares a lock that planning takes exclusively
(``docs/decisions/0021-planned-cleans.md``): either the plan sees the lease, or the reader sees from which time
on the table is served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from chronolake_metastore.commands.handler import Handler, Loading, Names, Sharing, instant_of, single_query
from chronolake_metastore.domain import cleans, lists
from chronolake_metastore.domain.cleans import FileToClean, PlanClean
from chronolake_metastore.domain.events import Now, Origin
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.results import AnyResult, CleanResult
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import cleans as stored, readers
from chronolake_model.times import Micros
from chronolake_model.vocabulary import FILES_TO_CLEAN_MAX


class PlanCleanHandler(Handler[PlanClean, Sequence[FileToClean]]):
    """Plans a clean, or continues the pending one. The ``evidence`` is the files that may be deleted."""

    command = PlanClean
    no_evidence: ClassVar[Sequence[FileToClean]] = ()

    @override
    def names(self, command: PlanClean) -> Names:
        return Names(tables=[command.table], instant_queries=[stored.find_pending(command.table)])

    @override
    def sharing(self, command: PlanClean) -> Sharing:
        return Sharing.ALONE

    @override
    def load(
        self, state: State, command: PlanClean, evidence: Sequence[FileToClean], now: Now
    ) -> Loading[Sequence[FileToClean]] | None:
        table = state.locked_table(command.table)
        if table is None or _pending(state, table) is not None:
            return None
        return self._load(table, command, now)

    def _load(self, table: Table, command: PlanClean, now: Now) -> Loading[Sequence[FileToClean]]:
        policy = command.retention
        bounds = stored.find_bounds(table.table_id, policy, now.steady)
        yield [readers.lock(table.table_id), readers.delete_expired_of(table.table_id, now.steady), bounds]
        wanted = cleans.scope_of(table, policy, bounds.result, now)
        if wanted is None:
            return ()
        return (yield from single_query(stored.find_deletable(table.table_id, wanted, FILES_TO_CLEAN_MAX)))

    @override
    def decide(
        self, state: State, command: PlanClean, evidence: Sequence[FileToClean], origin: Origin
    ) -> AnyResult:
        table = state.table(command.table)
        pending = _pending(state, table)
        if pending is not None:
            resumed = cleans.resume(table, pending, command, origin.now.steady)
            if resumed is not None:
                state.append(table.table_id, origin, resumed, pending.requested_time)
            return _result(state, table, pending.requested_time)
        plan = cleans.plan(evidence)
        if plan is None:
            return CleanResult(log_id=table.table_id, table=table.name, clean=None)
        entries_by_list = lists.entries_by_list(plan_files=[file.path for file in evidence])
        request = cleans.request(table, command, plan, origin.now.steady)
        event = state.append(table.table_id, origin, request, entries_by_list=entries_by_list)
        return _result(state, table, event.time, is_new=True)


def _pending(state: State, table: Table) -> Instant | None:
    return next((clean for clean in state.instants_of(table.table_id) if clean.state.is_pending), None)


def _result(state: State, table: Table, requested_time: Micros, *, is_new: bool = False) -> CleanResult:
    clean = instant_of(state, table, requested_time)
    return CleanResult(log_id=table.table_id, table=table.name, clean=clean, is_new=is_new)
