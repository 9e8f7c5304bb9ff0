"""Frames of file slices. Spark reads those without log files itself; executors merge the others in Arrow.

Where the log files of a slice change few of its records, Spark reads the base file too, without the records
whose keys are in the log files, and executors read only those.

Executors also read all files in S3, as writers do, because Spark has no file system for S3 without extra
packages.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyarrow.fs import LocalFileSystem
from pyspark.sql import DataFrame, SparkSession, functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType
from typing_extensions import override

from chronolake.slices import columns, layouts, slice_reader, stored_slices
from chronolake.slices.base_files import TableFolder
from chronolake.slices.slice_reader import ExecutorReader, SliceReader
from chronolake_model.files import ChangedFileGroup, DataFile, FileSlice
from chronolake_model.tables import Table
from chronolake_spark.driver import schema, spark_internals
from chronolake_spark.read import few_changes
from chronolake_spark.read.evolution import Versions

_READ_TASKS_PER_CORE = 4
_READER_OPTIONS: Final = {
    # Without recursiveFileLookup Spark would take columns from the folders' names, without __globPaths__ it
    # takes [ and { in them for patterns.
    "recursiveFileLookup": "true",
    "__globPaths__": "false",
    # An option goes before the setting of the session, which may change until the frame is evaluated
    # (docs/spark-settings.md).
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    # Matches nothing: the files are those of the timeline, whatever their names and folders.
    "ignoredPathSegmentRegex": "(?!)",
    "mergeSchema": "false",
}
_DISCOVERY_THRESHOLD: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_LOCK = threading.Lock()
_listing: dict[str, tuple[int, str]] = {}
"""By session: how many threads list files there now, and the threshold before the first of them."""
_TASKS_WANTED: Final = 64
_TASK_BYTES_MIN: Final = 4 * 2**20
_TASK_BYTES_MAX: Final = 128 * 2**20
_BYTES_OF_OPENING: Final = 2**18
"""A file takes as long to open as this number of bytes to read."""
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_Item = TypeVar("_Item")


def records(
    spark: SparkSession,
    written: Versions,
    slices: Sequence[FileSlice],
    names: Sequence[str],
    *,
    times: Sequence[str] | None = None,
) -> DataFrame:
    """The records of slices, with the columns ``names`` of the present layout, in this order.

    With ``times`` those that instants of these requested times wrote last.
    """
    if few_changes.is_in_s3(written.table):
        return _merged(spark, written, slices, names, times)
    read = _read(names, times)
    files = [slice_.base_file for slice_ in slices if slice_.base_file and not slice_.log_files]
    frames = [_only(frame, names, times) for frame in _native(spark, written, files, read)]
    partly = few_changes.chosen(written.table, slices)
    if partly:
        frames.append(_only(_unchanged(spark, written, partly, read), names, times))
        frames.append(_merged(spark, written, partly, names, times, _ChangedRows))
    read_natively = {(slice_.partition_path, slice_.file_id) for slice_ in partly}
    on_executors = [
        slice_
        for slice_ in slices
        if slice_.log_files and (slice_.partition_path, slice_.file_id) not in read_natively
    ]
    if on_executors or not frames:
        frames.append(_merged(spark, written, on_executors, names, times))
    return functools.reduce(DataFrame.union, frames)


def deletes(spark: SparkSession, written: Versions, changed: Sequence[ChangedFileGroup]) -> DataFrame:
    """The records of the slices before whose key the slice after, of the same group, does not have."""
    groups = [
        (stored_slices.of(group.before).to_json(), group.after and stored_slices.of(group.after).to_json())
        for group in changed
        if group.before is not None
    ]
    struct = schema.file_struct_of(written.table.schema)
    if not groups:
        return spark.createDataFrame([], struct)
    return _in_tasks(spark, _DeletedRows(written, struct), groups, struct)


def log_deletes(
    spark: SparkSession, written: Versions, slices: Sequence[FileSlice], ordering_field: str
) -> DataFrame:
    """The keys whose last change in the log files of slices is a delete with an ordering value.

    The columns are the record key, the partition path and the ordering field.
    """
    whole = {field.name: field for field in schema.file_struct_of(written.table.schema)}
    struct = StructType([whole[name] for name in (columns.RECORD_KEY, columns.PARTITION_PATH, ordering_field)])
    texts = [stored_slices.of(slice_).to_json() for slice_ in slices if slice_.log_files]
    return _in_tasks(spark, _LogDeletes(written, struct), texts, struct)


def _read(names: Sequence[str], times: Sequence[str] | None) -> list[str]:
    """The columns to read for the columns ``names`` of records that instants of these times wrote."""
    # A frame of rows needs a column.
    read = list(dict.fromkeys(names)) or [columns.RECORD_KEY]
    return read if times is None or columns.COMMIT_TIME in read else [columns.COMMIT_TIME, *read]


def _only(read: DataFrame, names: Sequence[str], times: Sequence[str] | None) -> DataFrame:
    """The columns ``names`` of a frame with those of ``_read``, of records that these instants wrote."""
    rows = read if times is None else read.where(sf.col(columns.COMMIT_TIME).isin(list(times)))
    return rows if _read(names, times) == list(names) else schema.selected(rows, names)


def _native(
    spark: SparkSession, written: Versions, files: Sequence[DataFile], names: Sequence[str]
) -> list[DataFrame]:
    by_version: dict[int, list[DataFile]] = {}
    layouts_of = {version: written.layout_of(version) for version in {file.schema_version for file in files}}
    for file in files:
        by_version.setdefault(layouts_of[file.schema_version], []).append(file)
    return [_of_version(spark, written, version, by_version[version], names) for version in sorted(by_version)]


def _of_version(
    spark: SparkSession, written: Versions, version: int, files: Sequence[DataFile], names: Sequence[str]
) -> DataFrame:
    """The records of files that were written with one version of the schema, in columns ``names`` of now."""
    struct = schema.file_struct_of(written.fields_of(version))
    is_present = version == written.table.schema_version
    if is_present:
        struct = _struct_of(struct, names)
    root = spark_root(written.table.base_path)
    reader = spark.read.schema(struct).options(**_READER_OPTIONS)
    with _files_listed_by_the_driver(spark):
        rows = reader.parquet(*(f"{root}/{file.path}" for file in files))
    return rows if is_present else written.in_present_columns(rows, version, names)


def _struct_of(whole: StructType, names: Sequence[str]) -> StructType:
    by_name = {field.name: field for field in whole}
    return StructType([by_name[name] for name in names])


def _unchanged(
    spark: SparkSession, written: Versions, slices: Sequence[FileSlice], names: Sequence[str]
) -> DataFrame:
    """The records of base files whose keys are not in the log files of their slices."""
    table = written.table
    key = _integer_key(table) or columns.RECORD_KEY
    place = [key, *([columns.PARTITION_PATH] if table.partition_fields else [])]
    files = [slice_.base_file for slice_ in slices if slice_.base_file]
    base = functools.reduce(
        DataFrame.union, _native(spark, written, files, list(dict.fromkeys([*names, *place])))
    )
    texts = [stored_slices.of(slice_).to_json() for slice_ in slices]
    key_type = StringType() if key == columns.RECORD_KEY else LongType()
    struct = StructType([StructField(key, key_type), StructField(columns.PARTITION_PATH, StringType())])
    keys = _in_tasks(spark, _LogKeys(written, struct), texts, struct, _log_files(slices))
    return schema.selected(base.join(sf.broadcast(schema.selected(keys, place)), place, "left_anti"), names)


def _integer_key(table: Table) -> str | None:
    """The key field, if it is one integer: Spark reads it instead of the record key, which is its text."""
    types = [field.type for field in table.schema if [field.name] == list(table.record_key_fields)]
    return table.record_key_fields[0] if types and types[0] in _INTEGERS else None


def _merged(
    spark: SparkSession,
    written: Versions,
    slices: Sequence[FileSlice],
    names: Sequence[str],
    times: Sequence[str] | None,
    rows_of: type[_StoredRows] | None = None,
) -> DataFrame:
    """The records of slices that executors merge, or those of them that ``rows_of`` chooses."""
    read = set(_read(names, times))
    whole = schema.file_struct_of(written.table.schema)
    struct = StructType([field for field in whole if field.name in read])
    if slices:
        texts = [stored_slices.of(slice_).to_json() for slice_ in slices]
        # Without merge fields no record of a base file wins against the log files, so it is not read for them.
        reads_logs = rows_of is _ChangedRows and not written.table.merge_fields
        files = _log_files(slices) if reads_logs else _files(slices)
        rows = _in_tasks(spark, (rows_of or _StoredRows)(written, struct, times), texts, struct, files)
    else:
        rows = spark.createDataFrame([], struct)
    return rows if struct.names == list(names) else schema.selected(rows, names)


def _files(slices: Sequence[FileSlice]) -> list[DataFile]:
    return [file for slice_ in slices for file in stored_slices.files_of(slice_)]


def _log_files(slices: Sequence[FileSlice]) -> list[DataFile]:
    return [file for slice_ in slices for file in slice_.log_files]


def _in_tasks(
    spark: SparkSession,
    function: Callable[[Sequence[Any]], Iterator[pa.RecordBatch]],
    read: Sequence[Any],
    struct: StructType,
    files: Sequence[DataFile] | None = None,
) -> DataFrame:
    """The rows that ``function`` yields; each task calls it with some of ``read``, which is in ``files``.

    Rows that say what to read would be shuffled to get into as many tasks, so the function carries it.
    """
    tasks = min(len(read), _READ_TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    if files is not None:
        # A task takes 0.05 s before it reads anything.
        size_bytes = sum(file.size_bytes + _BYTES_OF_OPENING for file in files)
        tasks = min(tasks, max(size_bytes // _TASK_BYTES_MIN, 1))
    parts = [read[first::tasks] for first in range(tasks)]
    return spark.range(0, tasks, 1, tasks).mapInArrow(_Tasks(function, parts), struct)


class OnExecutor:
    """Inputs of the functions that ``mapInArrow`` runs to read slices, in the columns of ``struct``."""

    def __init__(self, written: Versions, struct: StructType) -> None:
        self._location = (written.table.base_path, written.storage_options)
        self._fields = written.all_fields()
        own = schema.arrow_of(schema.struct_of(written.table.schema))
        layout = layouts.file_schema(own, written.table.schema)
        self._layout = pa.schema([layout.field(name) for name in struct.names])
        self._ordering = slice_reader.ordering_of(layout, written.table.merge_fields)

    def reader(self) -> ExecutorReader:
        """The reader of the slices, made on the executor."""
        folder = TableFolder.of(*self._location)
        return ExecutorReader(SliceReader(folder, self._layout, self._fields, self._ordering))


class _StoredRows(OnExecutor):
    """The function that reads slices."""

    def __init__(self, written: Versions, struct: StructType, times: Sequence[str] | None) -> None:
        super().__init__(written, struct)
        self._times = times

    def __call__(self, slices: Iterable[str]) -> Iterator[pa.RecordBatch]:
        return self.reader().rows_of(slices, self._times)


class _ChangedRows(_StoredRows):
    """The function that reads the records of slices whose keys are in the log files."""

    @override
    def __call__(self, slices: Iterable[str]) -> Iterator[pa.RecordBatch]:
        return self.reader().changed_rows_of(slices, self._times)


class _LogKeys(OnExecutor):
    """The function that reads the keys in log files, in the columns of ``struct``."""

    def __init__(self, written: Versions, struct: StructType) -> None:
        super().__init__(written, schema.file_struct_of(written.table.schema))
        self._keys = to_arrow_schema(struct)

    def __call__(self, slices: Iterable[str]) -> Iterator[pa.RecordBatch]:
        return self.reader().log_keys(slices, self._keys)


class _DeletedRows(OnExecutor):
    """The function that finds deleted records."""

    def __call__(self, groups: Iterable[tuple[str, str | None]]) -> Iterator[pa.RecordBatch]:
        return self.reader().deleted_rows(groups)


class _LogDeletes(OnExecutor):
    """The function that finds deletes in log files."""

    def __call__(self, slices: Iterable[str]) -> Iterator[pa.RecordBatch]:
        return self.reader().log_deletes(slices)


class _Tasks:
    """The function that calls another one with a task's part; its batches have the numbers of tasks."""

    def __init__(
        self, function: Callable[[Sequence[Any]], Iterator[pa.RecordBatch]], parts: Sequence[Sequence[Any]]
    ) -> None:
        self._function = function
        self._parts = parts

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._function(self._parts[number])


def spark_root(base_path: str) -> str:
    """The base path in the form that Spark needs.

    Hadoop, unlike Arrow, does not decode the percent signs of a ``file:`` URI.
    """
    folder = TableFolder.of(base_path)
    return f"file://{folder.root}" if isinstance(folder.filesystem, LocalFileSystem) else base_path.rstrip("/")


@contextlib.contextmanager
def _files_listed_by_the_driver(spark: SparkSession) -> Iterator[None]:
    """Let the driver look at the files itself: a job with a task per file takes sixteen times as long.

    No option of a reader says so. The last thread of the session that lists files restores the setting.
    """
    session = spark_internals.session_id(spark)
    with _LOCK:
        threads, before = _listing.get(session) or (0, str(spark.conf.get(_DISCOVERY_THRESHOLD)))
        _listing[session] = threads + 1, before
        spark.conf.set(_DISCOVERY_THRESHOLD, "1000000")
    try:
        yield
    finally:
        with _LOCK:
            threads, before = _listing.pop(session)
            if threads > 1:
                _listing[session] = threads - 1, before
            else:
                spark.conf.set(_DISCOVERY_THRESHOLD, before)


def portions(items: Sequence[_Item], slices_of: Callable[[_Item], Iterable[FileSlice]]) -> list[list[_Item]]:
    """The items in the portions of tasks, by the sizes of their slices; none without items."""
    sizes = [
        sum(file.size_bytes for slice_ in slices_of(item) for file in stored_slices.files_of(slice_))
        for item in items
    ]
    limit = min(max(sum(sizes) // _TASKS_WANTED, _TASK_BYTES_MIN), _TASK_BYTES_MAX)
    tasks: list[list[_Item]] = []
    task_bytes = 0
    for item, size_bytes in zip(items, sizes, strict=True):
        if not tasks or task_bytes + size_bytes > limit:
            tasks.append([])
            task_bytes = 0
        tasks[-1].append(item)
        task_bytes += size_bytes
    return tasks
