"""Streaming queries that write tables with ``format("chronolake")`` and ``foreachBatch``."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import chronolake_spark
from chronolake_model.vocabulary import Operation, State
from chronolake_spark import SparkTable
from chronolake_spark.catalogs import registering
from tests.processes import wait_until
from tests.spark.prices import rows_of
from tests.spark.python_only import python_only

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not registering.JAR.exists(), reason="the Java part is not built: there is no JDK"),
]

NewTable = Callable[..., SparkTable]
SCHEMA = "id long, price int, op string"


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


@pytest.fixture
def table(spark: SparkSession, new_table: NewTable) -> SparkTable:
    return new_table(spark.createDataFrame([], "id long, price int"), "id", buckets=2)


def changes(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


def stream(
    spark: SparkSession, folder: Path, table: SparkTable, frame: DataFrame | None = None, **options: Any
) -> DataStreamWriter:
    writer = (
        (changes(spark, folder) if frame is None else frame).writeStream.format("chronolake").options(**options)
    )
    given = {"table": table.name, "url": table._client.url, "delete_when": "op = 'D'"}
    return writer.options(**given).option("checkpointLocation", str(folder.parent / "checkpoints"))


def finished(query: StreamingQuery) -> StreamingQuery:
    query.awaitTermination()
    return query


def test_a_query_writes_each_batch_once_also_where_spark_lost_its_log_of_the_last(
    spark: SparkSession, folder: Path, table: SparkTable
) -> None:
    query = finished(stream(spark, folder, table).trigger(availableNow=True).start())
    assert rows_of(table) == [(1, 2), (2, 1), (3, 1)]
    batches = list(table.metastore.instants(state=State.COMPLETED))
    assert [batch.stream and (batch.stream.name, batch.stream.checkpoint) for batch in batches] == [
        (query.id, 0),
        (query.id, 1),
    ]
    assert {batch.extra_metadata["spark.query-id"] for batch in batches} == {query.id}

    for file in (folder.parent / "checkpoints" / "commits").glob("*1*"):
        file.unlink()
    put(folder, 2, {"id": 9, "price": 9, "op": "I"})
    again = finished(stream(spark, folder, table).trigger(availableNow=True).start())
    assert again.id == query.id
    assert rows_of(table) == [(1, 2), (2, 1), (3, 1), (9, 9)]
    assert len(list(table.metastore.instants(state=State.COMPLETED))) == 3


def test_a_named_stream_refuses_a_query_with_a_new_checkpoint_folder(
    spark: SparkSession, folder: Path, table: SparkTable
) -> None:
    def query(checkpoints: str) -> StreamingQuery:
        write = chronolake_spark.writer(table.name, stream="changes", client=table._client)
        writer = changes(spark, folder).drop("op").writeStream.foreachBatch(write).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(folder.parent / checkpoints)).start()

    (folder / "1.json").unlink()
    finished(query("first"))
    with pytest.raises(StreamingQueryException, match="which has another checkpoint folder"):
        finished(query("second"))
    assert rows_of(table) == [(id, 1) for id in range(4)]


def test_a_batch_that_spark_plans_anew_after_its_plan_was_lost_is_refused(
    spark: SparkSession, folder: Path, table: SparkTable
) -> None:
    finished(stream(spark, folder, table).trigger(availableNow=True).start())
    # A backup of the folder that lacks the last batch: Spark puts the files 1 and 2 into the next one.
    checkpoints = folder.parent / "checkpoints"
    for lost in [*checkpoints.rglob("1"), *checkpoints.rglob(".1.crc")]:
        lost.unlink()
    put(folder, 2, {"id": 9, "price": 9, "op": "I"})
    all_files = spark.readStream.schema(SCHEMA).json(str(folder))

    def again(**options: str) -> StreamingQuery:
        writer = stream(spark, folder, table, frame=all_files, **options)
        return finished(writer.trigger(availableNow=True).start())

    with pytest.raises(StreamingQueryException, match="Spark has planned the batch again"):
        again()
    assert rows_of(table) == [(1, 2), (2, 1), (3, 1)]
    again(stream="another")
    assert rows_of(table) == [(1, 2), (2, 1), (3, 1), (9, 9)]


def test_two_writers_of_one_query_do_not_take_the_batches_of_each_other_for_written(
    spark: SparkSession, folder: Path, table: SparkTable
) -> None:
    first, second = (chronolake_spark.writer(table.name, client=table._client) for _ in range(2))

    def both(batch: DataFrame, batch_id: int) -> None:
        first(batch.where("op <> 'D'").drop("op"), batch_id)
        second(batch.where("op = 'D'").drop("op"), batch_id)

    writer = changes(spark, folder).writeStream.foreachBatch(both).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="two writers of one query"):
        finished(writer.option("checkpointLocation", str(folder.parent / "checkpoints")).start())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda writer: writer.option("asyncProgressTrackingEnabled", True), "asynchronous progress tracking"),
        (lambda writer: writer.trigger(realTime="5 minutes"), "not in the sink allowlist"),
        (lambda writer: writer.outputMode("complete"), "the output mode complete"),
        (lambda writer: writer.partitionBy("id"), "leave partitionBy"),
        (lambda writer: writer.clusterBy("id"), "leave partitionBy and clusterBy"),
        (lambda writer: writer.option("markers", "direct"), "markers.type of the table"),
        (lambda writer: writer.option("pending", "2"), "did you mean 'pending_max'"),
        (lambda writer: writer.option("operation", "insert"), "delete_when is for the operation upsert"),
    ],
)
def test_what_cannot_be_exactly_once_is_refused(
    spark: SparkSession,
    folder: Path,
    table: SparkTable,
    change: Callable[[DataStreamWriter], DataStreamWriter],
    reason: str,
) -> None:
    with pytest.raises(IllegalArgumentException, match=reason):
        change(stream(spark, folder, table)).start()


def test_the_continuous_trigger_writes_nothing(spark: SparkSession, folder: Path, table: SparkTable) -> None:
    query = stream(spark, folder, table).trigger(continuous="1 second").start()
    with pytest.raises(StreamingQueryException, match="ContinuousTrigger"):
        finished(query)
    assert list(table.metastore.instants()) == []


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("table", "spark.nothing", "table-not-found"),
        ("delete_when", "opp = 'D'", "schema-mismatch"),
        ("delete_when", "op =", "schema-mismatch"),
        ("delete_when", "price", "schema-mismatch"),
        ("pending_max", "2", "stream-mismatch"),
    ],
)
def test_a_query_whose_batches_would_all_fail_does_not_start(
    spark: SparkSession, folder: Path, table: SparkTable, option: str, value: str, code: str
) -> None:
    with pytest.raises(IllegalArgumentException) as refused:
        stream(spark, folder, table).option(option, value).start()
    assert refused.value.getCondition() == code


def test_python_alone_refuses_a_stream_of_writes(spark: SparkSession, folder: Path, table: SparkTable) -> None:
    with python_only(spark):
        query = stream(spark, folder, table).trigger(availableNow=True).start()
        with pytest.raises(StreamingQueryException, match=r"foreachBatch\(chronolake_spark\.writer"):
            finished(query)
    assert list(table.metastore.instants()) == []


def test_a_stopped_query_cancels_the_batch_that_it_writes(
    spark: SparkSession, folder: Path, table: SparkTable
) -> None:
    slow = sf.udf(lambda price: threading.Event().wait(60) or price, "int")
    frame = changes(spark, folder).withColumn("price", slow("price"))
    query = stream(spark, folder, table, frame=frame).start()
    wait_until(lambda: any(table.metastore.instants(state=State.INFLIGHT)))
    query.stop()
    assert query.exception() is None
    written = table.metastore.instants(operation=Operation.UPSERT)
    assert {instant.state for instant in written} == {State.ROLLED_BACK}
    assert rows_of(table) == []


def test_other_formats_start_as_before(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    writer = changes(spark, folder).writeStream.format("parquet").trigger(availableNow=True)
    finished(writer.option("checkpointLocation", str(tmp_path / "other")).start(str(tmp_path / "out")))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 6
