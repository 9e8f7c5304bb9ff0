"""The file group of each row, for tables whose index is not a hash of the key.

tagged rows -> the index finds the file groups of the keys that exist -> the assigner chooses for the others

File groups are numbered by the driver: first those that exist in the partitions of the rows, then new ones.
With the simple and the bloom index, executors find the file groups of keys in the files. Few keys are sent to
all tasks, each of which looks for them in its files; the bloom index reads only the files whose key range and
bloom filter admit one of them. If there are many keys, tasks read the keys of all candidates, and Spark joins
them. Source: Hudi's HoodieSimpleIndex and HoodieBloomIndex.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as sf
from pyspark.sql.types import StructType
from pyspark.storagelevel import StorageLevel

import chronolake
from chronolake.indexes import candidates, partial_snapshots, stored_keys, targets
from chronolake.indexes.candidates import Candidates
from chronolake.indexes.targets import RowTotals
from chronolake.slices import columns, stored_slices
from chronolake.slices.key_search import KeySet
from chronolake.slices.stored_slices import NumberedGroup
from chronolake_model.files import FileSlice
from chronolake_model.names import counted
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType
from chronolake_spark import errors
from chronolake_spark.driver import progress, schema
from chronolake_spark.read import evolution
from chronolake_spark.read.evolution import Versions
from chronolake_spark.read.slice_frames import OnExecutor

_PLACE: Final = [columns.RECORD_KEY, columns.PARTITION_PATH]
_SLOTS: Final = "_chronolake_slots"

INDEXES: Final = (IndexType.SIMPLE, IndexType.BLOOM)
"""The types of an index whose keys are looked up in the files."""
KEYS_SENT_MAX: Final = 500_000
"""Rows whose keys are sent to all tasks. The driver and each task hold them in memory."""
_LOCATION_COLUMNS: Final = f"{columns.RECORD_KEY} string, {columns.PARTITION_PATH} string, {columns.BUCKET} int"
_TASKS_PER_CORE: Final = 4
_BATCH_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Located:
    """Rows with the number of their file group, and the file groups."""

    rows: DataFrame
    groups: Sequence[NumberedGroup]


@contextlib.contextmanager
def located(
    rows: DataFrame, table: chronolake.Table, definition: Table, as_of: str, *, is_looked_up: bool
) -> Iterator[Located]:
    """Tagged rows with their file groups. Write them within the context: it keeps frames in Spark's storage.

    The rows were tagged for ``definition``. They are looked up in the table ``as_of`` the begin of the instant.
    Unless ``is_looked_up``, all rows go to new file groups. Looked-up rows are computed once.
    """
    with contextlib.ExitStack() as kept:
        if not is_looked_up:
            yield assigned(rows, table, Candidates())
            return
        rows, eligible = _looked_up(persisted(rows, kept), table, definition, as_of, kept)
        yield assigned(rows, table, eligible)


def looked_up(
    rows: DataFrame, table: chronolake.Table, definition: Table, as_of: str, kept: contextlib.ExitStack
) -> tuple[DataFrame, Sequence[FileSlice]]:
    """Tagged rows with the number of the slice that may have their key, or null, and these slices."""
    found, eligible = _looked_up(persisted(rows, kept), table, definition, as_of, kept)
    return found, eligible.slices


def _looked_up(
    rows: DataFrame, table: chronolake.Table, definition: Table, as_of: str, kept: contextlib.ExitStack
) -> tuple[DataFrame, Candidates]:
    eligible = Candidates()
    if partial_snapshots.last_completion(table, as_of) is not None:
        eligible = candidates.find(_ranges(rows, definition), table, definition, as_of)
    if not eligible.slices:
        return rows, eligible
    groups = counted(len(eligible.slices), "file group")
    progress.step(f"look up the keys of {counted(eligible.rows, 'row')} in {groups}")
    written = evolution.versions(table, definition, eligible.slices)
    existing = persisted(locations(rows.select(*_PLACE), eligible, written), kept)
    names = [schema.quoted(name) for name in rows.columns]
    return rows.drop(columns.BUCKET).join(existing, _PLACE, "left").select(*names), eligible


def _ranges(rows: DataFrame, table: Table) -> pa.Table:
    """By partition the number of rows, and of each key field the least and the greatest value."""
    measures = [sf.count(sf.lit(1)).alias(candidates.COUNT)]
    for index, name in enumerate(table.record_key_fields):
        column = sf.col(schema.quoted(name))
        measures += [
            sf.min(column).alias(f"{candidates.LEAST}{index}"),
            sf.max(column).alias(f"{candidates.GREATEST}{index}"),
            sf.count(column).alias(f"{candidates.VALUES}{index}"),
        ]
    return rows.groupBy(columns.PARTITION_PATH).agg(*measures).toArrow()


def assigned(rows: DataFrame, table: chronolake.Table, eligible: Candidates) -> Located:
    """Rows whose number is that of a candidate, or null: they get one of a file group that takes inserts."""
    chosen = targets.of(table, eligible, _profile(rows))
    progress.step(f"write {counted(len(chosen.groups), 'file group')}")
    return Located(_filled(rows, chosen.slots), chosen.groups)


def persisted(frame: DataFrame, kept: contextlib.ExitStack) -> DataFrame:
    """``frame``, kept in Spark's storage until ``kept`` is closed."""
    kept.callback(frame.persist(StorageLevel.MEMORY_AND_DISK).unpersist)
    return frame


def _profile(rows: DataFrame) -> targets.Profile:
    counted_rows = rows.groupBy(columns.PARTITION_PATH, columns.BUCKET).agg(
        sf.count_if(~sf.col(columns.DELETE)), sf.count_if(columns.DELETE)
    )
    return {(path, number): RowTotals(*counts) for path, number, *counts in counted_rows.collect()}


def _filled(rows: DataFrame, slots: Mapping[str, Sequence[int]]) -> DataFrame:
    """The rows with a number each: that of their file group, or the one that their key has among the slots."""
    names = rows.columns
    changed = errors.SourceChanged(
        "the rows changed while they were written: a partition appeared that they did not have at first. Write "
        "a frame that gives the same rows each time it is computed, for example one that is persisted"
    )
    by_key = sf.xxhash64(columns.RECORD_KEY)
    chosen = sf.lit(None)
    if [len(numbers) for numbers in slots.values()] == [1]:
        [(path, [number])] = slots.items()
        chosen = sf.when(sf.col(columns.PARTITION_PATH) == path, number)
    elif slots:
        frame = rows.sparkSession.createDataFrame(
            [(path, list(numbers)) for path, numbers in slots.items()],
            f"{columns.PARTITION_PATH} string, {_SLOTS} array<int>",
        )
        rows = rows.join(sf.broadcast(frame), columns.PARTITION_PATH, "left")
        chosen = sf.get(sf.col(_SLOTS), sf.pmod(by_key, sf.size(_SLOTS)).cast("int"))
    located = sf.coalesce(sf.col(columns.BUCKET), chosen, _refused(changed)).cast("int")
    return rows.withColumn(columns.BUCKET, located).select(*(sf.col(schema.quoted(name)) for name in names))


def _refused(error: errors.LocalError) -> Column:
    return sf.raise_error(sf.lit(errors.encoded(error))).cast("int")


def locations(keys: DataFrame, candidates: Candidates, written: Versions) -> DataFrame:
    """The file groups of ``keys``, a frame of the record key and the partition path of each row.

    The result has them and the number of the candidate (``columns.BUCKET``), for each key that exists, also if
    its last change in a log file is a delete. A key that is in two file groups comes twice: both get the row.
    """
    spark = keys.sparkSession
    tasks = min(len(candidates.slices), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    texts = [(number, stored_slices.of(slice_).to_json()) for number, slice_ in enumerate(candidates.slices)]
    slices = spark.createDataFrame(texts, "number int, slice string").repartition(tasks)
    if candidates.rows <= KEYS_SENT_MAX:
        wanted = stored_keys.by_partition(keys.toArrow())
        return slices.mapInArrow(_ExistingKeys(written, wanted), _LOCATION_COLUMNS)
    stored = slices.mapInArrow(_ExistingKeys(written, None), _LOCATION_COLUMNS)
    return stored.join(keys, _PLACE, "left_semi")


class _ExistingKeys(OnExecutor):
    """The function that finds keys in slices: the ``wanted`` ones by partition path, or all."""

    def __init__(self, written: Versions, wanted: Mapping[str, KeySet] | None) -> None:
        super().__init__(written, StructType([]))
        self._wanted = wanted
        self._uses_filters = written.table.index.type is IndexType.BLOOM

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = self.reader().slices
        for batch in batches:
            for number, text in zip(*batch.to_pydict().values(), strict=True):
                stored = stored_slices.from_json(text)
                if self._wanted is None:
                    keys = pa.chunked_array([*reader.base_keys(stored), *reader.log_keys(stored)], pa.string())
                    yield from _of_group(number, stored.partition_path, keys.unique())
                elif (wanted := self._wanted.get(stored.partition_path)) is not None:
                    uses_filters = self._uses_filters
                    existing = stored_keys.existing(reader, stored, wanted, uses_filters=uses_filters)
                    yield from _of_group(number, stored.partition_path, existing)


def _of_group(number: int, partition_path: str, keys: pa.Array) -> Iterator[pa.RecordBatch]:
    """The locations of keys of one file group."""
    for start in range(0, len(keys), _BATCH_ROWS):
        part = keys.slice(start, _BATCH_ROWS)
        numbers = pa.repeat(pa.scalar(number, pa.int32()), len(part))
        paths = pa.repeat(pa.scalar(partition_path), len(part))
        yield pa.record_batch([part, paths, numbers], names=[*_PLACE, columns.BUCKET])
