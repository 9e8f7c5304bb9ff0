"""Planning a clean.

Taking or renewing a reader's lease shares a lock that planning takes exclusively
(``docs/decisions/0021-cleans.md``): either the plan sees the lease, or the reader sees from which time
on the table is served.
"""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from chronolake_metastore.commands.handler import Handler, Loading, Names, Sharing, instant_of, single_query
from chronolake_metastore.domain import cleans, lists, policies, rollbacks
from chronolake_metastore.domain.cleans import NOTHING_CLEANABLE, Cleanable, PlanClean, Retention
from chronolake_metastore.domain.events import Now, Origin
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.results import AnyResult, CleanResult
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import cleans as stored, readers
from chronolake_model.times import Micros
from chronolake_model.vocabulary import FILES_TO_CLEAN_MAX


class PlanCleanHandler(Handler[PlanClean, Cleanable]):
    """Plans a clean, or continues the pending one."""

    command = PlanClean
    no_evidence: ClassVar[Cleanable] = NOTHING_CLEANABLE

    @override
    def names(self, command: PlanClean) -> Names:
        return Names(tables=[command.table], instant_queries=[stored.find_pending(command.table)])

    @override
    def sharing(self, command: PlanClean) -> Sharing:
        return Sharing.ALONE

    @override
    def load(
        self, state: State, command: PlanClean, evidence: Cleanable, now: Now
    ) -> Loading[Cleanable] | None:
        table = state.locked_table(command.table)
        if table is None or pending(state, table) is not None:
            return None
        return load(table, policies.retention(table, command.retention), now)

    @override
    def decide(self, state: State, command: PlanClean, evidence: Cleanable, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        clean = pending(state, table)
        if clean is not None:
            resumed = cleans.resume(table, clean, command, origin.now.steady)
            if resumed is not None:
                state.append(table.table_id, origin, resumed, clean.requested_time)
            return _result(state, table, clean.requested_time)
        requested_time = append(state, table, command, evidence, origin)
        if requested_time is None:
            return CleanResult(log_id=table.table_id, table=table.name, clean=None)
        return _result(state, table, requested_time, is_new=True)


def load(table: Table, retention: Retention, now: Now) -> Loading[Cleanable]:
    """Files that a clean may delete; no reader can take a lease of earlier times any more."""
    bounds = stored.find_bounds(table.table_id, retention, now.steady)
    yield [readers.lock(table.table_id), readers.delete_expired_of(table.table_id, now.steady), bounds]
    wanted, last_clean = cleans.scope_of(table, retention, bounds.result, now), bounds.result.last_clean
    if wanted is None:
        return Cleanable(last_clean=last_clean)
    files = yield from single_query(stored.find_deletable(table.table_id, wanted, FILES_TO_CLEAN_MAX))
    retained = stored.find_retained(table.table_id, wanted, files, now.steady)
    return Cleanable(files, *(yield from single_query(retained)), last_clean)


def append(
    state: State, table: Table, command: PlanClean, cleanable: Cleanable, origin: Origin
) -> Micros | None:
    """Request the clean; gives its requested time, or None if it has nothing to delete.

    If an empty clean is due, it completes at once, because no executor has work.
    """
    plan = cleans.plan(table, cleanable, origin.now)
    if plan is None:
        return None
    if not cleanable.files:
        empty = state.append(table.table_id, origin, cleans.empty(table, command, plan, origin.now.steady))
        state.append(table.table_id, origin, rollbacks.empty_completion(), empty.time)
        return None
    entries_by_list = lists.entries_by_list(plan_files=[file.path for file in cleanable.files])
    request = cleans.request(table, command, plan, origin.now.steady)
    return state.append(table.table_id, origin, request, entries_by_list=entries_by_list).time


def pending(state: State, table: Table) -> Instant | None:
    """The pending clean of a table that the server has planned, if it was loaded."""
    return next((clean for clean in state.instants_of(table.table_id) if clean.state.is_pending), None)


def _result(state: State, table: Table, requested_time: Micros, *, is_new: bool = False) -> CleanResult:
    clean = instant_of(state, table, requested_time)
    return CleanResult(log_id=table.table_id, table=table.name, clean=clean, is_new=is_new)
