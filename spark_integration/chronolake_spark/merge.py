"""Which record of a key wins: the merge of one file group, in Arrow, without Spark and without storage.

With an ordering field the larger value wins whatever order the records arrive in (Hudi: EVENT_TIME_ORDERING),
and of equal ones the later arrival; a null counts as the smallest. Without one the later arrival wins (Hudi:
COMMIT_TIME_ORDERING). A delete takes part like any record; one without an ordering value always wins.
A delete leaves nothing behind in a base file, so that an older record that comes after it is an insert.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronolake_spark import columns

Mask = npt.NDArray[np.bool_]


class Existing(enum.StrEnum):
    """What becomes of an incoming record whose key the table has already."""

    MERGE = "merge"
    FAIL = "fail"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a file group.

    ``kept`` says which stored records stay, ``written`` which incoming records are put beside them.
    ``duplicates`` counts the incoming records that ``Existing.FAIL`` refuses, and ``duplicate_key`` is one.
    """

    kept: Mask
    written: Mask
    inserts: int
    updates: int
    deletes: int
    duplicates: int = 0
    duplicate_key: str | None = None

    @property
    def changed(self) -> bool:
        """Whether the file group comes out other than it went in."""
        return self.inserts + self.updates + self.deletes > 0


def latest_per_key(incoming: pa.Table, ordering_field: str | None) -> pa.Table:
    """One record per key of ``incoming``: the winner. The winners keep their order."""
    keys = _keys(incoming)
    distinct = pc.unique(keys)
    if len(distinct) == len(keys):
        return incoming
    sortable = {"key": pc.index_in(keys, value_set=distinct)}
    if ordering_field is not None:
        ordering = _ordering(incoming, ordering_field)
        sortable |= {"rank": pa.array(_rank(incoming, ordering)), "ordering": ordering}
    sortable["position"] = incoming[columns.POSITION]
    order = pc.sort_indices(
        pa.table(sortable),
        sort_keys=[(name, "ascending", "at_start") for name in sortable],
    ).to_numpy()
    sorted_keys = sortable["key"].to_numpy()[order]
    is_last = np.append(sorted_keys[1:] != sorted_keys[:-1], True)
    return incoming.take(pa.array(np.sort(order[is_last])))


def decide(stored: pa.Table, incoming: pa.Table, *, ordering_field: str | None, existing: Existing) -> Decision:
    """Merge ``incoming`` (one record per key) into ``stored`` (record key and ordering field suffice)."""
    match = pc.index_in(_keys(stored), value_set=_keys(incoming))
    is_matched = _mask(pc.is_valid(match))
    matches: npt.NDArray[np.int64] = match.drop_null().to_numpy().astype(np.int64)
    exists = np.zeros(len(incoming), dtype=np.bool_)
    exists[matches] = True
    if existing is not Existing.MERGE:
        return _insert(stored, incoming, exists, existing)
    wins = _wins(stored.filter(pa.array(is_matched)), incoming.take(pa.array(matches)), ordering_field)
    kept = ~is_matched
    kept[is_matched] = ~wins
    loses = np.zeros(len(incoming), dtype=np.bool_)
    loses[matches] = ~wins
    is_delete = _mask(incoming[columns.DELETE])
    written = ~is_delete & ~loses
    return Decision(
        kept=kept,
        written=written,
        inserts=int(np.sum(written & ~exists)),
        updates=int(np.sum(written & exists)),
        deletes=int(np.sum(is_delete & exists & ~loses)),
    )


def deleted_rows(before: pa.Table, after: pa.Table) -> pa.Table:
    """The records of ``before`` whose key ``after`` no longer has."""
    return before.filter(pc.invert(pc.is_in(_keys(before), value_set=_keys(after))))


def _insert(stored: pa.Table, incoming: pa.Table, exists: Mask, existing: Existing) -> Decision:
    refused = exists if existing is Existing.FAIL else np.zeros_like(exists)
    return Decision(
        kept=np.ones(len(stored), dtype=np.bool_),
        written=~exists,
        inserts=int(np.sum(~exists)),
        updates=0,
        deletes=0,
        duplicates=int(np.sum(refused)),
        duplicate_key=incoming[columns.RECORD_KEY][int(np.argmax(refused))].as_py() if refused.any() else None,
    )


def _wins(stored: pa.Table, incoming: pa.Table, ordering_field: str | None) -> Mask:
    """Row by row: whether the incoming record replaces the stored one of the same key."""
    if ordering_field is None:
        return np.ones(len(stored), dtype=np.bool_)
    old, new = _ordering(stored, ordering_field), _ordering(incoming, ordering_field)
    is_later = _mask(pc.fill_null(pc.greater_equal(new, old), False))
    old_is_null = _mask(pc.is_null(old))
    wins: Mask = is_later | old_is_null | (_rank(incoming, new) == 2)
    return wins


def _rank(incoming: pa.Table, ordering: pa.ChunkedArray) -> npt.NDArray[np.int8]:
    """Where a record without ordering value stands: before all others, a delete after all others."""
    is_delete = _mask(incoming[columns.DELETE])
    without = _mask(pc.is_null(ordering))
    return np.where(without, np.where(is_delete, 2, 0), 1).astype(np.int8)


def _mask(booleans: pa.Array | pa.ChunkedArray) -> Mask:
    mask: Mask = booleans.to_numpy(zero_copy_only=False)
    return mask


def _keys(table: pa.Table) -> pa.Array:
    # large_string: the keys of a big file group may pass the two gigabytes that string offsets reach.
    return table[columns.RECORD_KEY].cast(pa.large_string()).combine_chunks()


def _ordering(table: pa.Table, ordering_field: str) -> pa.ChunkedArray:
    ordering = table[ordering_field]
    if pa.types.is_floating(ordering.type):
        # NaN compares with nothing, not even itself: the outcome would depend on the order of arrival.
        ordering = pc.if_else(pc.is_nan(ordering), pa.scalar(None, ordering.type), ordering)
    return ordering
