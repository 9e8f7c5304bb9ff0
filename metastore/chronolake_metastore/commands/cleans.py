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
from chronolake_metastore.domain import cleans, lists, policies
from chronolake_metastore.domain.cleans import FileToClean, PlanClean, Retention
from chronolake_metastore.domain.events import Now, Origin, PlannedWork
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
        if table is None or pending(state, table) is not None:
            return None
        return load(table, policies.retention(table, command.retention), now)

    @override
    def decide(
        self, state: State, command: PlanClean, evidence: Sequence[FileToClean], origin: Origin
    ) -> AnyResult:
        table = state.table(command.table)
        clean = pending(state, table)
        if clean is not None:
            resumed = cleans.resume(table, clean, command, origin.now.steady)
            if resumed is not None:
                state.append(table.table_id, origin, resumed, clean.requested_time)
            return _result(state, table, clean.requested_time)
        plan = cleans.plan(evidence)
        if plan is None:
            return CleanResult(log_id=table.table_id, table=table.name, clean=None)
        requested_time = append(state, table, command, plan, evidence, origin)
        return _result(state, table, requested_time, is_new=True)


def load(table: Table, retention: Retention, now: Now) -> Loading[Sequence[FileToClean]]:
    """The files that a clean may delete, from when on no reader can take a lease of their times."""
    bounds = stored.find_bounds(table.table_id, retention, now.steady)
    yield [readers.lock(table.table_id), readers.delete_expired_of(table.table_id, now.steady), bounds]
    wanted = cleans.scope_of(table, retention, bounds.result, now)
    if wanted is None:
        return ()
    return (yield from single_query(stored.find_deletable(table.table_id, wanted, FILES_TO_CLEAN_MAX)))


def append(
    state: State,
    table: Table,
    command: PlanClean,
    plan: PlannedWork,
    files: Sequence[FileToClean],
    origin: Origin,
) -> Micros:
    """Request the clean of these files; gives its requested time."""
    entries_by_list = lists.entries_by_list(plan_files=[file.path for file in files])
    request = cleans.request(table, command, plan, origin.now.steady)
    return state.append(table.table_id, origin, request, entries_by_list=entries_by_list).time


def pending(state: State, table: Table) -> Instant | None:
    """The pending clean of a table that the server has planned, if it was loaded."""
    return next((clean for clean in state.instants_of(table.table_id) if clean.state.is_pending), None)


def _result(state: State, table: Table, requested_time: Micros, *, is_new: bool = False) -> CleanResult:
    clean = instant_of(state, table, requested_time)
    return CleanResult(log_id=table.table_id, table=table.name, clean=clean, is_new=is_new)
