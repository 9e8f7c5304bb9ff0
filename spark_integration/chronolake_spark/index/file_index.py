"""The simple and the bloom index: executors find the file groups of keys in the files.

Few keys are sent to all tasks, each of which looks for them in its files; the bloom index reads only the files
whose key range and bloom filter admit one of them. If there are many keys, tasks read the keys of all
candidates, and Spark joins them. Source: Hudi's HoodieSimpleIndex and HoodieBloomIndex.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from chronolake_model.vocabulary import IndexType
from chronolake_spark.common import columns
from chronolake_spark.index.candidates import Candidates
from chronolake_spark.index.keys import lookup
from chronolake_spark.read.evolution import Versions
from chronolake_spark.read.slice_frames import OnExecutor
from chronolake_spark.read.slices import stored_slices

KEYS_SENT_MAX: Final = 500_000
"""Rows whose keys are sent to all tasks. The driver and each task hold them in memory."""
_PLACE: Final = [columns.RECORD_KEY, columns.PARTITION_PATH]
_LOCATIONS: Final = f"{columns.RECORD_KEY} string, {columns.PARTITION_PATH} string, {columns.BUCKET} int"
_TASKS_PER_CORE: Final = 4
_BATCH_ROWS: Final = 100_000


def locations(keys: DataFrame, candidates: Candidates) -> DataFrame:
    """The keys that exist, with the number of their file group: see ``locating.Locate``."""
    spark = keys.sparkSession
    tasks = min(len(candidates.slices), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    texts = [(number, stored_slices.of(slice_).to_json()) for number, slice_ in enumerate(candidates.slices)]
    slices = spark.createDataFrame(texts, "number int, slice string").repartition(tasks)
    if candidates.rows <= KEYS_SENT_MAX:
        wanted = lookup.by_partition(keys.toArrow())
        return slices.mapInArrow(_ExistingKeys(candidates.written, wanted), _LOCATIONS)
    stored = slices.mapInArrow(_ExistingKeys(candidates.written, None), _LOCATIONS)
    return stored.join(keys, _PLACE, "left_semi")


class _ExistingKeys(OnExecutor):
    """The function that finds keys in slices: the ``wanted`` ones by partition path, or all."""

    def __init__(self, written: Versions, wanted: Mapping[str, pa.Array] | None) -> None:
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
                    existing = lookup.existing(reader, stored, wanted, uses_filters=uses_filters)
                    yield from _of_group(number, stored.partition_path, existing)


def _of_group(number: int, partition_path: str, keys: pa.Array) -> Iterator[pa.RecordBatch]:
    """The locations of keys of one file group."""
    for start in range(0, len(keys), _BATCH_ROWS):
        part = keys.slice(start, _BATCH_ROWS)
        numbers = pa.repeat(pa.scalar(number, pa.int32()), len(part))
        paths = pa.repeat(pa.scalar(partition_path), len(part))
        yield pa.record_batch([part, paths, numbers], names=[*_PLACE, columns.BUCKET])
