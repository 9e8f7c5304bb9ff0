"""Streams of the catalog's tables: ``toTable`` writes each batch once, ``readStream.table`` follows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from chronolake_model.vocabulary import State
from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering
from tests.processes import wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]

NewTable = Callable[..., SparkTable]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two files, which are two batches."""
    folder = tmp_path / "changes"
    folder.mkdir()
    put(folder, 0, *({"id": id, "price": 1, "op": "I"} for id in range(4)))
    put(folder, 1, {"id": 0, "op": "D"}, {"id": 1, "price": 2, "op": "U"})
    return folder


def put(folder: Path, number: int, *rows: dict[str, Any]) -> None:
    file = folder / f"{number}.json"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    # Spark takes the files by their times.
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def changes(lake: SparkSession, folder: Path) -> DataFrame:
    reader = lake.readStream.schema("id long, price int, op string").option("maxFilesPerTrigger", 1)
    return reader.json(str(folder))


def stream(folder: Path, frame: DataFrame, **options: Any) -> DataStreamWriter:
    writer = frame.writeStream.option("checkpointLocation", str(folder.parent / "checkpoints"))
    return writer.options(**options).trigger(availableNow=True)


def finished(query: StreamingQuery) -> StreamingQuery:
    query.awaitTermination()
    return query


def prices(lake: SparkSession, new_table: NewTable, **how: Any) -> SparkTable:
    return new_table(lake.createDataFrame([], "id long, price int"), "id", **how)


def rows_of(table: SparkTable) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, table.read().collect()))


@pytest.mark.parametrize(
    "how", [{"buckets": 2, "type": "merge_on_read"}, {"index": "simple"}, {"index": "record"}]
)
def test_a_query_writes_each_batch_once_also_where_spark_lost_its_log_of_the_last(
    lake: SparkSession, new_table: NewTable, folder: Path, how: dict[str, Any]
) -> None:
    table = prices(lake, new_table, **how)

    def run() -> StreamingQuery:
        writer = stream(
            folder, changes(lake, folder), delete_when="op = 'D'", queryName=f"q{os.urandom(4).hex()}"
        )
        return finished(writer.outputMode("update").toTable(f"lake.{table.name}"))

    query = run()
    assert rows_of(table) == [(1, 2), (2, 1), (3, 1)]
    batches = list(table.metastore.instants(state=State.COMPLETED))
    assert [batch.stream and (batch.stream.name, batch.stream.checkpoint) for batch in batches] == [
        (query.id, 0),
        (query.id, 1),
    ]
    assert {batch.extra_metadata["spark.query-id"] for batch in batches} == {query.id}
    assert sum(progress["sink"]["numOutputRows"] for progress in query.recentProgress) == 6

    for file in (folder.parent / "checkpoints" / "commits").glob("*1*"):
        file.unlink()
    put(folder, 2, {"id": 9, "price": 9, "op": "I"})
    assert run().id == query.id
    assert rows_of(table) == [(1, 2), (2, 1), (3, 1), (9, 9)]
    assert len(list(table.metastore.instants(state=State.COMPLETED))) == 3
    assert not list(lake.sparkContext._jsc.getPersistentRDDs())


def test_a_batch_that_fails_is_not_seen_and_the_query_goes_on_from_it(
    lake: SparkSession, new_table: NewTable, folder: Path
) -> None:
    table = prices(lake, new_table, buckets=1)
    inserted = stream(folder, changes(lake, folder).drop("op"), operation="insert")
    with pytest.raises(StreamingQueryException, match="key"):
        finished(inserted.toTable(f"lake.{table.name}"))
    assert rows_of(table) == [(id, 1) for id in range(4)]
    # The second file has keys that exist. The query goes on where it was, with an option that takes them.
    finished(stream(folder, changes(lake, folder).drop("op")).toTable(f"lake.{table.name}"))
    assert rows_of(table) == [(0, None), (1, 2), (2, 1), (3, 1)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda writer: writer.option("asyncProgressTrackingEnabled", True), "async progress tracking"),
        (lambda writer: writer.trigger(continuous="1 second"), "continuous|Continuous"),
        (lambda writer: writer.option("markers", "direct"), "markers.type of the table"),
        (lambda writer: writer.option("pending", "2"), "did you mean 'pending_max'"),
        (lambda writer: writer.option("as_of", "20260101000000000"), "are for reads"),
    ],
)
def test_what_cannot_be_exactly_once_is_refused(
    lake: SparkSession,
    new_table: NewTable,
    folder: Path,
    change: Callable[[DataStreamWriter], DataStreamWriter],
    reason: str,
) -> None:
    table = prices(lake, new_table)
    with pytest.raises(PySparkException, match=reason):
        finished(change(stream(folder, changes(lake, folder).drop("op"))).toTable(f"lake.{table.name}"))
    assert rows_of(table) == []


def test_the_output_mode_complete_is_refused(lake: SparkSession, new_table: NewTable, folder: Path) -> None:
    table = prices(lake, new_table)
    counted = changes(lake, folder).groupBy("id").count().selectExpr("id", "cast(count as int) as price")
    with pytest.raises(StreamingQueryException, match="the output mode complete"):
        finished(stream(folder, counted).outputMode("complete").toTable(f"lake.{table.name}"))
    # As upserts of the rows that changed it can.
    finished(stream(folder.parent / "other", counted).outputMode("update").toTable(f"lake.{table.name}"))
    assert rows_of(table) == [(0, 2), (1, 2), (2, 1), (3, 1)]


def test_a_table_that_was_made_again_is_not_written(
    lake: SparkSession, new_table: NewTable, folder: Path
) -> None:
    table = prices(lake, new_table)
    (folder / "1.json").unlink()
    running = stream(folder, changes(lake, folder).drop("op")).trigger(processingTime="0 seconds")
    query = running.toTable(f"lake.{table.name}")
    wait_until(lambda: not query.isActive or len(rows_of(table)) == 4)
    lake.sql(f"DROP TABLE lake.{table.name}")
    lake.sql(
        f"CREATE TABLE lake.{table.name} (id BIGINT, price INT) USING chronolake "
        f"LOCATION '{table.definition.base_path}-2' TBLPROPERTIES (record_key = 'id')"
    )
    put(folder, 2, {"id": 9, "price": 9})
    with pytest.raises(StreamingQueryException, match="was dropped, and made again"):
        query.awaitTermination(60)
    assert lake.table(f"lake.{table.name}").count() == 0


def test_a_query_that_is_stopped_in_a_batch_has_not_failed_and_writes_it_once(
    lake: SparkSession, new_table: NewTable, folder: Path
) -> None:
    table = prices(lake, new_table)

    def start(delete_when: str) -> StreamingQuery:
        writer = stream(folder, changes(lake, folder), delete_when=delete_when)
        return writer.toTable(f"lake.{table.name}")

    query = start("op = 'I' AND id = 3 AND reflect('java.lang.Thread', 'sleep', 5000L) = 'x'")
    unfinished = [State.REQUESTED, State.INFLIGHT]
    wait_until(lambda: not query.isActive or bool(list(table.metastore.instants(state=unfinished))))
    assert query.isActive
    query.stop()
    assert query.exception() is None
    assert not list(lake.sparkContext._jsc.getPersistentRDDs())
    finished(start("op = 'D'"))
    assert rows_of(table) == [(1, 2), (2, 1), (3, 1)]
    completed = table.metastore.instants(state=State.COMPLETED)
    assert [instant.stream.checkpoint for instant in completed if instant.stream] == [0, 1]


def test_a_stream_follows_the_changes_of_a_table(lake: SparkSession, new_table: NewTable, folder: Path) -> None:
    table = prices(lake, new_table, buckets=2)
    copy = prices(lake, new_table, index="simple")
    name = f"lake.{table.name}.changes"

    def follow(**options: Any) -> None:
        followed = lake.readStream.options(**options).table(name)
        assert followed.columns == ["id", "price", "_change_type"]
        writer = stream(folder, followed, delete_when="_change_type = 'delete'")
        finished(writer.toTable(f"lake.{copy.name}"))

    table.upsert(lake.createDataFrame([(1, 1), (2, 1)], "id long, price int"))
    follow()
    assert rows_of(copy) == [(1, 1), (2, 1)]
    table.upsert(lake.createDataFrame([(2, 2), (3, 1)], "id long, price int"))
    table.delete("id = 1")
    follow(max_commits=1)
    assert rows_of(copy) == [(2, 2), (3, 1)]
    assert len(list(copy.metastore.instants(state=State.COMPLETED))) == 3


def test_other_streams_of_a_table_are_refused_with_what_to_do(
    lake: SparkSession, new_table: NewTable, folder: Path
) -> None:
    table = prices(lake, new_table)
    name = f"lake.{table.name}"
    for frame in (
        lake.readStream.table(name),
        lake.readStream.option("startingVersion", "0").changes(name),
    ):
        with pytest.raises(
            PySparkException, match=r"use spark.readStream.table\(\"lake.spark.t\d+.changes\"\)"
        ):
            finished(stream(folder, frame).format("noop").start())
    for option, reason in (("fromm", "did you mean 'from'"), ("as_of", "a stream has no option as_of")):
        with pytest.raises(PySparkException, match=reason):
            followed = lake.readStream.option(option, "x").table(f"{name}.changes")
            finished(stream(folder, followed).format("noop").start())
    with pytest.raises(PySparkException, match="CHANGES FROM VERSION"):
        lake.table(f"{name}.changes").collect()
