"""Versions of records: what differs between two states of a table, and the history of one record.

Needs ``chronolake[arrow]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from chronolake import _key_values, _keys
from chronolake._rows import RowReader
from chronolake.slices import arrow_types, columns, errors, python_rows, stored_slices
from chronolake_model.file_names import bucket_of
from chronolake_model.files import ChangedFileGroup, Changes, FileSlice
from chronolake_model.instants import Instant
from chronolake_model.tables import SchemaField, Table
from chronolake_model.vocabulary import Action, IndexType, Operation

WRITES: Final = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
"""The actions that may change a record."""
SERVICES: Final = (Operation.COMPACT, Operation.LOG_COMPACT, Operation.CLUSTER)
"""Writes that change no record. Their changes of file groups belong to the range of the next write."""
INSERT, UPDATE, DELETE = "insert", "update", "delete"
BEFORE, AFTER = "before", "after"
_PLACE: Final = (columns.RECORD_KEY, columns.PARTITION_PATH)
Record = dict[str, Any]


class RecordVersion(msgspec.Struct, frozen=True):
    """A change of a record: the instant that made it, and the record before and after.

    ``change`` is insert, update or delete; an insert has no ``before``, a delete no ``after``. Dates and times
    outside of the years 1 to 9999 are texts of ISO 8601 with a sign, as ``+10000-01-31``.
    """

    change: str
    completion_time: str | None
    requested_time: str
    action: Action
    operation: Operation
    writer: str
    partition_path: str
    before: Record | None
    after: Record | None


def differences(reader: RowReader, changes: Changes) -> pa.Table:
    """The records that differ at the two ends of a range: ``change``, ``before`` and ``after``, as structs."""
    names = reader.names
    whole = dataclasses.replace(reader, names=tuple(dict.fromkeys([*_PLACE, *names])))
    changed = whole.changed_rows(changes)
    is_upsert = pc.equal(changed[columns.CHANGE_TYPE], "upsert")
    upserts, deletes = changed.filter(is_upsert), changed.filter(pc.invert(is_upsert))
    slices = [stored_slices.of(group.before) for group in changes.file_groups if group.before is not None]
    keys = pc.unique(upserts[columns.RECORD_KEY].combine_chunks().cast(pa.string()))
    found = whole.found(slices, keys) if len(upserts) else ()
    old = pa.concat_tables([whole.schema.empty_table(), *(rows.select(whole.schema.names) for rows in found)])
    match = pc.index_in(_places(upserts, reader.table), value_set=_places(old, reader.table))
    known = upserts.filter(pc.is_valid(match))
    before = old.take(match.drop_null())
    pairs = zip(_texts(before, names), _texts(known, names), strict=True)
    is_changed = pa.array([old_text != new_text for old_text, new_text in pairs], pa.bool_())
    parts = [
        _of_change(INSERT, None, upserts.filter(pc.is_null(match)), names),
        _of_change(UPDATE, before.filter(is_changed), known.filter(is_changed), names),
        _of_change(DELETE, deletes, None, names),
    ]
    return pa.concat_tables(parts)


def record_key(table: Table, key: Any) -> tuple[str, list[pa.Array]]:
    """The record key of a key, and the texts of its fields, which give its bucket.

    A key is the value of the record key field, a tuple of values, or a dict by field; a value may also be its
    text. Raises ``SchemaMismatch``.
    """
    names = table.record_key_fields
    if isinstance(key, Mapping):
        given = dict(key)
    else:
        values = key if isinstance(key, tuple) else (key,)
        given = dict(zip(names, values, strict=True)) if len(values) == len(names) else {}
    if not names:
        raise errors.SchemaMismatch(
            f"{table.name} was adopted from Hudi without record keys that are made of its columns: find "
            "records with to_arrow(where=...)"
        )
    if set(given) != set(names):
        raise errors.SchemaMismatch(
            f"{key!r} is not a key of {table.name}: its key fields are {', '.join(names)}"
        )
    fields = {field.name: field for field in table.schema}
    arrays = [_value(table, fields[name], given[name]) for name in names]
    texts = [_keys.texts(array, fields[name].type) for name, array in zip(names, arrays, strict=True)]
    text = _keys.record_keys(names, texts)[0].as_py()
    if text is None:
        raise errors.SchemaMismatch(f"{key!r} is not a key of {table.name}: it has no value")
    return text, texts


def groups_of(
    table: Table, instant: Instant, changes: Changes, texts: Sequence[pa.Array]
) -> list[ChangedFileGroup]:
    """The changed file groups that may have a record: of a table with buckets those of its bucket."""
    groups = changes.file_groups
    # A replaced group may have had another number of buckets.
    if instant.buckets is None or stored_slices.may_have_moved(table, changes):
        return groups
    [bucket] = _keys.buckets(texts, instant.buckets)
    return [group for group in groups if bucket_of(_side(group).file_id) == bucket]


def versions(
    reader: RowReader, instant: Instant, groups: Iterable[ChangedFileGroup], key: str
) -> list[RecordVersion]:
    """The changes of a record by an instant, in each partition that has such a record."""
    groups = list(groups)
    before = _found(reader, (group.before for group in groups), key)
    after = _found(reader, (group.after for group in groups), key)
    made = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old is not None and new is not None and old[columns.COMMIT_TIME] == new[columns.COMMIT_TIME]:
            continue
        change = INSERT if old is None else DELETE if new is None else UPDATE
        made.append(_version(instant, change, path, _own(reader, old), _own(reader, new)))
    return made


def _version(
    instant: Instant, change: str, path: str, before: Record | None, after: Record | None
) -> RecordVersion:
    return RecordVersion(
        change,
        instant.completion_time,
        instant.requested_time,
        instant.action,
        instant.operation,
        instant.writer,
        path,
        before,
        after,
    )


def _found(reader: RowReader, slices: Iterable[FileSlice | None], key: str) -> dict[str, Record]:
    """The record with this key, by partition path."""
    stored = [stored_slices.of(slice_) for slice_ in slices if slice_ is not None]
    rows = [row for table in reader.found(stored, pa.array([key])) for row in python_rows.of(table)]
    return {row[columns.PARTITION_PATH]: row for row in rows}


def _own(reader: RowReader, row: Record | None) -> Record | None:
    return None if row is None else {name: row[name] for name in reader.names}


def _side(group: ChangedFileGroup) -> FileSlice:
    side = group.after or group.before
    assert side is not None, "a changed group has a slice on one side"
    return side


def _value(table: Table, field: SchemaField, value: Any) -> pa.Array:
    if not isinstance(value, str):
        return _key_values.of(table, field, [value])
    # A text, as the command line has it.
    try:
        return pa.array([value]).cast(arrow_types.own_layout([field]).field(field.name).type)
    except pa.ArrowInvalid as exc:
        why = "give the time with its zone, as 2026-01-31 12:00:00Z" if "zone offset" in str(exc) else exc
        raise errors.SchemaMismatch(f"{value!r} is not a key of {table.name}: {why}") from exc


def _places(rows: pa.Table, table: Table) -> pa.Array:
    """Where a record is, as a text: two records of one key may be in two partitions."""
    keys = rows[columns.RECORD_KEY].cast(pa.large_string()).combine_chunks()
    if table.index.type is IndexType.RECORD:
        return keys
    paths = rows[columns.PARTITION_PATH].cast(pa.large_string()).combine_chunks()
    return pc.binary_join_element_wise(keys, paths, pa.scalar("\0", pa.large_string()))


def _texts(rows: pa.Table, names: Sequence[str]) -> list[str]:
    """The values of rows as texts: NaN equals itself as a text only."""
    chosen = rows.select(list(names))
    comparable = chosen.cast(arrow_types.with_numbers_for_times(chosen.schema))
    return [str(list(row.values())) for row in comparable.to_pylist()]


def _of_change(change: str, before: pa.Table | None, after: pa.Table | None, names: Sequence[str]) -> pa.Table:
    given = after if before is None else before
    assert given is not None
    type_ = pa.struct([given.schema.field(name) for name in names])
    sides = [
        pa.nulls(len(given), type_) if side is None else _struct(side, type_, names) for side in (before, after)
    ]
    return pa.table({"change": pa.repeat(pa.scalar(change), len(given)), BEFORE: sides[0], AFTER: sides[1]})


def _struct(rows: pa.Table, type_: pa.DataType, names: Sequence[str]) -> pa.Array:
    arrays = [rows[name].combine_chunks() for name in names]
    return pa.StructArray.from_arrays(arrays, fields=list(type_))
