"""Published tables that are written by keys, and the rows that a reader of Hudi must return of them.

A writer changes file groups as Chronolake's writers do: copy-on-write rewrites base files, merge-on-read
appends log files. Rows that are copied keep their commit time.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import hudi
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

import chronolake
from chronolake import Action, Operation, field_ids
from chronolake_hudi import avro_schema, log_blocks, log_files
from chronolake_hudi.log_blocks import DeletedRecord, OrderingValue, Wrapper
from chronolake_hudi.log_files import BlockType, LogBlock
from chronolake_model.file_names import bucket_file_id, generation_of, relative_path
from chronolake_model.files import FileGroupName, FileSlice
from chronolake_model.meta_columns import COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from chronolake_model.partition_paths import DEFAULT_PARTITION, escape
from chronolake_model.tables import Field
from chronolake_model.vocabulary import TableType
from tests.fix_stores import Store
from tests.hudi.hudi_spark import HudiSpark
from tests.hudi.written_tables import Blocks
from tests.published import PublishedTable, Row, parquet

BUCKETS: Final = 2
READ_OPTIMIZED: Final = "hoodie.datasource.query.type"
_TIMES: Final[Mapping[str, pa.DataType]] = {"date": pa.date32(), "timestamp": pa.timestamp("us", "UTC")}
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Kept(msgspec.Struct):
    """The state of a key in a file slice: its row, or the delete of it, with the ordering value."""

    ordering: Any
    row: Row | None


class KeyedTable(PublishedTable):
    """A table with the key ``id``, the partition ``day``, and ``BUCKETS`` buckets in each partition.

    ``ordering`` is the type of the ordering field ``ts``; without one, the later write wins.
    """

    has_field_ids = True

    def __init__(
        self,
        client: chronolake.Client,
        place: Path | Store,
        table_type: TableType = TableType.COPY_ON_WRITE,
        *,
        ordering: str | None = None,
        version: int = 8,
        **definition: Any,
    ) -> None:
        fields = [Field("id", "bigint", nullable=False), Field("day", "string", nullable=False)]
        fields += [] if ordering is None else [Field("ts", ordering, nullable=False)]
        definition.setdefault("schema", [*fields, Field("name", "string")])
        if ordering is not None:
            definition["ordering_field"] = "ts"
        properties = {"hudi.table-version": str(version), **definition.pop("properties", {})}
        super().__init__(client, place, type=table_type, properties=properties, **definition)
        self.requested_times: list[str] = []
        self.is_in_other_order = False

    @property
    def is_merge_on_read(self) -> bool:
        """Whether updates are log files."""
        return self.table.definition.type is TableType.MERGE_ON_READ

    def upsert(self, *rows: Row, blocks: Blocks = Blocks.PARQUET) -> str:
        """Insert or update rows by their keys: the requested time."""
        with self.table.begin(operation=Operation.UPSERT) as write:
            self.add(write, self.upserted(write.requested_time, rows, blocks))
        return self._completed(write)

    def upserted(self, requested: str, rows: Iterable[Row], blocks: Blocks = Blocks.PARQUET) -> list[Any]:
        """Write the files of an upsert: their write stats."""
        slices = self.slices()
        stats: list[Any] = []
        for (path, bucket), own in _by_group(rows).items():
            file_slice = slices.get((path, bucket))
            if file_slice is not None and self.is_merge_on_read:
                stats.append(self.log_file(requested, path, bucket, [self.data_block(requested, own, blocks)]))
                continue
            kept = {} if file_slice is None else self._kept(file_slice)
            for row in own:
                _apply(kept, str(row["id"]), self._entry(row))
            stats.append(self._base(requested, path, bucket, kept))
        return stats

    def delete(self, *rows: Row) -> str:
        """Delete the keys of rows; in an event-time table, up to the ordering values of the rows."""
        with self.table.begin(operation=Operation.DELETE) as write:
            requested, slices = write.requested_time, self.slices()
            for (path, bucket), own in _by_group(rows).items():
                if self.is_merge_on_read:
                    self.add(
                        write, [self.log_file(requested, path, bucket, [self._delete_block(requested, own)])]
                    )
                    continue
                kept = self._kept(slices[path, bucket])
                for row in own:
                    kept.pop(str(row["id"]), None)
                self.add(write, [self._base(requested, path, bucket, kept)])
        return self._completed(write)

    def plan_compaction(self) -> str | None:
        """Plan the compaction of all file groups with log files, and publish it: the requested time."""
        requested = self.plan(Action.COMPACTION)
        if requested is not None:
            # It pauses where the plan of an undone compaction has the file group too.
            with contextlib.suppress(chronolake.errors.NotPublished):
                self.publish()
        return requested

    def plan(self, action: Action) -> str | None:
        """Plan the compaction or log compaction of all file groups with log files: the requested time."""
        groups = [
            FileGroupName(part.partition_path, part.file_id)
            for part in self.slices().values()
            if part.log_files
        ]
        return self.table.plan(action, groups).requested_time if groups else None

    def compact(self, requested: str | None = None) -> str | None:
        """Compact all file groups with log files, or execute a plan: the requested time."""
        requested = requested or self.plan_compaction()
        if requested is None:
            return None
        with self.table.execute(requested) as write:
            self.add(write, self.compacted(write))
        return self._completed(write)

    def compacted(self, write: chronolake.Write) -> list[Any]:
        """Write the base files of a compaction: what the file groups had when it was planned."""
        assert write.instant.plan is not None
        before = self.slices(write.requested_time)
        places = {(group.partition_path, _bucket(group.file_id)) for group in write.instant.plan.file_groups}
        return [
            self._base(write.requested_time, path, bucket, self._kept(file_slice))
            for (path, bucket), file_slice in before.items()
            if (path, bucket) in places
        ]

    def compact_logs(self) -> str:
        """Append to each file group with log files one with the rows of all of them: the requested time."""
        requested = self.plan(Action.LOGCOMPACTION)
        assert requested is not None
        with self.table.execute(requested) as write:
            self.add(write, self.stitched(requested))
        return self._completed(write)

    def stitched(self, requested: str) -> Iterator[Any]:
        """Write the log files of a log compaction: their write stats."""
        for (path, bucket), file_slice in self.slices().items():
            kept = self._kept(msgspec.structs.replace(file_slice, base_file=None))
            rows = [entry.row for entry in kept.values() if entry.row is not None]
            if rows:
                yield self.log_file(requested, path, bucket, [self.data_block(requested, rows, Blocks.PARQUET)])

    def cluster(self, day: str) -> str:
        """Rewrite the file groups of a day as new ones with the same rows."""
        path = partition_path(day)
        before = self._of_path(path)
        groups = [FileGroupName(part.partition_path, part.file_id) for part in before.values()]
        plan = self.table.plan(Action.CLUSTERING, groups)
        with self.table.execute(plan.requested_time) as write:
            for bucket, file_slice in before.items():
                generation = generation_of(file_slice.file_id) + 1
                kept = self._kept(file_slice)
                self.add(write, [self._base(write.requested_time, path, bucket, kept, generation)])
            for group in groups:
                write.replace(group)
        return self._completed(write)

    def overwrite(self, day: str, *rows: Row) -> str:
        """Replace the rows of a day; without rows, delete the partition."""
        operation = Operation.INSERT_OVERWRITE if rows else Operation.DELETE_PARTITION
        path = partition_path(day)
        before = self._of_path(path)
        with self.table.begin(action=Action.REPLACECOMMIT, operation=operation) as write:
            for file_slice in before.values():
                write.replace(FileGroupName(file_slice.partition_path, file_slice.file_id))
            for (_, bucket), own in _by_group(rows).items():
                kept = {str(row["id"]): self._entry(row) for row in own}
                generation = self._generation(path, bucket) + (bucket in before)
                self.add(write, [self._base(write.requested_time, path, bucket, kept, generation)])
        return self._completed(write)

    def add(self, write: chronolake.Write, stats: Iterable[Any]) -> None:
        """Add write stats, whose files are marked first."""
        stats = list(stats)
        write.mark(*self.markers(stats))
        for stat in stats:
            write.add(stat)

    def complete(self, write: chronolake.Write, stats: Iterable[Any]) -> str:
        """Complete a write that was begun before."""
        self.add(write, stats)
        write.complete()
        return self._completed(write)

    def completion_time(self, requested: str) -> str:
        """When an instant completed."""
        completed = self.table.instant(requested).completion_time
        assert completed is not None
        return completed

    def slices(self, as_of: str | None = None) -> dict[tuple[str, int], FileSlice]:
        """The file slices that Chronolake serves, by partition path and bucket."""
        return {
            (part.partition_path, _bucket(part.file_id)): part for part in self.table.snapshot(as_of).slices
        }

    def own_rows(self, as_of: str | None = None) -> list[tuple[str, ...]]:
        """The rows in the files that Chronolake serves, log files merged."""
        return self._listed(
            kept.row
            for part in self.slices(as_of).values()
            for kept in self._kept(part).values()
            if kept.row is not None
        )

    def own_base_rows(self) -> list[tuple[str, ...]]:
        """The rows in the base files alone."""
        files = [part.base_file for part in self.slices().values()]
        return self._listed(row for file in files if file for row in self.base_rows(file.path))

    def upserts(self, after: str, until: str) -> list[tuple[str, ...]]:
        """The rows that a reader as of ``until`` has, and that were written later than ``after``."""
        written = {
            instant.requested_time
            for instant in self.table.instants()
            if instant.completion_time is not None and after < instant.completion_time <= until
        }
        return [row for row in self.own_rows(until) if row[0] in written]

    def of_java(self, spark: HudiSpark, **options: str) -> list[tuple[str, ...]]:
        """The rows that Hudi's Spark bundle returns."""
        return self._listed(spark.read(self.location, **options))

    def of_hudi_rs(self, options: hudi.HudiReadOptions | None = None) -> list[tuple[str, ...]]:
        """The rows that hudi-rs returns."""
        batches = hudi.HudiTable(self.location, self.store.hudi_options).read(options)
        return self._listed(row for batch in batches for row in batch.to_pylist())

    def _listed(self, rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
        names = [
            COMMIT_TIME,
            PARTITION_PATH,
            RECORD_KEY,
            *(field.name for field in self.table.definition.schema),
        ]
        return sorted((tuple(_text(row.get(name)) for name in names) for row in rows), key=lambda row: row[1:])

    def log_file(self, requested: str, path: str, bucket: int, blocks: Sequence[LogBlock]) -> Any:
        """Write a log file: its write stat."""
        file_id = bucket_file_id(bucket, self._generation(path, bucket))
        name = f".{file_id}_{requested}.log.1_0-0-0"
        content = b"".join(map(log_files.encode, blocks))
        self.put(relative_path(path, name), content)
        return chronolake.WriteStat(path, file_id, name, len(content), records=1, updates=1, has_field_ids=True)

    def _generation(self, path: str, bucket: int) -> int:
        """The number of the live file group of a bucket, or else the one after its replaced ones."""
        live = self.slices().get((path, bucket))
        if live is not None:
            return generation_of(live.file_id)
        groups = self.table.replaced_file_groups().file_groups
        replaced = [
            generation_of(group.file_id)
            for group in groups
            if group.partition_path == path and _bucket(group.file_id) == bucket
        ]
        return max(replaced, default=-1) + 1

    def _base(
        self, requested: str, path: str, bucket: int, kept: Mapping[str, Kept], generation: int | None = None
    ) -> Any:
        rows = [entry.row for entry in kept.values() if entry.row is not None]
        generation = self._generation(path, bucket) if generation is None else generation
        [stat] = self.files(requested, rows, bucket, generation, partition=path)
        return stat

    @override
    def _table(self, requested_time: str, partition: str, name: str, rows: Sequence[Row]) -> pa.Table:
        table = super()._table(requested_time, partition, name, rows)
        if self.is_in_other_order:
            table = table.select(table.column_names[::-1])
        return table.cast(field_ids.with_field_ids(table.schema, self.table.definition.schema))

    def data_block(self, requested: str, rows: Sequence[Row], blocks: Blocks) -> LogBlock:
        """A block with rows of one partition."""
        schema = avro_schema.encode(avro_schema.of_table("orders", self.table.definition.schema, meta=True))
        records = self._table(requested, partition_path(rows[0]["day"]), "", rows)
        if blocks is Blocks.AVRO:
            return log_blocks.avro_block(requested, schema, records.to_pylist())
        return log_blocks.parquet_block(requested, schema, parquet(records))

    def _delete_block(self, requested: str, rows: Sequence[Row]) -> LogBlock:
        schema = avro_schema.encode(avro_schema.of_table("orders", self.table.definition.schema, meta=True))
        deleted = [
            DeletedRecord(str(row["id"]), partition_path(row["day"]), self._ordering_values(row))
            for row in rows
        ]
        return log_blocks.delete_block(requested, schema, deleted)

    def _ordering_values(self, row: Row) -> tuple[OrderingValue, ...]:
        if self.table.definition.ordering_field is None:
            return ()
        return (OrderingValue(self._wrapper(), _comparable(row["ts"])),)

    def _wrapper(self) -> Wrapper:
        [ordering] = [field for field in self.table.definition.schema if field.name == "ts"]
        return log_blocks.wrapper_of(ordering.type)

    def _entry(self, row: Row) -> Kept:
        is_ordered = self.table.definition.ordering_field is not None
        return Kept(_comparable(row["ts"]) if is_ordered else None, row)

    def _kept(self, file_slice: FileSlice) -> dict[str, Kept]:
        kept: dict[str, Kept] = {}
        if file_slice.base_file is not None:
            kept = {row[RECORD_KEY]: self._entry(row) for row in self.base_rows(file_slice.base_file.path)}
        for file in file_slice.log_files:
            for block in log_files.read(io.BytesIO(self.body(file.path)), file.size_bytes, file.path):
                for key, entry in self._entries(block, file.path):
                    _apply(kept, key, entry)
        return kept

    def _entries(self, block: LogBlock, path: str) -> list[tuple[str, Kept]]:
        if block.type is BlockType.DELETE:
            deleted = log_blocks.read_deletes(block, path)
            return [
                (record.record_key, Kept(next((v.value for v in record.ordering_values if v), None), None))
                for record in deleted
            ]
        if block.type is BlockType.AVRO_DATA:
            rows = [self._with_times(row) for row in log_blocks.read_avro(block, path)]
        else:
            rows = pq.read_table(io.BytesIO(block.content)).to_pylist()
        return [(row[RECORD_KEY], self._entry(row)) for row in rows]

    def _with_times(self, row: Row) -> Row:
        """A row of an Avro block with dates and times as Python has them."""
        times = {field.name: _TIMES.get(str(field.type)) for field in self.table.definition.schema}
        return {
            name: pa.scalar(value, type_).as_py() if (type_ := times.get(name)) is not None else value
            for name, value in row.items()
        }

    def _of_path(self, path: str) -> dict[int, FileSlice]:
        return {bucket: part for (own_path, bucket), part in self.slices().items() if own_path == path}

    def _completed(self, write: chronolake.Write) -> str:
        self.requested_times.append(write.requested_time)
        return write.requested_time


def assert_readers_agree(spark: HudiSpark, table: KeyedTable) -> list[tuple[str, ...]]:
    """Publish; then both readers of Hudi return what Chronolake has, and it is returned here."""
    publication = table.publish()
    assert publication.is_visible
    assert publication.lag_versions == 0
    expected = table.own_rows()
    assert table.of_hudi_rs() == expected
    assert table.of_java(spark) == expected
    return expected


def assert_base_files_agree(spark: HudiSpark, table: KeyedTable) -> None:
    """A read-optimised read returns the rows of the base files."""
    options = {READ_OPTIMIZED: "read_optimized"}
    assert table.of_java(spark, **options) == table.own_base_rows()


def assert_history_agrees(spark: HudiSpark, table: KeyedTable) -> None:
    """As of each write, and between all of them: of instants that do not overlap."""
    ends = {instant.requested_time: instant.completion_time for instant in table.table.instants()}
    times = [(time, end) for time in table.requested_times if (end := ends.get(time)) is not None]
    for requested, completed in times:
        assert_as_of(spark, table, requested, completed)
    for (_, after), (_, until) in itertools.pairwise(times):
        assert_changes(spark, table, after, until)
    if len(times) > 1:
        assert_changes(spark, table, times[0][1], times[-1][1])


def assert_as_of(spark: HudiSpark, table: KeyedTable, requested: str, completed: str) -> None:
    """Hudi reads as of a requested time what Chronolake has as of a completion time."""
    expected = table.own_rows(completed)
    assert table.of_hudi_rs(hudi.HudiReadOptions().with_as_of_timestamp(requested)) == expected
    assert table.of_java(spark, as__of__instant=requested) == expected


def assert_changes(spark: HudiSpark, table: KeyedTable, after: str, until: str) -> None:
    """The upserts between two completion times."""
    expected = table.upserts(after, until)
    assert changes_of_hudi_rs(table, after, until) == expected
    assert changes_of_java(spark, table, after, until) == expected


def changes_of_hudi_rs(table: KeyedTable, after: str, until: str) -> list[tuple[str, ...]]:
    """The rows that hudi-rs returns of a range of completion times."""
    options = (
        hudi.HudiReadOptions()
        .with_query_type(hudi.HudiQueryType.Incremental)
        .with_start_timestamp(after)
        .with_end_timestamp(until)
    )
    return table.of_hudi_rs(options)


def changes_of_java(
    spark: HudiSpark, table: KeyedTable, after: str, until: str, **more: str
) -> list[tuple[str, ...]]:
    """The rows that Hudi's Spark bundle returns of a range of completion times."""
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": after,
        "hoodie.datasource.read.end.instanttime": until,
    }
    return table.of_java(spark, **options, **more)


def partition_path(day: Any) -> str:
    """The partition path of a value."""
    match day:
        case None:
            text = DEFAULT_PARTITION
        case bool():
            text = str(day).lower()
        case _:
            text = escape(str(day))
    return f"day={text}"


def _by_group(rows: Iterable[Row]) -> dict[tuple[str, int], list[Row]]:
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((partition_path(row["day"]), row["id"] % BUCKETS), []).append(row)
    return groups


def _apply(kept: dict[str, Kept], key: str, entry: Kept) -> None:
    """The greater ordering value wins, of two equal ones the later; without ordering values, the later."""
    before = kept.get(key)
    if before is None or entry.ordering is None or entry.ordering >= before.ordering:
        kept[key] = entry


def _comparable(value: Any) -> Any:
    """An ordering value as delete blocks have it: a date in days, a timestamp in microseconds."""
    match value:
        case datetime.datetime():
            return (value.replace(tzinfo=datetime.UTC) - _EPOCH) // datetime.timedelta(microseconds=1)
        case datetime.date():
            return (value - _EPOCH.date()).days
        case _:
            return value


def _bucket(file_id: str) -> int:
    return int(file_id[:8])


def _text(value: Any) -> str:
    """A value as Spark's process spells it."""
    return str(value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value)
