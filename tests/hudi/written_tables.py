"""Small Hudi tables written with the package and pyarrow, and in plain Python what a reader must return.

Records are ``(key, ts, value)``, ordered by ``ts``. A key belongs to one partition and one bucket. A writer
changes file groups as Chronolake's writers do: copy-on-write rewrites base files, merge-on-read appends log
files.
"""

from __future__ import annotations

import enum
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from chronolake import field_ids
from chronolake_hudi import (
    avro_schema,
    log_blocks,
    log_files,
    metadata,
    partition_metadata,
    properties,
    timeline_files,
)
from chronolake_hudi.log_blocks import DeletedRecord, OrderingValue, Wrapper
from chronolake_hudi.log_files import LogBlock
from chronolake_hudi.metadata import (
    CleanMetadata,
    CommitMetadata,
    CompactionOperation,
    CompactionPlan,
    HudiWriteStat,
    ReplaceCommitMetadata,
    SavepointMetadata,
)
from chronolake_hudi.partition_metadata import PartitionMetadata
from chronolake_hudi.properties import HudiMergeMode, TableConfig, TableVersion
from chronolake_model import file_names, meta_columns, nested_fields, times
from chronolake_model.tables import Field
from chronolake_model.times import Micros
from chronolake_model.vocabulary import Action, Operation, TableType

KEYS: Final = range(6)
BUCKETS: Final = 2
FIELDS: Final = [Field("key", "string", False), Field("ts", "bigint", False), Field("value", "bigint")]
DAY: Final = Field("day", "string", False)
_FIRST_TIME: Final = Micros(1_767_225_600_000_000)


Row = tuple[str, int, int | None, str]
"""Key, ordering value, value and commit time."""


class Blocks(enum.Enum):
    """How records are in log files."""

    PARQUET = "parquet"
    AVRO = "avro"


class Record(msgspec.Struct, frozen=True):
    """A record of the table."""

    key: int
    ts: int
    value: int | None

    @property
    def bucket(self) -> int:
        """Its bucket."""
        return self.key % BUCKETS


class Kept(msgspec.Struct):
    """The state of a key: its record, or the delete of it. A delete without ``ts`` loses to any record.

    ``ts_in_base`` is the ordering value of its record in the base file.
    """

    ts: int | None
    record: Record | None
    commit_time: str
    ts_in_base: int | None = None


class Group(msgspec.Struct):
    """A file group: its files, and what a reader must find in them."""

    partition: str
    file_id: str
    base_time: str
    kept: dict[int, Kept] = {}
    base_file: str | None = None
    log_names: list[str] = []

    def apply(self, record: Record, commit_time: str) -> None:
        """An upsert: the greater ordering value wins, of two equal ones the later."""
        before = self.kept.get(record.key)
        if before is None or before.ts is None or record.ts >= before.ts:
            self.kept[record.key] = Kept(record.ts, record, commit_time, self.ts_in_base(record.key))

    def delete(self, key: int, ts: int | None, commit_time: str) -> None:
        """A delete, unconditional or of records with ``ts`` at most; nothing if the key is deleted already."""
        before = self.kept.get(key)
        if before is None or ts is None or (before.ts is not None and ts >= before.ts):
            self.kept[key] = Kept(ts, None, commit_time, self.ts_in_base(key))

    def ts_in_base(self, key: int) -> int | None:
        """The ordering value of a key in the base file."""
        return self.kept[key].ts_in_base if key in self.kept else None

    def records(self) -> list[tuple[Record, str]]:
        """The live records, with the commit time of each."""
        return [(kept.record, kept.commit_time) for kept in self.kept.values() if kept.record is not None]


class WrittenTable:
    """A table in a folder. Each method is an instant, and returns its requested time."""

    def __init__(
        self, folder: Path, table_type: TableType, version: TableVersion, *, partitioned: bool
    ) -> None:
        self.folder = folder
        self.table_type = table_type
        self.partitioned = partitioned
        self.fields = [*FIELDS, DAY] if partitioned else FIELDS
        self.groups: dict[tuple[str, int], Group] = {}
        self._generations: dict[tuple[str, int], int] = {}
        self._ticks = 0
        self.rows_as_of: dict[str, list[Row]] = {}
        """The rows that a reader as of a requested time must return."""
        config = TableConfig(
            name="t",
            type=table_type,
            version=version,
            record_key_fields=("key",),
            partition_fields=("day",) if partitioned else (),
            ordering_fields=("ts",),
            merge_mode=HudiMergeMode.EVENT_TIME,
            key_generator_class=properties.GUARD_CLASS,
        )
        self._write(properties.PATH, properties.encode(config))

    def partition_of(self, key: int) -> str:
        """The partition path of a key."""
        return f"day=2026-01-0{1 + key // 3}" if self.partitioned else ""

    def is_hidden_by_base(self, record: Record) -> bool:
        """Whether its key was deleted unconditionally, and the base file has it with a greater ordering value.

        Hudi then returns the deleted record: it compares the base file with what the logs have last of a key.
        """
        group = self.groups.get((self.partition_of(record.key), record.bucket))
        kept = group.kept.get(record.key) if group is not None else None
        if kept is None or kept.ts_in_base is None or (kept.record is not None and kept.ts == kept.ts_in_base):
            return False
        return record.ts < kept.ts_in_base

    def rows(self) -> list[Row]:
        """The rows that a reader must return: key, ts, value, and commit time."""
        return sorted(
            (str(record.key), record.ts, record.value, commit_time)
            for group in self.groups.values()
            for record, commit_time in group.records()
        )

    def upsert(self, records: Iterable[Record], blocks: Blocks = Blocks.PARQUET) -> str:
        """Write records: into base files of new file groups, or into those that there are."""
        requested = self._time()
        stats = []
        for (partition, bucket), changed in self._by_group(records).items():
            group = self.groups.get((partition, bucket))
            is_log = group is not None and self.table_type is TableType.MERGE_ON_READ
            if group is None:
                group = self._open(partition, bucket, requested)
            for record in changed:
                group.apply(record, requested)
            if is_log:
                block = self._data_block(group, changed, requested, blocks)
                stats.append(self._append(group, [block], requested))
            else:
                stats.append(self._rewrite(group, requested))
        self._complete(requested, self._write_action, self._commit(stats, Operation.UPSERT))
        return requested

    def delete(self, keys: Iterable[int], ts: int | None) -> str:
        """Delete keys, unconditionally or where the ordering value is ``ts`` at most."""
        requested = self._time()
        stats = []
        for (partition, bucket), records in self._by_group(Record(key, 0, None) for key in keys).items():
            group = self.groups.get((partition, bucket))
            if group is None:
                continue
            for record in records:
                group.delete(record.key, ts, requested)
            if self.table_type is TableType.MERGE_ON_READ:
                values = () if ts is None else (OrderingValue(Wrapper.LONG, ts),)
                deleted = [DeletedRecord(str(record.key), partition, values) for record in records]
                block = log_blocks.delete_block(requested, self._schema(meta=True), deleted)
                stats.append(self._append(group, [block], requested))
            else:
                stats.append(self._rewrite(group, requested))
        self._complete(requested, self._write_action, self._commit(stats, Operation.DELETE))
        return requested

    def replace(self, partition: str, records: Iterable[Record]) -> str:
        """Replace all file groups of a partition, as insert overwrite does."""
        requested = self._time()
        replaced = [group.file_id for (path, _), group in self.groups.items() if path == partition]
        self.groups = {place: group for place, group in self.groups.items() if place[0] != partition}
        stats = []
        for (path, bucket), written in self._by_group(records).items():
            if path == partition:
                group = self._open(path, bucket, requested)
                for record in written:
                    group.apply(record, requested)
                stats.append(self._rewrite(group, requested))
        commit = self._commit(stats, Operation.INSERT_OVERWRITE)
        replace_commit = ReplaceCommitMetadata(
            commit.partition_to_write_stats,
            extra_metadata=commit.extra_metadata,
            operation_type=commit.operation_type,
            partition_to_replace_file_ids={partition: replaced},
        )
        self._complete(requested, Action.REPLACECOMMIT, replace_commit)
        return requested

    def compact(self, *, complete: bool) -> str:
        """Plan the compaction of all file groups with logs, and do it or leave it pending."""
        requested = self._time()
        groups = [group for group in self.groups.values() if group.log_names]
        operations = [
            CompactionOperation(
                group.file_id, group.base_time, group.partition, group.base_file, list(group.log_names)
            )
            for group in groups
        ]
        plan_name = timeline_files.requested_name(requested, Action.COMPACTION)
        self._write_timeline(plan_name, metadata.encode(CompactionPlan(operations)))
        if complete:
            stats = [self._rewrite(group, requested) for group in groups]
            commit = self._commit(stats, Operation.COMPACT)
            self._complete(requested, Action.COMPACTION, msgspec.structs.replace(commit, compacted=True))
        return requested

    def leave_pending(self, records: Iterable[Record]) -> str:
        """Write files of an instant that never completes, and that the timeline does not list."""
        requested = self._time()
        for (partition, bucket), written in self._by_group(records).items():
            group = Group(partition, file_names.bucket_file_id(bucket, 9), requested)
            for record in written:
                group.apply(record, requested)
            self._rewrite(group, requested)
        return requested

    def savepoint_and_clean(self) -> str:
        """List a savepoint and a clean that deleted nothing."""
        requested = self._time()
        self._complete(requested, Action.SAVEPOINT, SavepointMetadata("us", 1))
        self._complete(requested, Action.CLEAN, CleanMetadata(requested, times.format_time(_FIRST_TIME)))
        return requested

    @property
    def _write_action(self) -> Action:
        return Action.COMMIT if self.table_type is TableType.COPY_ON_WRITE else Action.DELTACOMMIT

    def _time(self) -> str:
        self._ticks += 1
        return times.format_time(Micros(_FIRST_TIME + self._ticks * 1_000))

    def _by_group(self, records: Iterable[Record]) -> dict[tuple[str, int], list[Record]]:
        by_group: dict[tuple[str, int], list[Record]] = {}
        for record in records:
            by_group.setdefault((self.partition_of(record.key), record.bucket), []).append(record)
        return by_group

    def _open(self, partition: str, bucket: int, requested: str) -> Group:
        generation = self._generations.get((partition, bucket), 0)
        self._generations[partition, bucket] = generation + 1
        group = Group(
            partition, file_names.bucket_file_id(bucket, generation), requested, kept={}, log_names=[]
        )
        self.groups[partition, bucket] = group
        return group

    def _rewrite(self, group: Group, requested: str) -> HudiWriteStat:
        # A base file holds live records only; of a deleted key nothing is known afterwards.
        group.kept = {
            key: Kept(kept.ts, kept.record, kept.commit_time, kept.ts)
            for key, kept in group.kept.items()
            if kept.record is not None
        }
        name = file_names.base_file_name(group.file_id, "0-0-0", requested)
        content = self._parquet(group.records(), group, name)
        group.base_file, group.base_time, group.log_names = name, requested, []
        return self._stat(group, name, content, requested)

    def _append(self, group: Group, blocks: Sequence[LogBlock], requested: str) -> HudiWriteStat:
        name = f".{group.file_id}_{requested}.log.1_0-0-0"
        group.log_names.append(name)
        stat = self._stat(group, name, b"".join(map(log_files.encode, blocks)), requested)
        return msgspec.structs.replace(stat, log_version=1, log_offset=0, base_file="", log_files=[name])

    def _stat(self, group: Group, name: str, content: bytes, requested: str) -> HudiWriteStat:
        path = file_names.relative_path(group.partition, name)
        self._write(path, content)
        marker = file_names.relative_path(group.partition, partition_metadata.FILE_NAME)
        if not (self.folder / marker).exists():
            depth = partition_metadata.depth_of(group.partition)
            self._write(marker, partition_metadata.encode(PartitionMetadata(requested, depth)))
        return HudiWriteStat(
            group.file_id, path, group.partition, len(content), total_write_bytes=len(content), num_writes=1
        )

    def _data_block(self, group: Group, records: list[Record], requested: str, blocks: Blocks) -> LogBlock:
        schema = self._schema(meta=True)
        pairs = [(record, requested) for record in records]
        if blocks is Blocks.PARQUET:
            return log_blocks.parquet_block(requested, schema, self._parquet(pairs, group, group.file_id))
        return log_blocks.avro_block(requested, schema, self._arrow(pairs, group, group.file_id).to_pylist())

    def _parquet(self, records: list[tuple[Record, str]], group: Group, file_name: str) -> bytes:
        content = io.BytesIO()
        pq.write_table(self._arrow(records, group, file_name), content)
        return content.getvalue()

    def _arrow(self, records: list[tuple[Record, str]], group: Group, file_name: str) -> pa.Table:
        rows = [
            {
                meta_columns.COMMIT_TIME: commit_time,
                meta_columns.COMMIT_SEQNO: f"{commit_time}_0_{number}",
                meta_columns.RECORD_KEY: str(record.key),
                meta_columns.PARTITION_PATH: group.partition,
                meta_columns.FILE_NAME: file_name,
                "key": str(record.key),
                "ts": record.ts,
                "value": record.value,
            }
            | ({"day": group.partition.removeprefix("day=")} if self.partitioned else {})
            for number, (record, commit_time) in enumerate(records)
        ]
        columns = [pa.field(name, pa.string()) for name in meta_columns.META]
        columns += [
            pa.field(field.name, pa.int64() if field.type == "bigint" else pa.string(), field.nullable)
            for field in self.fields
        ]
        fields, _ = nested_fields.numbered_columns(self.fields)
        return pa.Table.from_pylist(rows, field_ids.with_field_ids(pa.schema(columns), fields))

    def _schema(self, *, meta: bool) -> str:
        return avro_schema.encode(avro_schema.of_table("t", self.fields, meta=meta))

    def _commit(self, stats: list[HudiWriteStat], operation: Operation) -> CommitMetadata:
        by_partition: dict[str, list[HudiWriteStat]] = {}
        for stat in stats:
            by_partition.setdefault(stat.partition_path, []).append(stat)
        extra = {metadata.SCHEMA_KEY: self._schema(meta=False)}
        return CommitMetadata(
            by_partition, extra_metadata=extra, operation_type=metadata.operation_type(operation)
        )

    def _complete(self, requested: str, action: Action, completed: metadata.Metadata) -> None:
        name = timeline_files.completed_name(requested, self._time(), action)
        self._write_timeline(name, metadata.encode(completed))
        self.rows_as_of[requested] = self.rows()

    def _write_timeline(self, name: str, content: bytes) -> None:
        self._write(f"{timeline_files.Layout.TWO.folder}/{name}", content)

    def _write(self, path: str, content: bytes) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(content)
