"""Compaction and clustering by the engine Spark, beside what Spark itself takes to rewrite the same files.

The cases ``spark``, ``clustering`` and ``reads`` of ``make bench-services``. ``BENCH_MB`` is the size of the
tables. Spark compresses its files as those of the tables are.
"""

from __future__ import annotations

import functools
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
from pyspark.sql import DataFrame, SparkSession

import chronolake
import chronolake_spark
from benchmarks import reporting, running, services_arrow, spark_rows
from benchmarks.reporting import Row
from chronolake_model.publication import PUBLISH_PROPERTY
from chronolake_model.vocabulary import IndexType
from chronolake_spark import SparkTable, services

TIMES_MAX: Final = 1.2
UPSERTS: Final = 200
UPSERT_SHARE: Final = 10_000
"""A small upsert changes the first of this number of records, and so on."""
READ_TIMES_MAX: Final = 1.5
READS: Final = 3
_PARTITIONS: Final = 8
_BYTES_OF_ROW: Final = 35
_SORT_COLUMN: Final = "ts"


def compaction(_dsn: str, _client: httpx.Client) -> Iterator[Row]:
    """Base files, and log files with a tenth of the records."""
    with environment() as (spark, client, folder):
        plain = services_arrow.create(client, "bench.spark_compacted", folder)
        size = services_arrow.write(plain)
        table = chronolake_spark.table(spark, plain.definition.name, client=client)
        base = spark.read.parquet(*_files(plain))
        native = seconds_of(lambda: _rewritten(base, folder))
        seconds = seconds_of(table.compact)
        assert not any(of.log_files for of in plain.snapshot().slices)
    yield Row("base files and log files", f"{size / 1e6:,.0f} MB in {services_arrow.GROUPS} file groups")
    yield Row("Spark reads and rewrites the base files", f"{native:.1f} s")
    name = f"compaction by the engine spark: {seconds:.1f} s"
    yield reporting.at_most(name, seconds / native, TIMES_MAX, "x of that")


def clustering(_dsn: str, _client: httpx.Client) -> Iterator[Row]:
    """Small files of each of several partitions, sorted by a timestamp."""
    with environment() as (spark, client, folder):
        table = _small_files(spark, client, folder)
        files = _files(client.table(table.definition.name))
        size = sum(Path(file).stat().st_size for file in files)
        rows = spark.read.parquet(*files)
        native = seconds_of(lambda: _rewritten(rows.sort("part", _SORT_COLUMN), folder, partitioned=True))
        seconds = seconds_of(lambda: table.cluster([_SORT_COLUMN]))
        left = len(_files(client.table(table.definition.name)))
    counted = f"{size / 1e6:,.0f} MB, {_PARTITIONS} partitions, {len(files)} files to {left}"
    yield Row("files to cluster", counted)
    yield Row(f"Spark reads, sorts and writes them by part and {_SORT_COLUMN}", f"{native:.1f} s")
    name = f"clustering with sort by the engine spark: {seconds:.1f} s"
    yield reporting.at_most(name, seconds / native, TIMES_MAX, "x of that")


def reads(_dsn: str, _client: httpx.Client) -> Iterator[Row]:
    """Spark's read after many small upserts, with services beside them and without."""
    with environment() as (spark, client, folder):
        served, unserved = (
            services_arrow.create(client, f"bench.{name}", folder) for name in ("served", "unserved")
        )
        for table in (served, unserved):
            services_arrow.write_files(table, 1, is_log=False)
        with _services(client, served):
            _upsert(served)
        _upsert(unserved)
        name, compacted = served.definition.name, unserved.definition.name
        without = _read_seconds(spark, client, compacted)
        with_services = _read_seconds(spark, client, name)
        logs = sum(len(of.log_files) for of in served.snapshot().slices)
        services.compact(unserved, services_arrow.planned_compaction(unserved).requested_time)
        fresh = _read_seconds(spark, client, compacted)
    yield Row(f"read after {UPSERTS} small upserts without services", f"{without:.2f} s")
    yield Row("read of the same table freshly compacted", f"{fresh:.2f} s")
    row = f"with services on: {with_services:.2f} s, {logs} log files"
    yield reporting.at_most(row, with_services / fresh, READ_TIMES_MAX, "x of that")


@contextmanager
def environment() -> Iterator[tuple[SparkSession, chronolake.Client, Path]]:
    """A session, a client and a folder, which goes at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="chronolake-bench-") as folder,
        chronolake.connect(running.URL) as client,
    ):
        spark = chronolake_spark.session("bench", master="local[2]", memory="4g")
        client.create_namespace("bench", if_not_exists=True)
        # The first jobs of a session take longer.
        spark_rows.rows(spark, 0, 1_000).sort("ts").write.parquet(str(Path(folder, "warm")))
        spark.read.parquet(str(Path(folder, "warm"))).count()
        yield spark, client, Path(folder)
        spark.stop()


def _small_files(spark: SparkSession, client: chronolake.Client, folder: Path) -> SparkTable:
    count = services_arrow.MEGABYTES * 1_000_000 // _BYTES_OF_ROW
    frame = spark_rows.rows(spark, 0, count).selectExpr("*", f"id % {_PARTITIONS} AS part")
    chronolake_spark.create_table(
        client,
        "bench.clustered",
        frame.schema,
        base_path=str(folder / "clustered"),
        record_key_fields=["id"],
        partition_fields=["part"],
        index=IndexType.SIMPLE,
        properties={PUBLISH_PROPERTY: "false"},
    )
    table = chronolake_spark.table(spark, "bench.clustered", client=client)
    table.bulk_insert(frame)
    return table


def _files(table: chronolake.Table) -> list[str]:
    """The paths of the live base files."""
    folder = table.definition.base_path
    return [str(Path(folder, of.base_file.path)) for of in table.snapshot().slices if of.base_file]


def _rewritten(frame: DataFrame, folder: Path, *, partitioned: bool = False) -> None:
    writer = frame.write.option("compression", "zstd")
    if partitioned:
        writer = writer.partitionBy("part")
    writer.parquet(str(folder / "native"))
    shutil.rmtree(folder / "native")


def _upsert(table: chronolake.Table) -> None:
    for _ in range(UPSERTS):
        services_arrow.write_files(table, UPSERT_SHARE, is_log=True)


@contextmanager
def _services(client: chronolake.Client, table: chronolake.Table) -> Iterator[None]:
    """A block beside which ``services.run`` serves a table."""
    stopping = threading.Event()
    options = services.RunOptions((table.definition.name,))
    thread = threading.Thread(target=functools.partial(services.run, client, options, stopping=stopping))
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _read_seconds(spark: SparkSession, client: chronolake.Client, name: str) -> float:
    table = chronolake_spark.table(spark, name, client=client)
    return statistics.median(
        seconds_of(lambda: table.read().write.format("noop").mode("overwrite").save()) for _ in range(READS)
    )


def seconds_of(job: Callable[[], object]) -> float:
    """How long a job takes."""
    began = time.perf_counter()
    job()
    return time.perf_counter() - began
