"""Timelines from the indexes of instants of an archive, filtered and in either order, and whole instants."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from chronolake_metastore.archive import instant_reading
from chronolake_metastore.archive.instant_reading import in_micros, joined, numbers_of, present_action
from chronolake_metastore.archive.rows import INSTANT
from chronolake_metastore.archive.run_reading import RunReader
from chronolake_metastore.domain import archived_instants, stored_events
from chronolake_metastore.domain.actions import COMPLETED_WRITES, RULES
from chronolake_metastore.domain.events import Event, ImpossibleEvent
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.stored_events import StoredEvent
from chronolake_metastore.store.archived import ArchivedCompletion, ArchivedInstants
from chronolake_metastore.store.instants import Filter
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Direction, State, TimeOrder

_REQUESTED: Final = "requested_time"
_COMPLETED: Final = "completed_at"
_COLUMNS: Final = (_REQUESTED, "begun_as", "operation", "writer", "state", _COMPLETED)
_OF_EVENTS: Final = (_REQUESTED, "first_version", "version")
_TIME_MAX: Final = (1 << 63) - 2
_AT_ONCE: Final = 200
"""Instants whose events are read together."""


def page(
    runs: Sequence[RunReader],
    table_id: UUID,
    wanted: Filter,
    after: Micros | None,
    skip: int,
    limit: int,
    bytes_max: int,
) -> ArchivedInstants:
    """Instants that pass the filter, in its order, after a time of that order, without the first ``skip``.

    Without their plans. Raises ``ArchiveDamaged``.
    """
    found: list[Micros] = []
    skipped = 0
    for batch in select(runs, table_id, wanted, after):
        left_out = min(skip - skipped, batch.num_rows)
        skipped += left_out
        found += batch.column(_REQUESTED).slice(left_out, limit + 1 - len(found)).to_pylist()
        if len(found) > limit:
            break
    is_cut, found = len(found) > limit, found[:limit]
    instants_of_page: list[Instant] = []
    size = 0
    for begin in range(0, len(found), _AT_ONCE):
        if size > bytes_max:
            is_cut = True
            break
        portion = found[begin : begin + _AT_ONCE]
        by_time, bytes_of_portion = _instants(runs, table_id, portion)
        size += bytes_of_portion
        instants_of_page += [msgspec.structs.replace(by_time[time], plan=None) for time in portion]
    return ArchivedInstants(instants_of_page, skipped, is_cut)


def instants(
    runs: Sequence[RunReader], table_id: UUID, requested_times: Sequence[Micros]
) -> list[Instant | None]:
    """The instants with these requested times, in this order; None where there is none.

    Raises ``ArchiveDamaged``.
    """
    by_time, _ = _instants(runs, table_id, requested_times)
    return [by_time.get(time) for time in requested_times]


def latest_completion(runs: Sequence[RunReader], table_id: UUID, until: Micros) -> Micros | None:
    """The last completion up to a time, undone since or not."""
    for batch in _by_completion(runs, table_id, _range(None, until), is_descending=True):
        if batch.num_rows:
            return Micros(batch.column(_COMPLETED)[0].as_py())
    return None


def completions(
    runs: Sequence[RunReader], table_id: UUID, after: Micros, until: Micros, limit: int
) -> list[ArchivedCompletion]:
    """The first writes and restores that completed in (after, until], undone since or not."""
    found: list[ArchivedCompletion] = []
    for batch in _by_completion(runs, table_id, _range(after, until), is_descending=False):
        actions = present_action(batch.column("begun_as"), batch.column(_COMPLETED)).cast(pa.string())
        counts = pc.or_(
            pc.is_in(actions, pa.array(sorted(COMPLETED_WRITES | {Action.RESTORE}), pa.string())),
            pc.equal(_words(batch, "state"), State.ROLLED_BACK.value),
        )
        of_batch = batch.filter(counts).slice(0, limit - len(found))
        names = actions.filter(counts).slice(0, limit - len(found)).to_pylist()
        columns = (of_batch.column(name).to_pylist() for name in (_REQUESTED, _COMPLETED, "state"))
        found += [
            ArchivedCompletion(Micros(requested), Micros(completed), Action(action), State(state))
            for requested, completed, state, action in zip(*columns, names, strict=True)
        ]
        if len(found) == limit:
            break
    return found


def select(
    runs: Sequence[RunReader], table_id: UUID, wanted: Filter, after: Micros | None
) -> Iterator[pa.RecordBatch]:
    """The entries of instants that pass the filter, in its order, after a time of that order."""
    requested = _range(wanted.requested_from, wanted.requested_to)
    completed = _range(wanted.completed_from, wanted.completed_to)
    # An instant completes after its request.
    requested = range(requested.start, min(requested.stop, completed.stop))
    completed = range(max(requested.start, completed.start), completed.stop)
    is_descending = wanted.direction is Direction.DESCENDING
    if wanted.order_by is TimeOrder.REQUESTED_TIME:
        requested = _cut(requested, after, is_descending=is_descending)
        batches = _by_request(runs, table_id, requested, is_descending=is_descending)
    else:
        completed = _cut(completed, after, is_descending=is_descending)
        batches = _by_completion(runs, table_id, completed, is_descending=is_descending)
    for batch in batches:
        masks = list(_masks(batch, wanted, requested, completed))
        passing = batch.filter(reduce(pc.and_, masks)) if masks else batch
        if passing.num_rows:
            is_reversed = is_descending and wanted.order_by is TimeOrder.REQUESTED_TIME
            yield _reversed(passing) if is_reversed else passing


def _range(after: Micros | None, until: Micros | None) -> range:
    """The times in (after, until]."""
    return range(0 if after is None else after + 1, (_TIME_MAX if until is None else until) + 1)


def _cut(times: range, after: Micros | None, *, is_descending: bool) -> range:
    if after is None:
        return times
    if is_descending:
        return range(times.start, min(times.stop, after))
    return range(max(times.start, after + 1), times.stop)


def _masks(batch: pa.RecordBatch, wanted: Filter, requested: range, completed: range) -> Iterator[pa.Array]:
    """The conditions of a filter that the order of the batch does not make true."""
    times = batch.column(_COMPLETED)
    if wanted.order_by is TimeOrder.COMPLETION_TIME:
        yield _is_within(batch.column(_REQUESTED), requested)
    is_by_completion = wanted.completed_from is not None or wanted.completed_to is not None
    if is_by_completion or wanted.order_by is TimeOrder.COMPLETION_TIME:
        yield _is_within(times, completed)
        yield pc.equal(_words(batch, "state"), State.COMPLETED.value)
    if wanted.states:
        yield pc.is_in(_words(batch, "state"), pa.array(sorted(wanted.states), pa.string()))
    if wanted.operations:
        yield pc.is_in(_words(batch, "operation"), pa.array(sorted(wanted.operations), pa.string()))
    if wanted.writer is not None:
        yield pc.equal(_words(batch, "writer"), wanted.writer)
    if wanted.actions:
        begun_as = _words(batch, "begun_as")
        completed_as = [action for action, rules in RULES.items() if rules.completed_as in wanted.actions]
        yield pc.if_else(
            pc.is_valid(times),
            pc.is_in(begun_as, pa.array(completed_as, pa.string())),
            pc.is_in(begun_as, pa.array(sorted(wanted.actions), pa.string())),
        )


def _words(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(name).cast(pa.string())


def _is_within(times: pa.Array, wanted: range) -> pa.Array:
    return pc.and_(pc.greater_equal(times, wanted.start), pc.less(times, wanted.stop))


def _by_request(
    runs: Sequence[RunReader], table_id: UUID, requested: range, *, is_descending: bool
) -> Iterator[pa.RecordBatch]:
    """The joined entries of a range of requested times: in this order the batches, each in ascending order."""
    if not is_descending:
        yield from joined(runs, table_id, requested, _COLUMNS)
        return
    firsts = {requested.start} if requested else set()
    for run in runs:
        if requested and run.events.span(table_id) is not None:
            firsts.update(run.firsts(INSTANT, table_id, requested))
    for first, end in itertools.pairwise(sorted({*firsts, requested.stop}, reverse=True)):
        batches = list(joined(runs, table_id, range(end, first), _COLUMNS))
        yield from reversed(batches)


def _reversed(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.take(pa.array(range(batch.num_rows - 1, -1, -1), pa.int64()))


def _by_completion(
    runs: Sequence[RunReader], table_id: UUID, completed: range, *, is_descending: bool
) -> Iterator[pa.RecordBatch]:
    """The joined entries of instants that completed in a range, undone since or not, in this order."""
    sign = -1 if is_descending else 1
    parts = [
        ((-bounds[1] if is_descending else bounds[0]), load)
        for run in runs
        if completed and run.events.span(table_id) is not None
        for bounds, load in run.parts_at(INSTANT, table_id, completed, _COLUMNS, in_micros)
    ]
    parts.sort(key=lambda part: part[0])
    order = "descending" if is_descending else "ascending"
    waiting: list[pa.RecordBatch] = []
    for place, (_, load) in enumerate(parts):
        batch = load()
        keys = numbers_of(batch.filter(_is_within(batch.column(_COMPLETED), completed)).column(_REQUESTED))
        waiting += _joined_of(runs, table_id, keys)
        if not waiting:
            continue
        entries = pa.Table.from_batches(waiting).sort_by([(_COMPLETED, order)]).combine_chunks()
        # Later row groups have no time before their bound.
        times, ready = entries.column(_COMPLETED), entries.num_rows
        if place + 1 < len(parts):
            ready = pc.sum(pc.less(pc.multiply(times, sign), parts[place + 1][0])).as_py() or 0
        yield from entries.slice(0, ready).to_batches()
        waiting = entries.slice(ready).to_batches()


def _joined_of(runs: Sequence[RunReader], table_id: UUID, keys: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The joined entries of the instants with these sorted requested times."""
    wanted = pa.array(keys, pa.int64())

    def of_run(run: RunReader) -> Iterator[pa.RecordBatch]:
        for batch in run.parts(INSTANT, table_id, keys, _COLUMNS, in_micros):
            yield batch.filter(pc.is_in(batch.column(_REQUESTED), wanted))

    return instant_reading.join_batches([of_run(run) for run in runs if run.events.span(table_id) is not None])


# ------------------------------------------------------------------------------ events


def _instants(
    runs: Sequence[RunReader], table_id: UUID, requested_times: Sequence[Micros]
) -> tuple[dict[Micros, Instant], int]:
    """Instants as their events made them, and the bytes of the payloads of these."""
    keys = sorted(set(requested_times))
    events_of: dict[Micros, list[Event]] = defaultdict(list)
    size = 0
    for run in runs:
        if keys and run.events.span(table_id) is not None:
            for event in _events(run, table_id, keys):
                assert event.instant is not None
                events_of[event.instant].append(_decoded(run, event))
                size += len(event.payload)
    try:
        return {time: archived_instants.replayed(of) for time, of in events_of.items()}, size
    except ImpossibleEvent as exc:
        raise runs[0].damaged("event", f"the events of instants of {table_id}", str(exc)) from exc


def _decoded(run: RunReader, event: StoredEvent) -> Event:
    try:
        return stored_events.decode(event)
    except ValueError as exc:
        name = f"version {event.version} of {event.table_id}"
        raise run.damaged("event", name, str(exc)) from exc


def _events(run: RunReader, table_id: UUID, keys: Sequence[Micros]) -> Iterator[StoredEvent]:
    """The events of a run that changed instants with these sorted requested times, by version."""
    wanted, types = pa.array(keys, pa.int64()), pa.array(archived_instants.TYPES, pa.string())
    for numbers in _rows(run, table_id, keys):
        for begin, batch in run.columns("event", numbers, "instant", "type", "version", "time"):
            instants_of_events = batch.column("instant").cast(pa.int64())
            mask = pc.and_(
                pc.is_in(instants_of_events, wanted), pc.is_in(batch.column("type").cast(pa.string()), types)
            )
            found = pc.indices_nonzero(mask)
            if not len(found):
                continue
            rows = range(begin, begin + batch.num_rows)
            [payloads] = [part.column(0) for _, part in run.columns("event", rows, "payload")]
            columns = (
                instants_of_events,
                batch.column("type"),
                batch.column("version"),
                batch.column("time").cast(pa.int64()),
                payloads,
            )
            for instant, type_, version, time, payload in zip(
                *(column.take(found).to_pylist() for column in columns), strict=True
            ):
                yield StoredEvent(
                    table_id, version, Micros(time), Micros(instant), "", "", type_, payload, b"", b""
                )


def _rows(run: RunReader, table_id: UUID, keys: Sequence[Micros]) -> Iterator[range]:
    """The rows of a run from the first to the last event of each instant, joined where these meet."""
    wanted = pa.array(keys, pa.int64())
    spans: list[tuple[int, int]] = []
    for batch in run.parts(INSTANT, table_id, keys, _OF_EVENTS, in_micros):
        of_batch = batch.filter(pc.is_in(batch.column(_REQUESTED), wanted))
        spans += zip(*(of_batch.column(name).to_pylist() for name in _OF_EVENTS[1:]), strict=True)
    present = range(0)
    for first, last in sorted(spans):
        begin, end = run.events.row(table_id, first), run.events.row(table_id, last) + 1
        if present and begin <= present.stop:
            present = range(present.start, max(present.stop, end))
        else:
            if present:
                yield present
            present = range(begin, end)
    if present:
        yield present
