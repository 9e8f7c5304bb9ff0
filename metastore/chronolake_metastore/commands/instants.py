"""Commands that begin an instant and move it between requested and inflight."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import msgspec
from typing_extensions import override

from chronolake_metastore.commands.handler import (
    Handler,
    Loading,
    Names,
    Sharing,
    instant_of,
    instant_result,
    single_query,
)
from chronolake_metastore.domain import instants, leases, lists, savepoints, streams
from chronolake_metastore.domain.events import Now, Origin, Payload
from chronolake_metastore.domain.instants import BeginInstant, Instant, ReturnToRequested, TakeInflight
from chronolake_metastore.domain.leases import RenewLease
from chronolake_metastore.domain.plans import LeftOut, NewPlan
from chronolake_metastore.domain.publication import Gate, refuse_unpublished
from chronolake_metastore.domain.results import AnyResult, BegunInstantsResult
from chronolake_metastore.domain.savepoints import ReleaseSavepoint
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import file_groups, publication
from chronolake_model.vocabulary import Action

ChangeT = TypeVar("ChangeT", TakeInflight, ReturnToRequested, RenewLease, ReleaseSavepoint)


class Beginning(msgspec.Struct, frozen=True):
    """Facts for the begin of an instant.

    ``gate`` is of compactions, ``left_out`` the live file groups that the plan of a resize lacks.
    """

    gate: Gate | None = None
    left_out: LeftOut = ()


class BeginInstantHandler(Handler[BeginInstant, Beginning]):
    """Begins an instant, or several that differ in their times only."""

    command = BeginInstant
    no_evidence: ClassVar[Beginning] = Beginning()

    @override
    def names(self, command: BeginInstant) -> Names:
        plan = command.plan
        if plan is None:
            return Names(tables=[command.table])
        return Names(tables=[command.table], file_groups=[(command.table, group) for group in plan.file_groups])

    @override
    def sharing(self, command: BeginInstant) -> Sharing:
        # The live file groups are loaded: no earlier command of the group may open one.
        return Sharing.SHARED if _resizing(command) is None else Sharing.ALONE

    @override
    def files(self, command: BeginInstant) -> int:
        return command.count or 0

    @override
    def load(
        self, state: State, command: BeginInstant, evidence: Beginning, now: Now
    ) -> Loading[Beginning] | None:
        plan = _resizing(command)
        if plan is None and not _has_gate(command):
            return None
        table = state.locked_table(command.table)
        if table is None:
            return None
        return _load_gate(table) if plan is None or _has_gate(command) else _load_left_out(table, plan)

    @override
    def decide(self, state: State, command: BeginInstant, evidence: Beginning, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        payload = instants.begin(table, command, state.concurrent, origin.now.steady, evidence.left_out)
        if evidence.gate is not None:
            version = state.clocks[table.table_id].version + 1
            refuse_unpublished(table.name, table.definition, evidence.gate, version, origin.now.steady)
        if command.count is None:
            plan = command.plan
            entries_by_list = (
                lists.NO_LIST_ENTRIES
                if plan is None
                else lists.entries_by_list(plan_file_groups=plan.file_groups)
            )
            event = state.append(table.table_id, origin, payload, entries_by_list=entries_by_list)
            return instant_result(state, table, event.time, is_new=True)
        requests = state.append_requests(table.table_id, origin, payload, command.count)
        times = [event.time for event in requests]
        first = instant_of(state, table, times[0])
        return BegunInstantsResult(log_id=table.table_id, first=first, requested_times=times)


def _has_gate(command: BeginInstant) -> bool:
    """Whether its plan must be published before it begins."""
    return command.action is Action.COMPACTION and command.inflight


def _load_gate(table: Table) -> Loading[Beginning]:
    return Beginning(gate=(yield from single_query(publication.find_gate(table.table_id))))


def _load_left_out(table: Table, plan: NewPlan) -> Loading[Beginning]:
    left_out = file_groups.find_left_out(table.table_id, plan.file_groups)
    return Beginning(left_out=(yield from single_query(left_out)))


def _resizing(command: BeginInstant) -> NewPlan | None:
    """The plan, if it resizes the table."""
    plan = command.plan
    return plan if plan is not None and plan.buckets is not None else None


class ChangeInstantHandler(Handler[ChangeT, Gate | None]):
    """Appends one event to an instant. The ``evidence`` is for a compaction that is taken inflight."""

    @override
    def names(self, command: ChangeT) -> Names:
        return Names(tables=[command.table], instants=[(command.table, command.requested_time)])

    def change(self, table: Table, instant: Instant, command: ChangeT, origin: Origin) -> Payload:
        """The event's payload; raises ``TimelineError``."""
        raise NotImplementedError

    @override
    def decide(self, state: State, command: ChangeT, evidence: Gate | None, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        instant = state.instant(table, command.requested_time)
        if evidence is not None:
            refuse_unpublished(table.name, table.definition, evidence, instant.version, origin.now.steady)
        payload = self.change(table, instant, command, origin)
        state.append(table.table_id, origin, payload, instant.requested_time)
        return instant_result(state, table, instant.requested_time)


class TakeInflightHandler(ChangeInstantHandler[TakeInflight]):
    """Takes an instant inflight."""

    command = TakeInflight

    @override
    def load(
        self, state: State, command: TakeInflight, evidence: Gate | None, now: Now
    ) -> Loading[Gate | None] | None:
        named = state.find_instant(command.table, command.requested_time)
        if named is None or named[1].action is not Action.COMPACTION:
            return None
        return single_query(publication.find_gate(named[0].table_id))

    @override
    def change(self, table: Table, instant: Instant, command: TakeInflight, origin: Origin) -> Payload:
        return instants.take_inflight(table, instant, command, origin.now.steady)


class ReturnToRequestedHandler(ChangeInstantHandler[ReturnToRequested]):
    """Stops the execution of a plan and keeps the plan."""

    command = ReturnToRequested

    @override
    def change(self, table: Table, instant: Instant, command: ReturnToRequested, origin: Origin) -> Payload:
        return instants.return_to_requested(table, instant, command, origin.now.steady)


class RenewLeaseHandler(ChangeInstantHandler[RenewLease]):
    """Renews the lease of an instant."""

    command = RenewLease

    @override
    def change(self, table: Table, instant: Instant, command: RenewLease, origin: Origin) -> Payload:
        streams.refuse_member(table, instant, "keep a lease")
        return leases.renew(table, instant, command, origin.now.steady)


class ReleaseSavepointHandler(ChangeInstantHandler[ReleaseSavepoint]):
    """Releases a savepoint."""

    command = ReleaseSavepoint

    @override
    def change(self, table: Table, instant: Instant, command: ReleaseSavepoint, origin: Origin) -> Payload:
        return savepoints.release(table, instant, command)
