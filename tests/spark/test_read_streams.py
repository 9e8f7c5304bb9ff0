"""``readStream.format("chronolake")``: the records of batches, and queries that stop and start again."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType

import chronolake
from chronolake_model.files import FileGroupName
from chronolake_model.times import Bound
from chronolake_model.vocabulary import TableType
from chronolake_spark import SparkTable
from chronolake_spark.read import format_reader
from chronolake_spark.stream import read_options, tasks
from chronolake_spark.stream.offsets import BEGINNING
from tests import processes
from tests.processes import wait_until
from tests.spark import hudi_reader, stream_driver

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
KEYS = 12
Row = tuple[int, str, int, str]
"""The key, the partition, the number of the write, and the type of change."""


def frame_of(spark: SparkSession, rows: Iterable[tuple[int, str, int]]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id long, place string, n int")


def change(table: SparkTable, spark: SparkSession, number: int, chance: random.Random) -> None:
    """One write of a few records: the seed and the number choose its kind."""
    keys = chance.sample(range(KEYS), 5)
    rows = frame_of(spark, ((key, "ab"[key % 2], number) for key in keys))
    match number % 4:
        case 1:
            table.delete(rows.select("id", "place"))
        case 3:
            table.overwrite(rows, "dynamic")
        case _:
            table.upsert(rows)


@pytest.mark.parametrize(
    ("type", "index"),
    [
        (TableType.COPY_ON_WRITE, "bucket"),
        (TableType.MERGE_ON_READ, "bucket"),
        pytest.param(TableType.COPY_ON_WRITE, "simple", marks=pytest.mark.slow),
        pytest.param(TableType.MERGE_ON_READ, "record", marks=pytest.mark.slow),
    ],
)
def test_a_batch_has_the_records_that_the_batch_read_of_changes_has(
    spark: SparkSession, new_table: NewTable, type: TableType, index: str
) -> None:
    buckets = {"buckets": 2} if index == "bucket" else {}
    table = new_table(frame_of(spark, []), "id", partition_fields=["place"], type=type, index=index, **buckets)
    chance = random.Random(7)
    times = [BEGINNING]
    for number in range(4):
        change(table, spark, number, chance)
        times.append(last_completion(table))
    if type is TableType.MERGE_ON_READ:
        groups = [FileGroupName(of.partition_path, of.file_id) for of in table.metastore.snapshot().slices]
        hudi_reader.compact(table.metastore, groups)
        times.append(last_completion(table))

    for first, last in [(0, 1), (1, 4), (3, len(times) - 1)]:
        expected = table.changes(times[first] or None, times[last]).collect()
        assert rows_of_batch(table, times[first], times[last]) == sorted(map(tuple, expected))
    if type is TableType.MERGE_ON_READ:
        assert tasks_of(table, times[-2], times[-1]) == [], "a compaction changes no record"


def last_completion(table: SparkTable) -> str:
    as_of = table.metastore.snapshot(Bound.LATEST).as_of
    assert as_of is not None
    return as_of


def rows_of_batch(table: SparkTable, first: str, last: str) -> list[Row]:
    """The rows that the tasks of a batch read, sorted."""
    batches = [batch for task in tasks_of(table, first, last) for batch in task.batches()]
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def tasks_of(table: SparkTable, first: str, last: str) -> list[Any]:
    struct = StructType.fromJson(table.read().schema.jsonValue()).add("_change_type", StringType())
    view = format_reader.view_of({"table": table.name, "url": table._client.url, "view": "changes"})
    if first == BEGINNING:
        return tasks.of_snapshot(table.metastore, last, struct, view)
    return tasks.of_changes(table.metastore, first, last, struct, view)


def test_a_query_of_what_is_available_goes_on_where_it_stopped(
    spark: SparkSession, new_table: NewTable, tmp_path: Path
) -> None:
    table = new_table(frame_of(spark, []), "id", partition_fields=["place"], type=TableType.MERGE_ON_READ)
    chance = random.Random(8)
    batches: list[list[Row]] = []

    def run(**options: str) -> int:
        """The number of batches with rows that a run has read."""
        before = len(batches)
        stream = (
            spark.readStream.format("chronolake").options(url=table._client.url, **options).load(table.name)
        )
        query = (
            stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .foreachBatch(lambda rows, _: batches.append(sorted(map(tuple, rows.collect()))))
            .start()
        )
        query.awaitTermination()
        return len(batches) - before

    for number in range(2):
        change(table, spark, number, chance)
    assert run(max_commits="1") == 2
    assert run() == 0, "everything was read"
    for number in range(2, 4):
        change(table, spark, number, chance)
    assert run() == 1

    assert replayed(batches) == {(row.id, row.place): row.n for row in table.read().collect()}
    [lease] = table.metastore.readers()
    assert lease.follows and lease.lease_seconds == read_options.LEASE_SECONDS_DEFAULT


def replayed(batches: Iterable[Iterable[Row]]) -> dict[tuple[int, str], int]:
    """The records of a table, from its changes."""
    records: dict[tuple[int, str], int] = {}
    for batch in batches:
        for id, place, number, change_type in batch:
            if change_type == "delete":
                del records[id, place]
            else:
                records[id, place] = number
    return records


class Running:
    """A query in a process of its own."""

    def __init__(self, job: stream_driver.Job, log: Path) -> None:
        self._log = log
        with log.open("wb") as out:
            text = msgspec.json.encode(job).decode()
            self._process = subprocess.Popen(
                [sys.executable, "-m", stream_driver.__name__, text], stdout=out, stderr=out
            )

    def kill(self) -> None:
        processes.kill(self._process)

    def wait_for(self, batches: int, out: Path) -> None:
        wait_until(lambda: self.ended() or len(list(out.iterdir())) >= batches)

    def ended(self) -> bool:
        code = self._process.poll()
        assert code in (None, 0), self._log.read_text()
        return code is not None


@pytest.mark.slow
@pytest.mark.parametrize("type", list(TableType))
def test_a_query_that_is_killed_again_and_again_reads_each_change_once(
    spark: SparkSession, new_table: NewTable, client: chronolake.Client, tmp_path: Path, type: TableType
) -> None:
    table = new_table(frame_of(spark, []), "id", type=type, buckets=2)
    chance = random.Random(9)
    out = tmp_path / "out"
    out.mkdir()
    number = 0

    def job(**how: bool) -> stream_driver.Job:
        return stream_driver.Job(client.url, table.name, str(tmp_path / "checkpoint"), str(out), **how)

    for kill in range(5):
        running = Running(job(), tmp_path / f"{kill}.log")
        done = len(list(out.iterdir()))
        for _ in range(3):
            table.upsert(frame_of(spark, [(key, "a", number) for key in chance.sample(range(KEYS), 4)]))
            table.delete(frame_of(spark, [(chance.randrange(KEYS), "a", number)]).select("id"))
            number += 1
        running.wait_for(done + 1, out)
        running.kill()
    last = Running(job(ends=True), tmp_path / "last.log")
    wait_until(last.ended)

    batches = list(stream_driver.batches_in(out))
    assert replayed(batches) == {(row.id, row.place): row.n for row in table.read().collect()}
    upserted = [(id, n) for batch in batches for id, _, n, change_type in batch if change_type == "upsert"]
    assert len(upserted) == len(set(upserted)), "no change comes twice"
