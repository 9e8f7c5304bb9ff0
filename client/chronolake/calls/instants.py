"""Calls of the instants of a timeline."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chronolake.calls import base
from chronolake.calls.base import Call, digits, instant_path, post, query, requested_digits, table_path
from chronolake_model.instants import (
    BeginInstant,
    CompletedTogether,
    CompleteInstant,
    CompleteTogether,
    CompletionTimes,
    Conflicts,
    FindConflicts,
    Heartbeat,
    Instant,
    InstantPage,
    RequestedTimes,
    ReturnToRequested,
    RollbackInstant,
    StagedWriteStats,
    StageWriteStats,
    TakeInflight,
)
from chronolake_model.times import Moment
from chronolake_model.vocabulary import Action, Direction, Operation, State, TimeOrder


class InstantFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which instants of a timeline, in which order; ranges are (from, to]."""

    state: tuple[State, ...] = ()
    action: tuple[Action, ...] = ()
    operation: tuple[Operation, ...] = ()
    writer: str | None = None
    requested_from: Moment | None = None
    requested_to: Moment | None = None
    completed_from: Moment | None = None
    completed_to: Moment | None = None
    order_by: TimeOrder = TimeOrder.REQUESTED_TIME
    direction: Direction = Direction.ASCENDING
    skip: int = 0
    """How many instants to leave out before the first."""


def begin(name: str, body: BeginInstant) -> Call[Instant]:
    """Begin an instant."""
    return post(f"{table_path(name)}/instants", Instant, body)


def begin_many(name: str, body: BeginInstant) -> Call[InstantPage]:
    """Begin several instants at once: ``body`` has a count."""
    return post(f"{table_path(name)}/instants", InstantPage, body)


def to_inflight(name: str, requested_time: str, body: TakeInflight | None = None) -> Call[Instant]:
    """Take a requested instant to inflight."""
    return post(f"{instant_path(name, requested_time)}/inflight", Instant, body)


def return_to_requested(name: str, requested_time: str, body: ReturnToRequested) -> Call[Instant]:
    """Stop executing a plan, and keep the plan."""
    return post(f"{instant_path(name, requested_time)}/requested", Instant, body)


def find_conflicts(name: str, requested_time: str, body: FindConflicts) -> Call[Conflicts]:
    """Ask whether completing would conflict."""
    return post(f"{instant_path(name, requested_time)}/conflicts", Conflicts, body, is_query=True)


def stage_write_stats(name: str, requested_time: str, body: StageWriteStats) -> Call[StagedWriteStats]:
    """Report files before the instant completes."""
    return post(f"{instant_path(name, requested_time)}/write-stats", StagedWriteStats, body)


def complete(name: str, requested_time: str, body: CompleteInstant) -> Call[Instant]:
    """Publish an instant."""
    return post(f"{instant_path(name, requested_time)}/complete", Instant, body)


def complete_together(body: CompleteTogether) -> Call[CompletedTogether]:
    """Publish several instants: all of them, or none."""
    return post("/v1/transactions/complete", CompletedTogether, body)


def rollback(name: str, requested_time: str, body: RollbackInstant) -> Call[Instant]:
    """Roll an instant back."""
    return post(f"{instant_path(name, requested_time)}/rollback", Instant, body)


def heartbeat(name: str, requested_time: str, body: Heartbeat) -> Call[Instant]:
    """Renew an instant's lease."""
    return post(f"{instant_path(name, requested_time)}/heartbeat", Instant, body)


def get(name: str, requested_time: str) -> Call[Instant]:
    """One instant."""
    return Call("GET", instant_path(name, requested_time), Instant)


def list_all(name: str, filter: InstantFilter, limit: int = base.LIMIT_MAX) -> Call[InstantPage]:
    """The timeline, filtered."""
    pairs = query(
        state=filter.state,
        action=filter.action,
        operation=filter.operation,
        writer=filter.writer,
        requested_from=requested_digits(filter.requested_from),
        requested_to=requested_digits(filter.requested_to),
        completed_from=digits(filter.completed_from),
        completed_to=digits(filter.completed_to),
        order_by=filter.order_by,
        direction=filter.direction,
        skip=filter.skip or None,
        limit=limit,
    )
    return Call("GET", f"{table_path(name)}/instants", InstantPage, pairs)


def completion_times(name: str, requested_times: Sequence[str]) -> Call[CompletionTimes]:
    """The completion times of instants, by their requested times."""
    return post(
        f"{table_path(name)}/completion-times",
        CompletionTimes,
        RequestedTimes(list(requested_times)),
        is_query=True,
    )
