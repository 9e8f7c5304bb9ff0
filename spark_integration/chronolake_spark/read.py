"""The read paths: a snapshot, now or as of a completion time, and what changed in a range of them.

Reads name the files of published slices to Spark's own Parquet reader: no folder is listed, and a file that
no completed instant names is never seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow.fs import LocalFileSystem
from pyspark.sql import DataFrame, SparkSession, functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from chronolake_model.files import Changes, FileSlice, Snapshot
from chronolake_model.tables import Table
from chronolake_spark import bucket_reader, columns, schema
from chronolake_spark.base_files import Folder

_DISCOVERY_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"


def snapshot(spark: SparkSession, table: Table, found: Snapshot, *, meta_columns: bool) -> DataFrame:
    """The records of a snapshot."""
    return _shaped(_records(spark, table, found.slices), table, meta_columns=meta_columns)


def incremental(spark: SparkSession, table: Table, changes: Changes, *, meta_columns: bool) -> DataFrame:
    """The records that changed, each once in its last state, with ``_change_type``.

    An upsert is a record whose last change one of the range's instants made; a delete, one that was there
    before the range and is not after it, as it was before. Where the table was restored, records came back
    whose last change was made long before: all records of the file groups that it concerned are upserts.
    """
    after = [group.after for group in changes.file_groups if group.after is not None]
    there = _records(spark, table, after)
    instants = [instant.requested_time for instant in changes.instants]
    upserts = there if changes.restores else there.where(sf.col(columns.COMMIT_TIME).isin(instants))
    deletes = _deletes(spark, table, changes)
    if any(group.after is None for group in changes.file_groups):
        # What was in a replaced file group may be in another one now, as after a clustering.
        deletes = deletes.join(there, [columns.RECORD_KEY, columns.PARTITION_PATH], "left_anti")
    changed = [
        _shaped(rows, table, meta_columns=meta_columns).withColumn(columns.CHANGE_TYPE, sf.lit(change))
        for rows, change in ((upserts, "upsert"), (deletes, "delete"))
    ]
    return changed[0].unionByName(changed[1])


def _records(spark: SparkSession, table: Table, slices: Sequence[FileSlice]) -> DataFrame:
    struct = schema.file_struct_of(table)
    files = [slice_.base_file.path for slice_ in slices if slice_.base_file is not None]
    if not files:
        return spark.createDataFrame([], struct)
    root = _spark_root(table.base_path)
    # Without recursiveFileLookup Spark would take columns from the folders' names, without __globPaths__ it
    # takes [ and { in them for patterns.
    reader = spark.read.schema(struct).options(recursiveFileLookup="true", __globPaths__="false")
    with _files_listed_by_the_driver(spark):
        return reader.parquet(*(f"{root}/{path}" for path in files))


def _shaped(rows: DataFrame, table: Table, *, meta_columns: bool) -> DataFrame:
    names = [*(columns.META if meta_columns else ()), *(field.name for field in table.schema)]
    return rows.select(*(sf.col(schema.quoted(name)) for name in names))


def _deletes(spark: SparkSession, table: Table, changes: Changes) -> DataFrame:
    struct = schema.file_struct_of(table)
    groups = [
        (*_location(group.before), *_location(group.after))
        for group in changes.file_groups
        if group.before is not None and group.before.base_file is not None
    ]
    if not groups:
        return spark.createDataFrame([], struct)
    tasks = min(len(groups), spark.sparkContext.defaultParallelism)
    frame = spark.createDataFrame(groups, bucket_reader.GROUP_SCHEMA).repartition(tasks)
    return frame.mapInArrow(_DeletedRows(table.base_path, struct), struct)


class _DeletedRows:
    """The function that ``mapInArrow`` runs, with what it must know."""

    def __init__(self, base_path: str, struct: StructType) -> None:
        self._base_path = base_path
        self._schema = to_arrow_schema(struct, timezone="UTC")

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return bucket_reader.deleted_rows(batches, self._base_path, self._schema)


def _location(slice_: FileSlice | None) -> tuple[str | None, int]:
    if slice_ is None or slice_.base_file is None:
        return None, 0
    return slice_.base_file.path, slice_.base_file.size_bytes


def _spark_root(base_path: str) -> str:
    """The base path as Spark must be told it.

    Hadoop, unlike Arrow, does not decode the percent signs of a ``file:`` URI.
    """
    folder = Folder.of(base_path)
    return f"file://{folder.root}" if isinstance(folder.filesystem, LocalFileSystem) else base_path.rstrip("/")


@contextlib.contextmanager
def _files_listed_by_the_driver(spark: SparkSession) -> Iterator[None]:
    """Let the driver look at the files itself: a job with a task per file takes sixteen times as long."""
    before = spark.conf.get(_DISCOVERY_THRESHOLD)
    spark.conf.set(_DISCOVERY_THRESHOLD, "1000000")
    try:
        yield
    finally:
        spark.conf.set(_DISCOVERY_THRESHOLD, before)
