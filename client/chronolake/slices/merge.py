"""The merge of one file group in Arrow, which decides which record of a key wins. No storage.

With ordering fields the larger values win in any order of arrival of the records (Hudi: EVENT_TIME_ORDERING);
a null counts as the smallest. Without, and at equal values, the later commit wins (Hudi:
COMMIT_TIME_ORDERING); within one commit the row that comes later by the columns of the row order. Rows of one
key that differ and that nothing orders are ambiguous: the caller refuses them, because the winner would
depend on how Spark distributed them. A delete is compared like any record; a delete without an ordering value
always wins. A base file keeps no trace of a delete, so an older record that arrives after it is inserted
again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronolake.slices import arrow_types, columns, ordering_values, text_hashes
from chronolake.slices.lazy_compute import pc

Mask = npt.NDArray[np.bool_]


class Existing(enum.StrEnum):
    """The treatment of an incoming record whose key the table has already."""

    MERGE = "merge"
    FAIL = "fail"
    DROP = "drop"
    UNCHECKED = "unchecked"
    """It is not looked up: both records are kept. For callers who know that all keys are new."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of the merge of a file group.

    ``kept`` marks the stored records that are kept, ``written`` the incoming records that are written.
    ``duplicates`` counts the incoming records that ``Existing.FAIL`` refuses, and ``duplicate_key`` is one of
    their keys. ``unchanged`` counts records that change nothing: records older than the stored ones, deletes of
    unknown keys, and inserts that ``Existing.DROP`` drops.
    """

    kept: Mask
    written: Mask
    inserts: int
    updates: int
    deletes: int
    unchanged: int = 0
    duplicates: int = 0
    duplicate_key: str | None = None

    @property
    def changed(self) -> bool:
        """Whether the file group changes."""
        return self.inserts + self.updates + self.deletes > 0


@dataclass(frozen=True, slots=True)
class Latest:
    """One record per key, and the ambiguous rows.

    ``ambiguous`` counts pairs of rows of one key that differ although nothing orders them, and
    ``ambiguous_key`` is the key of one.
    """

    records: pa.Table
    ambiguous: int = 0
    ambiguous_key: str | None = None


def latest_per_key(incoming: pa.Table, ordering_fields: Sequence[str]) -> Latest:
    """One record per key of ``incoming``: the winner. The winners keep their order."""
    keys = _keys(incoming)
    if are_distinct(keys):
        return Latest(incoming)
    distinct = pc.unique(keys)
    if len(distinct) == len(keys):
        return Latest(incoming)
    sortable = pa.table(_sortable(incoming, pc.index_in(keys, value_set=distinct), ordering_fields))
    sort_keys = [(name, "ascending", "at_start") for name in sortable.column_names]
    order = pc.sort_indices(sortable, sort_keys=sort_keys).to_numpy()
    in_order = sortable.take(pa.array(order))
    same_key = _equal_to_next(in_order.select(["key"]))
    winners = incoming.take(pa.array(np.sort(order[np.append(~same_key, True)])))
    ambiguous = _ambiguous(incoming, order, _ties_of_winners(same_key, _equal_to_next(in_order)))
    if not len(ambiguous):
        return Latest(winners)
    return Latest(winners, len(ambiguous), keys[int(ambiguous[0])].as_py())


def decide(
    stored: pa.Table, incoming: pa.Table, *, ordering_fields: Sequence[str], existing: Existing
) -> Decision:
    """Merge ``incoming`` (one record per key) into ``stored`` (record key and ordering fields suffice)."""
    is_matched, matches = _matches(stored, incoming)
    exists = np.zeros(len(incoming), dtype=np.bool_)
    exists[matches] = True
    if existing is not Existing.MERGE:
        return _insert(stored, incoming, exists, existing)
    wins = _wins(stored, is_matched, incoming, matches, ordering_fields)
    kept = ~is_matched
    kept[is_matched] = ~wins
    loses = np.zeros(len(incoming), dtype=np.bool_)
    loses[matches] = ~wins
    is_delete = _mask(incoming[columns.DELETE])
    written = ~is_delete & ~loses
    duplicates, duplicate_key = existing_keys(incoming, exists)
    return Decision(
        kept=kept,
        written=written,
        inserts=int(np.sum(written & ~exists)),
        updates=int(np.sum(written & exists)),
        deletes=int(np.sum(is_delete & exists & ~loses)),
        unchanged=int(np.sum(loses | (is_delete & ~exists))),
        duplicates=duplicates,
        duplicate_key=duplicate_key,
    )


def existing_keys(incoming: pa.Table, exists: Mask) -> tuple[int, str | None]:
    """The number of rows that must insert a record (``columns.IS_NEW``) and whose key exists; a key of them."""
    if columns.IS_NEW not in incoming.column_names:
        return 0, None
    refused = exists & _mask(incoming[columns.IS_NEW])
    key = incoming[columns.RECORD_KEY][int(np.argmax(refused))].as_py() if refused.any() else None
    return int(np.sum(refused)), key


def unchecked(stored: int, incoming: pa.Table) -> Decision:
    """Add ``incoming`` to ``stored`` stored records, without a comparison of their keys."""
    count = len(incoming)
    kept, written = np.ones(stored, dtype=np.bool_), np.ones(count, dtype=np.bool_)
    return Decision(kept=kept, written=written, inserts=count, updates=0, deletes=0)


def copied(stored: int) -> Decision:
    """Write ``stored`` stored records elsewhere: none of them changes."""
    written = np.ones(stored, dtype=np.bool_)
    return Decision(
        kept=np.ones(0, dtype=np.bool_), written=written, inserts=0, updates=0, deletes=0, unchanged=stored
    )


def only(rows: pa.Table, chosen: Mask) -> pa.Table:
    """The chosen rows. A filter that leaves none out would copy them all."""
    return rows if chosen.all() else rows.filter(pa.array(chosen))


def deleted_rows(before: pa.Table, after: pa.Table) -> pa.Table:
    """The records of ``before`` whose key ``after`` no longer has."""
    return before.filter(pc.invert(pc.is_in(_keys(before), value_set=_keys(after))))


def are_distinct(keys: pa.LargeStringArray) -> bool:
    """Whether all keys certainly differ; they may also if it is false. None of them is null.

    Their hashes of 64 bits differ. Arrow's own hash tables take five times as long, because each key is a
    random access to memory.
    """
    hashes = text_hashes.of(keys) if len(keys) > 1 else None
    return len(keys) < 2 if hashes is None else text_hashes.are_distinct(hashes)


def _sortable(
    incoming: pa.Table, key_numbers: pa.Array, ordering_fields: Sequence[str]
) -> dict[str, pa.Array | pa.ChunkedArray]:
    """The sort columns of the rows: key, ordering value, row order."""
    sortable: dict[str, pa.Array | pa.ChunkedArray] = {"key": key_numbers}
    if ordering_fields:
        values = ordering_values.of(incoming, ordering_fields)
        sortable |= {"rank": pa.array(_always_wins(incoming, ordering_fields))}
        sortable |= {f"ordering{number}": array for number, array in enumerate(values)}
    return sortable | {
        name: incoming[name] for name in incoming.column_names if name.startswith(columns.ORDER_PREFIX)
    }


def _equal_to_next(rows: pa.Table) -> Mask:
    """For each row but the last, whether the next one has the same values."""
    return _same_rows(rows.slice(0, len(rows) - 1), rows.slice(1))


def _ties_of_winners(same_key: Mask, tied: Mask) -> npt.NDArray[np.int64]:
    """The positions, in sorted order, of rows that are tied with the next one and with their key's winner."""
    last_of_key = np.append(~same_key, True)
    group = np.append(0, np.cumsum(~tied))
    key_number = np.append(0, np.cumsum(~same_key))
    winning_group = group[last_of_key][key_number]
    positions: npt.NDArray[np.int64] = np.flatnonzero(tied & (group == winning_group)[:-1])
    return positions


def _ambiguous(
    incoming: pa.Table, order: npt.NDArray[np.int64], ties: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The rows, of those at ``ties``, that differ from the next one in sorted order."""
    left, right = (incoming.take(pa.array(order[positions])) for positions in (ties, ties + 1))
    own = [name for name in incoming.column_names if not columns.is_reserved(name)]
    same = _same_rows(left.select(own), right.select(own)) & _same_rows(*_deletes(left, right))
    both_delete = _mask(left[columns.DELETE]) & _mask(right[columns.DELETE])
    rows: npt.NDArray[np.int64] = order[ties[~same & ~both_delete]]
    return rows


def _deletes(*tables: pa.Table) -> Iterator[pa.Table]:
    return (table.select([columns.DELETE]) for table in tables)


def _same_rows(left: pa.Table, right: pa.Table) -> Mask:
    """Row by row: whether all values are the same. Null is the same as null, and NaN as NaN."""
    same = np.ones(len(left), dtype=np.bool_)
    # Python has no dates and times beyond the year 9999.
    left, right = (rows.cast(arrow_types.with_numbers_for_times(rows.schema)) for rows in (left, right))
    for left_column, right_column in zip(left.columns, right.columns, strict=True):
        if pa.types.is_nested(left_column.type):
            pairs = zip(left_column.to_pylist(), right_column.to_pylist(), strict=True)
            # Within a list or a struct, NaN equals itself only as text.
            same &= np.fromiter((a == b or repr(a) == repr(b) for a, b in pairs), np.bool_, len(left))
            continue
        equal = pc.fill_null(pc.equal(left_column, right_column), False)
        neither = pc.and_(pc.is_null(left_column, nan_is_null=True), pc.is_null(right_column, nan_is_null=True))
        is_null = pc.equal(pc.is_null(left_column), pc.is_null(right_column))
        same &= _mask(pc.or_(equal, pc.and_(neither, is_null)))
    return same


def _matches(stored: pa.Table, incoming: pa.Table) -> tuple[Mask, npt.NDArray[np.int64]]:
    """Which stored records have their key in ``incoming``, and the places of these there."""
    keys, wanted = stored[columns.RECORD_KEY], incoming[columns.RECORD_KEY]
    if not len(keys):
        return np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int64)
    if keys.type != wanted.type:
        keys, wanted = keys.cast(pa.large_string()), wanted.cast(pa.large_string())
    # A search of all keys for their places takes twice the time of one for whether they are there. A copy of
    # them in one array would cost as much as the search.
    is_there = pc.is_in(keys, value_set=wanted)
    places = pc.index_in(keys.filter(is_there), value_set=wanted)
    return _mask(is_there), places.to_numpy().astype(np.int64)


def _insert(stored: pa.Table, incoming: pa.Table, exists: Mask, existing: Existing) -> Decision:
    refused = exists if existing is Existing.FAIL else np.zeros_like(exists)
    return Decision(
        kept=np.ones(len(stored), dtype=np.bool_),
        written=~exists,
        inserts=int(np.sum(~exists)),
        updates=0,
        deletes=0,
        unchanged=int(np.sum(exists)),
        duplicates=int(np.sum(refused)),
        duplicate_key=incoming[columns.RECORD_KEY][int(np.argmax(refused))].as_py() if refused.any() else None,
    )


def _wins(
    stored: pa.Table,
    is_matched: Mask,
    incoming: pa.Table,
    matches: npt.NDArray[np.int64],
    ordering_fields: Sequence[str],
) -> Mask:
    """For each match, whether the incoming record replaces the stored one of the same key."""
    if not ordering_fields:
        return np.ones(len(matches), dtype=np.bool_)
    rivals = incoming.select([columns.DELETE, *ordering_fields]).take(pa.array(matches))
    rivalled = stored.select(list(ordering_fields)).filter(pa.array(is_matched))
    old, new = (ordering_values.of(rows, ordering_fields) for rows in (rivalled, rivals))
    wins: Mask = (ordering_values.signs(new, old) >= 0) | _always_wins(rivals, ordering_fields)
    return wins


def _always_wins(incoming: pa.Table, ordering_fields: Sequence[str]) -> Mask:
    """The deletes without ordering value."""
    return _mask(incoming[columns.DELETE]) & ordering_values.missing(incoming, ordering_fields)


def _mask(booleans: pa.Array | pa.ChunkedArray) -> Mask:
    mask: Mask = booleans.to_numpy(zero_copy_only=False)
    return mask


def _keys(table: pa.Table) -> pa.Array:
    # large_string, because the keys of a large file group may exceed the 2 GB limit of string offsets.
    return table[columns.RECORD_KEY].cast(pa.large_string()).combine_chunks()
