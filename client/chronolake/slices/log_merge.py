"""The merge of the log files of a file slice, in Arrow: which change of a key counts. No storage.

All versions of a key are compared: the larger ordering value wins (``ordering_values``). At equal values, or
without an ordering field, the later commit wins, by its requested time (``_hoodie_commit_time``), and any log
file against the base file. So do Hudi's readers, and so ties of two writes that overlap depend on a compaction
between them. The larger ordering value wins wherever it falls, except that a compaction forgets deletes. A
record without ordering value is the smallest. A delete is compared by the ordering value that its writer gave
it. One without, in a table with an ordering field, holds against the base file and the records of earlier
commits. Records with some of the columns are laid over others (``log_partials``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronolake.slices import columns, log_partials, ordering_values
from chronolake.slices.lazy_compute import pc
from chronolake.slices.log_partials import Laid, Parts
from chronolake.slices.merge import Mask
from chronolake.slices.ordering_values import Values

KEY, TIME = "key", "time"
"""The columns of deletes: key and commit time; and those of ``orderings``."""
_ORDERING: Final = "ordering"
ROW: Final = "row"
"""The column of versions with the row of the record, or -1."""
_RANK, _BARRIER = "rank", "barrier"
_NO_VERSION, _VERSION = -1, 0


@dataclass(frozen=True, slots=True)
class LogContents:
    """The records and deletes of log files, in their order.

    ``times`` has for each record the commit time by which it is compared. Of a record that a log compaction has
    written it is an earlier one than the record's own. ``parts`` says which columns the records have, None that
    all have all. ``instants`` are those of the blocks, and those whose blocks the blocks take the place of.
    """

    records: pa.Table
    deletes: pa.Table
    times: pa.ChunkedArray
    parts: Parts | None = None
    instants: frozenset[str] = frozenset()

    def only(self, keys: pa.Array) -> LogContents:
        """The contents with one of these record keys (texts)."""
        is_wanted = pc.is_in(self.records[columns.RECORD_KEY], value_set=keys)
        is_deleted = pc.is_in(self.deletes[KEY], value_set=keys.cast(self.deletes[KEY].type))
        parts = None if self.parts is None else self.parts.filter(_mask(is_wanted))
        records, times = self.records.filter(is_wanted), self.times.filter(is_wanted)
        return LogContents(records, self.deletes.filter(is_deleted), times, parts, self.instants)


@dataclass(frozen=True, slots=True)
class LatestChanges:
    """The latest change of each key in the log files of a slice.

    ``versions`` has one row per key: the rank and the values by which it is compared, the row of ``records``
    that has the record, or -1 for a delete, and the commit time of the latest delete without ordering value.
    ``lacking`` has columns, and for each the ``records`` that take its value from the base file.
    """

    records: pa.Table
    versions: pa.Table
    ordering_fields: Sequence[str]
    lacking: Mapping[str, Mask] = field(default_factory=dict)

    @property
    def deletes(self) -> pa.Table:
        """The keys whose latest change is a delete with an ordering value, with this value."""
        is_delete = pc.and_(pc.less(self.versions[ROW], 0), pc.greater(self.versions[_RANK], _NO_VERSION))
        deletes = self.versions.filter(is_delete)
        types = types_of(self.records.schema, self.ordering_fields)
        values = {name: ordering_values.restored(deletes[name], type_) for name, type_ in types.items()}
        return pa.table({KEY: deletes[KEY], **values})

    @property
    def bare_deletes(self) -> pa.ChunkedArray:
        """The keys that only deletes without ordering value change, in a table with an ordering field."""
        return self.versions.filter(pc.equal(self.versions[_RANK], _NO_VERSION))[KEY]

    @property
    def has_versions_after_bare_deletes(self) -> bool:
        """Whether a key has a delete without ordering value, which hides the base file, and a later change."""
        is_later = pc.and_(pc.is_valid(self.versions[_BARRIER]), pc.greater(self.versions[_RANK], _NO_VERSION))
        return bool(pc.any(is_later).as_py())

    @property
    def deleted_keys(self) -> pa.Table:
        """The keys whose latest change is a delete, and its commit time."""
        gone = self.versions.filter(pc.less(self.versions[ROW], 0))
        return pa.table({KEY: gone[KEY], TIME: pc.coalesce(gone[TIME], gone[_BARRIER])})


def orderings(count: int) -> list[str]:
    """The columns with the values of ``count`` ordering fields."""
    return [f"{_ORDERING}{number}" for number in range(count)]


def types_of(layout: pa.Schema, ordering_fields: Sequence[str]) -> dict[str, pa.DataType]:
    """The types of ordering fields, by the columns of ``orderings``."""
    types = [layout.field(name).type for name in ordering_fields]
    return dict(zip(orderings(len(types)), types, strict=True))


def latest_changes(contents: LogContents, ordering_fields: Sequence[str]) -> LatestChanges:
    """The latest change of each key. The records have at least key, commit time and ordering fields."""
    records = contents.records
    versions = pa.concat_tables(
        [
            _versions_of_records(records, contents.times, ordering_fields),
            _versions_of_deletes(contents.deletes, types_of(records.schema, ordering_fields)),
        ]
    )
    barriers = None
    if ordering_fields:
        versions, barriers = _without_barriers(versions)
    if contents.parts is None:
        return LatestChanges(records, _with_barriers(_last_per_key(versions), barriers), ordering_fields)
    versions, laid = _laid_per_key(versions, records, contents.parts)
    return LatestChanges(laid.records, _with_barriers(versions, barriers), ordering_fields, laid.lacking)


def filled(base: pa.Table, changes: LatestChanges, kept: Mask) -> tuple[pa.Table, Mask]:
    """The records of changes that have some of the columns, with the others from the rows of the base file that
    they win against; and which keys of ``changes`` they are.

    ``base`` has the columns to fill, and the record key.
    """
    is_filled = np.zeros(len(changes.versions), dtype=np.bool_)
    if not changes.lacking:
        # A slice would keep the rows of the base file in memory.
        return base.schema.empty_table(), is_filled
    match = _matched(base, changes)
    is_lacking = np.logical_or.reduce(list(changes.lacking.values()))
    rows_of_keys: npt.NDArray[np.int64] = changes.versions[ROW].to_numpy()
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
    old = base.select(changes.ordering_fields).filter(pa.array(is_matched))
    wins = _wins(old, changes.versions.drop_columns([KEY, TIME]).take(positions))
    kept = ~is_matched
    kept[is_matched] = wins
    stays[positions.to_numpy()[wins]] = True
    return kept, stays


def records_left(changes: LatestChanges, stays: Mask) -> pa.Table:
    """The records of the log files that count, except where ``stays`` says that the base file has the key."""
    rows: npt.NDArray[np.int64] = changes.versions[ROW].to_numpy()
    return changes.records.take(pa.array(rows[(rows >= 0) & ~stays]))


def _matched(base: pa.Table, changes: LatestChanges) -> pa.ChunkedArray:
    """For each row of the base file the position of its key in the changes, or null."""
    keys = base[columns.RECORD_KEY].cast(pa.large_string())
    return pc.index_in(keys, value_set=changes.versions[KEY].combine_chunks())


def _wins(base: pa.Table, changes: pa.Table) -> Mask:
    """Row by row: whether the record of the base file wins against the change of its key.

    ``base`` has the ordering fields.
    """
    if not base.columns:
        return np.zeros(len(changes), dtype=np.bool_)
    old = ordering_values.in_java(base, base.column_names)
    new = [changes[name] for name in orderings(len(old))]
    wins: Mask = (ordering_values.signs(old, new) > 0) & _mask(pc.is_null(changes[_BARRIER]))
    return wins


def _versions_of_records(records: pa.Table, times: pa.ChunkedArray, ordering_fields: Sequence[str]) -> pa.Table:
    arrays = {
        KEY: records[columns.RECORD_KEY].cast(pa.large_string()),
        TIME: times,
        ROW: pa.array(np.arange(len(records))),
    }
    return _versions(arrays, ordering_values.in_java(records, ordering_fields))


def _versions_of_deletes(deletes: pa.Table, ordering_types: Mapping[str, pa.DataType]) -> pa.Table:
    """Rank and row of a delete without ordering value, in a table with an ordering field, are -1."""
    arrays = {
        KEY: deletes[KEY].cast(pa.large_string()),
        TIME: deletes[TIME].cast(pa.string()),
        ROW: pa.array(np.full(len(deletes), -1, np.int64)),
    }
    if not ordering_types:
        return _versions(arrays, ())
    stated = {name: deletes[name].cast(type_) for name, type_ in ordering_types.items()}
    is_barrier = ordering_values.missing(stated, list(stated))
    return _versions(arrays, ordering_values.in_java(stated, list(stated)), is_barrier)


def _versions(
    arrays: Mapping[str, pa.ChunkedArray], values: Values, is_barrier: Mask | None = None
) -> pa.Table:
    """Versions of keys with their ordering values."""
    ranks = np.full(len(arrays[KEY]), _VERSION, np.int8)
    if is_barrier is not None:
        ranks[is_barrier] = _NO_VERSION
    named = dict(zip(orderings(len(values)), values, strict=True))
    return pa.table({**arrays, _RANK: pa.array(ranks), **named})


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
        ROW: pa.array(np.full(count, -1, np.int64)),
        _RANK: pa.array(np.full(count, _NO_VERSION, np.int8)),
        _BARRIER: gone[_BARRIER],
        **{name: pa.nulls(count, versions.schema.field(name).type) for name in _orderings_of(versions)},
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
        **{name: versions[name] for name in (*_orderings_of(versions), TIME)},
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
    values = [ordered[name] for name in _orderings_of(ordered)]
    levels = ordering_values.levels(values) if values else np.zeros(len(ordered), np.int64)
    laid = log_partials.lay(
        keys.take(order).to_numpy().astype(np.int64), levels, ordered[ROW].to_numpy(), records, parts
    )
    winners = ordered.take(pa.array(laid.winners))
    at = winners.column_names.index(ROW)
    return winners.set_column(at, ROW, pa.array(laid.rows)), laid


def _orderings_of(versions: pa.Table) -> list[str]:
    return [name for name in versions.column_names if name.startswith(_ORDERING)]


def _mask(booleans: pa.Array | pa.ChunkedArray) -> Mask:
    mask: Mask = booleans.to_numpy(zero_copy_only=False)
    return mask
