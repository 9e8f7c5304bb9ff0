"""The timeline of a table."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from chronolake_metastore.domain import instants
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.instants import TableInstant, format_if
from chronolake_metastore.domain.lists import PlannedWork
from chronolake_metastore.domain.steady_clock import by_wall
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import cursors, paging, tables, timeline_pages
from chronolake_metastore.queries.timeline import Answers, Timeline, across_border
from chronolake_metastore.store import clocks
from chronolake_metastore.store.instants import Filter
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_model import instants as wire
from chronolake_model.times import Micros, Tick, format_time

_PORTION = 200
"""Instants that are fetched at once: most have little metadata."""


class _Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    table_id: UUID
    time: cursors.Time


@across_border
async def get(
    answers: Answers, ctx: Context, database: Database, table_name: str, requested_time: Micros
) -> wire.Instant:
    """One instant; raises ``TableNotFound`` or ``InstantNotFound``."""
    async with database.reading() as connection:
        table, instant = await find(answers, ctx, connection, table_name, requested_time)
        wall_offset = await _wall_offset(connection, [instant])
    return document(instants.of_table(table, instant, wall_offset))


async def find(
    answers: Answers, ctx: Context, connection: Connection, table_name: str, requested_time: Micros
) -> tuple[Table, instants.Instant]:
    """A table and an instant of it; raises ``TableNotFound``, ``InstantNotFound`` or ``ArchiveNeeded``."""
    table = await tables.find(ctx, connection, table_name)
    instant = await Timeline(answers, connection, table.table_id).get(requested_time)
    if instant is None:
        raise await tables.instant_not_found(connection, table, requested_time)
    return table, instant


@across_border
async def page(
    answers: Answers,
    ctx: Context,
    database: Database,
    table_name: str,
    wanted: Filter,
    limit: int,
    cursor: str | None,
    skip: int,
) -> wire.InstantPage:
    """Instants that pass the filter, in its order, without the first ``skip`` of them.

    Raises ``TableNotFound`` or ``InvalidCursor``.
    """
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        place = cursors.in_table(cursor, _Place, table.table_id)
        timeline = Timeline(answers, connection, table.table_id)
        after = None if place is None else Micros(place.time)
        bounds = limit, database.page_bytes_max
        pages = await timeline_pages.pages(timeline, wanted, after, 0 if place else skip, bounds)

        async def fetch(last: instants.Instant | None, number: int) -> list[instants.Instant]:
            return await pages.next(number)

        def size_of(instant: instants.Instant) -> int:
            return paging.json_bytes(document(instants.of_table(table, instant, 0)))

        instants_of_page, is_cut = await paging.collect(fetch, size_of, *bounds, _PORTION)
        wall_offset = await _wall_offset(connection, instants_of_page)
    next_cursor = None
    if is_cut:
        last_time = timeline_pages.place_of(instants_of_page[-1], wanted.order_by)
        next_cursor = cursors.encode(_Place(table.table_id, last_time))
    documents = [document(instants.of_table(table, instant, wall_offset)) for instant in instants_of_page]
    return wire.InstantPage(documents, next_cursor)


@across_border
async def completion_times(
    answers: Answers, ctx: Context, database: Database, table_name: str, requested_times: Sequence[Micros]
) -> wire.CompletionTimes:
    """The completion time of each instant, in the order of ``requested_times``; raises ``TableNotFound``."""
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, table_name)
        times = await Timeline(answers, connection, table.table_id).completion_times(requested_times)
    tick = table.definition.tick
    return wire.CompletionTimes([None if time is None else format_time(time, tick) for time in times])


def document(shown: TableInstant) -> wire.Instant:
    """The instant as the REST API shows it: the end of its lease by the wall clock."""
    tick, instant = shown.tick, shown.instant
    # The lease of an instant of a stream is that of the stream.
    expires_at = None if instant.stream is not None else instant.lease_expires_at
    return wire.Instant(
        table=shown.table,
        requested_time=format_time(instant.requested_time, tick),
        completion_time=format_if(instant.completion_time, tick),
        action=instant.action,
        operation=instant.operation,
        state=instant.state,
        writer=instant.writer,
        lease_seconds=instant.lease_seconds,
        lease_expires_at=None if expires_at is None else by_wall(expires_at, shown.wall_offset),
        rollback_reason=instant.rollback_reason,
        rollback_cause=instant.rollback_cause,
        summary=instant.summary,
        extra_metadata=instant.extra_metadata,
        version=instant.version,
        target=format_if(instant.target, tick),
        rolled_back_by=format_if(instant.rolled_back_by, tick),
        plan=None if instant.plan is None else _plan_document(instant.plan, tick),
        schema_version=instant.schema_version,
        buckets=shown.buckets,
        stream=instant.stream,
    )


def _plan_document(plan: PlannedWork, tick: Tick) -> wire.RecordedPlan:
    return wire.RecordedPlan(
        file_groups=plan.file_groups.first,
        file_groups_count=plan.file_groups.count,
        details=plan.details,
        instants=[format_time(time, tick) for time in plan.instants.first],
        instants_count=plan.instants.count,
        files_to_delete=plan.files_to_delete.first,
        files_to_delete_count=plan.files_to_delete.count,
        by_markers=plan.by_markers,
        direct_markers=plan.direct_markers,
        cleaned_before=format_if(plan.cleaned_before, tick),
        earliest_commit_to_retain=format_if(plan.earliest_commit_to_retain, tick),
        buckets=plan.buckets,
    )


async def _wall_offset(connection: Connection, found: Sequence[instants.Instant]) -> int:
    """The offset by which leases are shown; instants that have ended have none."""
    has_leases = any(instant.lease_expires_at is not None for instant in found)
    return await clocks.wall_offset(connection) if has_leases else 0
