"""The file groups of rows in a table with a record index: the index catches up, then it is looked up.

The first build of a large index is a Spark job: a task per shard writes the file of the shard.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import chronolake
from chronolake.indexes import partial_snapshots
from chronolake.indexes.candidates import Candidates
from chronolake.indexes.record import entries as index_entries, entry_files, manifests, record_index
from chronolake.indexes.record.entries import ChangedSlice
from chronolake.indexes.record.entry_files import IndexFile
from chronolake.indexes.record.manifests import Manifest
from chronolake.indexes.record.record_index import Distributed, RecordIndex
from chronolake.slices.merge import Existing
from chronolake.slices.slice_reader import SliceReader
from chronolake.writing.choices import Replaces
from chronolake_model import decoding
from chronolake_model.tables import Table
from chronolake_spark.driver import progress
from chronolake_spark.index import locating, unique_keys
from chronolake_spark.index.locating import Located
from chronolake_spark.index.unique_keys import Placed, Treatment

_READ_TASKS_PER_CORE = 4
_SHARD = "shard"
_ENTRIES = f"key string, partition_path string, file_id string, time string, {_SHARD} int"
_FILES = "file string"


@contextlib.contextmanager
def located(
    rows: DataFrame, table: chronolake.Table, definition: Table, as_of: str, treatment: Treatment
) -> Iterator[Located]:
    """As ``locating.located``, with the record index. Raises ``DuplicateKeys`` for an overwrite."""
    nothing = Candidates()
    with contextlib.ExitStack() as kept:
        if treatment.existing is Existing.UNCHECKED:
            yield locating.assigned(rows, table, nothing)
            return
        rows = locating.persisted(rows, kept)
        placed = _placed(rows, table, definition, as_of, treatment, kept)
        eligible = Candidates(placed.slices, fills_as_of=as_of)
        yield locating.assigned(placed.rows, table, nothing if treatment.replaces is not None else eligible)


def of_new_keys(
    rows: DataFrame, table: chronolake.Table, definition: Table, as_of: str, kept: contextlib.ExitStack
) -> Placed:
    """Rows to insert. Those whose keys exist, in any partition, have the places of the stored records."""
    rows = locating.persisted(rows, kept)
    return _placed(rows, table, definition, as_of, Treatment(Existing.FAIL, None), kept)


def _placed(
    rows: DataFrame,
    table: chronolake.Table,
    definition: Table,
    as_of: str,
    treatment: Treatment,
    kept: contextlib.ExitStack,
) -> Placed:
    index = RecordIndex(table)
    covered = partial_snapshots.last_completion(table, as_of)
    manifest = None
    if covered is not None and treatment.replaces is not Replaces.TABLE:
        progress.step("bring the record index up to date")
        manifest = _caught_up(index, rows.sparkSession, covered)
        progress.step("look up keys in the record index")
    indexed = unique_keys.IndexedTable(table, definition, as_of, index.folder, manifest)
    return unique_keys.placed(rows, indexed, treatment, kept)


def follow(spark: SparkSession, table: chronolake.Table) -> None:
    """As ``record_index.follow``, with Spark jobs for many records."""
    index_folder = manifests.index_folder_of(table.definition.table_id)
    record_index.follow(table, distributed(spark, index_folder))


def _caught_up(index: RecordIndex, spark: SparkSession, until: str | None) -> Manifest | None:
    return index.catch_up(until, distributed=distributed(spark, index.index_folder))


def distributed(spark: SparkSession, index_folder: str) -> Distributed:
    """A function that writes index files with Spark into a folder of the table."""

    def write(reader: SliceReader, changed: Sequence[ChangedSlice], shards: int) -> list[IndexFile]:
        tasks = min(len(changed), _READ_TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
        slices = spark.createDataFrame([(slice_.to_json(),) for slice_ in changed], "slice string")
        entries = slices.repartition(tasks).mapInArrow(_Entries(reader, shards), _ENTRIES)
        files = entries.repartitionById(shards, entries[_SHARD]).mapInArrow(
            _Files(reader, index_folder), _FILES
        )
        return [decoding.decode(row[0], IndexFile) for row in files.collect()]

    return write


class _Entries:
    """The function that makes the entries of slices."""

    def __init__(self, reader: SliceReader, shards: int) -> None:
        self._reader = reader
        self._shards = shards

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                for entries in index_entries.entries(self._reader, index_entries.from_json(text)):
                    shards = entry_files.shards_of(entries[entry_files.KEY], self._shards)
                    yield from entries.append_column(_SHARD, pa.array(shards, pa.int32())).to_batches()


class _Files:
    """The function that writes the entries of a shard, which are all rows of a task."""

    def __init__(self, reader: SliceReader, index_folder: str) -> None:
        self._folder = reader.folder
        self._index_folder = index_folder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if not sum(map(len, held)):
            return
        rows = pa.Table.from_batches(held)
        shard: int = rows[_SHARD][0].as_py()
        entries = index_entries.in_order([rows.drop_columns([_SHARD]).cast(index_entries.ENTRIES)])
        file = entry_files.write(self._folder, self._index_folder, entries, shard)
        yield pa.RecordBatch.from_pydict({"file": [msgspec.json.encode(file).decode()]})
