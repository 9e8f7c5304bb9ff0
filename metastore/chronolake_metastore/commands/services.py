"""Recording a round of planned table services (docs/decisions/0081-planned-services.md)."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from chronolake_metastore.commands import cleans as cleaning
from chronolake_metastore.commands.handler import Handler, Loading, Names, Sharing, instant_of
from chronolake_metastore.domain import instants, lists, services
from chronolake_metastore.domain.cleans import NOTHING_CLEANABLE, Cleanable, PlanClean
from chronolake_metastore.domain.events import Now, Origin
from chronolake_metastore.domain.instants import BeginInstant
from chronolake_metastore.domain.results import AnyResult, ServicesResult
from chronolake_metastore.domain.services import PlanServices
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import cleans as stored
from chronolake_model.times import Micros


class PlanServicesHandler(Handler[PlanServices, Cleanable]):
    """Records the plans of a round. The ``evidence`` is the files of its clean."""

    command = PlanServices
    no_evidence: ClassVar[Cleanable] = NOTHING_CLEANABLE

    @override
    def names(self, command: PlanServices) -> Names:
        groups = [(command.table, name) for plan in command.plans for name in plan.file_groups]
        cleans_too = [] if command.clean is None else [stored.find_pending(command.table)]
        return Names(tables=[command.table], file_groups=groups, instant_queries=cleans_too)

    @override
    def sharing(self, command: PlanServices) -> Sharing:
        return Sharing.ALONE

    @override
    def is_bulk(self, command: PlanServices) -> bool:
        # It has a transaction of its own in any case, for which commands on other tables need not wait.
        return True

    @override
    def files(self, command: PlanServices) -> int:
        return sum(len(plan.file_groups) for plan in command.plans)

    @override
    def load(
        self, state: State, command: PlanServices, evidence: Cleanable, now: Now
    ) -> Loading[Cleanable] | None:
        table = state.locked_table(command.table)
        if table is None or command.clean is None or cleaning.pending(state, table) is not None:
            return None
        return cleaning.load(table, command.clean, now)

    @override
    def decide(self, state: State, command: PlanServices, evidence: Cleanable, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        begins, lost = services.instants_of(table, command, state.concurrent)
        times = [_begin(state, table, begin, origin) for begin in begins]
        if command.clean is not None:
            clean = PlanClean(command.table, command.clean, command.writer, execute=False)
            requested_time = cleaning.append(state, table, clean, evidence, origin)
            times += [] if requested_time is None else [requested_time]
        return ServicesResult(
            log_id=table.table_id,
            table=table.name,
            instants=[instant_of(state, table, time) for time in times],
            held=[*command.held, *lost],
            is_new=bool(times),
        )


def _begin(state: State, table: Table, begin: BeginInstant, origin: Origin) -> Micros:
    payload = instants.begin(table, begin, state.concurrent, origin.now.steady)
    assert begin.plan is not None
    entries = lists.entries_by_list(plan_file_groups=begin.plan.file_groups)
    return state.append(table.table_id, origin, payload, entries_by_list=entries).time
