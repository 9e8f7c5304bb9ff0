"""The files of a streaming task in a table with a bucket index.

In a merge-on-read table each flush appends a log file to the file group of a bucket, without reading stored
records. In a copy-on-write table it merges the rows into the base file, and the next flush of the same instant
into the file of this one.

Readers treat a delete as later than the records of the same instant in any file. So a flush before
the barrier writes no deletes to a log: they are held until the last flush, or until a record replaces them.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import chronolake
from chronolake.slices import arrow_types, columns, errors, log_contents, merge
from chronolake.slices.log_contents import LogFormat
from chronolake.slices.merge import Existing
from chronolake.slices.stored_slices import SliceFile, StoredSlice
from chronolake.streaming.protocols import Flushed
from chronolake.writing import arrow_tags, bucket_writer, row_checks, task_rows
from chronolake.writing.bucket_writer import TaskAttempt, WriteJob
from chronolake.writing.stored_groups import GroupNumber, ServerLookup, StoredGroup
from chronolake_model.file_names import bucket_of, relative_path
from chronolake_model.files import WriteStat
from chronolake_model.slices import BucketName
from chronolake_model.streams import StreamInstant
from chronolake_model.tables import SchemaField
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_storage.claims import Owner

_ARRIVAL: Final = f"{columns.ORDER_PREFIX}0"
"""The column that numbers the rows of a task: of one key, the later row counts."""
_FLUSHES_MAX: Final = 1_000_000
"""Number of flushes of a task that have sequence numbers of their own."""


class StreamFiles:
    """The files of one task of a stream, for ``TaskWriter``.

    Rows have the columns of the table, by name, in any order. Rows that delete may all lack the columns beside
    the record key, the partition fields and the ordering field. In a merge-on-read table a delete needs a value
    of the ordering field, if there is one, because stored records are not read.

    The table needs a bucket index; else ``TableMismatch`` is raised. If its schema or its number of buckets
    changes, ``SchemaMismatch`` is raised by the next flush: restart the task, with the table loaded again.
    """

    def __init__(self, table: chronolake.Table) -> None:
        definition = table.definition
        if definition.index.type is not IndexType.BUCKET:
            raise errors.TableMismatch(
                f"{definition.name} has the index {definition.index.type}: a task of a stream writes tables "
                "with a bucket index, which says without a look-up where a record belongs"
            )
        # Nothing is written where another table, or another metastore, has the claim.
        table.claim_storage()
        self._table = table
        self._definition = definition
        self._layout = arrow_types.own_layout(definition.schema)
        self._is_log = definition.type is TableType.MERGE_ON_READ
        self._arrived = 0
        # Two processes that write as the same attempt of a task still write files of different names.
        self._process = secrets.randbelow(2**31)
        self._job: WriteJob | None = None
        self._groups = _Groups(table, "", is_log=self._is_log)

    @property
    def blocking(self) -> bool:
        """Base files of file groups that exist may conflict; log files do not."""
        return not self._is_log

    def by_bucket(self, rows: pa.Table, deletes: pa.Array | bool) -> dict[BucketName, pa.Table]:
        """The rows of each bucket, with control columns.

        Raises ``SchemaMismatch``, ``InvalidRecordKey``, ``InvalidPartitionValue``, ``RequiredValueMissing``,
        ``InvalidOrderingValue``, ``LogFileUnsupported``.
        """
        if not len(rows):
            return {}
        tagged = self._tagged(rows, deletes)
        self._check(tagged)
        parts: dict[BucketName, list[pa.Table]] = defaultdict(list)
        for batch in tagged.combine_chunks().to_batches():
            numbers, groups = task_rows.numbered(batch)
            order = np.argsort(numbers, kind="stable")
            ends = np.cumsum(np.bincount(numbers, minlength=len(groups)))
            for group, places in zip(groups, np.split(order, ends[:-1]), strict=True):
                # A copy: a slice would keep the rows of all buckets in memory.
                parts[BucketName(*group)].append(pa.Table.from_batches([batch.take(pa.array(places))]))
        return {bucket: pa.concat_tables(pieces) for bucket, pieces in parts.items()}

    def latest(self, rows: pa.Table) -> pa.Table:
        """The row of each key with the largest value of the ordering field, or that has arrived last."""
        return merge.latest_per_key(rows, self._definition.merge_fields).records

    def write(
        self,
        instant: StreamInstant,
        task: int,
        number: int,
        rows: Mapping[BucketName, pa.Table],
        *,
        is_last: bool,
    ) -> Flushed:
        """Write a log file, or a base file, for each bucket.

        Raises ``SchemaMismatch``, the errors of ``Write.mark``, ``AttemptGivenUp``, ``StorageFailed``.
        """
        job = self._job_of(instant)
        held: dict[BucketName, pa.Table] = {}
        if self._is_log and not is_last:
            held = {bucket: self._held(part) for bucket, part in rows.items()}
            rows = {bucket: _upserts(part) for bucket, part in rows.items()}
        parts = [part for part in rows.values() if len(part)]
        if not parts:
            return Flushed([], held=held)
        # Rows that were held have some of the columns.
        empty = self._layout.empty_table()
        together = pa.concat_tables([empty, *parts], promote_options="default").combine_chunks()
        # Files of one instant count in the order of their names.
        name = TaskAttempt(task * _FLUSHES_MAX + number, f"{task}-{self._process}-{number:06}")
        markers = self._table.markers_of(instant.requested_time)
        written = bucket_writer.write(together.to_batches(), job, name, markers, self._groups)
        if not self._is_log:
            self._groups.add(written.stats, self._definition.schema_version)
            return Flushed(written.stats, written.unchanged)
        return Flushed([_with_deletes(stat) for stat in written.stats], held=held)

    def _tagged(self, rows: pa.Table, deletes: pa.Array | bool) -> pa.Table:
        own = [field.name for field in self._definition.schema]
        needed = self._columns_of_deletes() if deletes is True else own
        missing = [name for name in needed if name not in rows.column_names]
        unknown = [name for name in rows.column_names if name not in own]
        if missing or unknown:
            raise errors.SchemaMismatch(
                f"the rows do not fit {self._definition.name}: they lack the columns "
                f"{', '.join(missing) or '(none)'}, and have others: {', '.join(unknown) or '(none)'}",
                {"missing": missing, "unknown": unknown},
            )
        sources = {name: name for name in own if name in rows.column_names}
        tagging = arrow_tags.tagging(self._definition, rows.schema, sources, deletes=deletes is True)
        tagged = tagging.tagged(rows)
        if not isinstance(deletes, bool):
            tagged = _with_column(tagged, columns.DELETE, _flags(deletes, len(rows)))
        arrival = np.arange(self._arrived, self._arrived + len(rows))
        self._arrived += len(rows)
        return _with_column(tagged, _ARRIVAL, pa.array(arrival))

    def _columns_of_deletes(self) -> list[str]:
        definition = self._definition
        needed = (*definition.record_key_fields, *definition.partition_fields, *definition.merge_fields)
        return list(dict.fromkeys(needed))

    def _check(self, tagged: pa.Table) -> None:
        """Refuse rows that cannot be written, before any of them is buffered."""
        definition = self._definition
        row_checks.check_required(tagged, [field.name for field in definition.schema if not field.nullable])
        if not self._is_log:
            return
        row_checks.check_delete_flags(tagged)
        row_checks.check_ordering(tagged, definition.merge_fields)
        deletes = tagged.filter(tagged[columns.DELETE])
        for ordering in definition.merge_fields:
            if nulls := deletes[ordering].null_count:
                raise errors.InvalidOrderingValue(
                    f"the ordering field {ordering!r} is null in {nulls} rows that delete: a stream writes "
                    "logs without a look at the stored records, so give each delete its place in the order",
                    {"column": ordering},
                )
        if len(deletes):
            by_name = {field.name: field for field in definition.schema}
            none = deletes.slice(0, 0)
            fields = [by_name[name] for name in definition.merge_fields]
            log_contents.deleted_records(none, "", fields, [none[field.name] for field in fields])

    def _job_of(self, instant: StreamInstant) -> WriteJob:
        if self._job is not None and self._job.requested_time == instant.requested_time:
            return self._job
        self._refuse_other_definition(instant)
        definition = self._definition
        self._groups = _Groups(self._table, instant.requested_time, is_log=self._is_log)
        self._job = WriteJob(
            base_path=definition.base_path,
            requested_time=instant.requested_time,
            schema=self._layout,
            fields=definition.schema,
            required=(),  # Checked before.
            ordering_fields=definition.merge_fields,
            existing=Existing.MERGE,
            stored={},
            versions={definition.schema_version: definition.schema},
            log_format=LogFormat.of_table(definition),
            begins_with_logs=True,
            storage_options=self._table.storage_options,
            owner=Owner(definition.metastore_id, definition.table_id, definition.name),
        )
        return self._job

    def _refuse_other_definition(self, instant: StreamInstant) -> None:
        begun, definition = self._table.instant(instant.requested_time), self._definition
        if (begun.schema_version, begun.buckets) != (definition.schema_version, definition.index.buckets):
            raise errors.SchemaMismatch(
                f"{definition.name} was changed meanwhile: its schema had version {definition.schema_version} "
                f"and it had {definition.index.buckets} buckets, now they are {begun.schema_version} and "
                f"{begun.buckets}; restart the task, with the table loaded again",
                {"schema_version": begun.schema_version, "buckets": begun.buckets},
            )

    def _held(self, rows: pa.Table) -> pa.Table:
        """The deletes of a bucket, with the columns that they need."""
        control = [*columns.CONTROL, _ARRIVAL]
        return rows.filter(rows[columns.DELETE]).select([*control, *self._columns_of_deletes()])


class _Groups:
    """The file groups of an instant, as tasks look them up.

    Logs are appended as if nothing was stored. Base files are merged with those that were written before, in
    this instant too.
    """

    def __init__(self, table: chronolake.Table, as_of: str, *, is_log: bool) -> None:
        self._server = ServerLookup(table, as_of, replaces=False)
        self._is_log = is_log
        self._known: dict[GroupNumber, StoredGroup] = {}

    def groups(self, groups: Sequence[GroupNumber]) -> Mapping[GroupNumber, StoredGroup]:
        """As ``Lookup.groups``."""
        unknown = [group for group in groups if group not in self._known]
        for group, stored in self._server.groups(unknown).items():
            self._known[group] = StoredGroup(None, stored.file_id) if self._is_log else stored
        return {group: self._known[group] for group in groups}

    def fields(self, schema_version: int) -> Sequence[SchemaField]:
        """As ``Lookup.fields``."""
        return self._server.fields(schema_version)

    def add(self, stats: Sequence[WriteStat], schema_version: int) -> None:
        """Add base files that were written in this instant."""
        for stat in stats:
            path = relative_path(stat.partition_path, stat.file_name)
            base = SliceFile(path, stat.size_bytes, schema_version, stat.has_field_ids is True)
            group = GroupNumber(stat.partition_path, bucket_of(stat.file_id))
            self._known[group] = StoredGroup(StoredSlice(stat.partition_path, stat.file_id, base), stat.file_id)


def _upserts(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.invert(rows[columns.DELETE]))


def _with_deletes(stat: WriteStat) -> WriteStat:
    """The stat of a log file, with its deletes: whether they find a record is not known."""
    return msgspec.structs.replace(stat, deletes=stat.records - stat.inserts - stat.updates)


def _flags(deletes: pa.Array, count: int) -> pa.Array:
    if not pa.types.is_boolean(deletes.type) or len(deletes) != count:
        raise errors.SchemaMismatch(
            f"deletes has {len(deletes)} values of type {deletes.type}; it needs a boolean for each of the "
            f"{count} rows"
        )
    return pc.fill_null(deletes, False)


def _with_column(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    index = rows.schema.get_field_index(name)
    return rows.append_column(name, values) if index < 0 else rows.set_column(index, name, values)
