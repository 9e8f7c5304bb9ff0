"""Commands on an instant before it completes: begin, take inflight, return to requested, renew the lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st
from msgspec.structs import asdict

from chronolake_metastore.domain import instants, leases
from chronolake_metastore.domain.results import AnyResult, BegunInstantsResult, InstantResult
from chronolake_model import instants as wire
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, State
from tests.store.command_strategies.draws import (
    BUCKETS,
    LEASE_SECONDS,
    WRITERS,
    DrawnCommand,
    Draws,
    group_name,
)
from tests.store.model import Timeline
from tests.store.model_of_instants import BEGUN, KEEPS_PLAN, SERVICES, WRITES, Group, Instant

ANY_GROUP: Final = [(bucket, generation) for bucket in range(BUCKETS) for generation in range(3)]


def begin(draws: Draws, name: str, action: Action | None = None) -> list[DrawnCommand]:
    """Begin an instant, or a few at once."""
    timeline = draws.timelines[name]
    action = action or draws.pick(_sensible_actions(timeline) if draws.usually() else list(Action))
    plan = _plan(draws, timeline, action)
    request = wire.BeginInstant(
        writer=draws.pick(WRITERS),
        action=action,
        lease_seconds=draws.pick((LEASE_SECONDS, 1)),
        inflight=draws.pick((True, True, False)),
        plan=None if plan is None else wire.Plan([group_name(group) for group in plan]),
        count=None if draws.usually() else draws.data.draw(st.integers(1, 3)),
    )

    def apply(result: AnyResult) -> None:
        if isinstance(result, BegunInstantsResult):
            first, times = result.first, result.requested_times
        else:
            assert isinstance(result, InstantResult)
            first, times = result.of, [result.of.instant.requested_time]
        assert len(times) == (request.count or 1)
        for time in times:
            _begun(draws, name, request, time, first.instant.state, plan or [])

    return [
        draws.command(
            name,
            None,
            instants.BeginInstant(name, **asdict(request)),
            lambda timeline: timeline.may_begin(action, plan, request.count),
            apply,
        )
    ]


def take_inflight(draws: Draws, name: str) -> list[DrawnCommand]:
    time = draws.instant(name, lambda instant: instant.state is State.REQUESTED)
    writer = draws.pick((None, *WRITERS))
    return [
        draws.command(
            name,
            time,
            instants.TakeInflight(name, Micros(time), writer),
            lambda timeline: timeline.may_go_inflight(time, writer, draws.now),
            lambda _: draws.timelines[name].went_inflight(time, writer, draws.now),
        )
    ]


def return_to_requested(draws: Draws, name: str) -> list[DrawnCommand]:
    def is_fit(instant: Instant) -> bool:
        return instant.state is State.INFLIGHT and instant.action in KEEPS_PLAN

    time = draws.instant(name, is_fit)
    writer = draws.writer_of(name, time)
    return [
        draws.command(
            name,
            time,
            instants.ReturnToRequested(name, Micros(time), writer, "tired"),
            lambda timeline: timeline.may_return(time, writer, draws.now),
            lambda _: draws.timelines[name].returned(time),
        )
    ]


def renew(draws: Draws, name: str) -> list[DrawnCommand]:
    time = draws.instant(name, lambda instant: instant.is_pending)
    writer = draws.pick((None, *WRITERS))
    seconds = draws.pick((None, 1, LEASE_SECONDS))
    return [
        draws.command(
            name,
            time,
            leases.RenewLease(name, Micros(time), seconds, writer),
            lambda timeline: timeline.may_renew(time, writer),
            lambda _: draws.timelines[name].renewed(time, seconds, draws.now),
        )
    ]


def current(timeline: Timeline) -> list[Group]:
    """The file group of each bucket that is not replaced."""
    return [timeline.current(bucket) for bucket in range(BUCKETS)]


def _begun(
    draws: Draws, name: str, request: wire.BeginInstant, time: Micros, state: State, plan: Sequence[Group]
) -> None:
    waits = state is State.REQUESTED and request.action in KEEPS_PLAN
    draws.timelines[name].begun(
        Instant(
            time=time,
            action=request.action,
            state=State.INFLIGHT if request.inflight else State.REQUESTED,
            writer=request.writer,
            lease_seconds=request.lease_seconds,
            lease_end=None if waits else draws.lease_end(request.lease_seconds),
            plan=tuple(plan),
            schema_version=draws.timelines[name].writes_with(request.action),
        )
    )


def _plan(draws: Draws, timeline: Timeline, action: Action) -> list[Group] | None:
    seen, planned = sorted(timeline.seen()), {group for group, _ in timeline.planned()}
    free = [group for group in seen if group not in planned]
    if action in SERVICES and draws.usually() and (free or seen):
        return draws.subset(free or seen, 1)
    if action in SERVICES or not draws.usually():
        return draws.subset(ANY_GROUP, 0)
    return None if draws.data.draw(st.booleans()) else draws.subset(current(timeline), 1)


def _sensible_actions(timeline: Timeline) -> list[Action]:
    """Mostly writes; table services when there are file groups that no plan names."""
    free = timeline.seen().keys() - {group for group, _ in timeline.planned()}
    possible = [action for action in BEGUN[timeline.type] if free or action not in SERVICES]
    return [action for action in possible if action in WRITES] * 3 + possible
