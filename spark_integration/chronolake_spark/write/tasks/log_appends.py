"""Appends of a write to the log of a file group of a merge-on-read table.

Upserts are appended as they are. The slice is read only for inserts, for deletes in a table with an ordering
field, and where keys are looked up: there the keys that a slice lacks are counted as inserts, because the
server compares inserts (docs/decisions/0049). Another writer may put such a key into another file group.

A delete in a table with an ordering field must have an ordering value that decides alone: hudi-rs compares the
largest ordering value of all deletes of a key, and the latest time of any of them, with the largest record. So
a delete without ordering value gets that of the record that it deletes, and a delete that has lost already is
left out.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronolake_spark.common import arrow_types, columns
from chronolake_spark.read.slices import log_merge, merge
from chronolake_spark.read.slices.merge import Decision, Existing, Mask
from chronolake_spark.read.slices.slice_reader import SliceReader
from chronolake_spark.read.slices.stored_slices import StoredSlice


@dataclass(frozen=True, slots=True)
class Append:
    """Rows and deletes to append: the rows that ``decision`` marks as written, and deletes of keys.

    ``delete_values`` are the ordering values of the deletes, null for none; None without ordering field.
    """

    decision: Decision
    deletes: pa.Table
    delete_values: pa.ChunkedArray | None


def decide(
    reader: SliceReader, stored: StoredSlice, incoming: pa.Table, existing: Existing, *, counts_new_keys: bool
) -> Append:
    """The append of ``incoming`` (one record per key) to the log of a slice.

    Unless it ``counts_new_keys``, all records that are appended count as updates.
    """
    if existing is Existing.UNCHECKED:
        return Append(merge.unchecked(0, incoming), incoming.slice(0, 0), None)
    if existing is not Existing.MERGE:
        return Append(_inserted(reader.of_keys(), stored, incoming, existing), incoming.slice(0, 0), None)
    is_delete: Mask = incoming[columns.DELETE].to_numpy()
    deletes, upserts = incoming.filter(pa.array(is_delete)), incoming.filter(pa.array(~is_delete))
    ordering_field = reader.ordering_field if len(deletes) else None
    values, unchanged, inserts = None, 0, 0
    if ordering_field is not None or (counts_new_keys and len(upserts)):
        looked_up = incoming if counts_new_keys else deletes
        live, gone = _known(reader, stored, looked_up[columns.RECORD_KEY])
        if counts_new_keys:
            inserts = int(_places(upserts, live[columns.RECORD_KEY]).null_count)
        if ordering_field is not None:
            deletes, values, hits = _deciding(ordering_field, live, gone, deletes)
            unchanged = int(np.sum(is_delete)) - hits
    decision = Decision(
        kept=np.zeros(0, dtype=np.bool_),
        written=~is_delete,
        inserts=inserts,
        updates=len(upserts) - inserts,
        deletes=int(np.sum(is_delete)) - unchanged,
        unchanged=unchanged,
    )
    return Append(decision, deletes, values)


def _inserted(reader: SliceReader, stored: StoredSlice, incoming: pa.Table, existing: Existing) -> Decision:
    """The rows of an insert whose keys are new. A row that a stored delete is later than changes nothing."""
    changes = reader.changes(stored)
    keys = pa.concat_tables(reader.merged(stored, changes))
    decision = merge.decide(keys, incoming, ordering_field=reader.ordering_field, existing=existing)
    if reader.ordering_field is None or not len(gone := changes.deletes):
        return decision
    deleted_at = gone[log_merge.ORDERING].take(_places(incoming, gone[log_merge.KEY]))
    own = arrow_types.ordering_values(incoming, reader.ordering_field)
    is_late = pc.or_(
        pc.fill_null(pc.less(own, deleted_at), False), pc.and_(pc.is_null(own), pc.is_valid(deleted_at))
    )
    lost: Mask = decision.written & is_late.to_numpy()
    count = int(np.sum(lost))
    return dataclasses.replace(
        decision,
        written=decision.written & ~lost,
        inserts=decision.inserts - count,
        unchanged=decision.unchanged + count,
    )


def _deciding(
    ordering_field: str, live: pa.Table, gone: pa.Table, deletes: pa.Table
) -> tuple[pa.Table, pa.ChunkedArray, int]:
    """The deletes that are appended, their ordering values, and how many of them delete a stored record.

    ``live`` has the stored records of their keys, ``gone`` the stored deletes.
    """
    is_live = pc.is_valid(at_live := _places(deletes, live[columns.RECORD_KEY]))
    known = pc.if_else(
        is_live,
        arrow_types.ordering_values(live, ordering_field).take(at_live),
        gone[log_merge.ORDERING].take(_places(deletes, gone[log_merge.KEY])),
    )
    # The times of a session have its zone, those of files UTC: the moments are the same.
    own = arrow_types.ordering_values(deletes, ordering_field).cast(known.type)
    has_value = pc.is_valid(own)
    is_late = pc.fill_null(pc.less(own, known), False)
    is_kept = pc.if_else(has_value, pc.invert(is_late), is_live)
    values = pc.if_else(has_value, own, known)
    hits = pc.sum(pc.and_(is_kept, is_live)).as_py() or 0
    return deletes.filter(is_kept), pa.chunked_array(values).filter(is_kept), int(hits)


def _known(reader: SliceReader, stored: StoredSlice, keys: pa.ChunkedArray) -> tuple[pa.Table, pa.Table]:
    """The records with one of the keys, and the deletes of others that the log files have."""
    narrow = reader.of_keys()
    changes = narrow.changes(stored)
    wanted = keys.cast(pa.string()).combine_chunks()
    parts = [
        rows.filter(pc.is_in(rows[columns.RECORD_KEY], value_set=wanted))
        for rows in narrow.merged(stored, changes)
    ]
    return pa.concat_tables(parts), changes.deletes


def _places(deletes: pa.Table, keys: pa.ChunkedArray) -> pa.ChunkedArray:
    own = deletes[columns.RECORD_KEY].cast(pa.large_string())
    return pc.index_in(own, value_set=keys.cast(pa.large_string()).combine_chunks())
