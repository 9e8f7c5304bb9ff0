"""Reads of a table that a stream writes, against the same table freshly compacted.

The case ``stream`` of ``make bench-services``: for ``MINUTES`` a stream of Spark upserts orders every ten
seconds into a merge-on-read table with default settings, and only ``chronolake services run`` looks after it.
Then, while the stream goes on, the table and a compacted copy of it are read in turns.

``python -m benchmarks.services_stream <folder>`` is the stream.
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
from pyspark.sql import DataFrame, SparkSession

import chronolake
import chronolake_spark
from benchmarks import reporting, running, services_spark, soak_faults
from benchmarks.reporting import Row
from benchmarks.soak_faults import Program
from chronolake_model.vocabulary import TableType
from chronolake_spark import SparkTable

MINUTES: Final = float(os.environ.get("MINUTES", "60"))
ROWS_PER_SECOND: Final = 2_000
KEYS: Final = 5_000_000
READS: Final = 15
_NAME: Final = "bench.streamed"
_INTERVAL: Final = "10 seconds"
_ORDER: Final = (
    "id o_orderkey",
    "pmod(hash(id), 15000) o_custkey",
    "element_at(array('F', 'O', 'P'), cast(id % 3 + 1 as int)) o_orderstatus",
    "cast(pmod(xxhash64(id, n), 50000000) / 100 as decimal(15, 2)) o_totalprice",
    "date_add(date'1992-01-01', cast(id % 2400 as int)) o_orderdate",
    "concat(id % 5 + 1, '-', substr(md5(cast(id % 5 as string)), 1, 6)) o_orderpriority",
    "concat('Clerk#', lpad(id % 1000, 9, '0')) o_clerk",
    "0 o_shippriority",
    "concat(md5(cast(id as string)), substr(md5(cast(-id as string)), 1, cast(pmod(hash(id), 30) as int)))"
    " o_comment",
)


def reads(_dsn: str, _client: httpx.Client) -> Iterator[Row]:
    """Spark's reads of all columns and of a sum by one column."""
    with services_spark.environment() as (spark, client, folder):
        frame = spark.range(0).selectExpr("id", "id n").selectExpr(*_ORDER)
        live = _table(spark, client, _NAME, frame, folder)
        with _running(soak_faults.services("services", folder, running.URL, "arrow"), _stream(folder)):
            time.sleep(MINUTES * 60)
            copy = _table(spark, client, "bench.fresh", frame, folder)
            copy.upsert(live.read())
            copy.compact()
            measured = {name: _in_turns(live, copy, query) for name, query in _QUERIES.items()}
        size = sum(of.base_file.size_bytes for of in copy.metastore.snapshot().slices if of.base_file)
        records = copy.read().count()
    yield Row(
        f"a stream of {ROWS_PER_SECOND:,} rows/s for {MINUTES:g} minutes",
        f"{records:,} records, {size / 1e6:,.0f} MB",
    )
    for name, (seconds, fresh, logs) in measured.items():
        row = f"{name}: {seconds:.2f} s, {logs:.1f} log files a file group, compacted {fresh:.2f} s"
        yield reporting.at_most(row, seconds / fresh, services_spark.READ_TIMES_MAX, "x of that")


def _in_turns(
    live: SparkTable, copy: SparkTable, query: Callable[[DataFrame], object]
) -> tuple[float, float, float]:
    """The median seconds of a query of both tables, and the mean number of log files of the first."""
    seconds: dict[SparkTable, list[float]] = {live: [], copy: []}
    logs = []
    for turn in range(READS):
        for table in (live, copy) if turn % 2 else (copy, live):
            seconds[table].append(services_spark.seconds_of(functools.partial(_answer, query, table)))
        slices = live.metastore.snapshot().slices
        logs.append(sum(len(of.log_files) for of in slices) / len(slices))
        # Otherwise the reads would keep to the pace of the stream.
        time.sleep(1)
    return statistics.median(seconds[live]), statistics.median(seconds[copy]), statistics.mean(logs)


def _answer(query: Callable[[DataFrame], object], table: SparkTable) -> object:
    return query(table.read())


def _all(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _sum(rows: DataFrame) -> None:
    rows.groupBy("o_orderpriority").sum("o_totalprice").collect()


_QUERIES: Final[dict[str, Callable[[DataFrame], object]]] = {"all columns": _all, "a sum by one column": _sum}


def _table(
    spark: SparkSession, client: chronolake.Client, name: str, frame: DataFrame, folder: Path
) -> SparkTable:
    chronolake_spark.create_table(
        client,
        name,
        frame.schema,
        base_path=str(folder / name),
        record_key_fields=["o_orderkey"],
        type=TableType.MERGE_ON_READ,
    )
    return chronolake_spark.table(spark, name, client=client)


def _stream(folder: Path) -> Program:
    return Program("stream", folder, ("-m", "benchmarks.services_stream", str(folder)), "")


@contextmanager
def _running(*programs: Program) -> Iterator[None]:
    """A block beside which programs run; one that ended by itself is an error."""
    for program in programs:
        program.start()
    try:
        yield
        ended = [program for program in programs if program.process.poll() is not None]
        assert not ended, ended[0].log.read_text()
    finally:
        for program in programs:
            program.kill()


def write_stream(folder: Path) -> None:
    """Write until the process is killed."""
    spark = chronolake_spark.session("stream", master="local[1]", memory="1g")
    rate = spark.readStream.format("rate").option("rowsPerSecond", ROWS_PER_SECOND).option("numPartitions", 1)
    orders = rate.load().selectExpr(f"pmod(value * 7919, {KEYS}) id", "value n").selectExpr(*_ORDER)
    query = (
        orders.writeStream.format("chronolake")
        .option("table", _NAME)
        .option("url", running.URL)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime=_INTERVAL)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    write_stream(Path(sys.argv[1]))
