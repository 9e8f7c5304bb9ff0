"""The parameters of one execution of a plan, and its tasks: what each process that writes files needs.

A plan is divided into tasks that depend on nothing of each other. Both have a text, so that another process, on
another machine, can run a task.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa

import chronolake
from chronolake.slices import arrow_types, layouts, slice_reader, stored_slices
from chronolake.slices.base_files import TableFolder
from chronolake.slices.slice_reader import SliceReader
from chronolake.slices.stored_slices import StoredSlice
from chronolake.writing.written_files import FileFormat
from chronolake_model import decoding
from chronolake_model.file_names import write_token
from chronolake_model.files import FileGroupName, FileSlice
from chronolake_model.instants import Instant
from chronolake_model.markers import MarkersType
from chronolake_model.slices import FILE_GROUPS_MAX
from chronolake_model.tables import SchemaField, Table
from chronolake_model.vocabulary import Action, IndexType, Operation, State
from chronolake_spark import errors
from chronolake_storage.claims import Owner

SERVICES: Final = (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)
"""The services that are executed file group by file group."""
_WRITES: Final = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
_OF_SERVICES: Final = (Operation.COMPACT, Operation.LOG_COMPACT, Operation.CLUSTER)
_NEVER: Final = "a"
"""It sorts after the digits of all times."""


class ServiceTask(msgspec.Struct, frozen=True, array_like=True):
    """A part of a plan: one file group, or for a clustering all planned groups of one partition.

    ``records`` is the number of records in the files, or more: some have several versions.
    """

    number: int
    slices: list[StoredSlice]
    records: int
    size_bytes: int

    def to_json(self) -> str:
        """The text of the task."""
        return msgspec.json.encode(self).decode()


class ServiceJob(msgspec.Struct, frozen=True):
    """The execution of a plan: the instant, and the table with the schema to write files with.

    ``execution`` is another number each time that the plan is taken, ``fields`` has the columns of each version
    of the schema that files were written with. ``details`` are those of the plan. ``storage_options`` are the
    access to the base path; they may hold secrets.
    """

    action: Action
    table: Table
    requested_time: str
    writer: str
    execution: int
    fields: dict[int, list[SchemaField]]
    details: dict[str, str]
    markers: MarkersType
    storage_options: dict[str, str]

    @property
    def folder(self) -> TableFolder:
        """The folder of the table."""
        return TableFolder.of(self.table.base_path, self.storage_options)

    @property
    def owner(self) -> Owner:
        """The table that has the claim of the base path."""
        return Owner(self.table.metastore_id, self.table.table_id, self.table.name)

    @property
    def format(self) -> FileFormat:
        """The format of base files."""
        return FileFormat(self.schema, self.table.schema, self.table.index.type is IndexType.BLOOM)

    @property
    def schema(self) -> pa.Schema:
        """The columns of data files, in memory."""
        return layouts.with_dictionaries(arrow_types.file_layout(self.table.schema))

    def reader(self) -> SliceReader:
        """A reader of the slices, in the columns of the files to write."""
        fields: Mapping[int, Sequence[SchemaField]] = self.fields
        ordering = slice_reader.ordering_of(self.schema, self.table.merge_fields)
        return SliceReader(self.folder, self.schema, fields, ordering)

    def token(self, task: ServiceTask, attempt: int) -> str:
        """The write token of an attempt of a task: no other one, of any execution of the plan, has it."""
        return write_token(task.number, self.execution, attempt)

    def marker_store(self, table: chronolake.Table) -> chronolake.Markers:
        """The markers of the instant."""
        return table.markers_of(self.requested_time, markers=self.markers, writer=self.writer)

    def to_json(self) -> str:
        """The text of the job, without the storage options."""
        return msgspec.json.encode(msgspec.structs.replace(self, storage_options={})).decode()


def task_from_json(text: str) -> ServiceTask:
    """The task in a text of ``ServiceTask.to_json``."""
    return decoding.decode(text, ServiceTask)


def job_from_json(text: str, storage_options: Mapping[str, str]) -> ServiceJob:
    """The job in a text of ``ServiceJob.to_json``, with the access to the storage."""
    job = decoding.decode(text, ServiceJob)
    return msgspec.structs.replace(job, storage_options=dict(storage_options))


def job_of(table: chronolake.Table, instant: Instant) -> tuple[ServiceJob, list[ServiceTask]]:
    """The execution of a plan that was taken, and its tasks. Raises ``TableMismatch`` for another instant.

    The slices are those before the requested time of the plan. A group without any, or a compaction of one
    without log files, has nothing to do and no task.
    """
    _refuse_unfit(instant, table.reload().definition)
    slices = _slices(table, instant)
    tasks = [*_tasks(instant.action, slices)]
    definition = _written_with(table, instant)
    used = stored_slices.schema_versions(slices) - {definition.schema_version}
    fields = {version: table.schema(version).fields for version in used}
    assert instant.plan is not None
    job = ServiceJob(
        action=instant.action,
        table=definition,
        requested_time=instant.requested_time,
        writer=instant.writer,
        execution=instant.version,
        fields={**fields, definition.schema_version: definition.schema},
        details=instant.plan.details,
        markers=MarkersType.DIRECT if instant.plan.direct_markers else MarkersType.SERVER,
        storage_options=dict(table.storage_options),
    )
    return job, tasks


def planned_groups(table: chronolake.Table, instant: Instant) -> list[FileGroupName]:
    """All file groups of the plan of an instant."""
    plan = instant.plan
    if plan is None or plan.file_groups_count == len(plan.file_groups):
        return [] if plan is None else plan.file_groups
    return list(table.planned_file_groups(instant.requested_time))


def _refuse_unfit(instant: Instant, table: Table) -> None:
    what = f"the instant {instant.requested_time} of {instant.table}"
    if instant.action not in SERVICES or instant.state is not State.INFLIGHT:
        raise errors.TableMismatch(
            f"{what} is a {instant.action} that is {instant.state}: take a compaction, a log compaction or a "
            "clustering by table.execute()"
        )
    assert instant.plan is not None, "a table service has a plan"
    if instant.plan.buckets is not None:
        raise errors.TableMismatch(f"{what} resizes the table: resize_buckets() of Spark executes that")
    if instant.action is Action.CLUSTERING and table.index.type is IndexType.BUCKET:
        raise errors.TableMismatch(
            f"{table.name} has a bucket index, whose hash says the file group of each record, so {what} cannot "
            f"move records to others. Roll it back: chronolake rollback {table.name} {instant.requested_time}, "
            "and change the number of buckets instead: table.resize_buckets() of Spark"
        )


def _slices(table: chronolake.Table, instant: Instant) -> list[FileSlice]:
    """The slices of the plan's groups, of those that are live, before its requested time.

    They are those of now without later log files: a clean may have ended the reads as of that time. The plan
    loses if another base file was completed since.
    """
    slices: list[FileSlice] = []
    names = planned_groups(table, instant)
    for first in range(0, len(names), FILE_GROUPS_MAX):
        portion = names[first : first + FILE_GROUPS_MAX]
        groups = table.file_groups(portion).file_groups
        slices += [_before(group.slice, instant) for group in groups if group.slice is not None]
    if instant.action is Action.LOGCOMPACTION:
        return list(_before_pending(table, instant, slices))
    return slices


def _before(slice_: FileSlice, instant: Instant) -> FileSlice:
    logs = [log for log in slice_.log_files if log.completion_time < instant.requested_time]
    return msgspec.structs.replace(slice_, log_files=logs)


def _before_pending(
    table: chronolake.Table, instant: Instant, slices: Sequence[FileSlice]
) -> Iterator[FileSlice]:
    """The slices, with the log files of instants that began before every write that was pending at the plan.

    A log compaction counts where the last of its log files was. A write that began between them, and completed
    after the plan, would lose against the records of earlier writes.
    """
    logs = [log.requested_time for slice_ in slices for log in slice_.log_files]
    if not logs:
        return
    until = max(logs)
    pending = table.instants(action=_WRITES, pending=True, requested_to=until)
    since = table.instants(action=_WRITES, requested_to=until, completed_from=instant.requested_time)
    bounds = [
        next((write.requested_time for write in writes if write.operation not in _OF_SERVICES), _NEVER)
        for writes in (pending, since)
    ]
    for slice_ in slices:
        chosen = [log for log in slice_.log_files if log.requested_time < min(bounds)]
        yield msgspec.structs.replace(slice_, log_files=chosen)


def _tasks(action: Action, slices: Iterable[FileSlice]) -> Iterator[ServiceTask]:
    match action:
        case Action.COMPACTION:
            parts = [[slice_] for slice_ in slices if slice_.log_files]
        case Action.LOGCOMPACTION:
            parts = [[slice_] for slice_ in slices if len(slice_.log_files) > 1]
        case _:
            by_path = sorted(slices, key=lambda slice_: slice_.partition_path)
            groups = itertools.groupby(by_path, key=lambda slice_: slice_.partition_path)
            parts = [list(group) for _, group in groups]
    for number, part in enumerate(parts):
        files = [file for slice_ in part for file in stored_slices.files_of(slice_)]
        yield ServiceTask(
            number,
            list(map(stored_slices.of, part)),
            sum(file.records for file in files),
            sum(file.size_bytes for file in files),
        )


def _written_with(table: chronolake.Table, instant: Instant) -> Table:
    """The definition, with the version of the schema that the instant writes files with."""
    definition, version = table.definition, instant.schema_version
    if version is None or version == definition.schema_version:
        return definition
    fields = table.schema(version).fields
    return msgspec.structs.replace(definition, schema=fields, schema_version=version)
