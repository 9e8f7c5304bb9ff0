"""The merge of the log files of a file slice, in Arrow: which change of a key counts. No storage.

All versions of a key are compared: the larger ordering value wins. At equal values, or without an ordering
field, the later commit wins, by its requested time (``_hoodie_commit_time``), and any log file against the base
file. So do Hudi's readers, and so ties of two writes that overlap depend on a compaction between them. The
larger ordering value wins wherever it falls, except that a compaction forgets deletes. A record without
ordering value is the smallest. A delete is compared by the ordering value that its writer gave it. One without,
in a table with an ordering field, holds against the base file and the records of earlier commits. Records with
some of the columns are laid over others (``log_partials``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronolake_spark.common import columns
from chronolake_spark.read.slices import log_partials
from chronolake_spark.read.slices.log_partials import Laid, Parts
from chronolake_spark.read.slices.merge import Mask

KEY, ORDERING, TIME = "key", "ordering", "time"
"""The columns of deletes: key, ordering value if the table has an ordering field, and commit time."""
_RANK, _ROW, _BARRIER = "rank", "row", "barrier"
_NO_VERSION, _WITHOUT_VALUE, _WITH_VALUE = -1, 0, 1

_INTEGERS: Final[dict[pa.DataType, np.dtype[Any]]] = {
    pa.float32(): np.dtype(np.int32),
    pa.float64(): np.dtype(np.int64),
}


@dataclass(frozen=True, slots=True)
class LogContents:
    """The records and deletes of log files, in their order.

    ``times`` has for each record the commit time by which it is compared. Of a record that a log compaction has
    written it is an earlier one than the record's own. ``parts`` says which columns the records have, None that
    all have all.
    """

    records: pa.Table
    deletes: pa.Table
    times: pa.ChunkedArray
    parts: Parts | None = None

    def only(self, keys: pa.Array) -> LogContents:
        """The contents with one of these record keys (texts)."""
        is_wanted = pc.is_in(self.records[columns.RECORD_KEY], value_set=keys)
        is_deleted = pc.is_in(self.deletes[KEY], value_set=keys.cast(self.deletes[KEY].type))
        parts = None if self.parts is None else self.parts.filter(_mask(is_wanted))
        return LogContents(
            self.records.filter(is_wanted), self.deletes.filter(is_deleted), self.times.filter(is_wanted), parts
        )


@dataclass(frozen=True, slots=True)
class LatestChanges:
    """The latest change of each key in the log files of a slice.

    ``versions`` has one row per key: the rank and the values by which it is compared, the row of ``records``
    that has the record, or -1 for a delete, and the commit time of the latest delete without ordering value.
    ``lacking`` has columns, and for each the ``records`` that take its value from the base file.
    """

    records: pa.Table
    versions: pa.Table
    ordering_field: str | None
    lacking: Mapping[str, Mask] = field(default_factory=dict)

    @property
    def deletes(self) -> pa.Table:
        """The keys whose latest change is a delete with an ordering value, with this value."""
        is_delete = pc.and_(pc.less(self.versions[_ROW], 0), pc.greater(self.versions[_RANK], _NO_VERSION))
        deletes = self.versions.filter(is_delete)
        if self.ordering_field is None:
            return deletes.select([KEY])
        type_ = self.records.schema.field(self.ordering_field).type
        return pa.table({KEY: deletes[KEY], ORDERING: restored(deletes[ORDERING], type_)})

    @property
    def deleted_keys(self) -> pa.Table:
        """The keys whose latest change is a delete, and its commit time."""
        gone = self.versions.filter(pc.less(self.versions[_ROW], 0))
        return pa.table({KEY: gone[KEY], TIME: pc.coalesce(gone[TIME], gone[_BARRIER])})


def latest_changes(contents: LogContents, ordering_field: str | None) -> LatestChanges:
    """The latest change of each key. The records have at least key, commit time and ordering field."""
    records = contents.records
    ordering_type = None if ordering_field is None else records.schema.field(ordering_field).type
    versions = pa.concat_tables(
        [
            _versions_of_records(records, contents.times, ordering_field),
            _versions_of_deletes(contents.deletes, ordering_type),
        ]
    )
    barriers = None
    if ordering_field is not None:
        versions, barriers = _without_barriers(versions)
    if contents.parts is None:
        return LatestChanges(records, _with_barriers(_last_per_key(versions), barriers), ordering_field)
    versions, laid = _laid_per_key(versions, records, contents.parts)
    return LatestChanges(laid.records, _with_barriers(versions, barriers), ordering_field, laid.lacking)


def filled(base: pa.Table, changes: LatestChanges, kept: Mask) -> tuple[pa.Table, Mask]:
    """The records of changes that have some of the columns, with the others from the rows of the base file that
    they win against; and which keys of ``changes`` they are.

    ``base`` has the columns to fill, and the record key.
    """
    is_filled = np.zeros(len(changes.versions), dtype=np.bool_)
    if not changes.lacking:
        return base.slice(0, 0), is_filled
    match = _matched(base, changes)
    is_lacking = np.logical_or.reduce(list(changes.lacking.values()))
    rows_of_keys: npt.NDArray[np.int64] = changes.versions[_ROW].to_numpy()
    positions = pc.fill_null(match, 0).to_numpy()
    # A key with a delete without ordering value has no record beneath its changes.
    has_barrier = _mask(pc.is_valid(changes.versions[_BARRIER]))[positions]
    rows = rows_of_keys[positions]
    is_wanted = ~kept & _mask(pc.is_valid(match)) & (rows >= 0) & ~has_barrier
    is_wanted[is_wanted] = is_lacking[rows[is_wanted]]
    is_filled[positions[is_wanted]] = True
    rows = rows[is_wanted]
    lacking = {name: mask[rows] for name, mask in changes.lacking.items()}
    below = base.filter(pa.array(is_wanted))
    return log_partials.filled(below, changes.records.take(pa.array(rows)), lacking), is_filled


def surviving(base: pa.Table, changes: LatestChanges) -> tuple[Mask, Mask]:
    """Which rows of the base file count, and which keys of ``changes`` have such a row."""
    match = _matched(base, changes)
    is_matched = _mask(pc.is_valid(match))
    stays = np.zeros(len(changes.versions), dtype=np.bool_)
    if not is_matched.any():
        return ~is_matched, stays
    positions = pc.drop_null(match)
    compared = [] if changes.ordering_field is None else [changes.ordering_field]
    old = base.select(compared).filter(pa.array(is_matched))
    wins = _wins(old, changes.versions.drop_columns([KEY, TIME]).take(positions), changes.ordering_field)
    kept = ~is_matched
    kept[is_matched] = wins
    stays[positions.to_numpy()[wins]] = True
    return kept, stays


def records_left(changes: LatestChanges, stays: Mask) -> pa.Table:
    """The records of the log files that count, except where ``stays`` says that the base file has the key."""
    rows: npt.NDArray[np.int64] = changes.versions[_ROW].to_numpy()
    return changes.records.take(pa.array(rows[(rows >= 0) & ~stays]))


def comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values in Java's order: integers for floating-point values, others as they are. Null stays null.

    In Java, and so for Hudi's readers, NaN is the largest value, and -0.0 is less than 0.0. Writes refuse both,
    but the logs of an adopted table may have them. Arrow compares NaN with nothing.
    """
    integers = _INTEGERS.get(values.type)
    if integers is None:
        return values
    numbers: npt.NDArray[np.floating] = values.fill_null(0.0).to_numpy()
    # Java takes each NaN for one value.
    bits = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers).view(integers)
    return _masked(_flipped(bits), values)


def restored(values: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """The values of ``type_`` from which ``comparable`` made these."""
    integers = _INTEGERS.get(type_)
    if integers is None:
        return values
    bits: npt.NDArray[np.signedinteger] = values.fill_null(0).to_numpy().astype(integers)
    return _masked(_flipped(bits).view(type_.to_pandas_dtype()), values)


def _matched(base: pa.Table, changes: LatestChanges) -> pa.ChunkedArray:
    """For each row of the base file the position of its key in the changes, or null."""
    keys = base[columns.RECORD_KEY].cast(pa.large_string())
    return pc.index_in(keys, value_set=changes.versions[KEY].combine_chunks())


def _wins(base: pa.Table, changes: pa.Table, ordering_field: str | None) -> Mask:
    """Row by row: whether the record of the base file wins against the change of its key."""
    if ordering_field is None:
        return np.zeros(len(changes), dtype=np.bool_)
    ordering = comparable(base[ordering_field])
    ranks: npt.NDArray[np.int8] = changes[_RANK].to_numpy()
    is_greater = _mask(pc.fill_null(pc.greater(ordering, changes[ORDERING]), False))
    # Without a barrier, the rank of a change is never less than that of null.
    wins: Mask = ((_ranks(ordering) > ranks) | is_greater) & _mask(pc.is_null(changes[_BARRIER]))
    return wins


def _versions_of_records(records: pa.Table, times: pa.ChunkedArray, ordering_field: str | None) -> pa.Table:
    arrays = {
        KEY: records[columns.RECORD_KEY].cast(pa.large_string()),
        TIME: times,
        _ROW: pa.array(np.arange(len(records))),
        _RANK: pa.array(np.full(len(records), _WITH_VALUE, np.int8)),
    }
    if ordering_field is not None:
        arrays[ORDERING] = comparable(records[ordering_field])
        arrays[_RANK] = pa.array(_ranks(arrays[ORDERING]))
    return pa.table(arrays)


def _versions_of_deletes(deletes: pa.Table, ordering_type: pa.DataType | None) -> pa.Table:
    """Rank and row of a delete without ordering value, in a table with an ordering field, are -1."""
    arrays = {
        KEY: deletes[KEY].cast(pa.large_string()),
        TIME: deletes[TIME].cast(pa.string()),
        _ROW: pa.array(np.full(len(deletes), -1, np.int64)),
        _RANK: pa.array(np.full(len(deletes), _WITH_VALUE, np.int8)),
    }
    if ordering_type is not None:
        arrays[ORDERING] = comparable(deletes[ORDERING].cast(ordering_type))
        has_value = _mask(pc.is_valid(arrays[ORDERING]))
        arrays[_RANK] = pa.array(np.where(has_value, _WITH_VALUE, _NO_VERSION).astype(np.int8))
    return pa.table(arrays)


def _without_barriers(versions: pa.Table) -> tuple[pa.Table, pa.Table | None]:
    """The versions that no delete without ordering value deletes, and the latest such delete of each key."""
    is_barrier = pc.equal(versions[_RANK], _NO_VERSION)
    barriers = versions.filter(is_barrier).group_by(KEY).aggregate([(TIME, "max")])
    barriers = barriers.select([KEY, f"{TIME}_max"]).rename_columns([KEY, _BARRIER])
    if not len(barriers):
        return versions, None
    others = versions.filter(pc.invert(is_barrier))
    times = _looked_up(others[KEY], barriers)
    is_alive = pc.fill_null(pc.greater(others[TIME], times), True)
    return others.filter(is_alive), barriers


def _with_barriers(versions: pa.Table, barriers: pa.Table | None) -> pa.Table:
    if barriers is None:
        return versions.append_column(_BARRIER, pa.nulls(len(versions), pa.string()))
    known = versions.append_column(_BARRIER, _looked_up(versions[KEY], barriers))
    gone = barriers.filter(pc.invert(pc.is_in(barriers[KEY], value_set=versions[KEY].combine_chunks())))
    count = len(gone)
    arrays = {
        KEY: gone[KEY],
        TIME: pa.nulls(count, pa.string()),
        _ROW: pa.array(np.full(count, -1, np.int64)),
        _RANK: pa.array(np.full(count, _NO_VERSION, np.int8)),
        ORDERING: pa.nulls(count, versions.schema.field(ORDERING).type),
        _BARRIER: gone[_BARRIER],
    }
    return pa.concat_tables([known, pa.table({name: arrays[name] for name in known.column_names})])


def _looked_up(keys: pa.ChunkedArray, barriers: pa.Table) -> pa.ChunkedArray:
    match = pc.index_in(keys, value_set=barriers[KEY].combine_chunks())
    return barriers[_BARRIER].take(match)


def _last_per_key(versions: pa.Table) -> pa.Table:
    """The version of each key that wins; of equal ones the last."""
    keys = versions[KEY].combine_chunks()
    distinct = pc.unique(keys)
    if len(distinct) == len(keys):
        return versions
    sortable = {
        KEY: pc.index_in(keys, value_set=distinct),
        **{name: versions[name] for name in (_RANK, ORDERING, TIME) if name in versions.column_names},
        "number": pa.array(np.arange(len(versions))),
    }
    order = pc.sort_indices(
        pa.table(sortable), sort_keys=[(name, "ascending", "at_start") for name in sortable]
    ).to_numpy()
    numbers = sortable[KEY].to_numpy(zero_copy_only=False)[order]
    is_last = np.append(numbers[1:] != numbers[:-1], True)
    return versions.take(pa.array(np.sort(order[is_last])))


def _laid_per_key(versions: pa.Table, records: pa.Table, parts: Parts) -> tuple[pa.Table, Laid]:
    """The version of each key that is on top, with the row of its record in the table of laid records."""
    keys = pc.index_in(versions[KEY], value_set=pc.unique(versions[KEY]))
    by_commit = {KEY: keys, TIME: versions[TIME], "number": pa.array(np.arange(len(versions)))}
    order = pc.sort_indices(pa.table(by_commit), sort_keys=[(name, "ascending") for name in by_commit])
    ordered = versions.take(order)
    laid = log_partials.lay(
        keys.take(order).to_numpy().astype(np.int64), _levels(ordered), ordered[_ROW].to_numpy(), records, parts
    )
    winners = ordered.take(pa.array(laid.winners))
    at = winners.column_names.index(_ROW)
    return winners.set_column(at, _ROW, pa.array(laid.rows)), laid


def _levels(versions: pa.Table) -> npt.NDArray[np.int64]:
    """Numbers in the order of the ordering values; all the same without an ordering field."""
    if ORDERING not in versions.column_names:
        return np.zeros(len(versions), np.int64)
    values = versions[ORDERING].combine_chunks()
    levels = pc.rank(values, "ascending", tiebreaker="dense").to_numpy()
    return np.where(_mask(pc.is_valid(values)), levels.astype(np.int64), 0)


def _ranks(ordering: pa.ChunkedArray) -> npt.NDArray[np.int8]:
    return np.where(_mask(pc.is_valid(ordering)), _WITH_VALUE, _WITHOUT_VALUE).astype(np.int8)


def _mask(booleans: pa.Array | pa.ChunkedArray) -> Mask:
    mask: Mask = booleans.to_numpy(zero_copy_only=False)
    return mask


def _flipped(bits: npt.NDArray[np.signedinteger]) -> npt.NDArray[np.signedinteger]:
    """Integers that ascend as the numbers do: bits of negative numbers turned around, but for the sign."""
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _masked(numbers: npt.NDArray[np.number], values: pa.ChunkedArray) -> pa.ChunkedArray:
    is_null = values.is_null().to_numpy()
    return pa.chunked_array([pa.array(numbers, mask=is_null)])
