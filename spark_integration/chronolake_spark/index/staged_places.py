"""The file groups of staged rows, in tables without a bucket index: the committer looks the keys up.

It has the rules of ``locating`` and ``unique_keys``, but no Spark session. It holds in memory the keys of all
rows.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import chronolake
from chronolake_model.files import FileSlice
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType
from chronolake_spark import errors
from chronolake_spark.common import arrow_tags, arrow_types, columns
from chronolake_spark.common.choices import Replaces
from chronolake_spark.index import candidates, targets, unique_keys
from chronolake_spark.index.candidates import Candidates
from chronolake_spark.index.keys import stored_keys
from chronolake_spark.index.record.record_index import Distributed, RecordIndex
from chronolake_spark.index.targets import RowTotals
from chronolake_spark.index.unique_keys import Treatment
from chronolake_spark.read import evolution
from chronolake_spark.read.slices import merge, partial_snapshots, stored_slices
from chronolake_spark.read.slices.merge import Existing
from chronolake_spark.read.slices.stored_slices import NumberedGroup

_THREADS: Final = 8
_KEY, _PATH, _NUMBER = columns.RECORD_KEY, columns.PARTITION_PATH, columns.BUCKET
_LOCATIONS: Final = pa.schema([(_KEY, pa.string()), (_PATH, pa.string()), (_NUMBER, pa.int32())])
_ROW: Final = "row"
_OLD_PATH, _OLD_NUMBER, _OLD_ORDERING = "old_path", "old_number", "old_ordering"
_DELETED_ORDERING: Final = "deleted_ordering"
_FILE_ID, _IS_STORED = "file_id", "is_stored"
_STORED: Final = pa.schema([(_KEY, pa.string()), (_OLD_PATH, pa.string()), (_OLD_NUMBER, pa.int32())])


def key_columns(table: Table) -> list[str]:
    """The columns of staged rows by which ``find`` places them."""
    ordering = [*arrow_tags.order_columns(table), *_ordering(table)]
    return list(dict.fromkeys([_KEY, _PATH, columns.DELETE, *table.record_key_fields, *ordering]))


@dataclass(frozen=True, slots=True)
class Places:
    """The file groups of rows.

    ``places`` has, by the columns ``by`` of the rows, the partition path and the number of the file group, one
    of ``groups``. ``deletes`` has the record key, the place, and the ordering value, if there is one, of rows
    that delete records which move.
    """

    places: pa.Table
    by: Sequence[str]
    groups: Sequence[NumberedGroup]
    deletes: pa.Table

    def rows(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Staged rows with their places, and the rows that delete. A key in two file groups comes twice."""
        layout = None
        for rows in tables:
            layout = rows.schema
            yield self._placed(rows)
        if layout is not None and len(self.deletes):
            yield self._deletes(layout)

    def _placed(self, rows: pa.Table) -> pa.Table:
        joined = _joined(rows.select(self.by), self.places, self.by)
        assert not joined[_NUMBER].null_count, "a staged row was not looked up"
        return _with_columns(rows.take(joined[_ROW]), joined.select([_PATH, _NUMBER]))

    def _deletes(self, layout: pa.Schema) -> pa.Table:
        count = len(self.deletes)
        values = {name: self.deletes[name] for name in self.deletes.column_names}
        values[columns.DELETE] = pa.repeat(pa.scalar(True), count)
        arrays = [
            values[field.name].cast(field.type) if field.name in values else pa.nulls(count, field.type)
            for field in layout
        ]
        return pa.table(arrays, schema=layout)


def find(keys: pa.Table, table: chronolake.Table, as_of: str, treatment: Treatment) -> Places:
    """The places of staged rows with these ``key_columns``, in the table as of a completion time.

    Raises as ``find_unique``.
    """
    definition = table.definition
    nothing = Candidates(evolution.versions(table, definition, []))
    if definition.index.type is IndexType.RECORD:
        of_keys = find_unique(keys, table, as_of, treatment)
        eligible = Candidates(nothing.written, of_keys.slices, fills_as_of=as_of)
        numbered = _joined(keys.select([_KEY, columns.DELETE]), of_keys.places, [_KEY])
        is_overwrite = treatment.replaces is not None
        return _assigned(numbered, table, nothing if is_overwrite else eligible, [_KEY], of_keys.deletes)
    eligible = nothing
    if treatment.replaces is None:
        eligible = candidates.find(keys, table, definition, as_of)
    by = [_KEY, _PATH]
    numbered = _joined(keys.select([*by, columns.DELETE]), _locations(keys, eligible), by)
    return _assigned(numbered, table, eligible, by, _LOCATIONS.empty_table())


def _ordering(table: Table) -> list[str]:
    return [] if table.merge_field is None else [table.merge_field]


def _joined(rows: pa.Table, places: pa.Table, by: Sequence[str]) -> pa.Table:
    """The rows, numbered, with the columns of their places, or null."""
    numbered = rows.append_column(_ROW, pa.array(np.arange(len(rows))))
    return numbered.join(places, list(by), join_type="left outer").sort_by(_ROW)


def _with_columns(rows: pa.Table, replaced: pa.Table) -> pa.Table:
    for name in replaced.column_names:
        index = rows.schema.get_field_index(name)
        field = rows.schema.field(index)
        rows = rows.set_column(index, field, replaced[name].cast(field.type))
    return rows


def _locations(keys: pa.Table, eligible: Candidates) -> pa.Table:
    """The keys that exist, with the number of their file group."""
    wanted = stored_keys.by_partition(keys)
    reader = eligible.written.reader([])
    uses_filters = eligible.written.table.index.type is IndexType.BLOOM

    def locations(number: int) -> pa.Table:
        stored = stored_slices.of(eligible.slices[number])
        of_partition = wanted[stored.partition_path]
        existing = stored_keys.existing(reader, stored, of_partition, uses_filters=uses_filters)
        return _places_of(existing, stored.partition_path, number)

    with ThreadPoolExecutor(_THREADS) as threads:
        parts = threads.map(locations, range(len(eligible.slices)))
        return pa.concat_tables([_LOCATIONS.empty_table(), *parts])


def _places_of(keys: pa.Array, partition_path: str, number: int) -> pa.Table:
    paths, numbers = pa.scalar(partition_path), pa.scalar(number, pa.int32())
    return pa.table([keys, pa.repeat(paths, len(keys)), pa.repeat(numbers, len(keys))], schema=_LOCATIONS)


def _assigned(
    numbered: pa.Table, table: chronolake.Table, eligible: Candidates, by: Sequence[str], deletes: pa.Table
) -> Places:
    """The places of rows whose number is that of a candidate, or null: they get one of a target."""
    chosen = targets.of(table, eligible, _profile(numbered, deletes))
    is_new = pc.is_null(numbered[_NUMBER])
    new = numbered.filter(is_new)
    numbers = chosen.numbers(new[_KEY].combine_chunks(), new[_PATH].combine_chunks())
    filled = pc.replace_with_mask(numbered[_NUMBER].combine_chunks(), is_new.combine_chunks(), numbers)
    places = _with_columns(numbered, pa.table({_NUMBER: filled}))
    names = list(dict.fromkeys([*by, _PATH, _NUMBER]))
    return Places(places.group_by(names).aggregate([]), by, chosen.groups, deletes)


def _profile(numbered: pa.Table, deletes: pa.Table) -> targets.Profile:
    is_delete = numbered[columns.DELETE]
    upserts = _counted(numbered.filter(pc.invert(is_delete)))
    deleted = _counted(numbered.filter(is_delete)) + _counted(deletes)
    return {place: RowTotals(upserts[place], deleted[place]) for place in upserts | deleted}


def _counted(rows: pa.Table) -> Counter[tuple[str, int | None]]:
    """The number of rows by partition path and number of their file group."""
    sums = rows.group_by([_PATH, _NUMBER]).aggregate([([], "count_all")])
    names = (_PATH, _NUMBER, "count_all")
    places = zip(*(sums[name].to_pylist() for name in names), strict=True)
    return Counter({(path, number): count for path, number, count in places})


@dataclass(frozen=True, slots=True)
class KeyPlaces:
    """The partition path of each key, and the number of its file group, which is null for keys to insert.

    Numbers are places in ``slices``. ``deletes`` has the same columns, and the ordering field, of rows that
    delete records which move.
    """

    places: pa.Table
    deletes: pa.Table
    slices: Sequence[FileSlice] = ()


def find_unique(keys: pa.Table, table: chronolake.Table, as_of: str, treatment: Treatment) -> KeyPlaces:
    """The places of rows with these keys, in the table as of a completion time.

    Raises ``DuplicateKeys`` for an overwrite of partitions whose keys others have, and ``TableMismatch`` if the
    record index lacks too many records.
    """
    definition = table.definition
    ordering = [definition.merge_field] if definition.merge_field else []
    own = [_KEY, _PATH, columns.DELETE, *arrow_tags.order_columns(definition), *ordering]
    winners = merge.latest_per_key(keys.select(own), definition.merge_field).records
    replaces = treatment.replaces
    if replaces is Replaces.TABLE or (replaces is not None and not definition.partition_fields):
        return _unmoved(winners, pa.nulls(len(winners), pa.int32()))
    stored, slices = _stored_keys(table, as_of, winners[_KEY].combine_chunks())
    known = winners.join(stored, _KEY, join_type="left outer").combine_chunks()
    if not definition.partition_fields:
        return _unmoved(known, known[_OLD_NUMBER], slices)
    compared = _compared(known, slices, table, with_deletes=replaces is None)
    placed = _unique_places(compared, definition, treatment.existing, slices)
    if replaces is None:
        return placed
    _refuse_keys_elsewhere(compared, keys, definition)
    return _unmoved(placed.places, pa.nulls(len(placed.places), pa.int32()))


def refusing(table: chronolake.Table) -> Distributed:
    """A function in the place of a Spark job, for a process without Spark. It raises ``TableMismatch``."""

    def refuse(*_arguments: object) -> NoReturn:
        raise errors.TableMismatch(
            f"the record index of {table.name} lacks more records than one process takes in: call "
            "update_index() of its chronolake_spark.table, then repeat the INSERT"
        )

    return refuse


def _unmoved(
    known: pa.Table, numbers: pa.Array | pa.ChunkedArray, slices: Sequence[FileSlice] = ()
) -> KeyPlaces:
    places = pa.table({_KEY: known[_KEY], _PATH: known[_PATH], _NUMBER: numbers})
    return KeyPlaces(places, places.slice(0, 0), slices)


def _stored_keys(table: chronolake.Table, as_of: str, keys: pa.Array) -> tuple[pa.Table, list[FileSlice]]:
    """The keys that the index has, with partition path and number of their file group, if it is live."""
    covered = partial_snapshots.last_completion(table, as_of)
    if covered is None:
        return _STORED.empty_table(), []
    index = RecordIndex(table)
    manifest = index.catch_up(covered, distributed=refusing(table))
    if manifest is None:
        return _STORED.empty_table(), []
    entries = index.find(manifest, keys).rename_columns([_KEY, _OLD_PATH, _FILE_ID])
    place = [_OLD_PATH, _FILE_ID]
    slices, live = partial_snapshots.of_file_groups(table, as_of, entries.select(place))
    numbered = live.rename_columns([*place, _OLD_NUMBER])
    return entries.join(numbered, place, join_type="inner").select(_STORED.names), slices


def _compared(
    known: pa.Table, slices: Sequence[FileSlice], table: chronolake.Table, *, with_deletes: bool
) -> pa.Table:
    """The keys, with whether their record is stored in another partition, and its ordering value.

    An entry of the index may be of a record that was deleted: ``with_deletes`` the ordering value of the
    delete, if a log file has it, is there too.
    """
    elsewhere = known.filter(pc.not_equal(known[_OLD_PATH], known[_PATH])).select([_KEY, _OLD_NUMBER])
    numbers = elsewhere[_OLD_NUMBER].unique().to_pylist()
    definition = table.definition
    ordering = [] if definition.merge_field is None else [definition.merge_field]
    written = evolution.versions(table, definition, [slices[number] for number in numbers])
    reader = written.reader([_KEY, *ordering])
    empty = reader.layout.empty_table()

    def read(number: int) -> tuple[list[pa.Table], pa.Table]:
        wanted = elsewhere.filter(pc.equal(elsewhere[_OLD_NUMBER], number))[_KEY].combine_chunks()
        stored, narrow = stored_slices.of(slices[number]), reader.only(wanted)
        if not (with_deletes and ordering and stored.logs):
            return list(narrow.rows(stored)), empty
        return list(narrow.rows(stored)), narrow.log_deletes(stored).cast(reader.layout)

    with ThreadPoolExecutor(_THREADS) as threads:
        parts = list(threads.map(read, numbers))
    records = pa.concat_tables([empty, *itertools.chain.from_iterable(rows for rows, _ in parts)])
    if (field := reader.ordering_field) is None:
        of_key = pa.table({_KEY: records[_KEY].unique(), _IS_STORED: _true(len(records[_KEY].unique()))})
        return known.join(of_key, _KEY, join_type="left outer").combine_chunks()
    values = arrow_types.ordering_values(records, field)
    # Another engine may have written a key twice.
    of_key = pa.table({_KEY: records[_KEY], field: values}).group_by(_KEY).aggregate([(field, "max")])
    stored = of_key.rename_columns([_KEY, _OLD_ORDERING]).append_column(_IS_STORED, _true(len(of_key)))
    gone = pa.concat_tables([empty, *(deletes for _, deletes in parts)]).rename_columns(
        [_KEY, _DELETED_ORDERING]
    )
    compared = known.join(stored, _KEY, join_type="left outer")
    return compared.join(gone, _KEY, join_type="left outer").combine_chunks()


def _true(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(True), count)


def _unique_places(
    compared: pa.Table, table: Table, existing: Existing, slices: Sequence[FileSlice]
) -> KeyPlaces:
    """Where the rows of each key go, and the deletes of records that move."""
    is_elsewhere = pc.fill_null(compared[_IS_STORED], False)
    is_same = pc.fill_null(pc.equal(compared[_OLD_PATH], compared[_PATH]), False)
    moves = pc.and_(is_elsewhere, pc.and_(pc.invert(compared[columns.DELETE]), _wins(compared, table)))
    if existing is not Existing.MERGE:
        moves = pc.and_(moves, False)
    goes_back = pc.or_(pc.and_not(is_elsewhere, moves), _is_late(compared, table))
    places = pa.table(
        {
            _KEY: compared[_KEY],
            _PATH: pc.if_else(goes_back, compared[_OLD_PATH], compared[_PATH]),
            _NUMBER: pc.if_else(pc.or_(goes_back, is_same), compared[_OLD_NUMBER], None),
        }
    )
    moved = compared.filter(moves)
    deletes = {_KEY: moved[_KEY], _PATH: moved[_OLD_PATH], _NUMBER: moved[_OLD_NUMBER]}
    if table.merge_field is not None:
        deletes[table.merge_field] = arrow_types.ordering_values(moved, table.merge_field)
    return KeyPlaces(places, pa.table(deletes), slices)


def _wins(compared: pa.Table, table: Table) -> pa.ChunkedArray | pa.Scalar:
    """Whether the new record is not older than the stored one."""
    if table.merge_field is None:
        return pa.scalar(True)
    new, old = arrow_types.ordering_values(compared, table.merge_field), compared[_OLD_ORDERING]
    return pc.or_(pc.is_null(old), pc.fill_null(pc.greater_equal(new, old), False))


def _is_late(compared: pa.Table, table: Table) -> pa.ChunkedArray | pa.Scalar:
    """Whether a delete in a log file of another partition is later than the row, or the row deletes too."""
    if table.merge_field is None:
        return pa.scalar(False)
    new, deleted = arrow_types.ordering_values(compared, table.merge_field), compared[_DELETED_ORDERING]
    loses = pc.or_(pc.is_null(new), pc.fill_null(pc.less(new, deleted), False))
    return pc.and_(pc.is_valid(deleted), pc.or_(compared[columns.DELETE], loses))


def _refuse_keys_elsewhere(compared: pa.Table, keys: pa.Table, table: Table) -> None:
    """Refuse an overwrite that would leave a second record of a key in a partition that it does not replace."""
    is_replaced = pc.is_in(compared[_OLD_PATH], value_set=keys[_PATH].unique())
    is_elsewhere = pc.and_not(pc.fill_null(compared[_IS_STORED], False), is_replaced)
    elsewhere = compared.filter(is_elsewhere)[_KEY]
    if len(elsewhere):
        raise unique_keys.keys_elsewhere(table, len(elsewhere), elsewhere[0].as_py())
