"""Streams through Spark: upserts into a merge-on-read table, against the same stream written as Parquet."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chronolake
import chronolake_spark
from benchmarks import lakes, reporting, running
from benchmarks.reporting import Row
from chronolake_model.publication import PUBLISH_PROPERTY
from chronolake_model.times import parse_time
from chronolake_model.vocabulary import State, TableType

ROWS = int(os.environ.get("BATCH_ROWS", "200000"))
"""Rows of a batch."""
BATCHES = int(os.environ.get("BATCHES", "12"))
WARM_UP = 4
BUCKETS = 8
KEYS = 1_000_000
RATE_RATIO_MIN = 0.6
PENDING_MAX = 4
WAIT_SECONDS_MAX = 600.0
_MICROS = 1_000_000


def rows() -> Iterator[Row]:
    """(d): rows a second, and seconds from the arrival of a row until it is visible at one batch a second."""
    with chronolake.connect(running.URL) as client:
        spark = chronolake_spark.session("bench", master="local[2]", memory="2g")
        folder = Path(lakes.local().root)
        bench = _Bench(spark, client, folder)
        plain = bench.rate("parquet", "plain", path=str(folder / "plain"))
        yield Row(f"(d) {ROWS:,} rows a batch, written by Spark as Parquet", f"{plain:,.0f} rows/s")
        for pending_max in (0, PENDING_MAX):
            options = {"table": bench.table(), "url": running.URL, "pending_max": str(pending_max)}
            own = bench.rate("chronolake", f"upserted-{pending_max}", **options)
            name = f"(d) the same, upserted, at most {pending_max} pending"
            yield reporting.ratio(name, own, plain, RATE_RATIO_MIN, "rows/s")
        visible = bench.seconds_until_visible()
        yield Row("(d) one batch a second: from the arrival of a row until it is visible", visible)
        spark.stop()


class _Bench:
    def __init__(self, spark: Any, client: chronolake.Client, folder: Path) -> None:
        self._spark = spark
        self._client = client
        self._folder = folder
        self._tables = 0

    def table(self) -> str:
        """The name of a new table, which is not published: that would be measured too."""
        self._tables += 1
        name = f"bench.streamed_by_spark{self._tables}"
        chronolake_spark.create_table(
            self._client,
            name,
            self._changes("rate").schema,
            base_path=str(self._folder / name),
            record_key_fields=["id"],
            type=TableType.MERGE_ON_READ,
            buckets=BUCKETS,
            properties={PUBLISH_PROPERTY: "false"},
        )
        return name

    def rate(self, format_: str, name: str, **options: str) -> float:
        """Rows a second of a query as fast as it can, by its median batch after the first ones."""
        source = self._changes("rate-micro-batch", rowsPerBatch=str(ROWS), numPartitions="2")
        writer = source.writeStream.format(format_).options(**options)
        query = writer.option("checkpointLocation", str(self._folder / f"{name}-checkpoints")).start()
        _wait_for(query, BATCHES)
        seconds: list[float] = [
            progress["durationMs"]["triggerExecution"] / 1000
            for progress in query.recentProgress
            if WARM_UP <= progress["batchId"] < BATCHES
        ]
        query.stop()
        return ROWS / statistics.median(seconds)

    def seconds_until_visible(self) -> str:
        """By instant: its completion, less the time of the first and of the last row that it has."""
        name = self.table()
        source = self._changes("rate", rowsPerSecond="1000")
        writer = source.writeStream.format("chronolake").options(table=name, url=running.URL)
        writer = writer.option("checkpointLocation", str(self._folder / "visible-checkpoints"))
        query = writer.trigger(processingTime="1 second").start()
        _wait_for(query, BATCHES)
        query.stop()
        table = self._client.table(name)
        rows = chronolake_spark.table(self._spark, name, client=self._client).read(meta_columns=True)
        arrivals = rows.groupBy("_hoodie_commit_time").agg({"at": "min"}).collect()
        arrived = {row[0]: row[1].timestamp() for row in arrivals}
        waits = sorted(
            parse_time(instant.completion_time) / _MICROS - arrived[instant.requested_time]
            for instant in table.instants(state=State.COMPLETED)
            if instant.completion_time and instant.requested_time in arrived
            if instant.stream and instant.stream.checkpoint >= WARM_UP
        )
        return (
            f"median {statistics.median(waits):.2f} s, longest {waits[-1]:.2f} s, of the first row of a batch"
        )

    def _changes(self, source: str, **options: str) -> Any:
        rows = self._spark.readStream.format(source).options(**options).load()
        return rows.selectExpr(
            f"value * 7919 % {KEYS} AS id", "timestamp AS at", "value", "concat('note ', value % 1000) AS note"
        )


def _wait_for(query: Any, batches: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while query.lastProgress is None or query.lastProgress["batchId"] < batches:
        if query.exception() is not None:
            raise query.exception()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{batches} batches take more than {WAIT_SECONDS_MAX:g} s")
        time.sleep(0.2)
