"""Creating markers: many requests at once, without the lock of any table (docs/decisions/0016).

Most are created by one statement that is a transaction of its own. What that leaves out, because the instant
takes no markers or the table detects conflicts early, is looked at table by table: refused with the reason, or
created.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import markers as domain
from chronolake_metastore.domain.conflicts import ConcurrentInstant, ConcurrentInstants
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.markers import CreateMarkers
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import (
    catalog,
    clocks,
    file_groups,
    instants as stored_instants,
    markers as stored,
)
from chronolake_metastore.store.transaction import Session, Transaction
from chronolake_model.times import Micros, format_time

Result = list[bool] | errors.TimelineError
"""Which markers of a request were new; or why none was created."""


class _Known(msgspec.Struct, frozen=True):
    """What was read of a table under the locks; of its file groups only if it detects conflicts early."""

    table: Table
    instants: dict[Micros, Instant]
    now: Micros
    concurrent: ConcurrentInstants = {}
    marked: dict[FileGroup, set[ConcurrentInstant]] = {}


async def create(session: Session, asked: Sequence[CreateMarkers]) -> list[Result]:
    """Create what is asked for, and give the results in that order, when all of it is durable.

    Raises ``DatabaseUnavailable`` or whatever else ended a transaction: it is unknown then what was
    created, and the same may be asked for again.
    """
    rows = await session.run_alone(stored.create(asked))
    results: list[Result | None] = list(stored.created(rows, asked))
    left: dict[str, list[int]] = defaultdict(list)
    for number, result in enumerate(results):
        if result is None:
            left[asked[number].table].append(number)
    for table, numbers in sorted(left.items()):
        looked_at = await _create_carefully(session, table, [asked[number] for number in numbers])
        for number, result in zip(numbers, looked_at, strict=True):
            results[number] = result
    return [result for result in results if result is not None]


async def _create_carefully(session: Session, table: str, asked: Sequence[CreateMarkers]) -> list[Result]:
    async with session.begin() as tx:
        known = await _look(tx, table, asked)
        if known is None:
            return [errors.TableNotFound(table)] * len(asked)
        refusals = [_refusal(known, one) for one in asked]
        admitted = [one for one, refusal in zip(asked, refusals, strict=True) if refusal is None]
        [rows] = await tx.batch([stored.insert(_new(known.table, admitted)) if admitted else None])
        created = iter(stored.inserted(rows, admitted))
        return [next(created) if refusal is None else refusal for refusal in refusals]


async def _look(tx: Transaction, name: str, asked: Sequence[CreateMarkers]) -> _Known | None:
    """The table and its instants as they stay until the transaction ends."""
    times = {one.requested_time for one in asked}
    _, _, now, found_tables, found_instants = await tx.batch(
        [
            stored.lock(name),
            stored.lock_instants(name, times),
            clocks.read_now(),
            catalog.find_tables([name]),
            stored_instants.find((name, time) for time in times),
        ]
    )
    tables = catalog.found_tables(found_tables)
    if not tables:
        return None
    [table] = tables
    instants = {instant.requested_time: instant for _, instant in stored_instants.found(found_instants)}
    known = _Known(table, instants, clocks.now_from(now))
    if not table.detects_early:
        return known
    groups = {group for one in asked for group in domain.groups(table, one.request.markers)}
    named = ((name, group.partition_path, group.file_id) for group in groups)
    # In this order: one that completes in between is found among the others. The other way round it would be
    # found nowhere.
    marked, others = await tx.batch(
        [stored.find_marked(table.table_id, groups), file_groups.find_concurrent(named)]
    )
    return msgspec.structs.replace(
        known,
        others=file_groups.found_concurrent(others),
        marked=stored.found_marked(table.table_id, marked),
    )


def _refusal(known: _Known, one: CreateMarkers) -> errors.TimelineError | None:
    """Why the markers of a request are not created; if they are, the next one finds their groups in hand."""
    table, instant = known.table, known.instants.get(one.requested_time)
    if instant is None:
        return errors.InstantNotFound(table.name, format_time(one.requested_time, table.definition.tick))
    markers = one.request.markers
    try:
        domain.admit(table, instant, one)
        if table.detects_early:
            domain.refuse_early(table, instant, markers, known.concurrent, known.marked, known.now)
    except errors.TimelineError as exc:
        return exc
    if table.detects_early:
        for marker, group in zip(markers, domain.groups(table, markers), strict=True):
            known.marked.setdefault(group, set()).add(domain.holder(instant, marker.kind))
    return None


def _new(table: Table, admitted: Sequence[CreateMarkers]) -> stored.NewMarkers:
    markers = [marker for one in admitted for marker in one.request.markers]
    times = [time for one in admitted for time in [one.requested_time] * len(one.request.markers)]
    file_ids = [group.file_id for group in domain.groups(table, markers)] if table.detects_early else None
    return stored.NewMarkers(table.table_id, times, markers, file_ids or [None] * len(markers))
