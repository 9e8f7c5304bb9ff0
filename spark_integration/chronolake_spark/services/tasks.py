"""One task of a plan: it reads the slices of its file groups, and writes the new files as writes do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from msgspec import UNSET

import chronolake
from chronolake.slices import base_files, columns, log_contents
from chronolake.slices.base_files import TableFolder
from chronolake.slices.log_contents import CompactedContents
from chronolake.slices.stored_slices import StoredSlice
from chronolake.writing import written_files
from chronolake.writing.task_markers import TaskMarkers
from chronolake_model.file_names import base_file_name, log_file_name
from chronolake_model.files import ColumnStats, WriteStat
from chronolake_model.markers import Marker, MarkerKind
from chronolake_model.vocabulary import Action
from chronolake_spark.services import clustering, log_compaction
from chronolake_spark.services.jobs import ServiceJob, ServiceTask

Check = Callable[[], None]
"""Raises an error if the task has to stop; called between row groups."""


def run(
    job: ServiceJob,
    task: ServiceTask,
    markers: chronolake.Markers,
    attempt: int = 0,
    check: Check = lambda: None,
) -> list[WriteStat]:
    """Write the files of a task. The completion of the instant publishes the write stats that are returned.

    ``attempt`` is another number for each attempt of the same execution. After a failure, the files are deleted
    if possible. Raises the errors of ``Write.mark``, ``BaseFileDamaged``, ``LogFileDamaged``,
    ``LogFileUnsupported``, ``AttemptGivenUp``, and what ``check`` raises.
    """
    task_markers = TaskMarkers(markers)
    writer = _TaskWriter(job, job.folder, task_markers, job.token(task, attempt), check)
    try:
        stats = list(_written(job, task, writer))
        task_markers.refuse_given_up()
    except BaseException:
        failed = base_files.Attempt(job.table.base_path, job.storage_options, job.owner, job.requested_time)
        failed.discard(marker.path for marker in task_markers.created)
        raise
    return stats


def _written(job: ServiceJob, task: ServiceTask, writer: _TaskWriter) -> Iterator[WriteStat]:
    reader = job.reader()
    match job.action:
        case Action.COMPACTION:
            [stored] = task.slices
            # A group whose records are all deleted gets an empty base file, as in Hudi.
            yield writer.base_file(stored, reader.rows(stored), task.records)
        case Action.LOGCOMPACTION:
            [stored] = task.slices
            contents = log_compaction.contents_of(reader, stored, job.table)
            if contents is not None:
                yield writer.log_file(stored, contents)
        case _:
            for group, rows, records_max in clustering.new_groups(reader, job, task):
                yield writer.base_file(group, rows, records_max)


@dataclass(frozen=True, slots=True)
class _TaskWriter:
    """Writes files of an attempt of a task: each after its marker."""

    job: ServiceJob
    folder: TableFolder
    markers: TaskMarkers
    token: str
    check: Check

    def base_file(self, group: StoredSlice, tables: Iterable[pa.Table], records_max: int) -> WriteStat:
        """Write the rows to a base file of the group; a group without files is new."""
        name = base_file_name(group.file_id, self.token, self.job.requested_time)
        marker = Marker(group.partition_path, name, MarkerKind.MERGE if group.files else MarkerKind.CREATE)
        written = written_files.write_base_file(
            self.folder, self.markers, marker, self.job.format, self._named(tables, name), records_max
        )
        stat = self._stat(group, name, written.size_bytes, written.records, written.column_stats)
        return msgspec.structs.replace(stat, has_field_ids=True)

    def log_file(self, group: StoredSlice, contents: CompactedContents) -> WriteStat:
        """Write a log file of the group."""
        self.check()
        name = log_file_name(group.file_id, self.token, self.job.requested_time)
        marker = Marker(group.partition_path, name, MarkerKind.APPEND)
        self.markers.create([marker])
        job = self.job
        size = log_contents.write_compacted(self.folder, marker.path, job.requested_time, job.table, contents)
        collector = job.format.collector()
        rows = sum(len(records) for records, _ in contents.records)
        is_whole = not any(is_partial for _, is_partial in contents.records)
        if is_whole:
            list(collector.watch(records for records, _ in contents.records))
        stats = collector.stats() if is_whole else []
        stat = self._stat(group, name, size, rows + len(contents.deleted), stats)
        has_avro_blocks = log_contents.has_avro_blocks(job.table)
        return msgspec.structs.replace(stat, has_field_ids=not has_avro_blocks)

    def _named(self, tables: Iterable[pa.Table], name: str) -> Iterator[pa.Table]:
        def named(rows: pa.Table) -> pa.Table:
            self.check()
            names = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(rows)), [name])
            index = rows.schema.get_field_index(columns.FILE_NAME)
            return rows.set_column(index, rows.schema.field(index), names)

        # A generator would hold the rows of a row group while the next ones are read.
        return map(named, tables)

    @staticmethod
    def _stat(
        group: StoredSlice, name: str, size_bytes: int, records: int, column_stats: Sequence[ColumnStats]
    ) -> WriteStat:
        # No record of the table changes: there are no inserts, updates and deletes.
        return WriteStat(
            partition_path=group.partition_path,
            file_id=group.file_id,
            file_name=name,
            size_bytes=size_bytes,
            records=records,
            column_stats=list(column_stats) or UNSET,
        )
