"""The writer of a task: writes its rows into their file groups.

Copy-on-write merges them into the base file; merge-on-read appends a log file to a file group that exists. It
runs on executors and uses Arrow and storage but not Spark. It holds in memory, for each thread, the incoming
rows of one file group, its stored keys and ordering values, and one row group of the base file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import UNSET

from chronolake.indexes.tables import BlockingMarkers
from chronolake.slices import arrow_types, base_files, columns, layouts, log_contents, merge, slice_reader
from chronolake.slices.log_contents import LogFormat
from chronolake.slices.merge import Decision, Existing
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import NumberedGroup, StoredSlice
from chronolake.writing import (
    arrow_memory,
    group_threads,
    kept_rows,
    log_appends,
    partial_updates,
    row_checks,
    task_rows,
    written_files,
)
from chronolake.writing.stored_groups import GroupNumber, Lookup, StoredGroup, StoredGroups
from chronolake.writing.task_markers import TaskMarkers
from chronolake.writing.written_files import FileFormat
from chronolake_model.file_names import base_file_name, log_file_name
from chronolake_model.files import ColumnStats, WriteStat
from chronolake_model.markers import Marker, MarkerKind
from chronolake_model.tables import SchemaField, Table
from chronolake_model.vocabulary import IndexType
from chronolake_storage.claims import Owner

Outcome: TypeAlias = "tuple[Decision, WriteStat | None]"
"""The changes by the rows of a file group, and the write stat of the file that was written."""


@dataclass(frozen=True, slots=True)
class WriteJob:
    """The parameters that all tasks of one write share.

    ``schema`` is the table's, with the columns ``fields``. ``required`` are its columns that are not nullable,
    ``stored`` and ``new_file_ids`` the slices, and the file ids of new file groups (with a bucket index of
    those that are not the first of their bucket), that the driver knows: none, if tasks look them up.
    ``versions`` has the columns of known versions of the schema. ``refuses_repeated_keys`` if two rows of one
    key are an error, unless both delete. ``kept_columns`` are those whose stored values stay. ``log_format`` is
    that of the log files of a merge-on-read table, None for copy-on-write. The rows of ``rewritten`` groups are
    merged into their base files, whatever the type of the table. If it ``begins_with_logs``, new file groups of
    a merge-on-read table begin with a log file, and not with a base file. If it ``has_distinct_keys``, no two
    rows are of one key, and they are not compared. ``looks_keys_up`` if an index other than buckets finds the
    file groups of keys. With ``has_key_filters`` the footers of base files get key ranges and bloom filters. If
    it ``copies_records``, the rows are stored records, which keep the commit times and sequence numbers that
    they have. ``storage_options`` are the access to the base path. ``owner`` is the table that has the claim of
    the base path; without it the files of a failed task remain until the instant is rolled back.
    """

    base_path: str
    requested_time: str
    schema: pa.Schema
    fields: Sequence[SchemaField]
    required: tuple[str, ...]
    ordering_fields: Sequence[str]
    existing: Existing
    stored: dict[GroupNumber, StoredSlice]
    versions: Mapping[int, Sequence[SchemaField]] = field(default_factory=dict)
    refuses_repeated_keys: bool = False
    kept_columns: Sequence[str] = ()
    log_format: LogFormat | None = None
    new_file_ids: Mapping[GroupNumber, str] = field(default_factory=dict)
    rewritten: frozenset[GroupNumber] = frozenset()
    has_key_filters: bool = False
    looks_keys_up: bool = False
    copies_records: bool = False
    begins_with_logs: bool = False
    has_distinct_keys: bool = False
    storage_options: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None

    @classmethod
    def of_table(
        cls, table: Table, requested_time: str, storage_options: Mapping[str, str], **how: Any
    ) -> WriteJob:
        """A job of a write of whole rows of a table, as its definition says; ``how`` are further parameters."""
        return cls(
            base_path=table.base_path,
            requested_time=requested_time,
            # Not that of the rows: their nested fields may not be nullable, where those of stored records have
            # nulls.
            schema=arrow_types.own_layout(table.schema),
            fields=table.schema,
            required=tuple(field.name for field in table.schema if not field.nullable),
            ordering_fields=table.merge_fields,
            log_format=LogFormat.of_table(table),
            has_key_filters=table.index.type is IndexType.BLOOM,
            looks_keys_up=table.index.type is not IndexType.BUCKET,
            storage_options=storage_options,
            owner=Owner(table.metastore_id, table.table_id, table.name),
            **how,
        )


def stored_of(numbered: Iterable[NumberedGroup]) -> dict[GroupNumber, StoredSlice]:
    """The slices that a write changes, by the file groups that its rows name."""
    return {_number_of(group): group.slice_ for group in numbered if group.slice_ is not None}


def new_file_ids_of(numbered: Iterable[NumberedGroup]) -> dict[GroupNumber, str]:
    """The file ids of the file groups that a write opens."""
    return {_number_of(group): group.file_id for group in numbered if group.slice_ is None}


def rewritten(numbered: Iterable[NumberedGroup]) -> frozenset[GroupNumber]:
    """The file groups whose base files are written again."""
    return frozenset(_number_of(group) for group in numbered if group.rewrites)


def _number_of(group: NumberedGroup) -> GroupNumber:
    return GroupNumber(group.partition_path, group.number)


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """The attempt of a task: the partition of the rows, and the unique write token of the attempt."""

    partition: int
    write_token: str


@dataclass(frozen=True, slots=True)
class WriteTaskResult:
    """The result of a task: the files written, and the number and an example of duplicate keys of an insert.

    ``rows`` counts the rows of the task, ``superseded`` those that lost to another row of the same key,
    ``unchanged`` those that changed nothing. All other rows are in ``stats``.
    """

    stats: tuple[WriteStat, ...] = ()
    duplicates: int = 0
    duplicate_key: str | None = None
    rows: int = 0
    superseded: int = 0
    unchanged: int = 0


@arrow_memory.in_small_pages()
def write(
    batches: Iterable[pa.RecordBatch],
    job: WriteJob,
    task: TaskAttempt,
    markers: BlockingMarkers,
    lookup: Lookup | None = None,
    *,
    threads: int = 1,
) -> WriteTaskResult:
    """Merge the rows of one task, which come file group by file group; as many at once as there are threads.

    The file groups are looked up in ``lookup``; without it ``job`` has them. Each file gets its marker before
    it is created. After a failure, the files of the task are deleted if possible. Raises the errors of
    ``Write.mark``, and ``AttemptGivenUp``.
    """
    stored_groups = StoredGroups(job.stored, job.new_file_ids, job.versions, lookup)
    task_markers = TaskMarkers(markers)
    stats: list[WriteStat] = []
    duplicates, sample = 0, None
    read, superseded, unchanged = 0, 0, 0
    writes = _writes(batches, job, task, stored_groups, task_markers)
    try:
        with contextlib.closing(group_threads.in_order(writes, threads)) as written_groups:
            for written in written_groups:
                read += written.rows
                superseded += written.superseded
                unchanged += written.decision.unchanged
                duplicates += written.decision.duplicates
                sample = sample or written.decision.duplicate_key
                stats += [written.stat] if written.stat else []
        task_markers.refuse_given_up()
    except BaseException:
        _discard(job, [marker.path for marker in task_markers.created])
        raise
    return WriteTaskResult(tuple(stats), duplicates, sample, read, superseded, unchanged)


def _writes(
    batches: Iterable[pa.RecordBatch],
    job: WriteJob,
    task: TaskAttempt,
    stored_groups: StoredGroups,
    task_markers: TaskMarkers,
) -> Iterator[Callable[[], _Written]]:
    """The write of each file group. Sequence numbers count the rows of the task."""
    folder = base_files.TableFolder.of(job.base_path, job.storage_options)
    seqno = 0
    for group, rows in task_rows.file_groups(_marked_runs(batches, job, task, stored_groups, task_markers)):
        writer = _GroupWriter(folder, task_markers, job, task, group, stored_groups, seqno=seqno)
        seqno += len(rows)
        yield functools.partial(writer.written, rows)
        # No variable holds the rows while those of the next file group are made.
        del rows, writer


def _discard(job: WriteJob, paths: Iterable[str]) -> None:
    if job.owner is not None:
        attempt = base_files.Attempt(job.base_path, job.storage_options, job.owner, job.requested_time)
        attempt.discard(paths)


def _marked_runs(
    batches: Iterable[pa.RecordBatch],
    job: WriteJob,
    task: TaskAttempt,
    stored_groups: StoredGroups,
    task_markers: TaskMarkers,
) -> Iterator[task_rows.Run]:
    """The runs of the batches. The file groups of a batch that are certainly written are marked together.

    So a large number of small files needs few requests. Other groups are marked one by one when they change,
    because a marked file that is not written must be searched in storage before the instant can complete.
    """
    for batch in batches:
        runs = list(task_rows.runs_of(batch))
        stored_groups.load(group for group, _ in runs)
        task_markers.create(
            _marker(job, task, group, stored_groups[group])
            for group, rows in runs
            if _is_written(job, group, stored_groups[group]) and not pc.all(rows[columns.DELETE]).as_py()
        )
        yield from runs


def _log_format(job: WriteJob, group: GroupNumber, stored: StoredGroup) -> LogFormat | None:
    """The format of the log file that is appended to the file group; None if a base file is written."""
    has_log = stored.slice is not None or job.begins_with_logs
    return job.log_format if has_log and group not in job.rewritten else None


def _is_written(job: WriteJob, group: GroupNumber, stored: StoredGroup) -> bool:
    """Whether any upsert changes the file group."""
    is_always_written = _log_format(job, group, stored) is not None or not job.ordering_fields
    if stored.slice is None or job.existing is Existing.UNCHECKED:
        return True
    return job.existing is Existing.MERGE and is_always_written


def _marker(job: WriteJob, task: TaskAttempt, group: GroupNumber, stored: StoredGroup) -> Marker:
    if _log_format(job, group, stored) is not None:
        log_name = log_file_name(stored.file_id, task.write_token, job.requested_time)
        return Marker(group.partition_path, log_name, MarkerKind.APPEND)
    kind = MarkerKind.CREATE if stored.slice is None else MarkerKind.MERGE
    base_name = base_file_name(stored.file_id, task.write_token, job.requested_time)
    return Marker(group.partition_path, base_name, kind)


@dataclass(frozen=True, slots=True)
class _Written:
    """The rows of one file group, those that lost to another row of the same key, and the changes by them."""

    rows: int
    superseded: int
    decision: Decision
    stat: WriteStat | None


class _GroupWriter:
    """Writes the rows of one file group."""

    def __init__(
        self,
        folder: base_files.TableFolder,
        task_markers: TaskMarkers,
        job: WriteJob,
        task: TaskAttempt,
        group: GroupNumber,
        stored_groups: StoredGroups,
        *,
        seqno: int,
    ) -> None:
        self._folder = folder
        self._marking = task_markers
        self._job = job
        self._task = task
        self._group = group
        self._first_seqno = seqno
        stored_group = stored_groups[group]
        self._stored, self._file_id = stored_group
        self._log_format = _log_format(job, group, stored_group)
        self._fields = stored_groups.fields
        self._marker = _marker(job, task, group, stored_group)
        self._file_name = self._marker.file_name
        self._schema = layouts.with_dictionaries(layouts.file_schema(job.schema, job.fields))
        self._format = FileFormat(self._schema, job.fields, job.has_key_filters)
        by_name = {field.name: field for field in job.fields}
        self._ordering = [by_name[name] for name in job.ordering_fields]
        self._superseded = 0

    def written(self, rows: pa.Table) -> _Written:
        """Write the rows, and count them."""
        decision, stat = self._write(rows)
        return _Written(len(rows), self._superseded, decision, stat)

    def _write(self, rows: pa.Table) -> Outcome:
        """Write the rows, unless they change nothing or the insert is refused."""
        if self._job.copies_records:
            return self._copy(rows)
        kept_columns, has_log = self._job.kept_columns, self._job.log_format is not None
        row_checks.check_required(rows, [name for name in self._job.required if name not in kept_columns])
        row_checks.check_delete_flags(rows)
        row_checks.check_ordering(rows, self._job.ordering_fields if has_log else ())
        latest = merge.Latest(rows)
        if not self._job.has_distinct_keys:
            latest = merge.latest_per_key(rows, self._job.ordering_fields)
        incoming = latest.records
        if self._job.refuses_repeated_keys and len(incoming) < len(rows):
            row_checks.refuse_repeated_keys(rows)
        if latest.ambiguous and self._job.existing is not Existing.FAIL:
            raise row_checks.ambiguous_order(latest)
        self._superseded = len(rows) - len(incoming)
        if self._job.kept_columns:
            incoming = self._completed(incoming)
        if self._log_format is not None:
            stored = self._stored or StoredSlice(self._group.partition_path, self._file_id, None)
            return self._append(stored, self._log_format, rows, incoming)
        if self._stored is None or (base := self._stored.base) is None:
            return self._merge(None, rows, incoming)
        with base_files.open_base_file(
            self._folder, base.path, base.size_bytes, has_dictionaries=True, reads_columns=True
        ) as file:
            return self._merge(file, rows, incoming)

    def _completed(self, incoming: pa.Table) -> pa.Table:
        """The rows with the stored values of the columns that the given rows lack."""
        names = (columns.RECORD_KEY, *self._job.kept_columns)
        layout = pa.schema([self._schema.field(name) for name in names])
        stored = [layout.empty_table()]
        if self._stored is not None:
            keys = incoming[columns.RECORD_KEY].cast(pa.string()).combine_chunks()
            stored += dataclasses.replace(self._reader(), layout=layout).only(keys).rows(self._stored)
        return partial_updates.completed(
            incoming, pa.concat_tables(stored), self._job.kept_columns, self._job.required
        )

    def _append(
        self, stored: StoredSlice, log_format: LogFormat, rows: pa.Table, incoming: pa.Table
    ) -> Outcome:
        """Append a log file with the changes by the rows, unless they change nothing."""
        appended = log_appends.decide(
            self._reader(), stored, incoming, self._job.existing, counts_new_keys=self._job.looks_keys_up
        )
        decision = self._with_repeated(appended.decision, rows, incoming)
        if decision.duplicates or not (decision.written.any() or len(appended.deletes)):
            return decision, None
        new = self._stamped(merge.only(incoming, decision.written))
        deletes = log_contents.deleted_records(
            appended.deletes, self._group.partition_path, self._ordering, appended.delete_values
        )
        collector = self._format.collector()
        self._marking.create([self._marker])
        (records,) = collector.watch([new])
        size = log_contents.write(
            self._folder, self._marker.path, self._job.requested_time, log_format, records, deletes
        )
        # A delete is no row, and has no column stats.
        stat = self._stat(decision, len(new) + len(deletes), size, collector.stats())
        return decision, msgspec.structs.replace(stat, has_field_ids=not log_format.has_avro_blocks)

    def _merge(self, file: pq.ParquetFile | None, rows: pa.Table, incoming: pa.Table) -> Outcome:
        known = self._stored_keys(file)
        decision = self._with_repeated(self._decision(known, incoming), rows, incoming)
        if decision.duplicates or not decision.changed:
            return decision, None
        new = merge.only(incoming, decision.written)
        records = int(np.sum(decision.kept)) + int(np.sum(decision.written))
        return decision, self._base_file(self._file_rows(file, known, decision, new), decision, records)

    def _copy(self, rows: pa.Table) -> Outcome:
        """Write stored records to a new file group as they are, also several of one key."""
        decision = merge.copied(len(rows))
        return decision, self._base_file([self._stamped(rows)], decision, len(rows))

    def _base_file(self, tables: Iterable[pa.Table], decision: Decision, records: int) -> WriteStat:
        written = written_files.write_base_file(
            self._folder, self._marking, self._marker, self._format, tables, records
        )
        return self._stat(decision, written.records, written.size_bytes, written.column_stats)

    def _decision(self, known: pa.Table, incoming: pa.Table) -> Decision:
        if self._job.existing is Existing.UNCHECKED:
            return merge.unchecked(len(known), incoming)
        return merge.decide(
            known, incoming, ordering_fields=self._job.ordering_fields, existing=self._job.existing
        )

    def _with_repeated(self, decision: Decision, rows: pa.Table, incoming: pa.Table) -> Decision:
        if self._job.existing is not Existing.FAIL or len(incoming) == len(rows):
            return decision
        return row_checks.with_repeated(decision, rows, len(rows) - len(incoming))

    def _reader(self) -> SliceReader:
        ordering = slice_reader.ordering_of(self._schema, self._job.ordering_fields)
        return SliceReader(self._folder, self._schema, self._fields, ordering)

    def _stored_keys(self, file: pq.ParquetFile | None) -> pa.Table:
        wanted = [columns.RECORD_KEY, *self._job.ordering_fields]
        return file.read(columns=wanted) if file else self._schema.empty_table().select(wanted)

    def _file_rows(
        self, file: pq.ParquetFile | None, known: pa.Table, decision: Decision, new: pa.Table
    ) -> Iterator[pa.Table]:
        """The stored rows that are kept, then the new ones."""
        if file is not None and self._stored is not None and (base := self._stored.base) is not None:
            fields = None if base.has_field_ids else self._fields[base.schema_version]
            stored = layouts.stored_schema(file, fields, base.path)
            unnamed = self._schema.remove(self._schema.get_field_index(columns.FILE_NAME))
            kept = kept_rows.KeptRows(file, stored, unnamed, known, decision.kept)
            yield from map(self._named, kept.tables(at_once=not self._folder.is_local))
        yield self._stamped(new)

    def _named(self, kept: pa.Table) -> pa.Table:
        """Kept rows, which are in this file now."""
        index = self._schema.get_field_index(columns.FILE_NAME)
        return kept.add_column(index, self._schema.field(index), _repeated(self._file_name, len(kept)))

    def _stamped(self, new: pa.Table) -> pa.Table:
        """The new rows with Hudi's five columns: time, sequence number, key, partition path, file."""
        count = len(new)
        meta = [
            *self._commit_columns(new),
            new[columns.RECORD_KEY],
            _repeated(self._group.partition_path, count),
            _repeated(self._file_name, count),
        ]
        own = [new[name] for name in self._job.schema.names]
        return pa.table(meta + own, names=self._schema.names).cast(self._schema)

    def _commit_columns(self, new: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """The commit time and the sequence number of each row."""
        if self._job.copies_records:
            return new[columns.COMMIT_TIME], new[columns.COMMIT_SEQNO]
        time, count = self._job.requested_time, len(new)
        numbers = pa.array(np.arange(self._first_seqno, self._first_seqno + count)).cast(pa.string())
        seqnos = pc.binary_join_element_wise(f"{time}_{self._task.partition}", numbers, "_")
        return _repeated(time, count), seqnos

    def _stat(
        self, decision: Decision, records: int, size_bytes: int, column_stats: list[ColumnStats]
    ) -> WriteStat:
        return WriteStat(
            partition_path=self._group.partition_path,
            file_id=self._file_id,
            file_name=self._file_name,
            size_bytes=size_bytes,
            records=records,
            inserts=decision.inserts,
            updates=decision.updates,
            deletes=decision.deletes,
            column_stats=column_stats or UNSET,
            has_field_ids=True,
        )


def _repeated(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), [text])
