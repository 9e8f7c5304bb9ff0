"""The simple index: the file group of a key is found by reading the keys of all candidates, on the executors.

Source: Hudi's HoodieSimpleIndex.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from chronolake_model.files import FileSlice
from chronolake_spark import columns, stored_slices
from chronolake_spark.evolution import Versions
from chronolake_spark.slice_frames import OnExecutor

_PLACE: Final = [columns.RECORD_KEY, columns.PARTITION_PATH]
_LOCATIONS: Final = f"{columns.RECORD_KEY} string, {columns.PARTITION_PATH} string, {columns.BUCKET} int"
_TASKS_PER_CORE: Final = 4
_BATCH_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Candidates:
    """The file slices that may have a key of the rows, each numbered by its place. ``written`` reads them."""

    written: Versions
    slices: Sequence[FileSlice]


def locations(keys: DataFrame, candidates: Candidates) -> DataFrame:
    """The keys that exist, with the number of their file group: see ``locating.Locate``."""
    spark = keys.sparkSession
    tasks = min(len(candidates.slices), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    texts = [(number, stored_slices.of(slice_).to_json()) for number, slice_ in enumerate(candidates.slices)]
    slices = spark.createDataFrame(texts, "number int, slice string").repartition(tasks)
    stored = slices.mapInArrow(_StoredKeys(candidates.written), _LOCATIONS)
    return stored.join(keys, _PLACE, "left_semi")


class _StoredKeys(OnExecutor):
    """The function that reads the keys of slices."""

    def __init__(self, written: Versions) -> None:
        super().__init__(written, StructType([]))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = self.reader().slices
        for batch in batches:
            for number, text in zip(*batch.to_pydict().values(), strict=True):
                stored = stored_slices.from_json(text)
                yield from of_group(number, stored.partition_path, reader.stored_keys(stored))


def of_group(number: int, partition_path: str, keys: pa.Array) -> Iterator[pa.RecordBatch]:
    """The locations of keys of one file group."""
    for start in range(0, len(keys), _BATCH_ROWS):
        part = keys.slice(start, _BATCH_ROWS)
        numbers = pa.repeat(pa.scalar(number, pa.int32()), len(part))
        paths = pa.repeat(pa.scalar(partition_path), len(part))
        yield pa.record_batch([part, paths, numbers], names=[*_PLACE, columns.BUCKET])
