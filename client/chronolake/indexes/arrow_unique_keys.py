"""The places of rows in a table with a record index and partitions, whose keys are unique in the whole table.

It is ``chronolake_spark.index.unique_keys`` for one process, with the same rules: a row of a key that another
partition has moves the record, and a row is added that deletes it at its old place. A row that loses against
the stored record, or against a delete in a log file, goes to the old place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronolake.indexes import partial_snapshots
from chronolake.indexes.tables import BlockingTable
from chronolake.slices import arrow_types, columns, errors, merge, ordering_values, slice_reader, stored_slices
from chronolake.slices.base_files import TableFolder
from chronolake.slices.slice_reader import SliceReader
from chronolake_model.files import FileSlice
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType, TableType


@dataclass(frozen=True, slots=True)
class KeyPlaces:
    """The place of each key: its partition path, and the number of the file group that has it, or null.

    ``deletes`` has the rows that delete the records that move, at their old places.
    """

    keys: pa.Array
    paths: pa.Array
    numbers: pa.Array
    deletes: pa.Table


class PlacedRows:
    """Batches at the places of their keys, with the deletes at the end. They can be read several times."""

    def __init__(self, batches: Iterable[pa.RecordBatch], places: KeyPlaces) -> None:
        self._batches = batches
        self._places = places

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        schema: pa.Schema | None = None
        for batch in self._batches:
            index = pc.index_in(batch[columns.RECORD_KEY], value_set=self._places.keys)
            at_place = _with(batch, columns.PARTITION_PATH, self._places.paths.take(index))
            placed = _with(at_place, columns.BUCKET, self._places.numbers.take(index))
            schema = placed.schema
            yield placed
        if schema is not None and len(self._places.deletes):
            yield from _in_layout(self._places.deletes, schema).to_batches()


def winners(batches: Iterable[pa.RecordBatch], table: Table) -> pa.Table:
    """The winning row of each key: its partition path, whether it deletes, and its ordering value."""
    parts = []
    for batch in batches:
        order = [name for name in batch.schema.names if name.startswith(columns.ORDER_PREFIX)]
        names = [columns.RECORD_KEY, columns.PARTITION_PATH, columns.DELETE, *order, *table.merge_fields]
        parts.append(pa.Table.from_batches([batch]).select(list(dict.fromkeys(names))))
    return merge.latest_per_key(pa.concat_tables(parts), table.merge_fields).records.combine_chunks()


def at_winners(won: pa.Table) -> KeyPlaces:
    """The places of keys in a table that is replaced whole."""
    numbers = pa.nulls(len(won), pa.int32())
    return KeyPlaces(
        _texts(won, columns.RECORD_KEY), _texts(won, columns.PARTITION_PATH), numbers, won.slice(0, 0)
    )


def places(
    won: pa.Table,
    stored: pa.Table,
    slices: Sequence[FileSlice],
    table: BlockingTable,
    definition: Table,
    *,
    merges: bool,
    replaces: bool,
) -> KeyPlaces:
    """The places of the keys of ``won``.

    ``stored`` has the locations of keys in ``slices`` by the index: partition path, key and number. ``merges``
    unless the write inserts alone. Raises ``DuplicateKeys`` if it ``replaces`` partitions, and others have one
    of the keys.
    """
    keys, paths = _texts(won, columns.RECORD_KEY), _texts(won, columns.PARTITION_PATH)
    at = pc.index_in(keys, value_set=_texts(stored, columns.RECORD_KEY))
    old_paths = _texts(stored, columns.PARTITION_PATH).take(at)
    old_numbers = stored[columns.BUCKET].combine_chunks().take(at)
    is_old = _mask(pc.not_equal(old_paths, paths))
    compared = _compared(
        won, is_old, old_paths, old_numbers, slices, table, definition, has_deletes=not replaces
    )
    is_delete = _mask(won[columns.DELETE])
    moves = compared.is_stored & ~is_delete & compared.wins & merges
    goes_back = (compared.is_stored & ~moves) | compared.is_late
    if replaces:
        _refuse_keys_elsewhere(keys, old_paths, paths, compared.is_stored, definition)
        numbers = pa.nulls(len(keys), pa.int32())
    else:
        is_same = _mask(pc.equal(old_paths, paths))
        numbers = pc.if_else(pa.array(goes_back | is_same), old_numbers, pa.scalar(None, pa.int32()))
    moved = pa.array(moves)
    deletes: dict[str, Any] = {
        columns.RECORD_KEY: keys.filter(moved),
        columns.PARTITION_PATH: old_paths.filter(moved),
        columns.BUCKET: old_numbers.filter(moved),
        columns.DELETE: pa.repeat(pa.scalar(True), int(np.sum(moves))),
    }
    deletes |= {name: won[name].filter(moved) for name in definition.merge_fields}
    return KeyPlaces(keys, pc.if_else(pa.array(goes_back), old_paths, paths), numbers, pa.table(deletes))


@dataclass(frozen=True, slots=True)
class _Compared:
    """By key whether another partition has its record, whether the row wins, and whether a delete is later."""

    is_stored: merge.Mask
    wins: merge.Mask
    is_late: merge.Mask


def _compared(
    won: pa.Table,
    is_old: merge.Mask,
    old_paths: pa.Array,
    old_numbers: pa.Array,
    slices: Sequence[FileSlice],
    table: BlockingTable,
    definition: Table,
    *,
    has_deletes: bool,
) -> _Compared:
    nothing = np.zeros(len(won), dtype=np.bool_)
    numbers = pc.unique(old_numbers.filter(pa.array(is_old))).to_pylist()
    if not numbers:
        return _Compared(nothing, nothing, nothing)
    keys = _texts(won, columns.RECORD_KEY)
    is_delete = _mask(won[columns.DELETE])
    is_stored, wins, is_late = nothing.copy(), nothing.copy(), nothing.copy()
    reader = _reader(table, definition, [slices[number] for number in numbers])
    for number in numbers:
        rows = np.flatnonzero(is_old & _mask(pc.equal(old_numbers, number)))
        wanted, own = keys.take(pa.array(rows)), won.take(pa.array(rows))
        stored = stored_slices.of(slices[number])
        found = pa.concat_tables(
            [reader.layout.empty_table(), *reader.only(wanted).rows(stored)]
        ).combine_chunks()
        at = pc.index_in(wanted, value_set=_texts(found, columns.RECORD_KEY))
        is_stored[rows] = _mask(pc.is_valid(at))
        wins[rows] = True
        if not definition.merge_fields:
            continue
        new = ordering_values.of(own, definition.merge_fields)
        old = [values.take(at) for values in ordering_values.of(found, definition.merge_fields)]
        wins[rows] = _are_null(old) | (~_are_null(new) & (ordering_values.signs(new, old) >= 0))
        if has_deletes and stored.logs:
            gone = reader.only(wanted).log_deletes(stored)
            at = pc.index_in(wanted, value_set=_texts(gone, columns.RECORD_KEY))
            deleted = [values.take(at) for values in ordering_values.of(gone, definition.merge_fields)]
            is_later = _are_null(new) | (ordering_values.signs(new, deleted) < 0)
            is_late[rows] = ~_are_null(deleted) & (is_delete[rows] | is_later)
    return _Compared(is_stored, wins, is_late)


def _reader(table: BlockingTable, definition: Table, slices: Sequence[FileSlice]) -> SliceReader:
    layout = arrow_types.file_layout(definition.schema)
    used = stored_slices.schema_versions(slices)
    fields = partial_snapshots.fields_of_versions(table, definition, used)
    names = [columns.RECORD_KEY, *definition.merge_fields]
    return SliceReader(
        TableFolder.of(definition.base_path, table.storage_options),
        pa.schema([layout.field(name) for name in names]),
        {**fields, definition.schema_version: definition.schema},
        slice_reader.ordering_of(layout, definition.merge_fields),
    )


def _refuse_keys_elsewhere(
    keys: pa.Array, old_paths: pa.Array, paths: pa.Array, is_stored: merge.Mask, table: Table
) -> None:
    """Refuse an overwrite that would leave a second record of a key in a partition that it does not replace."""
    is_kept = is_stored & ~_mask(pc.is_in(old_paths, value_set=paths))
    if is_kept.any():
        raise keys_elsewhere(table, int(np.sum(is_kept)), keys[int(np.argmax(is_kept))].as_py())


def keys_elsewhere(table: Table, count: int, key: str) -> errors.DuplicateKeys:
    """The error of an overwrite that would leave a second record of ``count`` keys."""
    return errors.DuplicateKeys(
        f"{count} of the rows to write into partitions of {table.name} have a record key that a partition "
        f"has which is not replaced, for example {key!r}, but keys are unique in the whole table. "
        "Delete those records first, or upsert the rows",
        {"duplicates": count, "record_key": key},
    )


def partial_moves(table: Table, kept_columns: Sequence[str], key: str) -> errors.SchemaMismatch:
    """The error of a partial update that moves a record: where it goes, its stored values are not known."""
    return errors.SchemaMismatch(
        f"the rows lack the columns {', '.join(kept_columns)} of {table.name}, and move records to "
        f"other partitions, for example {key!r}: give all columns of records that move",
        {"missing": list(kept_columns), "record_key": key},
    )


def depends_on_reads(table: Table) -> bool:
    """Whether each write depends on the records of the table.

    A record that moves is deleted by a log file, and an append to the same file group by another writer would
    bring it back.
    """
    return (
        table.index.type is IndexType.RECORD
        and table.type is TableType.MERGE_ON_READ
        and bool(table.partition_fields)
    )


def _are_null(values: ordering_values.Values) -> merge.Mask:
    """Whether there is no ordering value. A table of unique keys has one ordering field at most."""
    return _mask(pc.is_null(values[0]))


def _texts(rows: pa.Table, name: str) -> pa.Array:
    return rows[name].cast(pa.string()).combine_chunks()


def _mask(booleans: pa.Array | pa.ChunkedArray) -> merge.Mask:
    mask: merge.Mask = pc.fill_null(booleans, False).to_numpy(zero_copy_only=False)
    return mask


def _with(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(name), name, values)


def _in_layout(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    known = set(rows.column_names)
    return pa.table(
        [
            rows[field.name].cast(field.type) if field.name in known else pa.nulls(len(rows), field.type)
            for field in schema
        ],
        schema=schema,
    ).combine_chunks()
