"""The first build of a large record index, as a Spark job: a task per shard writes the file of the shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from chronolake_model import decoding
from chronolake_spark.index.record import entries as index_entries, entry_files
from chronolake_spark.index.record.entries import ChangedSlice
from chronolake_spark.index.record.entry_files import IndexFile
from chronolake_spark.index.record.record_index import Distributed
from chronolake_spark.read.slices.slice_reader import SliceReader

_READ_TASKS_PER_CORE = 4
_SHARD = "shard"
_ENTRIES = f"key string, partition_path string, file_id string, time string, {_SHARD} int"
_FILES = "file string"


def distributed(spark: SparkSession, index_folder: str) -> Distributed:
    """What writes index files with Spark into a folder of the table."""

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
