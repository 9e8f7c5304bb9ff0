"""Spark: writes and reads of Chronolake's tables against plain Spark on the same rows, in the same run.

``make bench-spark`` runs all cases; ``CASES=ab`` runs these alone. ``ROWS=5000000`` is the size of the large
tables, ``FILES=5000`` is for (e), ``FILE_GROUPS=10,1000,100000`` for (f). ``ROUNDS=3`` says how often all but
(f), (g) and DELETE in (h) is measured. ``CHECK=1`` exits 1 when a target is missed.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession, functions as sf

import chronolake
import chronolake_spark
from benchmarks import lakes, reporting, running, spark_rows
from benchmarks.reporting import Row
from chronolake import storage
from chronolake.indexes.record.manifests import StoredManifests
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import WriteStat
from chronolake_model.instants import Instant
from chronolake_model.publication import PUBLISH_PROPERTY
from chronolake_model.vocabulary import IndexType, Operation, TableType
from chronolake_spark import SparkTable

CASES = os.environ.get("CASES", "abcdefgh")
ROWS = int(os.environ.get("ROWS", "5000000"))
FILES = int(os.environ.get("FILES", "5000"))
FILE_GROUPS = [int(number) for number in os.environ.get("FILE_GROUPS", "10,1000,100000").split(",")]
ROUNDS = int(os.environ.get("ROUNDS", "3"))
BUCKETS = 8
SMALL_JOBS = 15
"""One-row upserts and appends of (f); the first third warms up."""

BULK_INSERT_RATIO_MAX = 1.3
INSERT_RATIO_MAX = 2.5
UPSERT_RATIO_MAX = 0.5
LOG_RATIO_MAX = 0.15
READ_RATIO_MAX = 1.1
MERGED_READ_RATIO_MAX = 0.5
PLANNING_SECONDS_MAX = 3
ONE_ROW_RATIO_MAX = 2
ONE_ROW_GROWTH_MAX = 1.5
LOOKUP_SECONDS_MAX = 0.3
LOOKUPS = 20
MERGE_RATIO_MAX = 1.1
DELETE_SECONDS_MAX = 1
SELECT_RATIO_MAX = 1.05
_PARTITION = "part"


class Bench:
    """A session, a client, and a folder for tables."""

    def __init__(self, spark: SparkSession, client: chronolake.Client, folder: Path) -> None:
        self.spark = spark
        self._client = client
        self.folder = folder
        self._tables = 0

    def rows(self, first: int, last: int, step: int = 1, version: int = 0) -> DataFrame:
        """As ``spark_rows.rows``."""
        return spark_rows.rows(self.spark, first, last, step, version)

    def table(
        self,
        frame: DataFrame,
        type_: TableType = TableType.COPY_ON_WRITE,
        buckets: int = BUCKETS,
        index: IndexType = IndexType.BUCKET,
        partition_fields: Sequence[str] = (),
    ) -> SparkTable:
        """A new table for such records. It is not published: that would be measured too."""
        self._tables += 1
        name = f"bench.t{self._tables}"
        chronolake_spark.create_table(
            self._client,
            name,
            frame.schema,
            base_path=str(self.folder / name),
            record_key_fields=["id"],
            partition_fields=list(partition_fields),
            buckets=buckets if index is IndexType.BUCKET else None,
            index=index,
            type=type_,
            properties={PUBLISH_PROPERTY: "false"},
        )
        return chronolake_spark.table(self.spark, name, client=self._client)

    def parquet(self, name: str, frame: DataFrame) -> str:
        """Write the frame as plain Parquet; returns the path."""
        path = str(self.folder / name)
        frame.write.mode("overwrite").parquet(path)
        return path

    def drop(self, table: SparkTable) -> None:
        """Remove the files of a table that is not measured any more."""
        shutil.rmtree(table.definition.base_path)


def main() -> None:
    """Measure, print the report, and fail when CHECK is set and a target is missed."""
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    reporting.finish(_measure(running.postgres()), f"{ROWS:,} rows, local[2], {ROUNDS} rounds, {load}")


def _measure(dsn: str) -> Iterator[Row]:
    lake = lakes.local()
    spark = chronolake_spark.session("bench", master="local[2]", memory="4g")
    with running.server(dsn), chronolake.connect(running.URL) as client:
        client.create_namespace("bench")
        yield from cases(Bench(spark, client, Path(lake.root)), CASES)
    spark.stop()


def cases(bench: Bench, chosen: str) -> Iterator[Row]:
    """The rows of the cases."""
    measured: dict[str, Callable[[Bench], Iterator[Row]]] = {
        "a": _inserts,
        "b": _upserts,
        "c": _reads,
        "d": _merged_reads,
        "e": _planning,
        "f": _one_row,
        "g": _lookups,
        "h": _sql,
    }
    for case in chosen:
        yield from measured[case](bench)


def _inserts(bench: Bench) -> Iterator[Row]:
    """(a): all rows into a new table, without and with the check for duplicates."""
    frame = bench.rows(0, ROWS)

    def native() -> float:
        return _seconds(lambda: bench.parquet("native", frame))

    for index, operation, target in (
        (IndexType.SIMPLE, "bulk_insert", BULK_INSERT_RATIO_MAX),
        (IndexType.BUCKET, "bulk_insert", BULK_INSERT_RATIO_MAX),
        (IndexType.BUCKET, "insert", INSERT_RATIO_MAX),
    ):

        def write(operation: str = operation, index: IndexType = index) -> float:
            table = bench.table(frame, index=index)
            seconds = _seconds(lambda: getattr(table, operation)(frame))
            bench.drop(table)
            return seconds

        name = f"(a) {operation} of {ROWS:,} rows, index {index}, against a Parquet write"
        yield from _compared(name, write, native, target)

    def shuffled() -> float:
        by_bucket = frame.repartitionById(BUCKETS, sf.expr(f"cast(pmod(hash(id), {BUCKETS}) AS int)"))
        return _seconds(lambda: bench.parquet("native", by_bucket))

    name = f"(a) for comparison: Spark's shuffle into {BUCKETS} buckets and Parquet write, against it"
    yield from _compared(name, shuffled, native)


def _upserts(bench: Bench) -> Iterator[Row]:
    """(b): updates of a tenth of the keys and some new keys, against a rewrite by Spark SQL."""
    frame = bench.rows(0, ROWS)
    updates = _updates(bench)
    base = bench.parquet("base", frame)

    def native() -> float:
        def rewrite() -> None:
            kept = bench.spark.read.parquet(base).join(updates, "id", "left_anti")
            bench.parquet("rewritten", kept.unionByName(updates))

        return _seconds(rewrite)

    for type_, target in (
        (TableType.COPY_ON_WRITE, UPSERT_RATIO_MAX),
        (TableType.MERGE_ON_READ, LOG_RATIO_MAX),
    ):

        def upsert(type_: TableType = type_) -> float:
            table = bench.table(frame, type_)
            table.insert(frame)
            seconds = _seconds(lambda: table.upsert(updates))
            bench.drop(table)
            return seconds

        name = f"(b) upsert of {updates.count():,} rows, {type_}, against anti-join, union and rewrite"
        yield from _compared(name, upsert, native, target)

    def copy() -> float:
        return _seconds(lambda: bench.parquet("copied", bench.spark.read.parquet(base)))

    def append() -> float:
        return _seconds(lambda: bench.parquet("appended", updates))

    yield from _compared("(b) for comparison: Spark's copy of the base files, against it", copy, native)
    yield from _compared("(b) for comparison: Spark's write of the updates alone, against it", append, native)


def _reads(bench: Bench) -> Iterator[Row]:
    """(c): a whole table of base files."""
    table = bench.table(frame := bench.rows(0, ROWS), TableType.COPY_ON_WRITE)
    table.insert(frame)
    files = [f"{table.definition.base_path}/{path}" for path in _base_files(table)]
    columns = frame.columns

    def native() -> float:
        return _seconds(lambda: _drained(bench.spark.read.parquet(*files).select(*columns)))

    def read() -> float:
        return _seconds(lambda: _drained(table.read()))

    yield from _compared("(c) snapshot, against Spark's read of the same files", read, native, READ_RATIO_MAX)


def _merged_reads(bench: Bench) -> Iterator[Row]:
    """(d): base files with a tenth of the keys in logs, against a merge by Spark SQL."""
    frame, updates = bench.rows(0, ROWS), _updates(bench)
    table = bench.table(frame, TableType.MERGE_ON_READ)
    table.insert(frame)
    table.upsert(updates)
    base, log = bench.parquet("base", frame), bench.parquet("log", updates)

    def native() -> float:
        read, logged = bench.spark.read.parquet(base), bench.spark.read.parquet(log)
        return _seconds(lambda: _drained(read.join(logged, "id", "left_anti").unionByName(logged)))

    def read() -> float:
        return _seconds(lambda: _drained(table.read()))

    def read_base() -> float:
        return _seconds(lambda: _drained(bench.spark.read.parquet(base)))

    name = "(d) snapshot with logs, against anti-join and union by Spark SQL"
    yield from _compared(name, read, native, MERGED_READ_RATIO_MAX)
    yield from _compared("(d) for comparison: Spark's read of the base files, against it", read_base, native)


def _planning(bench: Bench) -> Iterator[Row]:
    """(e): from the call to a plan that Spark could execute."""
    frame = bench.rows(0, 10 * FILES)
    table = bench.table(frame, TableType.COPY_ON_WRITE, FILES)
    table.insert(frame)
    files = len(table.metastore.snapshot().slices)

    def plan() -> None:
        table.read()._jdf.queryExecution().executedPlan()

    seconds = statistics.median(_seconds(plan) for _ in range(ROUNDS))
    yield reporting.at_most(f"(e) planning a read of {files:,} files", seconds, PLANNING_SECONDS_MAX, "s")


def _one_row(bench: Bench) -> Iterator[Row]:
    """(f): the smallest upsert, into tables with more and more file groups."""
    row = bench.rows(0, 1).withColumn(_PARTITION, sf.lit(0)).coalesce(1).cache()
    row.count()
    path = str(bench.folder / "appended")
    append = _median_of_small(lambda: row.write.mode("append").parquet(path))
    yield Row("(f) append of one row to Parquet files", f"{append:.2f} s")
    for groups, upsert in _upserts_of_one_row(bench, row, IndexType.BUCKET):
        name = f"(f) upsert of one row into {groups:,} file groups, {upsert:.2f} s, against it"
        yield reporting.at_most(name, upsert / append, ONE_ROW_RATIO_MAX, "x")
    for index in (IndexType.SIMPLE, IndexType.BLOOM, IndexType.RECORD):
        taken = list(_upserts_of_one_row(bench, row, index))
        smallest, least = taken[0]
        yield Row(f"(f) index {index}, upsert of one row into {smallest:,} file groups", f"{least:.2f} s")
        for groups, upsert in taken[1:]:
            name = f"(f) index {index}, into {groups:,} file groups, {upsert:.2f} s, against {smallest:,}"
            yield reporting.at_most(name, upsert / least, ONE_ROW_GROWTH_MAX, "x")


def _upserts_of_one_row(bench: Bench, row: DataFrame, index: IndexType) -> Iterator[tuple[int, float]]:
    """The file groups of a table, and the seconds of an upsert into it."""
    # The simple and the bloom index look for a key in all of its partition.
    partition_fields = [_PARTITION] if index in (IndexType.SIMPLE, IndexType.BLOOM) else []
    for groups in FILE_GROUPS:
        table = bench.table(row, buckets=groups, index=index, partition_fields=partition_fields)
        table.insert(row)
        _fill(table, groups)
        yield groups, _median_of_small(lambda table=table: table.upsert(row))  # type: ignore[misc]


def _lookups(bench: Bench) -> Iterator[Row]:
    """(g): one record by its key, through the record index."""
    frame = bench.rows(0, ROWS)
    table = bench.table(frame, index=IndexType.RECORD)
    table.bulk_insert(frame)
    keys = [number * 7_919 % ROWS for number in range(LOOKUPS)]
    taken = []
    for key in keys:
        began = time.perf_counter()
        table.lookup([key]).collect()
        taken.append(time.perf_counter() - began)
    seconds = statistics.median(taken)
    yield reporting.at_most(f"(g) lookup of a key among {ROWS:,}", seconds, LOOKUP_SECONDS_MAX, "s")


def _sql(bench: Bench) -> Iterator[Row]:
    """(h): SQL through the catalog, against Spark's own reader and the methods of ``SparkTable``."""
    chronolake_spark.catalog(bench.spark, "lake", running.URL)
    frame, updates = bench.rows(0, ROWS), _updates(bench)
    table = bench.table(frame)
    table.insert(frame)
    base = [f"{table.definition.base_path}/{path}" for path in _base_files(table)]

    def native() -> float:
        return _seconds(lambda: _drained(bench.spark.read.parquet(*base).select(*frame.columns)))

    def select() -> float:
        return _seconds(lambda: _drained(bench.spark.sql(f"SELECT * FROM lake.{table.name}")))

    yield from _compared(
        "(h) SELECT of base files, against spark.read.parquet", select, native, SELECT_RATIO_MAX
    )

    def timed(write: Callable[[SparkTable], object]) -> float:
        target = bench.table(frame)
        target.insert(frame)
        seconds = _seconds(lambda: write(target))
        bench.drop(target)
        return seconds

    name = f"(h) MERGE of {updates.count():,} rows, against table.upsert"
    yield from _compared(
        name,
        lambda: timed(lambda target: spark_rows.merge(bench.spark, f"lake.{target.name}", ROWS)),
        lambda: timed(lambda target: target.upsert(updates)),
        MERGE_RATIO_MAX,
    )
    log_table = bench.table(frame, TableType.MERGE_ON_READ)
    log_table.insert(frame)
    keys = iter(range(1, ROWS))
    delete = f"DELETE FROM lake.{log_table.name} WHERE id = "
    seconds = _median_of_small(lambda: bench.spark.sql(f"{delete}{next(keys)}"))
    yield reporting.at_most(f"(h) DELETE of a key among {ROWS:,}", seconds, DELETE_SECONDS_MAX, "s")


def _base_files(table: SparkTable) -> list[str]:
    slices = table.metastore.snapshot().slices
    return [slice_.base_file.path for slice_ in slices if slice_.base_file is not None]


def _fill(table: SparkTable, groups: int) -> None:
    """Give the table this number of file groups, in other buckets or partitions if it has such.

    Nothing reads the files of the new ones, so they do not exist.
    """
    taken = {slice_.file_id for slice_ in table.metastore.snapshot().slices}
    has_buckets = table.definition.index.type is IndexType.BUCKET
    file_ids = [bucket_file_id(number) if has_buckets else f"{uuid.uuid4()}-0" for number in range(groups)]
    free = [file_id for file_id in file_ids if file_id not in taken][: groups - 1]
    is_partitioned = bool(table.definition.partition_fields)
    with table.metastore.begin(operation=Operation.UPSERT) as write:
        filled = write.complete(
            [
                WriteStat(
                    partition_path=f"{_PARTITION}={number}" if is_partitioned else "",
                    file_id=file_id,
                    file_name=base_file_name(file_id, "0-0-0", write.requested_time),
                    size_bytes=1_000,
                    records=1,
                    inserts=1,
                )
                for number, file_id in enumerate(free, 1)
            ]
        )
    if table.definition.index.type is IndexType.RECORD:
        _cover(table, filled)


def _cover(table: SparkTable, filled: Instant) -> None:
    """Let the record index of a table say that it has the keys of an instant: it would read their files."""
    definition = table.definition
    files = storage.open_storage(definition.base_path, table.metastore.storage_options).files
    manifests = StoredManifests(files, definition.table_id)
    before, _ = manifests.newest()
    assert before is not None
    assert filled.completion_time is not None
    covering = msgspec.structs.replace(before, covered=filled.completion_time, instant=filled.requested_time)
    assert manifests.publish(covering)


def _updates(bench: Bench) -> DataFrame:
    return spark_rows.updates(bench.spark, ROWS)


def _compared(
    name: str, ours: Callable[[], float], native: Callable[[], float], target: float | None = None
) -> Iterator[Row]:
    """The median ratio of measurements in turns; a first one of each warms up.

    Without a target it is for comparison: what a part of the work takes Spark itself.
    """
    ours()
    native()
    pairs = [(ours(), native()) for _ in range(ROUNDS)]
    seconds, baseline = (statistics.median(taken) for taken in zip(*pairs, strict=True))
    ratio = statistics.median(our / plain for our, plain in pairs)
    name = f"{name} ({seconds:.2f} of {baseline:.2f} s)"
    yield Row(name, f"{ratio:.2f} x") if target is None else reporting.at_most(name, ratio, target, "x")


def _median_of_small(job: Callable[[], object]) -> float:
    taken = [_seconds(job) for _ in range(SMALL_JOBS)]
    return statistics.median(taken[SMALL_JOBS // 3 :])


def _drained(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _seconds(job: Callable[[], object]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
