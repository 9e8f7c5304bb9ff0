"""The place of each row in a table with a record index, whose keys are unique in the whole table.

A row of a key that the table has in another partition moves the record: the row is inserted where it belongs,
and a row is added that deletes the record at its old place, in the same instant. If the stored record has a
larger ordering value, the row goes to the old place, where it loses. So do deletes, which need no partition
value, and inserts of keys that exist, which are refused or dropped there. If a delete in a log file is later
than the row, the row goes to the place of the delete, where it loses too. Rows of one key go to one place, that
of the row that wins.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions as sf

import chronolake
from chronolake.indexes import arrow_unique_keys, partial_snapshots
from chronolake.indexes.record import entry_files
from chronolake.indexes.record.manifests import Manifest
from chronolake.slices import columns
from chronolake.slices.base_files import TableFolder
from chronolake.slices.merge import Existing
from chronolake.writing.choices import Replaces
from chronolake_model.files import FileSlice
from chronolake_model.tables import Table
from chronolake_spark.driver import schema
from chronolake_spark.index.locating import persisted
from chronolake_spark.read import evolution, slice_frames
from chronolake_spark.read.evolution import Versions

KEYS_HERE_MAX: Final = 10_000
"""Maximum number of keys that the driver looks up; tasks look up larger sets."""
_TASKS_PER_CORE: Final = 2
_WINS, _ORDERING = "_chronolake_wins", "_chronolake_ordering"
_STORED_PATH, _STORED_GROUP = "_chronolake_stored_path", "_chronolake_stored_group"
_STORED_ORDERING, _IS_STORED = "_chronolake_stored_ordering", "_chronolake_is_stored"
_FILE_ID, _MOVES = "_chronolake_file_id", "_chronolake_moves"
_DELETED_ORDERING: Final = "_chronolake_deleted_ordering"
_STORED: Final = f"{columns.RECORD_KEY} string, {_STORED_PATH} string, {_STORED_GROUP} int"
_LIVE: Final = f"{_STORED_PATH} string, {_FILE_ID} string, {_STORED_GROUP} int"
_ENTRIES: Final = f"{columns.RECORD_KEY} string, {_STORED_PATH} string, {_FILE_ID} string"


@dataclass(frozen=True, slots=True)
class Treatment:
    """How a write treats keys that exist, what it replaces, and the columns that keep their stored values."""

    existing: Existing
    replaces: Replaces | None
    kept_columns: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class IndexedTable:
    """A table as of a completion time, in which nothing is stored unless it has the ``manifest`` of its index.

    The rows are tagged for ``definition``. ``folder`` has the files of the index.
    """

    table: chronolake.Table
    definition: Table
    as_of: str
    folder: TableFolder
    manifest: Manifest | None


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows with the number of the file group that has their key: its place in ``slices``."""

    rows: DataFrame
    slices: Sequence[FileSlice] = ()


def placed(rows: DataFrame, indexed: IndexedTable, treatment: Treatment, kept: contextlib.ExitStack) -> Placed:
    """``rows`` with the partition path and the number (``columns.BUCKET``) of the file group that has the key.

    The number is null for keys that are inserted. Rows that delete at the old places of moved records are
    added. Raises ``DuplicateKeys`` for an overwrite of partitions whose keys others have, and
    ``SchemaMismatch`` for a partial update that moves a record.
    """
    table = indexed.definition
    replaces = treatment.replaces
    if replaces is not None and not table.partition_fields:
        return Placed(rows)  # All of the table is replaced.
    keys = persisted(_winners(rows, table), kept)
    if replaces is Replaces.TABLE:
        winners = keys.select(columns.RECORD_KEY, columns.PARTITION_PATH)
        return Placed(_with(rows.drop(columns.PARTITION_PATH), winners, rows.columns))
    of_index, slices = _stored(keys, indexed, kept)
    stored = persisted(of_index, kept)
    if not table.partition_fields:
        place = stored.select(columns.RECORD_KEY, sf.col(_STORED_GROUP).alias(columns.BUCKET))
        return Placed(_with(rows.drop(columns.BUCKET), place, rows.columns), slices)
    known = keys.join(stored, columns.RECORD_KEY, "left")
    moved = sf.col(_STORED_PATH) != sf.col(columns.PARTITION_PATH)
    numbers = [row[0] for row in known.where(moved).select(_STORED_GROUP).distinct().collect()]
    of_moved = [slices[number] for number in numbers]
    written = evolution.versions(indexed.table, table, of_moved)
    compared = _compared(known, written, of_moved, moved)
    if replaces is None:
        compared = _with_deletes(compared, written, of_moved, moved)
    places = persisted(_places(compared, table, treatment.existing), kept)
    if replaces is not None:
        _refuse_keys_elsewhere(places, rows, table)
        places = places.withColumn(columns.BUCKET, sf.lit(None).cast("int"))
        return Placed(_with(rows.drop(columns.PARTITION_PATH, columns.BUCKET), _where(places), rows.columns))
    if numbers and treatment.kept_columns:
        _refuse_partial_moves(places, table, treatment.kept_columns)
    here = _with(rows.drop(columns.PARTITION_PATH, columns.BUCKET), _where(places), rows.columns)
    return Placed(here if not numbers else here.unionByName(_deletes(places, rows, table)), slices)


def _with(rows: DataFrame, places: DataFrame, names: Sequence[str]) -> DataFrame:
    joined = rows.join(places, columns.RECORD_KEY, "left")
    return joined.select(*(sf.col(schema.quoted(name)) for name in names))


def _where(places: DataFrame) -> DataFrame:
    return places.select(columns.RECORD_KEY, columns.PARTITION_PATH, columns.BUCKET)


def _winners(rows: DataFrame, table: Table) -> DataFrame:
    """The partition path of the winning row of each key, whether it deletes, and its ordering value.

    Rows without an order are refused where they are written: one task has all rows of a key there.
    """
    if not table.partition_fields:
        return rows.select(columns.RECORD_KEY).distinct()
    ordering = _ordering(table)
    order = [sf.col(name) for name in rows.columns if name.startswith(columns.ORDER_PREFIX)]
    ranked = [] if _merge_field(table) is None else [_rank(ordering, sf.col(columns.DELETE)), ordering]
    by = sf.struct(*ranked, *order) if ranked or order else sf.lit(0)
    return rows.groupBy(columns.RECORD_KEY).agg(
        sf.max_by(columns.PARTITION_PATH, by).alias(columns.PARTITION_PATH),
        sf.max_by(columns.DELETE, by).alias(columns.DELETE),
        sf.max_by(ordering, by).alias(_ORDERING),
    )


def _ordering(table: Table) -> Column:
    """The ordering value. NaN is null, as in ``ordering_values.of``."""
    if (name := _merge_field(table)) is None:
        return sf.lit(None).cast("int")
    field = next(field for field in table.schema if field.name == name)
    value = sf.col(schema.quoted(name))
    is_floating = field.type.strip().lower() in ("float", "double")
    return sf.when(~sf.isnan(value), value) if is_floating else value


def _merge_field(table: Table) -> str | None:
    """The field whose larger value wins; None if the later write wins.

    Several have only tables that were adopted, which have no index of all keys.
    """
    assert len(table.merge_fields) <= 1
    return next(iter(table.merge_fields), None)


def _rank(ordering: Column, deletes: Column) -> Column:
    """Without an ordering value a record comes before all others, and a delete after them."""
    return sf.when(ordering.isNotNull(), 1).when(deletes, 2).otherwise(0)


def _stored(
    keys: DataFrame, indexed: IndexedTable, kept: contextlib.ExitStack
) -> tuple[DataFrame, list[FileSlice]]:
    """The keys that the index has, with partition path and number of their file group, if it is live."""
    spark = keys.sparkSession
    keys = keys.select(columns.RECORD_KEY)
    folder, manifest = indexed.folder, indexed.manifest
    if manifest is None:
        return spark.createDataFrame([], _STORED), []
    names, place = [columns.RECORD_KEY, _STORED_PATH, _STORED_GROUP], [_STORED_PATH, _FILE_ID]
    if keys.count() <= KEYS_HERE_MAX:
        entries = _find(folder, manifest, keys.toArrow()[columns.RECORD_KEY].combine_chunks())
        slices, live = _live(indexed, entries.select(place))
        joined = entries.join(live, place, join_type="inner").select(names)
        return spark.createDataFrame(joined.combine_chunks(), _STORED), slices
    of_tasks = persisted(_entries(spark, keys, folder, manifest), kept)
    slices, live = _live(indexed, of_tasks.select(*place).distinct().toArrow())
    numbered = sf.broadcast(spark.createDataFrame(live, _LIVE))
    return of_tasks.join(numbered, place).select(*names), slices


def _live(indexed: IndexedTable, names: pa.Table) -> tuple[list[FileSlice], pa.Table]:
    slices, live = partial_snapshots.of_file_groups(indexed.table, indexed.as_of, names)
    return slices, live.rename_columns([*names.column_names, _STORED_GROUP])


def _entries(spark: SparkSession, keys: DataFrame, folder: TableFolder, manifest: Manifest) -> DataFrame:
    tasks = min(manifest.shards, _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    shard = sf.pmod(sf.xxhash64(columns.RECORD_KEY), sf.lit(manifest.shards))
    spread = keys.repartitionById(tasks, sf.pmod(shard, sf.lit(tasks)).cast("int"))
    return spread.mapInArrow(_Find(folder, manifest), _ENTRIES)


class _Find:
    """The function that looks keys up in the index: all of a task at once."""

    def __init__(self, folder: TableFolder, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chunks = [batch.column(0) for batch in batches]
        keys = pa.chunked_array(chunks, pa.string()).combine_chunks()
        yield from _find(self._folder, self._manifest, keys).to_batches()


def _find(folder: TableFolder, manifest: Manifest, keys: pa.Array) -> pa.Table:
    if not len(keys):
        return entry_files.ENTRIES.empty_table().rename_columns([columns.RECORD_KEY, _STORED_PATH, _FILE_ID])
    entries = entry_files.find(folder, manifest.files, manifest.shards, keys)
    return entries.rename_columns([columns.RECORD_KEY, _STORED_PATH, _FILE_ID])


def _compared(known: DataFrame, written: Versions, slices: Sequence[FileSlice], moved: Column) -> DataFrame:
    """``known`` with whether the record of a key in another partition is stored, and its ordering value.

    An entry of the index may be of a record that was deleted.
    """
    table = written.table
    names = [columns.RECORD_KEY, *table.merge_fields]
    known = known.withColumn(_DELETED_ORDERING, sf.lit(None).cast(known.schema[_ORDERING].dataType))
    if not slices:
        return known.withColumns(
            {_IS_STORED: sf.lit(None).cast("boolean"), _STORED_ORDERING: sf.col(_ORDERING)}
        )
    records = slice_frames.records(known.sparkSession, written, slices, [*names, columns.PARTITION_PATH])
    stored = records.select(
        columns.RECORD_KEY,
        sf.col(columns.PARTITION_PATH).alias(_STORED_PATH),
        _ordering(table).alias(_STORED_ORDERING),
    )
    wanted = known.where(moved).select(columns.RECORD_KEY, _STORED_PATH)
    of_moved = stored.join(wanted, [columns.RECORD_KEY, _STORED_PATH], "left_semi")
    # Another engine may have written a key twice.
    of_key = of_moved.groupBy(columns.RECORD_KEY).agg(
        sf.max(_STORED_ORDERING).alias(_STORED_ORDERING), sf.lit(True).alias(_IS_STORED)
    )
    return known.join(of_key, columns.RECORD_KEY, "left")


def _with_deletes(
    compared: DataFrame, written: Versions, slices: Sequence[FileSlice], moved: Column
) -> DataFrame:
    """``compared`` with the ordering value of the delete of a key that a log file in another partition has."""
    field = _merge_field(written.table)
    if field is None or not any(slice_.log_files for slice_ in slices):
        return compared
    deletes = slice_frames.log_deletes(compared.sparkSession, written, slices, field)
    wanted = compared.where(moved).select(columns.RECORD_KEY, _STORED_PATH)
    by_place = deletes.withColumnRenamed(columns.PARTITION_PATH, _STORED_PATH)
    of_moved = by_place.join(wanted, [columns.RECORD_KEY, _STORED_PATH], "left_semi")
    of_key = of_moved.groupBy(columns.RECORD_KEY).agg(sf.max(schema.quoted(field)).alias(_DELETED_ORDERING))
    return compared.drop(_DELETED_ORDERING).join(of_key, columns.RECORD_KEY, "left")


def _places(compared: DataFrame, table: Table, existing: Existing) -> DataFrame:
    """The place of each key's rows, whether its record moves, and where it is stored."""
    is_same = sf.col(_STORED_PATH) == sf.col(columns.PARTITION_PATH)
    is_elsewhere = sf.col(_IS_STORED).isNotNull()
    new, old = sf.col(_ORDERING), sf.col(_STORED_ORDERING)
    wins = sf.lit(True) if not table.merge_fields else old.isNull() | sf.coalesce(new >= old, sf.lit(False))
    moves = is_elsewhere & ~sf.col(columns.DELETE) & wins & sf.lit(existing is Existing.MERGE)
    deleted = sf.col(_DELETED_ORDERING)
    is_late = deleted.isNotNull() & (sf.col(columns.DELETE) | new.isNull() | (new < deleted))
    goes_back = (is_elsewhere & ~moves) | is_late
    return compared.select(
        columns.RECORD_KEY,
        sf.when(goes_back, sf.col(_STORED_PATH))
        .otherwise(sf.col(columns.PARTITION_PATH))
        .alias(columns.PARTITION_PATH),
        sf.when(goes_back | is_same, sf.col(_STORED_GROUP)).alias(columns.BUCKET),
        moves.alias(_MOVES),
        sf.coalesce(is_elsewhere, sf.lit(False)).alias(_IS_STORED),
        _STORED_PATH,
        _STORED_GROUP,
        _ORDERING,
    )


def _deletes(places: DataFrame, rows: DataFrame, table: Table) -> DataFrame:
    """Rows that delete the records that move, at their old places."""
    values: Mapping[str, Column] = {
        columns.RECORD_KEY: sf.col(columns.RECORD_KEY),
        columns.PARTITION_PATH: sf.col(_STORED_PATH),
        columns.BUCKET: sf.col(_STORED_GROUP),
        columns.DELETE: sf.lit(True),
    }
    if (name := _merge_field(table)) is not None:
        values = {**values, name: sf.col(_ORDERING)}
    selected = [
        values.get(field.name, sf.lit(None)).cast(field.dataType).alias(field.name) for field in rows.schema
    ]
    return places.where(_MOVES).select(*selected)


def _refuse_partial_moves(places: DataFrame, table: Table, kept_columns: Sequence[str]) -> None:
    """Refuse a partial update that moves a record: where it goes, its stored values are not known."""
    if moved := places.where(_MOVES).select(columns.RECORD_KEY).first():
        raise arrow_unique_keys.partial_moves(table, kept_columns, moved[0])


def _refuse_keys_elsewhere(places: DataFrame, rows: DataFrame, table: Table) -> None:
    """Refuse an overwrite that would leave a second record of a key in a partition that it does not replace."""
    replaced = rows.select(sf.col(columns.PARTITION_PATH).alias(_STORED_PATH)).distinct()
    elsewhere = places.where(_IS_STORED).join(replaced, _STORED_PATH, "left_anti").select(columns.RECORD_KEY)
    if example := elsewhere.first():
        raise arrow_unique_keys.keys_elsewhere(table, elsewhere.count(), example[0])
