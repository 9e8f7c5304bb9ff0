"""The writes of ``format("chronolake")`` in Spark's own processes: INSERT, and drivers without the import.

Spark cannot shuffle rows for a Python data source. So tasks stage their rows by file group in the table's
storage, and the committer, which is one process, writes the file groups one after the other. This is slower
than ``SparkTable``, which shuffles. The instant begins in the process that plans the write.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import chronolake
from chronolake._sync.lease import LeaseRenewal
from chronolake.errors import ChronolakeError
from chronolake_model import decoding
from chronolake_model.file_names import write_token
from chronolake_model.markers import file_at
from chronolake_model.tables import Table
from chronolake_model.vocabulary import Action, IndexType, Operation
from chronolake_spark import errors
from chronolake_spark.common import arrow_tags, column_names, format_options
from chronolake_spark.common.arrow_tags import Tagging
from chronolake_spark.common.choices import Replaces
from chronolake_spark.common.format_options import FormatOptions, WriteOperation
from chronolake_spark.driver import schema
from chronolake_spark.index import staged_places
from chronolake_spark.index.record import record_index
from chronolake_spark.index.unique_keys import Treatment
from chronolake_spark.read import evolution
from chronolake_spark.read.slices import stored_slices
from chronolake_spark.read.slices.base_files import TableFolder
from chronolake_spark.read.slices.merge import Existing
from chronolake_spark.write import control_columns, rollbacks, writable_tables, writes
from chronolake_spark.write.data_source import ChronolakeWriter, encoded_error, message_of
from chronolake_spark.write.instant_options import InstantOptions
from chronolake_spark.write.tasks import bucket_writer, staging
from chronolake_spark.write.tasks.bucket_writer import TaskAttempt
from chronolake_spark.write.tasks.staging import StagedFile, Stager
from chronolake_spark.write.tasks.stored_groups import GroupNumber, Lookup
from chronolake_spark.write.tasks.task_markers import TaskMarkers

LEASE_SECONDS: Final = 600
"""The lease of such a write: no process lives as long as the write, so tasks and the committer renew it."""
_Rows = TypeVar("_Rows")
_RENEWAL_SECONDS: Final = 60.0
_OPERATIONS: Final = {
    WriteOperation.UPSERT: Operation.UPSERT,
    WriteOperation.INSERT: Operation.INSERT,
    WriteOperation.DELETE: Operation.DELETE,
}


def writer(options: Mapping[str, str], struct: StructType, *, overwrite: bool) -> DataSourceWriter:
    """Begin a write. Raises ``InvalidOption``, ``SchemaMismatch``, ``TableNotFound``, ``TableMismatch``."""
    parsed = format_options.parse(options)
    format_options.refuse_mode("overwrite" if overwrite else "append", parsed)
    format_options.refuse_read_options(parsed)
    format_options.refuse_stream_options(parsed)
    _refuse_expressions(parsed)
    with chronolake.connect(parsed.url, storage_options=parsed.storage_options or None) as client:
        table = client.table(parsed.table)
        definition = writable_tables.check(table.definition)
        tagging = _tagging(definition, struct, deletes=parsed.operation is WriteOperation.DELETE)
        settings = _settings(parsed, overwrite=overwrite)
        table.claim_storage()
        rollbacks.finish(table)
        begun = table.begin(
            action=Action.REPLACECOMMIT if overwrite else None,
            operation=settings.operation,
            markers=settings.markers,
            lease_seconds=LEASE_SECONDS,
        )
        try:
            writes.refuse_another_schema(definition, begun.instant)
            definition = control_columns.in_present_buckets(definition, begun.instant)
            tagging = dataclasses.replace(tagging, table=definition)
            write_options = writes.options_of(table, client.url, definition, begun.instant, settings, {})
            treatment = Treatment(settings.existing, settings.replaces)
            return StagingWriter(ChronolakeWriter(write_options, table.storage_options), tagging, treatment)
        except ChronolakeError as failure:
            begun.rollback(str(failure))
            raise


class StagedMessage(WriterCommitMessage):  # type: ignore[misc]  # pyspark is untyped here
    """The files that one task staged, as JSON."""

    def __init__(self, files: Sequence[StagedFile]) -> None:
        self.files = msgspec.json.encode(files)


class StagingWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark is untyped here
    """Stages rows on executors; writes them and completes the instant as ``own`` does."""

    def __init__(self, own: ChronolakeWriter, tagging: Tagging, treatment: Treatment) -> None:
        self._own = own
        self._tagging = tagging
        self._treatment = treatment

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        """Stage the rows of one task, on an executor."""
        context = TaskContext.get()
        token = write_token(context.partitionId(), context.stageId(), context.taskAttemptId())
        try:
            with self._own.connected() as table:
                markers = TaskMarkers(self._own.markers(table))
                stager = Stager(self._folder(), markers, self._own.job.requested_time, token)
                tagged = (self._tagging.tagged(pa.Table.from_batches([batch])) for batch in iterator)
                return StagedMessage(stager.stage(self._renewing(table, tagged)))
        except ChronolakeError as error:
            raise encoded_error(error) from error

    def commit(self, messages: Sequence[StagedMessage | None]) -> None:
        """Write all file groups, and complete the instant."""
        files = [
            file
            for message in messages
            if message is not None
            for file in decoding.decode(message.files, list[StagedFile])
        ]
        # The token of no task: it counts partitions from zero.
        task = TaskAttempt(len(messages), write_token(len(messages), 0, 0))
        try:
            with self._own.connected() as table, self._renewed(table):
                own, rows, lookup = self._by_file_group(table, files, task.write_token)
                written = bucket_writer.write(rows, own.job, task, own.markers(table), lookup)
                # Completing first would be refused each time, and each refusal is recorded.
                staged = [file_at(file.path) for file in files]
                if staged:
                    table.write(own.job.requested_time).delete_marked(staged)
        except ChronolakeError as error:
            raise encoded_error(error) from error
        own.commit([message_of(written)])
        with self._own.connected() as table:
            record_index.follow(table, staged_places.refusing(table))

    def abort(self, messages: Sequence[StagedMessage | None]) -> None:
        """Roll the instant back."""
        self._own.abort([])

    def _folder(self) -> TableFolder:
        return TableFolder.of(self._own.job.base_path, self._own.job.storage_options)

    def _by_file_group(
        self, table: chronolake.Table, files: Sequence[StagedFile], token: str
    ) -> tuple[ChronolakeWriter, Iterator[pa.RecordBatch], Lookup | None]:
        """The staged rows, file group by file group, what writes them, and where it looks file groups up."""
        folder = self._folder()
        if table.definition.index.type is IndexType.BUCKET:
            lookup = self._own.lookup(table)
            if lookup is not None:
                lookup.fetch(GroupNumber(*group) for file in files for group in file.groups)
            return self._own, staging.by_file_group(folder, files), lookup
        if not files:
            return self._own, iter(()), None
        time = self._own.job.requested_time
        keys = staging.keys(folder, files, staged_places.key_columns(table.definition))
        # As of the begin: what completes later the server takes for a conflict.
        places = staged_places.find(keys, table, time, self._treatment)
        stager = Stager(folder, TaskMarkers(self._own.markers(table)), time, token)
        rows = staging.regrouped(stager, places.rows(staging.tables(folder, files)))
        fields = evolution.fields_of_slices(table, table.definition, stored_slices.slices_of(places.groups))
        return self._own.with_groups(places.groups, fields), rows, None

    @contextlib.contextmanager
    def _renewed(self, table: chronolake.Table) -> Iterator[None]:
        """Renew the lease meanwhile."""
        begun = table.write(self._own.job.requested_time)
        renewal = LeaseRenewal(begun.heartbeat, lease_seconds=LEASE_SECONDS, name=begun.requested_time)
        renewal.start()
        try:
            yield
        finally:
            renewal.stop()

    def _renewing(self, table: chronolake.Table, rows: Iterator[_Rows]) -> Iterator[_Rows]:
        """The rows; between them the lease is renewed."""
        begun = table.write(self._own.job.requested_time)
        renewed_at = time.monotonic()
        for part in rows:
            if time.monotonic() - renewed_at > _RENEWAL_SECONDS:
                begun.heartbeat()
                renewed_at = time.monotonic()
            yield part


def _refuse_expressions(options: FormatOptions) -> None:
    if options.operation is WriteOperation.BULK_INSERT:
        raise errors.InvalidOption(
            "the operation bulk_insert needs `import chronolake_spark` in the driver, and df.write"
        )
    names = [
        name for name in ("delete_when", "row_order", "on_conflict", "merge_schema") if name in options.given
    ]
    if names:
        raise errors.InvalidOption(
            f"the options {', '.join(names)} need `import chronolake_spark` in the driver, and df.write"
        )


def _tagging(table: Table, struct: StructType, *, deletes: bool) -> Tagging:
    own = [field.name for field in table.schema]
    sources = schema.sources_of(struct.names, own, case_sensitive=False)
    needed = column_names.needed_for_delete(table) if deletes else own
    missing = [name for name in needed if name not in sources]
    if deletes:
        column_names.refuse_missing_of_delete(table, missing, struct.names)
    else:
        unknown = [name for name in struct.names if name not in sources.values()]
        column_names.refuse_others(table, missing, unknown)
    return arrow_tags.tagging(table, to_arrow_schema(struct, timezone="UTC"), sources, deletes=deletes)


def _settings(options: FormatOptions, *, overwrite: bool) -> writes.WriteSettings:
    own = InstantOptions(markers=options.markers)
    if overwrite:
        replaces = options.partitions or Replaces.TABLE
        return writes.WriteSettings(operation=Operation.INSERT_OVERWRITE, replaces=replaces, options=own)
    operation = _OPERATIONS[options.operation]
    return writes.WriteSettings(
        operation=operation,
        existing=_existing(options),
        is_based_on_reads=operation is Operation.INSERT,
        options=own,
    )


def _existing(options: FormatOptions) -> Existing:
    if options.operation is not WriteOperation.INSERT:
        return Existing.MERGE
    return Existing.DROP if options.duplicates == "drop" else Existing.FAIL
