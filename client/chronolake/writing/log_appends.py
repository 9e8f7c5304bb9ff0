"""Appends of a write to the log of a file group of a merge-on-read table.

Upserts are appended as they are. The slice is read only for inserts, for rows whose keys must be new, for
deletes in a table with an ordering field, and where keys are looked up: there the keys that a slice lacks are
counted as inserts, because the server compares inserts (docs/decisions/0048). Another writer may put such a key
into another file group.

A delete in a table with an ordering field must have an ordering value that decides alone: hudi-rs compares the
largest ordering value of all deletes of a key, and the latest time of any of them, with the largest record. So
a delete without ordering value gets that of the record that it deletes, and a delete that has lost already is
left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronolake.slices import columns, errors, log_merge, merge, ordering_values
from chronolake.slices.merge import Decision, Existing, Mask
from chronolake.slices.ordering_values import Values
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import StoredSlice


@dataclass(frozen=True, slots=True)
class Append:
    """Rows and deletes to append: the rows that ``decision`` marks as written, and deletes of keys.

    ``delete_values`` are the ordering values of the deletes, null for none; empty without ordering field.
    """

    decision: Decision
    deletes: pa.Table
    delete_values: Values


def decide(
    reader: SliceReader, stored: StoredSlice, incoming: pa.Table, existing: Existing, *, counts_new_keys: bool
) -> Append:
    """The append of ``incoming`` (one record per key) to the log of a slice.

    Unless it ``counts_new_keys``, all records that are appended count as updates. Raises
    ``InvalidOrderingValue`` if a record moves here that a stored delete would hide.
    """
    if existing is Existing.UNCHECKED:
        return Append(merge.unchecked(0, incoming), incoming.slice(0, 0), ())
    if existing is not Existing.MERGE:
        return Append(_inserted(reader.of_keys(), stored, incoming, existing), incoming.slice(0, 0), ())
    is_delete: Mask = incoming[columns.DELETE].to_numpy()
    deletes, upserts = incoming.filter(pa.array(is_delete)), incoming.filter(pa.array(~is_delete))
    ordering_fields = reader.ordering_fields if len(deletes) else []
    values: Values = ()
    unchanged, inserts = 0, 0
    duplicates, duplicate_key = 0, None
    has_new = columns.IS_NEW in incoming.column_names and pc.any(incoming[columns.IS_NEW]).as_py()
    if ordering_fields or ((counts_new_keys or has_new) and len(upserts)):
        looked_up = incoming if counts_new_keys or has_new else deletes
        live, gone = _known(reader, stored, looked_up[columns.RECORD_KEY])
        if has_new:
            exists: Mask = pc.is_valid(_places(incoming, live[columns.RECORD_KEY])).to_numpy()
            duplicates, duplicate_key = merge.existing_keys(incoming, exists)
            _refuse_hidden(reader, upserts, gone)
        if counts_new_keys:
            inserts = int(_places(upserts, live[columns.RECORD_KEY]).null_count)
        if ordering_fields:
            deletes, values, hits = _deciding(ordering_fields, live, gone, deletes)
            unchanged = int(np.sum(is_delete)) - hits
    decision = Decision(
        kept=np.zeros(0, dtype=np.bool_),
        written=~is_delete,
        inserts=inserts,
        updates=len(upserts) - inserts,
        deletes=int(np.sum(is_delete)) - unchanged,
        unchanged=unchanged,
        duplicates=duplicates,
        duplicate_key=duplicate_key,
    )
    return Append(decision, deletes, values)


def _inserted(reader: SliceReader, stored: StoredSlice, incoming: pa.Table, existing: Existing) -> Decision:
    """The rows of an insert whose keys are new. A row that a stored delete is later than changes nothing."""
    changes = reader.changes(stored)
    keys = pa.concat_tables(reader.merged(stored, changes))
    decision = merge.decide(keys, incoming, ordering_fields=reader.ordering_fields, existing=existing)
    if not reader.ordering_fields or not len(gone := changes.deletes):
        return decision
    deleted_at = _deleted_at(gone, incoming)
    own = ordering_values.of(incoming, reader.ordering_fields)
    lost: Mask = decision.written & (ordering_values.signs(own, deleted_at) < 0)
    count = int(np.sum(lost))
    return dataclasses.replace(
        decision,
        written=decision.written & ~lost,
        inserts=decision.inserts - count,
        unchanged=decision.unchanged + count,
    )


def _refuse_hidden(reader: SliceReader, upserts: pa.Table, gone: pa.Table) -> None:
    """Raise ``InvalidOrderingValue`` if a stored delete is later than a record that moves to this file group.

    The write deletes the record in its old place, so no place would show it.
    """
    if not reader.ordering_fields or columns.IS_MOVED not in upserts.column_names:
        return
    moved = upserts.filter(upserts[columns.IS_MOVED])
    own = ordering_values.of(moved, reader.ordering_fields)
    is_hidden = ordering_values.signs(own, _deleted_at(gone, moved)) < 0
    if is_hidden.any():
        key = moved[columns.RECORD_KEY][int(np.argmax(is_hidden))].as_py()
        raise errors.InvalidOrderingValue(
            f"the statement moves the record {key!r} to a place where one of its key was deleted that had a "
            "larger ordering value, so readers would not show it: set the ordering field to a larger value, or "
            "compact the table first",
            {"record_key": key},
        )


def _deciding(
    ordering_fields: Sequence[str], live: pa.Table, gone: pa.Table, deletes: pa.Table
) -> tuple[pa.Table, Values, int]:
    """The deletes that are appended, their ordering values, and how many of them delete a stored record.

    ``live`` has the stored records of their keys, ``gone`` the stored deletes.
    """
    is_live = pc.is_valid(at_live := _places(deletes, live[columns.RECORD_KEY]))
    known = [
        pc.if_else(is_live, stored.take(at_live), deleted)
        for stored, deleted in zip(
            ordering_values.of(live, ordering_fields), _deleted_at(gone, deletes), strict=True
        )
    ]
    # The times of a session have its zone, those of files UTC: the moments are the same.
    own = [
        values.cast(stored.type)
        for values, stored in zip(ordering_values.of(deletes, ordering_fields), known, strict=True)
    ]
    has_value = ~ordering_values.missing(deletes, ordering_fields)
    is_late = ordering_values.signs(own, known) < 0
    was_live: Mask = is_live.to_numpy()
    is_kept = np.where(has_value, ~is_late, was_live)
    kept = pa.array(is_kept)
    values = [pc.if_else(pa.array(has_value), *pair).filter(kept) for pair in zip(own, known, strict=True)]
    return deletes.filter(kept), values, int(np.sum(is_kept & was_live))


def _deleted_at(gone: pa.Table, rows: pa.Table) -> Values:
    """The ordering values of the stored deletes of the keys of rows; null for keys without."""
    places = _places(rows, gone[log_merge.KEY])
    return [gone[name].take(places) for name in gone.column_names if name != log_merge.KEY]


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
