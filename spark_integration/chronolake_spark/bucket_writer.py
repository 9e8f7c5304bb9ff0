"""What a task does with its rows: merge them into their file groups' base files, one after the other.

Runs on executors, knows Arrow and storage but not Spark. Memory: the incoming rows of one file group, its
stored keys (and ordering values), and one row group of the base file.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import UNSET

import chronolake
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import ColumnStats, WriteStat
from chronolake_model.markers import Marker, MarkerKind
from chronolake_spark import base_files, columns, errors, merge
from chronolake_spark.column_stats import Collector
from chronolake_spark.merge import Decision, Existing
from chronolake_spark.task_markers import TaskMarkers
from chronolake_storage.claims import Owner


class FileGroup(NamedTuple):
    """A partition path, and a bucket in it."""

    partition_path: str
    bucket: int


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file group's current base file, relative to the table's base path; ``names`` is what its columns are
    called in it."""

    file_id: str
    path: str
    size_bytes: int
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What all tasks of one write have in common.

    ``schema`` is the table's, ``required`` its columns that take no null, ``stored`` the current base files
    by partition path and bucket, ``field_ids`` the columns of which stats are wanted, ``storage_options`` how
    the base path is reached. ``owner`` is the table whose claim the base path has; without it the files of a
    task that fails stay until the instant is rolled back.
    """

    base_path: str
    requested_time: str
    schema: pa.Schema
    required: tuple[str, ...]
    ordering_field: str | None
    existing: Existing
    stored: dict[FileGroup, StoredFile]
    field_ids: dict[str, int] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """Who writes: the partition of the frame, and the write token that no other attempt shares."""

    partition: int
    write_token: str


@dataclass(frozen=True, slots=True)
class Written:
    """What a task wrote, and the keys that an insert may not bring: how many, and one of them.

    ``rows`` counts the rows that the task was given, ``superseded`` those of which another row of the same key
    was the later, ``unchanged`` those that changed nothing. All others are in ``stats``.
    """

    stats: tuple[WriteStat, ...] = ()
    duplicates: int = 0
    duplicate_key: str | None = None
    rows: int = 0
    superseded: int = 0
    unchanged: int = 0


def write(batches: Iterable[pa.RecordBatch], job: WriteJob, task: Task, markers: chronolake.Markers) -> Written:
    """Merge the rows of one task, which come file group by file group.

    Each file has its marker before it is there. What fails leaves no file, as far as it can still delete them.
    Raises what ``Write.mark`` does, and ``AttemptGivenUp``.
    """
    folder = base_files.Folder.of(job.base_path, job.storage_options)
    task_markers = TaskMarkers(markers)
    stats: list[WriteStat] = []
    duplicates, sample = 0, None
    read, superseded, unchanged = 0, 0, 0
    try:
        for group, rows in file_groups(_with_markers(batches, job, task, task_markers)):
            seqno = sum(stat.inserts + stat.updates for stat in stats)
            writer = _GroupWriter(folder, task_markers, job, task, group, seqno=seqno)
            decision, stat = writer.write(rows)
            read += len(rows)
            superseded += writer.superseded
            unchanged += decision.unchanged
            duplicates += decision.duplicates
            sample = sample or decision.duplicate_key
            stats += [stat] if stat else []
        task_markers.refuse_given_up()
    except BaseException:
        _discard(job, [marker.path for marker in task_markers.created])
        raise
    return Written(tuple(stats), duplicates, sample, read, superseded, unchanged)


def _discard(job: WriteJob, paths: Iterable[str]) -> None:
    if job.owner is not None:
        attempt = base_files.Attempt(job.base_path, job.storage_options, job.owner, job.requested_time)
        attempt.discard(paths)


def file_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[FileGroup, pa.Table]]:
    """The rows of each file group, which must come one group after the other."""
    seen: set[FileGroup] = set()
    held: list[pa.RecordBatch] = []
    current: FileGroup | None = None
    for group, run in (pair for batch in batches for pair in _runs(batch)):
        if group != current:
            if current is not None:
                yield current, pa.Table.from_batches(held)
            # A group that comes back would be merged without what it wrote before.
            assert group not in seen, f"rows of {group} do not come together"
            seen.add(group)
            current, held = group, []
        held.append(run)
    if current is not None:
        yield current, pa.Table.from_batches(held)


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[FileGroup, pa.RecordBatch]]:
    """The batch cut where the file group changes."""
    if not batch.num_rows:
        return
    paths = batch[columns.PARTITION_PATH].dictionary_encode()
    codes, buckets = paths.indices.to_numpy(), batch[columns.BUCKET].to_numpy()
    changes = np.flatnonzero((codes[1:] != codes[:-1]) | (buckets[1:] != buckets[:-1])) + 1
    bounds = [0, *changes.tolist(), batch.num_rows]
    for start, end in itertools.pairwise(bounds):
        path = paths.dictionary[int(codes[start])].as_py()
        yield FileGroup(path, int(buckets[start])), batch.slice(start, end - start)


def _with_markers(
    batches: Iterable[pa.RecordBatch], job: WriteJob, task: Task, task_markers: TaskMarkers
) -> Iterator[pa.RecordBatch]:
    """The batches. Before each one, those of its file groups are marked that are written in any case.

    So many small files take few requests. Other groups are marked one by one, when they turn out to change:
    what is marked and not written has to be looked for before the instant can complete.
    """
    for batch in batches:
        task_markers.create(
            _marker(job, task, group)
            for group, run in _runs(batch)
            if _is_written(job, group) and not pc.all(run[columns.DELETE]).as_py()
        )
        yield batch


def _is_written(job: WriteJob, group: FileGroup) -> bool:
    """Whether any upsert changes the file group."""
    return group not in job.stored or (job.existing is Existing.MERGE and job.ordering_field is None)


def _marker(job: WriteJob, task: Task, group: FileGroup) -> Marker:
    kind = MarkerKind.MERGE if group in job.stored else MarkerKind.CREATE
    name = base_file_name(_file_id(job, group), task.write_token, job.requested_time)
    return Marker(group.partition_path, name, kind)


def _file_id(job: WriteJob, group: FileGroup) -> str:
    # Once what was in a bucket has been replaced, its file group is another than the first.
    stored = job.stored.get(group)
    return stored.file_id if stored else bucket_file_id(group.bucket)


class _GroupWriter:
    """Merges the rows of one file group into its base file."""

    def __init__(
        self,
        folder: base_files.Folder,
        task_markers: TaskMarkers,
        job: WriteJob,
        task: Task,
        group: FileGroup,
        *,
        seqno: int,
    ) -> None:
        self._folder = folder
        self._marking = task_markers
        self._job = job
        self._task = task
        self._group = group
        self._first_seqno = seqno
        self._stored = job.stored.get(group)
        self._marker = _marker(job, task, group)
        self._file_name = self._marker.file_name
        self._schema = base_files.file_schema(job.schema)
        self.superseded = 0
        """Once written: rows of which another row of the same key was the later."""

    def write(self, rows: pa.Table) -> tuple[Decision, WriteStat | None]:
        """Decide, and write unless nothing changes or the insert is refused."""
        self._check_required(rows)
        latest = merge.latest_per_key(rows, self._job.ordering_field)
        if latest.ambiguous and self._job.existing is not Existing.FAIL:
            raise _ambiguous_order(latest)
        incoming = latest.records
        self.superseded = len(rows) - len(incoming)
        if self._stored is None:
            return self._merge(None, rows, incoming)
        with base_files.open_base_file(self._folder, self._stored.path, self._stored.size_bytes) as file:
            return self._merge(file, rows, incoming)

    def _merge(
        self, file: pq.ParquetFile | None, rows: pa.Table, incoming: pa.Table
    ) -> tuple[Decision, WriteStat | None]:
        decision = merge.decide(
            self._stored_keys(file),
            incoming,
            ordering_field=self._job.ordering_field,
            existing=self._job.existing,
        )
        if self._job.existing is Existing.FAIL and len(incoming) < len(rows):
            decision = _with_repeated(decision, rows, len(rows) - len(incoming))
        if decision.duplicates or not decision.changed:
            return decision, None
        new = incoming.filter(pa.array(decision.written))
        collector = Collector(self._schema, self._job.field_ids)
        self._marking.create([self._marker])
        tables = collector.watch(self._file_rows(file, decision, new))
        size = base_files.write(self._folder, self._marker.path, self._schema, tables)
        return decision, self._stat(decision, size, collector.stats())

    def _stored_keys(self, file: pq.ParquetFile | None) -> pa.Table:
        wanted = [columns.RECORD_KEY]
        if self._job.ordering_field is not None:
            wanted.append(self._job.ordering_field)
        return file.read(columns=wanted) if file else self._schema.empty_table().select(wanted)

    def _file_rows(self, file: pq.ParquetFile | None, decision: Decision, new: pa.Table) -> Iterator[pa.Table]:
        """The stored rows that stay, then the new ones."""
        start = 0
        for stored in self._row_groups(file):
            kept = decision.kept[start : start + len(stored)]
            start += len(stored)
            yield self._named(stored.filter(pa.array(kept)))
        yield self._stamped(new)

    def _row_groups(self, file: pq.ParquetFile | None) -> Iterator[pa.Table]:
        if file is None or self._stored is None:
            return
        names = self._stored.names
        for index in range(file.num_row_groups):
            stored = file.read_row_group(index, columns=list(names.values()))
            yield base_files.in_layout(stored, self._schema, names)

    def _named(self, stored: pa.Table) -> pa.Table:
        names = pa.repeat(pa.scalar(self._file_name), len(stored))
        index = stored.schema.get_field_index(columns.FILE_NAME)
        return stored.set_column(index, columns.FILE_NAME, names)

    def _stamped(self, new: pa.Table) -> pa.Table:
        """New rows with Hudi's five columns: the instant, a number unique in it, the key, the place."""
        time, count = self._job.requested_time, len(new)
        numbers = range(self._first_seqno, self._first_seqno + count)
        meta = [
            pa.repeat(pa.scalar(time), count),
            pa.array([f"{time}_{self._task.partition}_{number}" for number in numbers], pa.string()),
            new[columns.RECORD_KEY],
            pa.repeat(pa.scalar(self._group.partition_path), count),
            pa.repeat(pa.scalar(self._file_name), count),
        ]
        own = [new[name] for name in self._job.schema.names]
        return pa.table(meta + own, names=self._schema.names).cast(self._schema)

    def _check_required(self, rows: pa.Table) -> None:
        if not self._job.required:
            return
        upserts = rows.filter(pc.invert(rows[columns.DELETE]))
        for name in self._job.required:
            if nulls := upserts[name].null_count:
                raise errors.RequiredValueMissing(
                    f"the column {name!r} takes no null, but is null in {nulls} rows "
                    f"(of the {len(upserts)} of one file group)",
                    {"column": name},
                )

    def _stat(self, decision: Decision, size_bytes: int, column_stats: list[ColumnStats]) -> WriteStat:
        return WriteStat(
            partition_path=self._group.partition_path,
            file_id=_file_id(self._job, self._group),
            file_name=self._file_name,
            size_bytes=size_bytes,
            records=int(np.sum(decision.kept)) + int(np.sum(decision.written)),
            inserts=decision.inserts,
            updates=decision.updates,
            deletes=decision.deletes,
            column_stats=column_stats or UNSET,
        )


def _ambiguous_order(latest: merge.Latest) -> errors.DuplicateKeys:
    return errors.DuplicateKeys(
        f"{latest.ambiguous} rows differ from another row of the frame with the same record key, and nothing "
        f"says which one is later; for example {latest.ambiguous_key!r}. Order the rows with row_order, keep "
        "one row of each key, or use a table with an ordering field that distinguishes them",
        {"duplicates": latest.ambiguous, "record_key": latest.ambiguous_key},
    )


def _with_repeated(decision: Decision, rows: pa.Table, repeated: int) -> Decision:
    """``decision`` with the keys that the frame itself brings twice counted as refused too."""
    counts = rows[columns.RECORD_KEY].value_counts()
    sample = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"].as_py()
    return dataclasses.replace(
        decision,
        duplicates=decision.duplicates + repeated,
        duplicate_key=decision.duplicate_key or sample,
    )
