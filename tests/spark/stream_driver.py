"""A query that reads a stream, in a process that a test may kill.

Its sink has each batch in a file that is named by its number, so a batch that comes again takes the place of
the earlier one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame

import chronolake_spark


class Job(msgspec.Struct, frozen=True):
    """Follow a table, one commit a batch; with ``ends`` up to what is there."""

    url: str
    table: str
    checkpoint: str
    out: str
    ends: bool = False


def batches_in(out: Path) -> Iterator[list[tuple[Any, ...]]]:
    """The batches that are stored, in order."""
    for file in sorted(out.glob("*.json"), key=lambda file: int(file.stem)):
        yield [tuple(row) for row in msgspec.json.decode(file.read_bytes())]


def main(job: Job) -> None:
    """Run the job."""

    def store(batch: DataFrame, number: int) -> None:
        file = Path(job.out, f"{number}.tmp")
        file.write_bytes(msgspec.json.encode([list(row) for row in batch.collect()]))
        os.replace(file, Path(job.out, f"{number}.json"))

    spark = chronolake_spark.session("reader", master="local[2]", memory="512m")
    stream = spark.readStream.format("chronolake").options(table=job.table, url=job.url, max_commits="1").load()
    writer = stream.writeStream.option("checkpointLocation", job.checkpoint).foreachBatch(store)
    query = (writer.trigger(availableNow=True) if job.ends else writer).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Job))
