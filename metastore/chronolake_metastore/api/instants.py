"""/v1/tables/{table}/instants, and /v1/transactions"""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter
from msgspec.structs import asdict

from chronolake_metastore import errors
from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, Limit, RequestedTimeInPath, TableInPath, time_parameter
from chronolake_metastore.api.requests import time_in_body
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain import instants, transactions
from chronolake_metastore.domain.leases import RenewLease
from chronolake_metastore.domain.plans import NewPlan
from chronolake_metastore.domain.rollbacks import RollbackInstant
from chronolake_metastore.domain.staging import StageWriteStats
from chronolake_metastore.queries import instants as queries
from chronolake_metastore.store.instants import Filter
from chronolake_model import instants as wire, operations
from chronolake_model.instants import (
    BeginInstant,
    CompletedTogether,
    CompleteInstant,
    CompleteTogether,
    CompletionTimes,
    Heartbeat,
    Instant,
    InstantPage,
    RequestedTimes,
    ReturnToRequested,
    StagedWriteStats,
    TakeInflight,
)
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Direction, Operation, State, TimeOrder


@route(operations.timeline.BEGIN_INSTANT)
async def begin_instant(
    table: TableInPath,
    data: JSONBody[BeginInstant],
    keyed_caller: NamedDependency[Caller],
) -> Response[Instant | InstantPage]:
    """Issue a requested time, unique and later than every time of the table before it.

    With `count` in the request, it issues that many at once, and the answer is a list of instants.
    """
    return await keyed_caller.execute(_begin(parameters.table(table), data))


@route(operations.timeline.TAKE_INFLIGHT)
async def take_inflight(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[TakeInflight],
    keyed_caller: NamedDependency[Caller],
) -> Response[Instant]:
    """requested -> inflight: the writer has its plan and begins to write.

    The writer of the request takes over a waiting plan of a compaction, a clustering or a rollback.
    """
    command = instants.TakeInflight(parameters.table(table), _time(requested_time), **asdict(data))
    return await keyed_caller.execute(command)


@route(operations.timeline.RETURN_TO_REQUESTED)
async def return_to_requested(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[ReturnToRequested],
    keyed_caller: NamedDependency[Caller],
) -> Response[Instant]:
    """inflight -> requested: the execution of a plan has failed, and the plan waits for the next executor."""
    command = instants.ReturnToRequested(parameters.table(table), _time(requested_time), **asdict(data))
    return await keyed_caller.execute(command)


@route(operations.timeline.COMPLETE_INSTANT)
async def complete_instant(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[CompleteInstant],
    keyed_caller: NamedDependency[Caller],
) -> Response[Instant]:
    """inflight -> completed: publish all files of the instant at once, under a completion time.

    An instant with markers completes only if each published file has a marker, and every other marked file was
    deleted from storage and reported as deleted.
    """
    command = _completion(parameters.table(table), _time(requested_time), data)
    return await keyed_caller.execute(command)


@route(operations.timeline.GET_INSTANT)
async def get_instant(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    caller: NamedDependency[Caller],
) -> Instant:
    """One instant, by its requested time."""
    return await caller.read(queries.get, parameters.table(table), _time(requested_time))


@route(operations.timeline.LIST_INSTANTS)
async def list_instants(  # noqa: PLR0913 - one argument per filter: that is what the API is
    *,
    table: TableInPath,
    caller: NamedDependency[Caller],
    states: Annotated[
        list[State] | None, QueryParameter(name="state", description="Only these states.")
    ] = None,
    actions: Annotated[
        list[Action] | None, QueryParameter(name="action", description="Only these actions.")
    ] = None,
    pending: Annotated[
        bool, QueryParameter(description="Only pending instants: the same as `state=requested&state=inflight`.")
    ] = False,
    operations: Annotated[
        list[Operation] | None, QueryParameter(name="operation", description="Only these operations.")
    ] = None,
    writer: Annotated[str | None, QueryParameter(description="Only instants of this writer.")] = None,
    requested_from: Annotated[
        str | None, time_parameter("requested_from", "Requested later than this.")
    ] = None,
    requested_to: Annotated[
        str | None, time_parameter("requested_to", "Requested at this time or before.")
    ] = None,
    completed_from: Annotated[
        str | None, time_parameter("completed_from", "Completed later than this.")
    ] = None,
    completed_to: Annotated[
        str | None, time_parameter("completed_to", "Completed at this time or before.")
    ] = None,
    active_only: Annotated[
        bool,
        QueryParameter(
            description="Only instants that PostgreSQL has, without those that are in the archive of the log."
        ),
    ] = False,
    order_by: Annotated[
        TimeOrder, QueryParameter(description="By completion time only completed instants are listed.")
    ] = TimeOrder.REQUESTED_TIME,
    direction: Annotated[Direction, QueryParameter(description="Oldest first, or newest first.")] = (
        Direction.ASCENDING
    ),
    skip: Annotated[
        int,
        QueryParameter(
            ge=0,
            le=parameters.SKIP_MAX,
            description=(
                "The number of instants to leave out before the first page. With `limit=1` the answer is the "
                "n-th instant."
            ),
        ),
    ] = 0,
    limit: Limit = parameters.PAGE_DEFAULT,
    cursor: Cursor = None,
) -> InstantPage:
    """The timeline, filtered, in the order of either time, page by page; plans are left out.

    First and last are `limit=1` in either direction; the last at a time or before is `requested_to` or
    `completed_to` with `direction=desc&limit=1`.
    """
    if writer is not None and "\0" in writer:
        raise errors.InvalidParameter(
            "the name of a writer must not contain the character U+0000", parameter="writer"
        )
    wanted = Filter(
        states=frozenset(states or ()) | (instants.PENDING if pending else frozenset()),
        actions=frozenset(actions or ()),
        operations=frozenset(operations or ()),
        writer=writer,
        requested_from=parameters.optional_time("requested_from", requested_from),
        requested_to=parameters.optional_time("requested_to", requested_to),
        completed_from=parameters.optional_time("completed_from", completed_from),
        completed_to=parameters.optional_time("completed_to", completed_to),
        order_by=order_by,
        direction=direction,
        active_only=active_only,
    )
    return await caller.read(queries.page, parameters.table(table), wanted, limit, cursor, skip)


@route(operations.timeline.LOOK_UP_COMPLETION_TIMES)
async def look_up_completion_times(
    table: TableInPath,
    data: JSONBody[RequestedTimes],
    caller: NamedDependency[Caller],
) -> CompletionTimes:
    """The completion times of up to 10,000 instants at once, by their requested times.

    It is for readers that know files by the requested times in their names, and need their order of completion.
    """
    times = [time_in_body(f"requested_times[{index}]", text) for index, text in enumerate(data.requested_times)]
    return await caller.read(queries.completion_times, parameters.table(table), times)


@route(operations.timeline.RENEW_LEASE)
async def renew_lease(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[Heartbeat],
    keyed_caller: NamedDependency[Caller],
) -> Response[Instant]:
    """Renew the lease from now on. 410 means that the instant was rolled back, and the writer must stop."""
    time = _time(requested_time)
    return await keyed_caller.execute(RenewLease(parameters.table(table), time, **asdict(data)))


@route(operations.timeline.STAGE_WRITE_STATS)
async def stage_write_stats(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[wire.StageWriteStats],
    keyed_caller: NamedDependency[Caller],
) -> Response[StagedWriteStats]:
    """Report files before the instant completes, so that other writers do not wait for very large instants.

    The complete request names the `version` of each answer in `staged`. A conflict is already refused here.
    """
    time = _time(requested_time)
    return await keyed_caller.execute(StageWriteStats(parameters.table(table), time, **asdict(data)))


@route(operations.timeline.COMPLETE_TOGETHER)
async def complete_together(
    data: JSONBody[CompleteTogether], keyed_caller: NamedDependency[Caller]
) -> Response[CompletedTogether]:
    """Publish instants of one or several tables, all or none, at one position in the order of the log."""
    members = [
        _completion(
            member.table, time_in_body(f"instants[{index}].requested_time", member.requested_time), member
        )
        for index, member in enumerate(data.instants)
    ]
    return await keyed_caller.execute(transactions.CompleteTogether(members))


@route(operations.timeline.ROLL_BACK_INSTANT)
async def roll_back_instant(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[wire.RollbackInstant],
    keyed_caller: NamedDependency[Caller],
) -> Response[Instant]:
    """requested or inflight -> rolled_back, by an instant of its own that `rolled_back_by` names.

    There is one rollback for each instant. A second request gets the instant in its present state, and takes
    the rollback over if the lease of its executor has ended.
    """
    time = _time(requested_time)
    return await keyed_caller.execute(RollbackInstant(parameters.table(table), time, **asdict(data)))


def _time(requested_time: str) -> Micros:
    return parameters.instant_time("requested_time", requested_time)


def _begin(table: str, data: BeginInstant) -> instants.BeginInstant:
    plan = data.plan
    return instants.BeginInstant(
        table,
        data.writer,
        data.action,
        data.operation,
        data.lease_seconds,
        data.inflight,
        None if plan is None else NewPlan(plan.file_groups, plan.details, plan.buckets),
        data.count,
        data.markers,
    )


def _completion(table: str, requested_time: Micros, data: CompleteInstant) -> instants.CompleteInstant:
    """The command of a body, or of one body of several."""
    text = data.cleaned_before
    return instants.CompleteInstant(
        table,
        requested_time,
        data.write_stats,
        data.extra_metadata,
        data.replaced_file_groups,
        data.writer,
        data.schema_version,
        data.staged,
        None if text is None else time_in_body("cleaned_before", text),
        data.based_on_reads,
        data.keys_looked_up,
        data.buckets,
    )
