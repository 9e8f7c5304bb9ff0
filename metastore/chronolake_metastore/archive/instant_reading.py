"""Instants of an archive, from the indexes of its runs, without reading events.

The entries of an instant may lie in several runs. They are joined as ``domain.archived_instants.join`` joins
changes, by columns: a row group of which no other run has an instant is passed on as it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from chronolake_metastore.archive.rows import INSTANT
from chronolake_metastore.archive.run_reading import RunReader
from chronolake_metastore.domain.actions import RULES
from chronolake_model.times import Micros
from chronolake_model.vocabulary import State

_REQUESTED: Final = "requested_time"
_TIMES: Final = (_REQUESTED, "begun_as", "operation", "state", "completed_at")
_COMPLETION: Final = "completion_time"
_VERSION: Final = "version"
_CODES: Final = [None, *State]
_COMPLETED: Final = _CODES.index(State.COMPLETED)
_CODE_BITS: Final = 3
_CODE_MASK: Final = (1 << _CODE_BITS) - 1
_NOTHING: Final = memoryview(b"").cast("q")
ALL: Final = range((1 << 63) - 1)
"""All requested times."""
_ACTIONS: Final = list(RULES)
_COMPLETED_AS: Final = [RULES[action].completed_as for action in _ACTIONS]
SCHEMA: Final = pa.schema(
    [
        pa.field(_REQUESTED, pa.int64(), nullable=False),
        pa.field(_COMPLETION, pa.int64()),
        pa.field("action", pa.dictionary(pa.int32(), pa.string())),
        pa.field("operation", pa.dictionary(pa.int32(), pa.string())),
        pa.field("state", pa.dictionary(pa.int32(), pa.string())),
    ]
)
"""The columns of a timeline; times in microseconds since 1970."""
SCHEMA_WITH_PAYLOADS: Final = SCHEMA.append(pa.field("payload", pa.string()))


class TimesGroup(msgspec.Struct, frozen=True):
    """Entries of one table in a row group, 16 bytes each: requested times, and states with completion times.

    The latter are the time when the instant completed, if it did in this run, shifted by ``_CODE_BITS``, and
    the number of the state in ``_CODES``.
    """

    requested: memoryview
    ended: memoryview

    @property
    def nbytes(self) -> int:
        """The bytes in memory."""
        return self.requested.nbytes + self.ended.nbytes


def completion_times(
    runs: Iterable[RunReader], table_id: UUID, requested_times: Sequence[Micros]
) -> list[Micros | None]:
    """The completion time of each instant, in the order asked; None for those that are not completed.

    Raises ``ArchiveDamaged``.
    """
    keys = sorted(set(requested_times))
    ended: dict[int, int] = {}
    for run in runs:
        if keys and run.events.span(table_id) is not None:
            for group in run.parts(INSTANT, table_id, keys, (_REQUESTED, "state", "completed_at"), _packed):
                _find(group, keys, ended)
    found = (ended.get(requested_time, 0) for requested_time in requested_times)
    return [Micros(time >> _CODE_BITS) if time & _CODE_MASK == _COMPLETED else None for time in found]


def timeline(runs: Iterable[RunReader], table_id: UUID, requested: range, limit: int) -> pa.Table:
    """The first ``limit`` instants of a range of requested times, in its order: the columns of ``SCHEMA``.

    Raises ``ArchiveDamaged``.
    """
    batches: list[pa.RecordBatch] = []
    for batch in joined(runs, table_id, requested, _TIMES):
        shown = _shown(batch.slice(0, limit))
        batches.append(shown)
        limit -= shown.num_rows
        if not limit:
            break
    return pa.Table.from_batches(batches, SCHEMA)


def with_payloads(
    runs: Iterable[RunReader], table_id: UUID, requested: range, limit: int, bytes_max: int
) -> pa.Table:
    """As ``timeline``, with the payload of the last event of each instant, which brought it into its state.

    Fewer than ``limit``, but at least one, if they would need row groups of more than ``bytes_max`` together.
    """
    all_runs = list(runs)
    batch = next(joined(all_runs, table_id, requested, (*_TIMES, _VERSION)), None)
    if batch is None:
        return pa.Table.from_batches([], SCHEMA_WITH_PAYLOADS)
    batch = batch.slice(0, limit)
    while batch.num_rows > 1 and _bytes_of_events(all_runs, table_id, batch.column(_VERSION)) > bytes_max:
        batch = batch.slice(0, batch.num_rows // 2)
    payloads = _payloads(all_runs, table_id, batch.column(_VERSION))
    return pa.Table.from_arrays([*_shown(batch).columns, payloads], schema=SCHEMA_WITH_PAYLOADS)


def _bytes_of_events(runs: Sequence[RunReader], table_id: UUID, versions: pa.Array) -> int:
    least, greatest = pc.min_max(versions).values()
    between = range(least.as_py(), greatest.as_py() + 1)
    return sum(
        run.bytes_between("event", rows.start, rows.stop)
        for run in runs
        if (rows := _event_rows(run, table_id, between))
    )


def _payloads(runs: Sequence[RunReader], table_id: UUID, versions: pa.Array) -> pa.Array:
    """The payloads of the events with these versions.

    Nearly all events of their range are read. Few are left out, because instants that follow each other in time
    do so in versions, except those that were undone later: each of these is a page of its own.
    """
    least, greatest = (limit.as_py() for limit in pc.min_max(versions).values())
    parts = [
        part
        for run in runs
        if (rows := _event_rows(run, table_id, range(least, greatest + 1)))
        for _, batch in run.columns("event", rows, "payload")
        for part in batch.columns
    ]
    found = sum(map(len, parts))
    if found != greatest - least + 1:
        raise runs[0].damaged("event", f"the events {least} to {greatest} of {table_id}", f"{found} of them")
    return pa.concat_arrays(parts).take(pc.subtract(versions, pa.scalar(least, pa.int64())))


def _event_rows(run: RunReader, table_id: UUID, versions: range) -> range:
    """The numbers of the rows of those events that a run has."""
    span = run.events.span(table_id)
    if span is None or versions.start > span.last or versions.stop <= span.first:
        return range(0)
    first, last = max(versions.start, span.first), min(versions.stop - 1, span.last)
    return range(run.events.row(table_id, first), run.events.row(table_id, last) + 1)


def _packed(batch: pa.RecordBatch) -> tuple[TimesGroup, int]:
    codes = pc.fill_null(pc.index_in(batch.column("state"), pa.array(_CODES[1:], pa.string())), -1)
    times = pc.fill_null(batch.column("completed_at").cast(pa.int64()), 0)
    shifted = pc.shift_left(times, pa.scalar(_CODE_BITS, pa.int64()))
    ended = pc.bit_wise_or(shifted, pc.add(codes.cast(pa.int64()), 1))
    group = TimesGroup(numbers_of(batch.column(_REQUESTED).cast(pa.int64())), numbers_of(ended))
    return group, group.nbytes


def numbers_of(array: pa.Array) -> memoryview:
    """The values of an array of 64-bit integers without nulls."""
    buffer = array.buffers()[1]
    return memoryview(buffer).cast("q")[array.offset : array.offset + len(array)] if buffer else _NOTHING


def _find(group: TimesGroup, keys: Sequence[Micros], ended: dict[int, int]) -> None:
    """Join the entries of the named instants to those of the runs before."""
    requested = group.requested
    if not requested:
        return
    low, high = bisect_left(keys, requested[0]), bisect_right(keys, requested[-1])
    place = 0
    for key in keys[low:high]:
        place = bisect_left(requested, key, place)
        if requested[place] == key:
            before, later = ended.get(key, 0), group.ended[place]
            state = later & _CODE_MASK or before & _CODE_MASK
            ended[key] = ((later >> _CODE_BITS or before >> _CODE_BITS) << _CODE_BITS) | state


class _Source:
    """Entries of one table in one run, as parts of row groups in order."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.batch: pa.RecordBatch | None = None
        self.requested = _NOTHING
        self.skip(0)

    def skip(self, rows: int) -> None:
        """Go on after some rows of the present row group."""
        if self.batch is not None:
            self.batch, self.requested = self.batch.slice(rows), self.requested[rows:]
        while not self.requested:
            self.batch = next(self._batches, None)
            if self.batch is None:
                return
            self.requested = numbers_of(self.batch.column(_REQUESTED))


def joined(
    runs: Iterable[RunReader], table_id: UUID, requested: range, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The joined entries of a range of requested times, in their order."""
    return join_batches(
        [
            _within(run.parts(INSTANT, table_id, requested, columns, in_micros), requested)
            for run in runs
            if run.events.span(table_id) is not None
        ]
    )


def _within(batches: Iterator[pa.RecordBatch], requested: range) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        times = numbers_of(batch.column(_REQUESTED))
        begin = bisect_left(times, requested.start)
        yield batch.slice(begin, bisect_left(times, requested.stop) - begin)


def join_batches(batches: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """The joined entries of runs, in the order of the requested times; the runs in their order."""
    sources = [source for source in map(_Source, batches) if source.requested]
    while sources:
        first = min(source.requested[0] for source in sources)
        here = [source for source in sources if source.requested[0] == first]
        if len(here) == 1:
            [source] = here
            others = [other.requested[0] for other in sources if other is not source]
            rows = bisect_left(source.requested, min(others)) if others else len(source.requested)
            assert source.batch is not None
            yield source.batch.slice(0, rows)
            source.skip(rows)
        else:
            yield _join_rows([source.batch.slice(0, 1) for source in here if source.batch is not None])
            for source in here:
                source.skip(1)
        sources = [source for source in sources if source.requested]


def _join_rows(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One row of several; see ``domain.archived_instants.join``."""
    joined: dict[str, Any] = {}
    for batch in batches:
        for name, value in batch.to_pylist()[0].items():
            if joined.get(name) is None or (value is not None and name != "first_version"):
                joined[name] = value
    return pa.RecordBatch.from_pylist([joined], batches[0].schema)


def in_micros(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
    """The entries with times as numbers."""
    arrays = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns
    ]
    converted = pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
    return converted, converted.nbytes


def _shown(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Entries as instants: with the present action, and the completion time of those that are completed."""
    state, completed_at, begun_as = (batch.column(name) for name in ("state", "completed_at", "begun_as"))
    is_completed = pc.equal(state.cast(pa.string()), State.COMPLETED.value)
    completion = pc.if_else(is_completed, completed_at, pa.scalar(None, pa.int64()))
    return pa.RecordBatch.from_arrays(
        [batch.column(_REQUESTED), completion, present_action(begun_as, completed_at)]
        + [batch.column(name) for name in ("operation", "state")],
        schema=SCHEMA,
    )


def present_action(begun_as: pa.DictionaryArray, completed_at: pa.Array) -> pa.DictionaryArray:
    """The actions, which may have other names since the completion."""
    names = pa.array([*_ACTIONS, *_COMPLETED_AS], pa.string())
    codes = pc.index_in(begun_as.dictionary_decode(), pa.array(_ACTIONS, pa.string()))
    shown = pc.if_else(pc.is_valid(completed_at), pc.add(codes, len(_ACTIONS)), codes)
    return pa.DictionaryArray.from_arrays(shown.cast(pa.int32()), names)
