"""The changed rows of DELETE, UPDATE and MERGE, which Spark's tasks stage in files of the instant.

Spark gives changed rows to a writer where its join ends, and asks no index before. So tasks stage them in the
table's storage; then the statement's driver finds their file groups, and writes them as any rows. A staged file
has the name and the marker of a data file, but is never published: it is deleted before the instant completes,
or when it is rolled back, also after a crash, as what a failed attempt of a task has left.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

import chronolake
from chronolake import ServerAccess
from chronolake.errors import ChronolakeError
from chronolake.slices import base_files, columns
from chronolake.slices.base_files import TableFolder
from chronolake.writing import arrow_tags
from chronolake.writing.task_markers import TaskMarkers
from chronolake_model import decoding
from chronolake_model.file_names import base_file_name, bucket_of, parse_file_name, write_token
from chronolake_model.markers import Marker, MarkerKind, MarkersType
from chronolake_model.tables import Table
from chronolake_model.vocabulary import IndexType
from chronolake_spark import errors
from chronolake_spark.common.format_options import SECRETS_OPTION, secrets_from_json, secrets_to_json
from chronolake_storage.claims import Owner

STAGING_OPTION: Final = "staging"
"""The option of ``format("chronolake")`` by which the Java part hands a ``Staging`` over."""
CHANGE: Final = "_chronolake_change"
"""The first column of the rows that tasks get: one of the numbers below. Then come the record key, the
partition path and the file name of the stored row, null for an insert, and the table's columns, null for a
delete."""
DELETED, UPDATED, INSERTED = 0, 1, 2
FILE_ID: Final = "_chronolake_file_id"
"""The file group of the stored row, null for a row that inserts a record."""
_CONTROL: Final = pa.schema(
    [
        (columns.RECORD_KEY, pa.string()),
        (columns.PARTITION_PATH, pa.string()),
        (columns.BUCKET, pa.int32()),
        (columns.DELETE, pa.bool_()),
        (columns.IS_NEW, pa.bool_()),
        (columns.IS_MOVED, pa.bool_()),
        (FILE_ID, pa.string()),
    ]
)
"""The first columns of staged rows. Spark has large texts if ``spark.sql.execution.arrow.useLargeVarTypes``."""


class Staging(msgspec.Struct, frozen=True):
    """The instant whose rows tasks stage, and the table with the columns and buckets that it began with."""

    access: ServerAccess
    table: Table
    requested_time: str
    writer: str
    markers: MarkersType | None

    def to_options(self, storage_options: Mapping[str, str]) -> dict[str, str]:
        """The options of the writer."""
        text = msgspec.json.encode(self).decode()
        return {STAGING_OPTION: text, SECRETS_OPTION: secrets_to_json(storage_options)}


class StagedRows(msgspec.Struct, frozen=True):
    """The rows that a task has staged: their file, and which stored rows they change.

    ``path`` is None if the task has no rows. ``groups`` are the partition path and the file id of each file
    group that has one of the stored rows.
    """

    path: str | None = None
    size_bytes: int = 0
    upserts: int = 0
    inserts: int = 0
    deletes: int = 0
    groups: list[tuple[str, str]] = []


@dataclass
class StagedMessage(WriterCommitMessage):  # type: ignore[misc]  # pyspark is untyped here
    """The message of a task: ``StagedRows`` as JSON."""

    rows: bytes


class StagingWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark is untyped here
    """Stages the rows of tasks. The catalog completes the instant, with the messages of the winners."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._staging = decoding.decode(options[STAGING_OPTION], Staging)
        self._storage_options = secrets_from_json(options[SECRETS_OPTION])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        """Stage the rows of one task, on an executor."""
        context = TaskContext.get()
        token = write_token(context.partitionId(), context.stageId(), context.taskAttemptId())
        try:
            with self._connected() as table:
                staged = stage(iterator, self._staging, self._storage_options, token, self._markers(table))
        except ChronolakeError as error:
            raise RuntimeError(errors.encoded(error)) from error
        return StagedMessage(msgspec.json.encode(staged))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """The catalog's Python process does it."""
        raise AssertionError("staged rows are completed by the catalog")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """The catalog's Python process does it."""

    @contextlib.contextmanager
    def _connected(self) -> Iterator[chronolake.Table]:
        staging = self._staging
        with chronolake.connect(staging.access, storage_options=self._storage_options) as client:
            yield client.table_of(staging.table)

    def _markers(self, table: chronolake.Table) -> TaskMarkers:
        staging = self._staging
        markers = table.markers_of(staging.requested_time, markers=staging.markers, writer=staging.writer)
        return TaskMarkers(markers)


def stage(
    batches: Iterable[pa.RecordBatch],
    staging: Staging,
    storage_options: Mapping[str, str],
    token: str,
    markers: TaskMarkers,
) -> StagedRows:
    """Write the rows of a task into a file, after its marker. After a failure it is deleted, if possible.

    Raises the errors of invalid rows, those of ``Write.mark``, and ``AttemptGivenUp``.
    """
    table = staging.table
    changes = ChangeTagging(table)
    tagged = changes.tagged(batches)
    first = next(tagged, None)
    if first is None:
        return StagedRows()
    name = base_file_name(f"{uuid.uuid4()}-0", token, staging.requested_time)
    # In any partition of the table: a data file has one.
    marker = Marker(first[columns.PARTITION_PATH][0].as_py(), name, MarkerKind.CREATE)
    try:
        markers.create([marker])
        folder = TableFolder.of(table.base_path, storage_options)
        with folder.create(marker.path) as sink:
            # The stored schema of Arrow gives the same types back, also time zones.
            with pq.ParquetWriter(sink, first.schema, compression="zstd", compression_level=1) as writer:
                writer.write_table(first)
                del first
                for rows in tagged:
                    writer.write_table(rows)
            size_bytes = int(sink.tell())
        markers.refuse_given_up()
    except BaseException:
        owner = Owner(table.metastore_id, table.table_id, table.name)
        attempt = base_files.Attempt(table.base_path, storage_options, owner, staging.requested_time)
        attempt.discard([marker.path])
        raise
    return msgspec.structs.replace(changes.counted(), path=marker.path, size_bytes=size_bytes)


class ChangeTagging:
    """Tags the rows of a task: a row whose key or partition changes becomes a delete and an insert."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._has_buckets = table.index.type is IndexType.BUCKET
        self._own = [field.name for field in table.schema]
        self._upserts = self._inserts = self._deletes = 0
        self._groups: set[tuple[str, str]] = set()

    def counted(self) -> StagedRows:
        """The numbers of the rows so far."""
        return StagedRows(None, 0, self._upserts, self._inserts, self._deletes, groups=sorted(self._groups))

    def tagged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """The rows with the columns of ``_CONTROL``. Raises as ``Tagging``."""
        for batch in batches:
            for rows in self._tagged(pa.Table.from_batches([batch])):
                if len(rows):
                    yield rows

    def _tagged(self, rows: pa.Table) -> Iterator[pa.Table]:
        file_ids = _file_ids(rows[columns.FILE_NAME])
        places = {(columns.PARTITION_PATH): rows[columns.PARTITION_PATH], FILE_ID: file_ids}
        stored = pa.table(places).filter(pc.is_valid(file_ids)).group_by([*places]).aggregate([])
        self._groups.update(zip(*(stored[name].to_pylist() for name in places), strict=True))
        rows = rows.append_column(FILE_ID, file_ids)
        is_delete = pc.equal(rows[CHANGE], DELETED)
        upserts = rows.filter(pc.invert(is_delete))
        keys, paths, buckets = self._places(upserts)
        stays = pc.and_(
            pc.equal(keys, upserts[columns.RECORD_KEY]), pc.equal(paths, upserts[columns.PARTITION_PATH])
        )
        stays = pc.fill_null(stays, False)
        is_new = pc.invert(stays)
        is_moved = pc.and_(is_new, pc.equal(upserts[CHANGE], UPDATED))
        count = len(upserts)
        own = {name: upserts[name] for name in self._own}
        none = pa.scalar(None, pa.string())
        yield self._table_of(
            [keys, paths, buckets, pa.repeat(pa.scalar(False), count), is_new, is_moved],
            pc.if_else(stays, upserts[FILE_ID], none),
            own,
        )
        self._upserts += count
        self._inserts += pc.sum(is_new).as_py() or 0
        yield from map(self._deleted, (rows.filter(is_delete), upserts.filter(is_moved)))

    def _deleted(self, rows: pa.Table) -> pa.Table:
        """Deletes of stored rows. They have no values: a delete without ordering value wins."""
        count = len(rows)
        self._deletes += count
        true, false = (pa.repeat(pa.scalar(value), count) for value in (True, False))
        own = {name: pa.nulls(count, rows.schema.field(name).type) for name in self._own}
        place = [rows[columns.RECORD_KEY], rows[columns.PARTITION_PATH], self._buckets(rows)]
        return self._table_of([*place, true, false, false], rows[FILE_ID], own)

    def _table_of(
        self, control: Sequence[pa.Array], file_ids: pa.Array, own: Mapping[str, pa.Array]
    ) -> pa.Table:
        values = zip(_CONTROL, [*control, file_ids], strict=True)
        return pa.table({field.name: column.cast(field.type) for field, column in values} | dict(own))

    def _places(self, rows: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray, pa.Array]:
        """The record key, the partition path and the bucket of rows to write."""
        own = rows.select(self._own)
        sources = {name: name for name in self._own}
        tagged = arrow_tags.tagging(self._table, own.schema, sources, deletes=False).tagged(own)
        buckets = tagged[columns.BUCKET] if self._has_buckets else pa.nulls(len(own), pa.int32())
        return tagged[columns.RECORD_KEY], tagged[columns.PARTITION_PATH], buckets

    def _buckets(self, rows: pa.Table) -> pa.Array:
        """The buckets of stored rows, which the file ids name."""
        if not self._has_buckets:
            return pa.nulls(len(rows), pa.int32())
        return pa.array(map(bucket_of, rows[FILE_ID].to_pylist()), pa.int32())


def _file_ids(names: pa.ChunkedArray) -> pa.Array:
    """The file ids in names of data files. Hudi gives the records of log files the file id alone."""
    encoded = names.combine_chunks().dictionary_encode()
    ids = pa.array([_file_id(name) for name in encoded.dictionary.to_pylist()], pa.string())
    return ids.take(encoded.indices)


def _file_id(name: str) -> str:
    try:
        return parse_file_name(name).file_id
    except ValueError:
        return name
