"""Reads: a snapshot, now or as of a completion time, and the changes in a range of completion times.

A read passes the files of published slices to Spark's own Parquet reader: no folder is listed, and
unpublished files are never read. Executors read files in S3 themselves, as writers do, because Spark has no
file system for S3 without extra packages.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyarrow.fs import LocalFileSystem
from pyspark.sql import DataFrame, SparkSession, functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import chronolake
from chronolake_model.files import ChangedFileGroup, Changes, DataFile, FileSlice, Snapshot
from chronolake_model.filters import Filter
from chronolake_model.scans import PARTITIONS_MAX
from chronolake_model.tables import Table
from chronolake_spark import bucket_reader, columns, evolution, layouts, schema
from chronolake_spark.base_files import Folder
from chronolake_spark.bucket_reader import Reader
from chronolake_spark.evolution import Versions

GroupKey: TypeAlias = tuple[str, str]
"""Partition path and file id: a file group within its table."""
_READ_TASKS_PER_CORE = 4
_DISCOVERY_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"


def snapshot(
    spark: SparkSession, table: chronolake.Table, contents: Snapshot, *, meta_columns: bool
) -> DataFrame:
    """The records of a snapshot, with the columns that the table has now."""
    # Fetched after the slices: so it knows every column that they may have.
    written = evolution.versions(table, table.reload().definition, contents.slices)
    return _shaped(_records(spark, written, contents.slices), written.table, meta_columns=meta_columns)


@dataclass(frozen=True, slots=True)
class MatchingGroups:
    """File groups whose slice could hold a matching record, at a range's start and at its end."""

    before: frozenset[GroupKey]
    after: frozenset[GroupKey]


def could_match(table: chronolake.Table, changes: Changes, wanted: Filter) -> MatchingGroups:
    """The changed file groups that could match, as the server prunes them. Raises ``InvalidFilter``."""
    paths: list[str] | None = sorted({group.partition_path for group in changes.file_groups})
    if paths is not None and len(paths) > PARTITIONS_MAX:
        paths = None
    before, after = (
        # Before the first completion there was nothing.
        frozenset() if at is None else frozenset(map(_key, table.scan(wanted, at, paths).slices))
        for at in (changes.from_, changes.to)
    )
    return MatchingGroups(before, after)


def incremental(
    spark: SparkSession,
    table: chronolake.Table,
    changes: Changes,
    *,
    meta_columns: bool,
    matching: MatchingGroups | None = None,
) -> DataFrame:
    """The records that changed, each once in its last state, with ``_change_type``.

    An upsert is a record whose last change one of the range's instants made; a delete, one that was there
    before the range and is not after it, as it was before. Where the table was restored, records came back
    whose last change was made long before: all records of the file groups that it concerned are upserts.

    With ``matching``, records in other slices may be missing.
    """
    after = [group.after for group in changes.file_groups if group.after is not None]
    before = [group.before for group in changes.file_groups if group.before is not None]
    written = evolution.versions(table, table.reload().definition, [*before, *after])
    instants = [instant.requested_time for instant in changes.instants]
    upserts = _records(
        spark, written, [slice_ for slice_ in after if matching is None or _key(slice_) in matching.after]
    )
    if not changes.restores:
        upserts = upserts.where(sf.col(columns.COMMIT_TIME).isin(instants))
    changed_groups = [
        group for group in changes.file_groups if matching is None or _key(group) in matching.before
    ]
    deletes = _deletes(spark, written, changed_groups)
    if changed_groups and any(group.after is None for group in changes.file_groups):
        # A record of a replaced file group may now be in any other file group, as after a clustering, so all of
        # them are searched.
        remaining = _records(spark, written, after)
        deletes = deletes.join(remaining, [columns.RECORD_KEY, columns.PARTITION_PATH], "left_anti")
    changed = [
        _shaped(rows, written.table, meta_columns=meta_columns).withColumn(columns.CHANGE_TYPE, sf.lit(change))
        for rows, change in ((upserts, "upsert"), (deletes, "delete"))
    ]
    return changed[0].unionByName(changed[1])


def _records(spark: SparkSession, written: Versions, slices: Sequence[FileSlice]) -> DataFrame:
    files = [slice_.base_file for slice_ in slices if slice_.base_file is not None]
    layouts_of = {version: written.layout_of(version) for version in {file.schema_version for file in files}}
    by_version: dict[int, list[DataFile]] = {}
    for file in files:
        by_version.setdefault(layouts_of[file.schema_version], []).append(file)
    if not by_version:
        return spark.createDataFrame([], schema.file_struct_of(written.table.schema))
    frames = [_of_version(spark, written, version, by_version[version]) for version in sorted(by_version)]
    return functools.reduce(DataFrame.union, frames)


def _of_version(spark: SparkSession, written: Versions, version: int, files: Sequence[DataFile]) -> DataFrame:
    """The records of files that were written with one version of the schema, in the columns of now."""
    if written.table.base_path.startswith("s3://"):
        return _by_executors(spark, written, version, files)
    struct = schema.file_struct_of(written.fields_of(version))
    root = _spark_root(written.table.base_path)
    # Without recursiveFileLookup Spark would take columns from the folders' names, without __globPaths__ it
    # takes [ and { in them for patterns.
    reader = spark.read.schema(struct).options(recursiveFileLookup="true", __globPaths__="false")
    with _files_listed_by_the_driver(spark):
        rows = reader.parquet(*(f"{root}/{file.path}" for file in files))
    if version == written.table.schema_version:
        return rows
    return rows.select(*written.present_columns(version))


def _by_executors(spark: SparkSession, written: Versions, version: int, files: Sequence[DataFile]) -> DataFrame:
    tasks = min(len(files), _READ_TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    named = [(file.path, file.size_bytes, file.has_field_ids) for file in files]
    frame = spark.createDataFrame(named, bucket_reader.FILE_SCHEMA).repartition(tasks)
    struct = schema.file_struct_of(written.table.schema)
    return frame.mapInArrow(_StoredRows(written, struct, version), struct)


def _shaped(rows: DataFrame, table: Table, *, meta_columns: bool) -> DataFrame:
    names = [*(columns.META if meta_columns else ()), *(field.name for field in table.schema)]
    return rows.select(*(sf.col(schema.quoted(name)) for name in names))


def _deletes(spark: SparkSession, written: Versions, changed: Sequence[ChangedFileGroup]) -> DataFrame:
    struct = schema.file_struct_of(written.table.schema)
    groups = [
        (*_location(group.before), file.schema_version, file.has_field_ids, *_location(group.after))
        for group in changed
        if group.before is not None and (file := group.before.base_file) is not None
    ]
    if not groups:
        return spark.createDataFrame([], struct)
    tasks = min(len(groups), spark.sparkContext.defaultParallelism)
    frame = spark.createDataFrame(groups, bucket_reader.GROUP_SCHEMA).repartition(tasks)
    versions = {version for _, _, version, *_ in groups}
    return frame.mapInArrow(_DeletedRows(written, struct, versions), struct)


class _OnExecutor:
    """What the functions that ``mapInArrow`` runs must know to read base files."""

    def __init__(self, written: Versions, struct: StructType, versions: Iterable[int]) -> None:
        self._location = (written.table.base_path, written.storage_options)
        self._fields = {version: list(written.fields_of(version)) for version in versions}
        own = StructType([field for field in struct if field.name not in columns.META])
        self._layout = layouts.file_schema(to_arrow_schema(own, timezone="UTC"), written.table.schema)

    def reader(self) -> Reader:
        """The reader of the base files, made on the executor."""
        return Reader(Folder.of(*self._location), self._layout, self._fields)


class _StoredRows(_OnExecutor):
    """The function that reads base files of one version."""

    def __init__(self, written: Versions, struct: StructType, version: int) -> None:
        super().__init__(written, struct, [version])
        self._version = version

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.reader().rows_of(batches, self._version)


class _DeletedRows(_OnExecutor):
    """The function that finds deleted records."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.reader().deleted_rows(batches)


def _key(group: ChangedFileGroup | FileSlice) -> GroupKey:
    return group.partition_path, group.file_id


def _location(slice_: FileSlice | None) -> tuple[str | None, int]:
    if slice_ is None or slice_.base_file is None:
        return None, 0
    return slice_.base_file.path, slice_.base_file.size_bytes


def _spark_root(base_path: str) -> str:
    """The base path in the form that Spark needs.

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
