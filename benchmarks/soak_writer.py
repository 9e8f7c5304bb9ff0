"""A writer of the soak: ``python -m benchmarks.soak_writer <soak> <number> <engine>`` upserts until the end.

The engine ``spark`` is a Spark application; ``arrow`` is a Python job over REST, which looks its keys up itself
and puts new keys into new file groups, as a simple writer does.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from pyspark.errors import PySparkException

import chronolake
import chronolake_spark
from benchmarks.soak_batches import (
    PATIENCE_SECONDS,
    VERSION,
    Batch,
    Entry,
    Journal,
    Soak,
    batch,
    new_version,
    note,
)
from chronolake.errors import ChronolakeError, WriteConflict
from chronolake.slices import columns
from chronolake_model.instants import Instant
from chronolake_model.vocabulary import Operation
from tests.spark import arrow_writes, hudi_reader

Upsert: TypeAlias = Callable[[Batch], Instant]
_NEW_GROUPS = 10_000_000
STOP = "stop"
"""The file in the folder of the soak that ends the writers."""


def main(soak: Soak, writer: int, engine: str) -> None:
    """Write until the file ``stop`` exists."""
    journal, rng = Journal(soak, writer), random.Random(f"{soak.seed} {writer}")
    with {"spark": _spark, "arrow": _arrow}[engine](soak) as upsert:
        while not (Path(soak.folder) / STOP).exists():
            version = new_version(writer)
            journal.add(Entry("begun", version))
            journal.add(_written(upsert, batch(soak, version)))
            time.sleep(rng.uniform(0.5, 1.5) * soak.pause_seconds)


def _written(upsert: Upsert, rows: Batch) -> Entry:
    began = time.monotonic()
    try:
        instant = upsert(rows)
    except WriteConflict as lost:
        return Entry("refused", rows.version, winner=str(lost.context.get("winner", "")), message=str(lost))
    except (ChronolakeError, PySparkException) as failed:
        return Entry("failed", rows.version, message=f"{type(failed).__name__}: {failed}")
    seconds = round(time.monotonic() - began, 3)
    return Entry("acknowledged", rows.version, seconds, completion_time=instant.completion_time or "")


@contextlib.contextmanager
def _spark(soak: Soak) -> Iterator[Upsert]:
    settings = {"spark.sql.shuffle.partitions": "2"}
    # A task whose worker is killed is tried again.
    spark = chronolake_spark.session("soak", master="local[2,4]", memory="512m", settings=settings)
    with chronolake.connect(soak.url, retry_seconds=PATIENCE_SECONDS) as client:
        table = chronolake_spark.table(spark, soak.table, client=client)

        def upsert(rows: Batch) -> Instant:
            values = [(key, False) for key in rows.upserted] + [(key, True) for key in rows.deleted]
            frame = spark.createDataFrame(
                [
                    (key, soak.partition(key), rows.version, note(key, rows.version), is_deleted)
                    for key, is_deleted in values
                ],
                "id long, part int, version long, note string, is_deleted boolean",
            )
            return table.upsert(frame, "is_deleted", extra_metadata={VERSION: str(rows.version)})

        yield upsert
    spark.stop()


@contextlib.contextmanager
def _arrow(soak: Soak) -> Iterator[Upsert]:
    with chronolake.connect(soak.url, retry_seconds=PATIENCE_SECONDS) as client:
        table = client.table(soak.table)
        yield lambda rows: arrow_upsert(soak, table, rows)


def arrow_upsert(soak: Soak, table: chronolake.Table, rows: Batch) -> Instant:
    """Write a batch over REST, without Spark."""
    with table.begin(operation=Operation.UPSERT) as write:
        slices = table.snapshot().slices
        paths = {f"part={soak.partition(key)}" for key in (*rows.upserted, *rows.deleted)}
        groups: dict[int, int] = {}
        for file_slice in slices:
            if file_slice.partition_path in paths:
                stored = hudi_reader.rows_of_slices(table, [file_slice])
                groups |= dict.fromkeys(stored["id"].to_pylist(), arrow_writes.group_of(file_slice).bucket)
        new_groups = {path: random.randrange(_NEW_GROUPS) for path in paths}
        changed = [(key, False) for key in rows.upserted]
        changed += [(key, True) for key in rows.deleted if key in groups]
        made = [
            _row(soak, rows.version, key, groups, new_groups, is_deleted=is_deleted)
            for key, is_deleted in changed
        ]
        stats = arrow_writes.write_rows(table, write, made, slices=slices).stats
        write.complete(stats, {VERSION: str(rows.version)}, keys_looked_up=True)
    return write.instant


def _row(
    soak: Soak,
    version: int,
    key: int,
    groups: dict[int, int],
    new_groups: dict[str, int],
    *,
    is_deleted: bool,
) -> dict[str, Any]:
    partition = soak.partition(key)
    path = f"part={partition}"
    control = {columns.RECORD_KEY: str(key), columns.PARTITION_PATH: path, columns.DELETE: is_deleted}
    group = {columns.BUCKET: groups.get(key, new_groups[path])}
    values = {"id": key, "part": partition, "version": version, "note": note(key, version)}
    return {**control, **group, **values}


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Soak), int(sys.argv[2]), sys.argv[3])
