"""The data source of ``writes.run``: it writes on the executors, and completes the instant at the server.

The writer object is made once, in a process of its own, and pickled to every task and to the committer
(reference: PySpark's DataSourceArrowWriter). ``commit`` sees the messages of the winning attempts only;
``abort`` is called also after ``commit`` raised, and while attempts still run.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import chronolake
from chronolake.errors import ChronolakeError, RequestRefused, StorageFailed
from chronolake.ingest import loaded_files
from chronolake.slices.stored_slices import StoredSlice
from chronolake.writing import (
    arrow_tags,
    bucket_writer,
    new_groups,
    row_checks,
    task_rows,
    text_checks,
)
from chronolake.writing.bucket_writer import TaskAttempt, WriteJob, WriteTaskResult
from chronolake.writing.counts import RowCounts
from chronolake.writing.stored_groups import GroupNumber, ServerLookup
from chronolake_model import decoding
from chronolake_model.file_names import bucket_of, write_token
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType
from chronolake_spark import errors
from chronolake_spark.common.format_options import SECRETS_OPTION, secrets_from_json
from chronolake_spark.driver import spark_internals
from chronolake_spark.write import open_groups
from chronolake_spark.write.open_groups import OpenedGroups
from chronolake_spark.write.options import STREAM_TASK, WRITE_OPTION, BatchOptions, Fetched, WriteOptions
from pyspark_chronolake import DefaultSource

FORMAT = "chronolake_file_groups"
_IS_REGISTERED = "_chronolake_is_registered"
_LOCK = threading.Lock()
_RETRY_SECONDS = 60.0
_ABORT_RETRY_SECONDS = 10.0


def register(spark: SparkSession) -> None:
    """Register this format, and ``chronolake``, with a session, the first time."""
    with _LOCK:
        if getattr(spark, _IS_REGISTERED, False):
            return
        with spark_internals.activated(spark):
            spark.dataSource.register(FileGroupsDataSource)
            # PySpark finds it by itself, unless another module called pyspark_* cannot be imported.
            spark.dataSource.register(DefaultSource)
        setattr(spark, _IS_REGISTERED, True)


class FileGroupsDataSource(DataSource):  # type: ignore[misc]  # pyspark is untyped here
    """Takes rows that were shuffled by file group: Spark cannot ask a data source how to shuffle them."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of one write."""
        assert not overwrite, "write.run appends"
        exempt_imports_from_gc()
        secrets = secrets_from_json(self.options[SECRETS_OPTION])
        return ChronolakeWriter(WriteOptions.from_json(self.options[WRITE_OPTION]), secrets)


@functools.cache
def exempt_imports_from_gc() -> None:
    """Exempt what this worker process has imported from its garbage collections, once.

    PySpark collects after each task, which takes 50 ms with the imports of PySpark, PyArrow and Chronolake.
    """
    gc.freeze()


@dataclass
class Message(WriterCommitMessage):  # type: ignore[misc]  # pyspark is untyped here
    """Files that one task wrote; ``stats`` is a list of write stats as JSON."""

    stats: bytes
    duplicates: int
    duplicate_key: str | None
    rows: int
    superseded: int
    unchanged: int


def message_of(written: WriteTaskResult) -> Message:
    """The message of a task to the committer."""
    return Message(
        msgspec.json.encode(written.stats),
        written.duplicates,
        written.duplicate_key,
        written.rows,
        written.superseded,
        written.unchanged,
    )


class ChronolakeWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark is untyped here
    """Writes rows into their file groups, then completes the instant, or rolls it back."""

    def __init__(self, options: WriteOptions, storage_options: dict[str, str]) -> None:
        self._options = options
        self._storage_options = storage_options
        self.job = _job_of(options, storage_options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        """Write the rows of one task, on an executor."""
        exempt_imports_from_gc()
        context = TaskContext.get()
        partition = context.partitionId()
        task = TaskAttempt(partition, write_token(partition, context.stageId(), context.taskAttemptId()))
        try:
            with self.connected() as table:
                opens_groups = self._options.records_per_group is not None
                lookup = OpenedGroups() if opens_groups else self.lookup(table)
                rows = self.grouped(iterator)
                written = bucket_writer.write(rows, self.job, task, self.markers(table), lookup)
        except ChronolakeError as error:
            raise encoded_error(error) from error
        return message_of(written)

    def grouped(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows, file group by file group, with all control columns. Raises ``InvalidText``."""
        options = self._options
        if options.resizes_to is None:  # Stored records stay as they are.
            rows = text_checks.checked(rows, options.table)
        # Rows without file groups of a table without partitions need not be brought together.
        is_one_partition = options.records_per_group is not None and not options.table.partition_fields
        grouped = rows if options.is_in_order or is_one_partition else task_rows.by_file_group(rows)
        tagged = arrow_tags.with_control_columns(grouped, options.table)
        if options.records_per_group is None:
            return tagged
        return open_groups.numbered(tagged, options.records_per_group)

    def commit(self, messages: Sequence[Message | None]) -> None:
        """Complete the instant with the files of the winning attempts; those of others are deleted before."""
        exempt_imports_from_gc()
        try:
            with self.connected() as table:
                if self._options.batch is not None:
                    self._report(table, self._options.batch, messages)
                    return
                write = self._write(table)
                try:
                    self._refuse_duplicates(messages)
                    stats = _stats_of(messages)
                    loaded_files.refuse_changed_files(self._options.file_states)
                    write.complete(
                        stats,
                        self._metadata(messages, stats),
                        replaced_file_groups=new_groups.replaced_by(
                            self._options.replaces,
                            table,
                            self._options.requested_time,
                            (stat.partition_path for stat in stats),
                        ),
                        schema_version=self._options.table.schema_version,
                        based_on_reads=self._options.is_based_on_reads,
                        keys_looked_up=self._options.keys_looked_up,
                        buckets=self._options.resizes_to,
                    )
                except (
                    RequestRefused,
                    StorageFailed,
                    errors.DuplicateKeys,
                    errors.SourceChanged,
                ) as refused:
                    # Here, for the reason is known here: Spark's abort comes next, in another process.
                    _give_up(write, refused)
                    raise
        except ChronolakeError as error:
            raise encoded_error(error) from error

    def _report(self, table: chronolake.Table, batch: BatchOptions, messages: Sequence[Message | None]) -> None:
        """Report the files of a batch to its stream: from then on they outlive the driver."""
        self._refuse_duplicates(messages)
        stats = _stats_of(messages)
        table.stream(batch.instant.stream, batch.epoch).report(
            batch.instant,
            STREAM_TASK,
            stats,
            last_batch=True,
            extra_metadata=self._metadata(messages, stats),
            based_on_reads=self._options.is_based_on_reads,
            keys_looked_up=self._options.keys_looked_up,
        )

    def _metadata(self, messages: Sequence[Message | None], stats: Sequence[WriteStat]) -> dict[str, str]:
        return {**self._options.extra_metadata, **_row_counts(messages, stats).metadata()}

    def abort(self, messages: Sequence[Message | None]) -> None:
        """Roll the instant back: once the server has agreed, the marked files are deleted.

        The server refuses attempts that still run their next marker, and they delete their open files. The
        stream of a batch rolls its instant back.
        """
        if self._options.batch is not None:
            return
        # It may have been rolled back before, have completed after all, or the server is unavailable: then its
        # lease ends it. An error from here would take the place of the one that made Spark abort.
        with contextlib.suppress(ChronolakeError), self.connected(_ABORT_RETRY_SECONDS) as table:
            self._write(table).rollback("the Spark job failed")

    @contextlib.contextmanager
    def connected(self, retry_seconds: float = _RETRY_SECONDS) -> Iterator[chronolake.Table]:
        """The table with the driver's definition, which needs no request."""
        options = self._storage_options
        with chronolake.connect(
            self._options.access, retry_seconds=retry_seconds, storage_options=options
        ) as client:
            yield client.table_of(self._options.table)

    def markers(self, table: chronolake.Table) -> chronolake.Markers:
        """The markers of the instant."""
        time, markers, writer = self._options.requested_time, self._options.markers, self._options.writer
        return table.markers_of(time, markers=markers, writer=writer)

    def lookup(self, table: chronolake.Table) -> ServerLookup | None:
        """Where tasks look file groups up, as of the begin of the instant; None if the options have them."""
        if self._options.fetched is not None:
            return None
        replaces = self._options.replaces is not None
        return ServerLookup(table, self._options.requested_time, replaces=replaces)

    def _write(self, table: chronolake.Table) -> chronolake.Write:
        return table.write(self._options.requested_time)

    def _refuse_duplicates(self, messages: Sequence[Message | None]) -> None:
        with_duplicates = [message for message in messages if message is not None and message.duplicates]
        if not with_duplicates:
            return
        count, sample = sum(message.duplicates for message in with_duplicates), with_duplicates[0].duplicate_key
        raise row_checks.existing_keys(self._options.table, count, sample)


def _give_up(write: chronolake.Write, refused: ChronolakeError) -> None:
    with contextlib.suppress(ChronolakeError):
        write.rollback(f"{type(refused).__name__}: {refused}")


def _job_of(options: WriteOptions, storage_options: dict[str, str]) -> WriteJob:
    table, fetched = options.table, options.fetched
    has_buckets = table.index.type is IndexType.BUCKET
    if fetched is None:
        fetched = Fetched([], [], {table.schema_version: table.schema})
    return WriteJob.of_table(
        table,
        options.requested_time,
        storage_options,
        existing=options.existing,
        refuses_repeated_keys=options.refuses_repeated_keys,
        kept_columns=options.kept_columns,
        stored=_stored(options, fetched),
        versions=fetched.fields,
        new_file_ids=_new_file_ids(options, fetched),
        copies_records=options.resizes_to is not None,
        begins_with_logs=has_buckets and options.batch is not None and not options.batch.instant.blocking,
        rewritten=bucket_writer.rewritten(options.numbered),
    )


def _stored(options: WriteOptions, fetched: Fetched) -> dict[GroupNumber, StoredSlice]:
    """The slices that the write changes, by the file groups that its rows name."""
    if options.table.index.type is not IndexType.BUCKET:
        return bucket_writer.stored_of(options.numbered)
    return {_group_of(slice_): slice_ for slice_ in fetched.slices}


def _new_file_ids(options: WriteOptions, fetched: Fetched) -> dict[GroupNumber, str]:
    if options.table.index.type is not IndexType.BUCKET:
        return bucket_writer.new_file_ids_of(options.numbered)
    return {_group_of(name): name.file_id for name in fetched.new_groups}


def _group_of(name: StoredSlice | FileGroupName) -> GroupNumber:
    return GroupNumber(name.partition_path, bucket_of(name.file_id))


def _stats_of(messages: Sequence[Message | None]) -> list[WriteStat]:
    lists = [decoding.decode(message.stats, list[WriteStat]) for message in messages if message]
    return [stat for stats in lists for stat in stats]


def _row_counts(messages: Sequence[Message | None], stats: Sequence[WriteStat]) -> RowCounts:
    winners = [message for message in messages if message is not None]
    return RowCounts.of(
        stats,
        read=sum(message.rows for message in winners),
        superseded=sum(message.superseded for message in winners),
        unchanged=sum(message.unchanged for message in winners),
    )


@dataclass(frozen=True, slots=True)
class CheckedTexts:
    """The function of a Spark task that checks rows, and returns them."""

    table: Table

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from text_checks.checked(batches, self.table)
        except errors.InvalidText as exc:
            raise RuntimeError(errors.encoded(exc)) from exc


def encoded_error(error: ChronolakeError) -> RuntimeError:
    """``error`` as an exception whose text carries it to the caller."""
    return RuntimeError(errors.encoded(error))
