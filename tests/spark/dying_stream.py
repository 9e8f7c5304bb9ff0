"""A streaming query in a driver of its own that dies at a named point.

It is started by ``python -m tests.spark.dying_stream <job>``. The source is Spark's rate source with batches
of a fixed size, so each batch always has the same rows: values that count up. They are upserts of few keys, and
deletes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import chronolake_spark
from chronolake_spark import BatchWriter
from chronolake_spark.stream.batches import BatchStream
from chronolake_spark.write import shuffles, writes
from tests.spark.prices import SETTINGS

ROWS: Final = 20
KEYS: Final = 17
DELETE: Final = "version % 5 = 0"
POINTS: Final[dict[str, tuple[Any, str, str]]] = {
    "before the data": (BatchStream, "begun", "before"),
    "in the data": (writes, "save", "during"),
    "before the completion": (BatchStream, "complete", "before"),
    "in the completion": (BatchStream, "_acknowledge", "during"),
    "after the completion": (BatchStream, "complete", "after"),
    "in Spark's log": (BatchWriter, "__call__", "soon after"),
}
"""Where a driver dies: before, during, after or soon after the call of a function."""


class Job(msgspec.Struct, frozen=True):
    """Write the stream until a function is called this number of times, and die there.

    ``delay_seconds`` is how long after the beginning or the end of the call.
    """

    url: str
    table: str
    checkpoints: str
    point: str
    calls: int
    delay_seconds: float = 0.0
    pending_max: int = 0


def empty(spark: SparkSession) -> DataFrame:
    """A frame with the columns of the table."""
    return spark.range(0).selectExpr("id", "id AS version")


def start(spark: SparkSession, job: Job) -> StreamingQuery:
    """Start the query, or continue it."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2)
    changes: DataFrame = source.load().selectExpr(f"value % {KEYS} AS id", "value AS version")
    query: StreamingQuery = (
        changes.writeStream.format("chronolake")
        .options(table=job.table, url=job.url, delete_when=DELETE, row_order="version")
        .option("pending_max", job.pending_max)
        .option("checkpointLocation", job.checkpoints)
        .start()
    )
    return query


def records_after(batches: int) -> list[tuple[int, int]]:
    """The records that the table has after this number of batches."""
    records: dict[int, int] = {}
    for version in range(batches * ROWS):
        records[version % KEYS] = version
        if version % 5 == 0:
            del records[version % KEYS]
    return sorted(records.items())


def run(job: Job, log: Path, repository: Path) -> int:
    """Run the job in a process, and give its exit code: it dies by a signal, and all that it has started."""
    text = msgspec.json.encode(job).decode()
    with log.open("wb") as out:
        return subprocess.run(
            [sys.executable, "-m", __name__, text],
            cwd=repository,
            stdout=out,
            stderr=out,
            check=False,
            start_new_session=True,
        ).returncode


def main(job: Job) -> None:
    """Run the job until it dies."""
    settings = SETTINGS | {"spark.default.parallelism": "2"}
    spark = chronolake_spark.session("driver", master="local[2]", memory="512m", settings=settings)
    shuffles.SMALL_BYTES = 0
    _die_at(job)
    start(spark, job).awaitTermination()


def _die_at(job: Job) -> None:
    owner, name, when = POINTS[job.point]
    function = getattr(owner, name)
    left = job.calls

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and when == "before":
            _die()
        if left == 0 and when == "during":
            threading.Timer(job.delay_seconds, _die).start()
        result = function(*args, **kwargs)
        if left == 0 and when == "after":
            _die()
        if left == 0 and when == "soon after":
            threading.Timer(job.delay_seconds, _die).start()
        return result

    setattr(owner, name, call)


def _die() -> None:
    """kill -9 of Python and the JVM in one moment; the workers end with them."""
    os.killpg(os.getpgrp(), signal.SIGKILL)
    time.sleep(60)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Job))
