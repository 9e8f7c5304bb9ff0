"""Markers: creating them, and deleting them after their instant has ended (docs/decisions/0016).

Many requests create markers at once, without the lock of any table.

One statement, which is a transaction of its own, creates most of them. It leaves out markers whose instant
takes none, whose table detects conflicts early, or whose partition path may not be one of the table. These are
handled table by table: refused with the reason, or created.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import markers as domain
from chronolake_metastore.domain.conflicts import ConcurrentInstant, ConcurrentInstants
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.markers import CreateMarkers
from chronolake_metastore.domain.tables import Table, archived_instant
from chronolake_metastore.queries import instants as queries
from chronolake_metastore.queries.timeline import Answers, Timeline, across_border
from chronolake_metastore.store import (
    archived,
    catalog,
    clocks,
    file_groups,
    instants as stored_instants,
    markers as stored,
)
from chronolake_metastore.store.markers import FIRST, InstantRef
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Query, Session, Transaction
from chronolake_model.markers import DeletedMarkers
from chronolake_model.times import Micros, format_time

Result = list[bool] | errors.TimelineError
"""Which markers of a request were new; or why none was created."""


DELETED_AT_ONCE: Final = 10_000
"""Markers that one transaction deletes, which takes about 20 ms."""


class _Known(msgspec.Struct, frozen=True):
    """Rows of a table that are read under the locks; of its file groups only if it detects conflicts early."""

    table: Table
    instants: dict[Micros, Instant]
    now: Micros
    """By the steady clock."""
    concurrent: ConcurrentInstants = {}
    marked: dict[FileGroup, set[ConcurrentInstant]] = {}


class _Names(msgspec.Struct, frozen=True):
    """The present names of tables: of the one that had the name before, and of the expected ones, by id.

    Instants of the table requested before ``instants_from`` are in the archive of the log alone.
    """

    renamed_to: str | None
    by_id: dict[UUID, str]
    instants_from: Micros | None

    def table_not_found(self, name: str, request: CreateMarkers) -> errors.TableNotFound:
        """The refusal of a request whose table does not have the name."""
        if request.table_id is None:
            return errors.TableNotFound(name, self.renamed_to)
        return errors.TableNotFound(name, self.by_id.get(request.table_id), table_id=request.table_id)


async def create(session: Session, requests: Sequence[CreateMarkers]) -> list[Result]:
    """Create the markers, and give the results in the order of the requests, when all of it is durable.

    Raises ``DatabaseUnavailable`` or another error that ended a transaction: then it is unknown which markers
    were created, and the requests may be repeated.
    """
    at_once = await session.run_alone(stored.create(requests))
    results: list[Result | None] = [*at_once]
    left: dict[str, list[int]] = defaultdict(list)
    for number, result in enumerate(results):
        if result is None:
            left[requests[number].table].append(number)
    for table, numbers in sorted(left.items()):
        created = await _create_checked(session, table, [requests[number] for number in numbers])
        for number, result in zip(numbers, created, strict=True):
            results[number] = result
    return [result for result in results if result is not None]


@across_border
async def delete(
    answers: Answers, ctx: Context, database: Database, table_name: str, requested_time: Micros
) -> DeletedMarkers:
    """Delete the markers of an instant that has ended, in short transactions without the lock of its table.

    Raises ``TableNotFound``, ``InstantNotFound``, or ``IllegalTransition`` while the instant or a rollback that
    uses its markers is pending.
    """
    async with database.reading() as connection:
        table, instant = await queries.find(answers, ctx, connection, table_name, requested_time)
        rollback = None
        if instant.rolled_back_by is not None:
            rollback = await Timeline(answers, connection, table.table_id).get(instant.rolled_back_by)
    domain.refuse_pending(table, instant)
    if rollback is not None:
        domain.refuse_needed(table, instant, rollback)
    of, after, deleted = InstantRef(table.table_id, requested_time), FIRST, 0
    async with database.autocommit() as connection:
        while True:
            last, deleted_now = await stored.delete(connection, of, after, DELETED_AT_ONCE)
            deleted += deleted_now
            if last is None:
                return DeletedMarkers(deleted)
            after = last


async def _create_checked(session: Session, table: str, requests: Sequence[CreateMarkers]) -> list[Result]:
    async with session.begin() as tx:
        known = await _load(tx, table, requests)
        names = await _load_names(tx, table, known, requests)
        if known is None:
            return [names.table_not_found(table, request) for request in requests]
        refusals = [_refusal(known, request, names) for request in requests]
        admitted = [request for request, refusal in zip(requests, refusals, strict=True) if refusal is None]
        inserted = stored.insert(_new(known.table, admitted), admitted) if admitted else Query.known([])
        new = await tx.fetch_one(inserted)
        created = iter(new)
        return [next(created) if refusal is None else refusal for refusal in refusals]


async def _load_names(
    tx: Transaction, table: str, known: _Known | None, requests: Sequence[CreateMarkers]
) -> _Names:
    """The present names of tables that are not found by the name ``table``."""
    present = None if known is None else known.table.table_id
    expected = {request.table_id for request in requests if request.table_id} - {present}
    missing = known is None or any(request.requested_time not in known.instants for request in requests)
    renamed = await tx.fetch_one(catalog.find_renamed([table])) if missing else {}
    left = await tx.fetch_one(archived.find_instants_from(present)) if missing and present else None
    by_id = await tx.fetch_one(catalog.find_present_names(expected)) if expected else {}
    return _Names(renamed.get(table), by_id, left)


async def _load(tx: Transaction, name: str, requests: Sequence[CreateMarkers]) -> _Known | None:
    """The table and its instants, locked until the transaction ends."""
    times = {request.requested_time for request in requests}
    now, tables = clocks.read_now(), catalog.find_tables([name])
    instants = stored_instants.find((name, time) for time in times)
    await tx.fetch([stored.lock(name), stored.lock_instants(name, times), now, tables, instants])
    if not tables.result:
        return None
    [table] = tables.result
    by_time = {instant.requested_time: instant for _, instant in instants.result.instants}
    if not table.detects_early:
        return _Known(table, by_time, now.result.steady)
    groups = {group for request in requests for group in domain.groups(table, request.markers)}
    marked = stored.find_marked(table.table_id, groups)
    concurrent = file_groups.find_concurrent((name, group.partition_path, group.file_id) for group in groups)
    # In this order: an instant that completes in between is found among the concurrent. In the reverse order it
    # would be missed.
    await tx.fetch([marked, concurrent])
    return _Known(table, by_time, now.result.steady, concurrent.result, marked.result)


def _refusal(known: _Known, request: CreateMarkers, names: _Names) -> errors.TimelineError | None:
    """Why the markers of a request are not created; if they are, the next request finds their groups marked."""
    table, instant = known.table, known.instants.get(request.requested_time)
    if request.table_id not in (None, table.table_id):
        return names.table_not_found(table.name, request)
    if names.instants_from is not None and request.requested_time < names.instants_from:
        return archived_instant(table, request.requested_time, names.instants_from)
    if instant is None:
        time = format_time(request.requested_time, table.definition.tick)
        return errors.InstantNotFound(table.name, time, names.renamed_to)
    markers = request.markers
    try:
        domain.admit(table, instant, request)
        domain.refuse_other_paths(table, request)
        if table.detects_early:
            domain.refuse_early(table, instant, markers, known.concurrent, known.marked, known.now)
    except errors.TimelineError as exc:
        return exc
    if table.detects_early:
        for marker, group in zip(markers, domain.groups(table, markers), strict=True):
            known.marked.setdefault(group, set()).add(domain.holder(instant, marker.kind))
    return None


def _new(table: Table, admitted: Sequence[CreateMarkers]) -> stored.NewMarkers:
    markers = [marker for request in admitted for marker in request.markers]
    times = [request.requested_time for request in admitted for _ in request.markers]
    file_ids = [group.file_id for group in domain.groups(table, markers)] if table.detects_early else None
    return stored.NewMarkers(table.table_id, times, markers, file_ids or [None] * len(markers))
