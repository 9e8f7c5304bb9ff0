"""Batches of streaming queries, as Spark gives them to the function for ``foreachBatch``: each counts once.

The function gets frames and ids here without a query; ``test_stream_queries`` runs some.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as sf

import chronolake
import chronolake_spark
from chronolake.errors import StorageFailed, StreamFenced, WriteConflict
from chronolake_model.instants import Instant
from chronolake_model.vocabulary import State
from chronolake_spark import BatchWriter, SparkTable, errors
from chronolake_spark.stream import batches
from chronolake_spark.stream.batches import BatchStream
from chronolake_spark.write import writes
from tests.spark import hudi_reader
from tests.spark.prices import orphans_of, rows_of

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]


def prices(spark: SparkSession, first: int, last: int, price: int) -> DataFrame:
    """Records with ids from the first to the last, of one price; no ids if the last is smaller."""
    return spark.range(first, last + 1).withColumn("price", sf.lit(price))


def writer_of(table: SparkTable, *args: Any, **how: Any) -> BatchWriter:
    """The function of a driver that has just started."""
    given: dict[str, Any] = {"stream": "prices", "client": table._client}
    return chronolake_spark.writer(table.name, *args, **given | how)


def completed(table: SparkTable) -> list[Instant]:
    """The batches that have completed."""
    return [each for each in table.metastore.instants(state=State.COMPLETED) if each.stream]


class Killed(BaseException):
    """Ends a batch as a kill of its driver would: nothing is cleaned up."""


def killed_at(owner: object, name: str) -> Any:
    """A driver dies where it would call a function."""
    return mock.patch.object(owner, name, side_effect=Killed)


@pytest.fixture(params=["copy_on_write", "merge_on_read"])
def table(request: pytest.FixtureRequest, spark: SparkSession, new_table: NewTable) -> SparkTable:
    return new_table(prices(spark, 0, 0, 0), "id", type=request.param, buckets=2)


@pytest.fixture
def log_table(spark: SparkSession, new_table: NewTable) -> SparkTable:
    return new_table(prices(spark, 0, 0, 0), "id", type="merge_on_read", buckets=2)


def test_batches_insert_update_and_delete(spark: SparkSession, table: SparkTable) -> None:
    write_batch = writer_of(table, delete_when="op = 'D'", row_order=["op"])
    write_batch(prices(spark, 0, 5, 1).withColumn("op", sf.lit("I")), 0)
    instant = write_batch(prices(spark, 4, 9, 2).withColumn("op", sf.expr("if(id = 4, 'D', 'U')")), 1)
    assert rows_of(table) == [*((id, 1) for id in range(4)), *((id, 2) for id in range(5, 10))]
    assert instant is not None
    assert instant.state is State.COMPLETED
    counts = chronolake_spark.row_counts(instant)
    assert counts is not None
    assert (counts.read, counts.deleted) == (6, 1)
    hudi_reader.publish_and_compare(table.metastore)


def test_a_batch_that_has_completed_writes_nothing_again(spark: SparkSession, table: SparkTable) -> None:
    write_batch = writer_of(table, "insert")
    write_batch(prices(spark, 0, 9, 1), 0)
    unreadable = prices(spark, 0, 9, 1).withColumn("price", sf.raise_error(sf.lit("it was read")).cast("int"))
    assert writer_of(table, "insert")(unreadable, 0) is None
    assert write_batch(unreadable, 0) is None
    assert len(completed(table)) == 1


@pytest.mark.parametrize("point", [(writes, "save"), (BatchStream, "complete")])
def test_a_batch_whose_driver_died_before_the_completion_counts_once(
    spark: SparkSession, table: SparkTable, point: tuple[object, str]
) -> None:
    writer_of(table, "insert")(prices(spark, 0, 3, 1), 0)
    with killed_at(*point), pytest.raises(Killed):
        writer_of(table, "insert")(prices(spark, 4, 9, 1), 1)
    assert rows_of(table) == [(id, 1) for id in range(4)]
    writer_of(table, "insert")(prices(spark, 4, 9, 1), 1)
    assert rows_of(table) == [(id, 1) for id in range(10)]
    assert orphans_of(table) == []
    assert len(completed(table)) == 2


def test_the_lease_is_renewed_where_batches_follow_each_other_quickly(
    spark: SparkSession, log_table: SparkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream with a batch every ten seconds lost its lease after a minute."""
    now, renewed = 0.0, [0.0]
    heartbeat = chronolake.StreamWriter.heartbeat
    monkeypatch.setattr(batches, "time", mock.Mock(monotonic=lambda: now))

    def renew(stream: chronolake.StreamWriter) -> object:
        renewed.append(now)
        return heartbeat(stream)

    monkeypatch.setattr(chronolake.StreamWriter, "heartbeat", renew)

    write_batch = writer_of(log_table, "insert")
    for batch_id in range(9):
        write_batch(prices(spark, batch_id, batch_id, 1), batch_id)
        now += 10

    gaps = [later - earlier for earlier, later in itertools.pairwise([*renewed, now])]
    assert max(gaps) <= batches.LEASE_SECONDS / 2


def test_a_new_query_is_warned_of_the_query_that_wrote_the_table_before(
    spark: SparkSession, log_table: SparkTable, caplog: pytest.LogCaptureFixture
) -> None:
    earlier, later = str(uuid.uuid4()), str(uuid.uuid4())
    writer_of(log_table, stream=earlier)(prices(spark, 0, 3, 1), 0)
    assert "Other queries" not in caplog.text
    writer_of(log_table, stream=later)(prices(spark, 4, 5, 1), 0)
    assert f"the query {later} begins with batch 0." in caplog.text
    assert f"the last one was {earlier}." in caplog.text


def test_a_later_driver_fences_the_earlier(spark: SparkSession, log_table: SparkTable) -> None:
    earlier, later = writer_of(log_table), writer_of(log_table)
    earlier(prices(spark, 0, 3, 1), 0)
    later(prices(spark, 4, 5, 1), 1)
    with pytest.raises(StreamFenced, match="an earlier epoch of the stream 'prices'"):
        earlier(prices(spark, 4, 5, 9), 1)
    with pytest.raises(StreamFenced):
        earlier(prices(spark, 4, 5, 9), 2)
    later(prices(spark, 6, 7, 1), 2)
    assert rows_of(log_table) == [(id, 1) for id in range(8)]


def test_a_batch_that_failed_is_rolled_back_and_may_be_written_again(
    spark: SparkSession, log_table: SparkTable
) -> None:
    write_batch = writer_of(log_table, "insert")
    write_batch(prices(spark, 0, 3, 1), 0)
    with pytest.raises(errors.DuplicateKeys):
        write_batch(prices(spark, 3, 5, 2), 1)
    [rolled_back] = log_table.metastore.instants(state=State.ROLLED_BACK)
    assert (rolled_back.rollback_reason or "").startswith("DuplicateKeys: 1 of the rows")
    assert list(log_table.metastore.timeline.pending()) == []
    assert orphans_of(log_table) == []
    write_batch(prices(spark, 4, 5, 1), 1)
    assert rows_of(log_table) == [(id, 1) for id in range(6)]


def test_a_batch_that_lost_a_conflict_is_written_again(spark: SparkSession, new_table: NewTable) -> None:
    table = new_table(prices(spark, 0, 0, 0), "id", buckets=1)
    write_batch = writer_of(table)
    write_batch(prices(spark, 0, 3, 1), 0)
    completes = BatchStream.complete
    others = iter([prices(spark, 9, 9, 9)])

    def after_another(stream: BatchStream, batch_id: int, requested_time: str) -> Instant:
        for other in others:
            table.upsert(other)
        return completes(stream, batch_id, requested_time)

    with mock.patch.object(BatchStream, "complete", after_another):
        instant = write_batch(prices(spark, 3, 5, 2), 1)
    assert rows_of(table) == [*((id, 1) for id in range(3)), *((id, 2) for id in range(3, 6)), (9, 9)]
    assert instant is not None
    assert instant.extra_metadata["conflicts.retries"] == "1"


def test_a_lost_conflict_may_end_the_query(spark: SparkSession, new_table: NewTable) -> None:
    table = new_table(prices(spark, 0, 0, 0), "id", buckets=1)
    completes = BatchStream.complete

    def after_another(stream: BatchStream, batch_id: int, requested_time: str) -> Instant:
        table.upsert(prices(spark, 9, 9, 9))
        return completes(stream, batch_id, requested_time)

    with mock.patch.object(BatchStream, "complete", after_another), pytest.raises(WriteConflict):
        writer_of(table, on_conflict="fail")(prices(spark, 0, 3, 1), 0)
    assert rows_of(table) == [(9, 9)]
    # The instant was acknowledged, and it is rolled back: the batch counts as not written.
    writer_of(table)(prices(spark, 0, 3, 1), 0)
    assert rows_of(table) == [*((id, 1) for id in range(4)), (9, 9)]


@pytest.mark.parametrize("index", ["simple", "record"])
def test_batches_of_tables_whose_keys_are_looked_up(
    spark: SparkSession, new_table: NewTable, index: str
) -> None:
    table = new_table(prices(spark, 0, 0, 0), "id", index=index)
    write_batch = writer_of(table)
    write_batch(prices(spark, 0, 5, 1), 0)
    write_batch(prices(spark, 4, 9, 2), 1)
    assert rows_of(table) == [*((id, 1) for id in range(4)), *((id, 2) for id in range(4, 10))]


def test_an_older_copy_of_a_checkpoint_folder_is_refused(spark: SparkSession, log_table: SparkTable) -> None:
    write_batch = writer_of(log_table)
    write_batch(prices(spark, 0, 3, 1), 0)
    write_batch(prices(spark, 4, 5, 1), 1)
    with pytest.raises(errors.StreamMismatch, match=r"up to batch 1, .*an older copy.*replayed"):
        writer_of(log_table)(prices(spark, 0, 3, 9), 0)
    # The refused query has not fenced the other one.
    write_batch(prices(spark, 6, 7, 1), 2)
    skipping = writer_of(log_table, replayed="skip")
    assert [skipping(prices(spark, 0, 9, 9), batch) for batch in range(3)] == [None, None, None]
    skipping(prices(spark, 8, 9, 1), 3)
    assert rows_of(log_table) == [(id, 1) for id in range(10)]


def test_batches_complete_while_later_ones_are_written(spark: SparkSession, log_table: SparkTable) -> None:
    write_batch = writer_of(log_table, delete_when="price < 0", pending_max=2)
    for batch in range(4):
        write_batch(prices(spark, batch, 9, batch), batch)
    write_batch(prices(spark, 9, 9, -1), 4)
    write_batch.flush()
    assert rows_of(log_table) == [(0, 0), (1, 1), (2, 2), *((id, 3) for id in range(3, 9))]
    assert [each.stream and each.stream.checkpoint for each in completed(log_table)] == list(range(5))
    assert all(slice_.base_file is None for slice_ in log_table.metastore.snapshot().slices)
    hudi_reader.publish_and_compare(log_table.metastore)


def test_pending_batches_complete_after_a_crash_and_the_last_one_is_written_again(
    spark: SparkSession, new_table: NewTable
) -> None:
    markers = {"markers.type": "direct"}
    log_table = new_table(prices(spark, 0, 0, 0), "id", type="merge_on_read", buckets=2, properties=markers)
    dying = writer_of(log_table, pending_max=5)
    with mock.patch.object(BatchStream, "_acknowledge", lambda *_: None):
        for batch in range(3):
            dying(prices(spark, batch, batch, 1), batch)
    assert rows_of(log_table) == []
    # Spark has recorded the batches 0 and 1.
    write_batch = writer_of(log_table, pending_max=5)
    write_batch(prices(spark, 2, 2, 1), 2)
    write_batch.flush()
    assert rows_of(log_table) == [(0, 1), (1, 1), (2, 1)]
    assert orphans_of(log_table) == []


def test_bulk_inserts_without_a_bucket_index_may_be_pending(spark: SparkSession, new_table: NewTable) -> None:
    table = new_table(prices(spark, 0, 0, 0), "id", index="simple")
    write_batch = writer_of(table, "bulk_insert", pending_max=2)
    for batch in range(3):
        write_batch(prices(spark, batch, batch, 1), batch)
    write_batch.flush()
    assert rows_of(table) == [(0, 1), (1, 1), (2, 1)]


def test_a_completion_that_fails_in_the_background_ends_the_query(
    spark: SparkSession, log_table: SparkTable
) -> None:
    write_batch = writer_of(log_table, pending_max=1)
    with mock.patch.object(chronolake.StreamWriter, "complete", side_effect=StorageFailed("it is away")):
        write_batch(prices(spark, 0, 0, 1), 0)
        with pytest.raises(StorageFailed):
            write_batch.flush()


def test_a_query_that_renames_its_stream_loses_no_pending_batch(
    spark: SparkSession, log_table: SparkTable, caplog: pytest.LogCaptureFixture
) -> None:
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", str(uuid.uuid4()))
    try:
        before = writer_of(log_table, pending_max=1)
        with mock.patch.object(chronolake.StreamWriter, "complete", side_effect=StorageFailed("it is away")):
            before(prices(spark, 0, 3, 1), 0)
            with pytest.raises(StorageFailed):
                before.flush()
        renamed = writer_of(log_table, stream="renamed")
        with pytest.raises(errors.StreamMismatch, match=r"1 batch.* into the stream 'prices' .*batch 0"):
            renamed(prices(spark, 4, 5, 1), 1)
        writer_of(log_table)(prices(spark, 4, 5, 1), 1)
        renamed(prices(spark, 6, 7, 1), 2)
    finally:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)
    assert rows_of(log_table) == [(id, 1) for id in range(8)]
    assert "continues with batch 2, and the stream renamed of this table has none" in caplog.text


def test_what_could_conflict_is_never_pending(spark: SparkSession, table: SparkTable) -> None:
    with pytest.raises(errors.StreamMismatch, match="Leave pending_max out"):
        writer_of(table, "insert", pending_max=1)(prices(spark, 0, 0, 1), 0)
    assert list(table.metastore.streams()) == []
