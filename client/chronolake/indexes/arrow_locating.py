"""The file group of each row of a write by one process, in tables whose keys are looked up in the files.

It is ``chronolake_spark.index.locating`` for one process. The keys of all rows are held in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronolake.indexes import arrow_unique_keys, candidates, partial_snapshots, stored_keys, targets
from chronolake.indexes.candidates import Candidates
from chronolake.indexes.record import entry_files
from chronolake.indexes.record.record_index import RecordIndex
from chronolake.indexes.tables import BlockingTable
from chronolake.indexes.targets import RowTotals
from chronolake.slices import arrow_types, columns, slice_reader, stored_slices
from chronolake.slices.base_files import TableFolder
from chronolake.slices.key_search import KeySet
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import NumberedGroup
from chronolake_model.files import FileSlice
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType

_PLACE: Final = [columns.PARTITION_PATH, columns.RECORD_KEY]
_ROW: Final = "row"
_LOCATIONS: Final = pa.schema(
    [(columns.PARTITION_PATH, pa.string()), (columns.RECORD_KEY, pa.string()), (columns.BUCKET, pa.int32())]
)
_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """Rows with the number of their file group, and the file groups."""

    batches: Iterable[pa.RecordBatch]
    groups: Sequence[NumberedGroup]


def located(
    batches: Iterable[pa.RecordBatch],
    table: BlockingTable,
    definition: Table,
    as_of: str,
    *,
    is_looked_up: bool,
) -> LocatedRows:
    """Tagged rows with their file groups, in the table as of the begin of the instant.

    Unless they are looked up, all rows go to new file groups. ``batches`` are read twice.
    """
    names = list(dict.fromkeys([*_PLACE, columns.DELETE, *definition.record_key_fields]))
    parts = [pa.Table.from_batches([batch]).select(names) for batch in batches]
    keys = pa.concat_tables(parts).combine_chunks() if parts else pa.table({name: [] for name in names})
    eligible, existing = Candidates(), _LOCATIONS.empty_table()
    covered = partial_snapshots.last_completion(table, as_of) if is_looked_up and len(keys) else None
    if covered is not None and definition.index.type is IndexType.RECORD:
        slices, existing = _indexed(keys, table, as_of, covered)
        eligible = Candidates(slices, fills_as_of=as_of)
    elif covered is not None:
        eligible = candidates.find(_ranges(keys, definition), table, definition, as_of)
        existing = _stored(keys, table, definition, eligible.slices)
    return assigned(batches, keys, _numbers(keys, existing), table, eligible)


@dataclass(frozen=True, slots=True)
class KeyTreatment:
    """How a write treats keys that are unique in the whole table.

    It ``merges`` unless it inserts alone, and ``replaces`` partitions, or all of them. ``kept_columns`` keep
    their stored values.
    """

    merges: bool
    replaces: bool
    replaces_all: bool
    kept_columns: Sequence[str]


def of_unique_keys(
    batches: Iterable[pa.RecordBatch], table: BlockingTable, definition: Table, as_of: str, how: KeyTreatment
) -> LocatedRows:
    """As ``located``, in a table with partitions and a record index.

    Raises ``DuplicateKeys`` for an overwrite of partitions whose keys others have, and ``SchemaMismatch`` for a
    partial update that moves a record.
    """
    won = arrow_unique_keys.winners(batches, definition)
    places, eligible = arrow_unique_keys.at_winners(won), Candidates()
    covered = partial_snapshots.last_completion(table, as_of)
    if covered is not None and not how.replaces_all:
        slices, stored = _indexed(won, table, as_of, covered)
        places = arrow_unique_keys.places(
            won, stored, slices, table, definition, merges=how.merges, replaces=how.replaces
        )
        eligible = Candidates() if how.replaces else Candidates(slices, fills_as_of=as_of)
    if how.kept_columns and len(places.deletes):
        key = places.deletes[columns.RECORD_KEY][0].as_py()
        raise arrow_unique_keys.partial_moves(definition, how.kept_columns, key)
    placed = arrow_unique_keys.PlacedRows(batches, places)
    names = [*_PLACE, columns.DELETE, columns.BUCKET]
    keys = pa.concat_tables([pa.Table.from_batches([batch]).select(names) for batch in placed]).combine_chunks()
    numbers = pa.table({_ROW: pa.array(np.arange(len(keys))), columns.BUCKET: keys[columns.BUCKET]})
    return assigned(placed, keys, numbers, table, eligible)


def assigned(
    batches: Iterable[pa.RecordBatch],
    keys: pa.Table,
    numbers: pa.Table,
    table: BlockingTable,
    eligible: Candidates,
) -> LocatedRows:
    """Rows whose number is that of a candidate, or null: they get one of a file group that takes inserts.

    ``numbers`` has a row of ``keys`` and its number, in the order of the rows.
    """
    chosen = targets.of(table, eligible, _profile(keys, numbers))
    is_new = pc.is_null(numbers[columns.BUCKET])
    new = keys.take(numbers[_ROW].filter(is_new))
    new_numbers = pa.array([], pa.int32())
    if len(new):
        key_texts, paths = (new[name].combine_chunks().cast(pa.string()) for name in reversed(_PLACE))
        new_numbers = chosen.numbers(key_texts, paths)
    all_numbers = pc.replace_with_mask(
        numbers[columns.BUCKET].combine_chunks(), is_new.combine_chunks(), new_numbers
    )
    rows = numbers[_ROW].to_numpy()
    return LocatedRows(_Numbered(batches, rows, all_numbers), chosen.groups)


class _Numbered:
    """Batches with numbers of file groups; a row that has two comes twice. They can be read several times."""

    def __init__(
        self, batches: Iterable[pa.RecordBatch], rows: np.typing.NDArray[np.int64], numbers: pa.Array
    ) -> None:
        self._batches = batches
        self._rows = rows
        self._numbers = numbers

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in self._batches:
            start, end = np.searchsorted(self._rows, [first, first + len(batch)]).tolist()
            places = self._rows[start:end] - first
            first += len(batch)
            chosen = batch if len(places) == len(batch) else batch.take(pa.array(places))
            index = chosen.schema.get_field_index(columns.BUCKET)
            yield chosen.set_column(index, columns.BUCKET, self._numbers.slice(start, end - start))


def _ranges(keys: pa.Table, table: Table) -> pa.Table:
    """By partition the number of rows, and of each key field the least and the greatest value."""
    path = columns.PARTITION_PATH
    names = list(table.record_key_fields)
    usable = [name for name in names if not pa.types.is_boolean(keys.schema.field(name).type)]
    wanted = [(name, measure) for name in usable for measure in ("min", "max")]
    wanted += [(name, "count") for name in names]
    found = keys.group_by(path).aggregate([*wanted, ([], "count_all")])
    ranges = {path: found[path], candidates.COUNT: found["count_all"]}
    for index, name in enumerate(names):
        ranges[f"{candidates.VALUES}{index}"] = found[f"{name}_count"]
        if name in usable:
            ranges[f"{candidates.LEAST}{index}"] = found[f"{name}_min"]
            ranges[f"{candidates.GREATEST}{index}"] = found[f"{name}_max"]
    return pa.table(ranges)


def _texts(keys: pa.Table) -> pa.Table:
    return pa.table([keys[name].cast(pa.string()) for name in _PLACE], names=_PLACE)


def _numbers(keys: pa.Table, existing: pa.Table) -> pa.Table:
    """The rows and the numbers of the slices that have their keys, or null."""
    rows = _texts(keys).append_column(_ROW, pa.array(np.arange(len(keys))))
    joined = rows.join(existing, _PLACE, join_type="left outer")
    return joined.select([_ROW, columns.BUCKET]).sort_by(_ROW).combine_chunks()


def _indexed(
    keys: pa.Table, table: BlockingTable, as_of: str, covered: str
) -> tuple[list[FileSlice], pa.Table]:
    """The slices that have one of the keys by the record index, and the locations of the keys."""
    index = RecordIndex(table)
    manifest = index.catch_up(covered)
    if manifest is None:
        return [], _LOCATIONS.empty_table()
    wanted = pc.unique(keys[columns.RECORD_KEY].cast(pa.string()).combine_chunks())
    entries = index.find(manifest, wanted)
    place = [entry_files.PARTITION_PATH, entry_files.FILE_ID]
    slices, live = partial_snapshots.of_file_groups(table, as_of, entries.select(place))
    located = entries.join(live, place, join_type="inner")
    names = [entry_files.PARTITION_PATH, entry_files.KEY, partial_snapshots.NUMBER]
    return slices, located.select(names).rename_columns(_LOCATIONS.names).cast(_LOCATIONS)


def _stored(keys: pa.Table, table: BlockingTable, definition: Table, slices: Sequence[FileSlice]) -> pa.Table:
    """The locations of the keys that slices have, by a look into their files."""
    if not slices:
        return _LOCATIONS.empty_table()
    wanted = stored_keys.by_partition(_texts(keys))
    reader = _reader(table, definition, slices)
    uses_filters = definition.index.type is IndexType.BLOOM
    find = functools.partial(_existing, reader, wanted, uses_filters=uses_filters)
    with ThreadPoolExecutor(_THREADS) as threads:
        return pa.concat_tables(threads.map(find, range(len(slices)), slices))


def _existing(
    reader: SliceReader, wanted: Mapping[str, KeySet], number: int, slice_: FileSlice, *, uses_filters: bool
) -> pa.Table:
    stored = stored_slices.of(slice_)
    keys = wanted.get(stored.partition_path)
    found = pa.array([], pa.string())
    if keys is not None:
        found = stored_keys.existing(reader, stored, keys, uses_filters=uses_filters)
    paths = pa.repeat(pa.scalar(stored.partition_path, pa.string()), len(found))
    numbers = pa.repeat(pa.scalar(number, pa.int32()), len(found))
    return pa.table([paths, found.cast(pa.string()), numbers], schema=_LOCATIONS)


def _reader(table: BlockingTable, definition: Table, slices: Sequence[FileSlice]) -> SliceReader:
    layout = arrow_types.file_layout(definition.schema)
    used = stored_slices.schema_versions(slices)
    fields = partial_snapshots.fields_of_versions(table, definition, used)
    return SliceReader(
        TableFolder.of(definition.base_path, table.storage_options),
        pa.schema([layout.field(columns.RECORD_KEY)]),
        {**fields, definition.schema_version: definition.schema},
        slice_reader.ordering_of(layout, definition.merge_fields),
    )


def _profile(keys: pa.Table, numbers: pa.Table) -> targets.Profile:
    rows = keys.take(numbers[_ROW])
    deletes = rows[columns.DELETE].cast(pa.int64())
    by = [columns.PARTITION_PATH, columns.BUCKET]
    counted = pa.table(
        {
            columns.PARTITION_PATH: rows[columns.PARTITION_PATH].cast(pa.string()),
            columns.BUCKET: numbers[columns.BUCKET],
            "upserts": pc.subtract(1, deletes),
            "deletes": deletes,
        }
    )
    totals = counted.group_by(by).aggregate([("upserts", "sum"), ("deletes", "sum")]).to_pylist()
    return {
        (total[columns.PARTITION_PATH], total[columns.BUCKET]): RowTotals(
            total["upserts_sum"], total["deletes_sum"]
        )
        for total in totals
    }
