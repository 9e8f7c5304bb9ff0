"""Calls of instants, plans and savepoints, streams and publications."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chronolake.calls import base
from chronolake.calls.base import Call, call, digits, query, requested_digits
from chronolake_model import operations
from chronolake_model.instants import (
    BeginInstant,
    CompletionTimes,
    CreateSavepoint,
    Instant,
    InstantPage,
    PlannedFileGroups,
    PlannedFiles,
    RequestedTimes,
    RestoreTable,
)
from chronolake_model.publication import (
    HistoryPage,
    HistoryRange,
    PublicationFiles,
    PublicationPartitions,
    PublicationSteps,
)
from chronolake_model.streams import StreamPage
from chronolake_model.times import Moment, parse_time
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
    active_only: bool = False
    """Whether instants that are in the archive of the log are left out."""
    order_by: TimeOrder = TimeOrder.REQUESTED_TIME
    direction: Direction = Direction.ASCENDING
    skip: int = 0
    """How many instants to leave out before the first."""


def begin_many(name: str, body: BeginInstant) -> Call[InstantPage]:
    """Begin several instants at once: ``body`` has a count."""
    begin = call(operations.timeline.BEGIN_INSTANT, name, body=body)
    return Call(begin.method, begin.path, InstantPage, body=begin.body, is_command=True)


def list_instants(name: str, filter: InstantFilter, limit: int = base.LIMIT_MAX) -> Call[InstantPage]:
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
        active_only="true" if filter.active_only else None,
        order_by=filter.order_by,
        direction=filter.direction,
        skip=filter.skip or None,
        limit=limit,
    )
    return call(operations.timeline.LIST_INSTANTS, name, query=pairs)


def completion_times(name: str, requested_times: Sequence[str]) -> Call[CompletionTimes]:
    """The completion times of instants, by their requested times."""
    body = RequestedTimes(list(requested_times))
    return call(operations.timeline.LOOK_UP_COMPLETION_TIMES, name, body=body)


def planned_file_groups(name: str, requested_time: str) -> Call[PlannedFileGroups]:
    """The file groups of the plan of an instant."""
    pairs = query(limit=base.FILES_LIMIT_MAX)
    return call(operations.timeline.LIST_PLANNED_FILE_GROUPS, name, requested_time, query=pairs)


def planned_files(name: str, requested_time: str) -> Call[PlannedFiles]:
    """The files that the plan of a rollback or a clean deletes."""
    pairs = query(limit=base.FILES_LIMIT_MAX)
    return call(operations.timeline.LIST_PLANNED_FILES, name, requested_time, query=pairs)


def create_savepoint(name: str, body: CreateSavepoint) -> Call[Instant]:
    """Pin a completed instant."""
    if body.instant is not None:
        parse_time(body.instant)
    return call(operations.timeline.CREATE_SAVEPOINT, name, body=body)


def restore(name: str, body: RestoreTable) -> Call[Instant]:
    """Restore the table to a savepoint."""
    parse_time(body.savepoint)
    return call(operations.timeline.RESTORE_TABLE, name, body=body)


def list_streams(table: str) -> Call[StreamPage]:
    """The streams of a table."""
    return call(operations.streams.LIST_STREAMS, table, query=query(limit=base.LIMIT_MAX))


def publication_steps(name: str, after: int) -> Call[PublicationSteps]:
    """The steps of a publication after a version."""
    return call(operations.streams.LIST_PUBLICATION_STEPS, name, query=query(after=after))


def publication_files(name: str, after: int) -> Call[PublicationFiles]:
    """The files of ``.hoodie`` that the published events after a version have left."""
    return call(operations.streams.LIST_PUBLICATION_FILES, name, query=query(after=after))


def publication_partitions(name: str, after: str) -> Call[PublicationPartitions]:
    """The metadata of the partitions after a path."""
    return call(operations.streams.LIST_PUBLICATION_PARTITIONS, name, query=query(after=after))


def publication_history(name: str, range_: HistoryRange, after: int) -> Call[HistoryPage]:
    """The instants of a range of the history whose events follow a version."""
    named = query(begin=range_.begin, end=range_.end, after=after)
    return call(operations.streams.LIST_PUBLICATION_HISTORY, name, query=named)
