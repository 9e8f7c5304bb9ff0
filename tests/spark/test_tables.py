"""Insert, upsert, delete and read, through Spark and a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as sf

import chronolake
from chronolake.errors import WriteConflict
from chronolake.slices import columns
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import WriteStat
from chronolake_model.instants import Instant
from chronolake_model.vocabulary import Action, Operation, State
from chronolake_spark import SparkTable, errors, table

pytestmark = pytest.mark.spark

NewTable = Callable[..., SparkTable]
LAYOUTS = pytest.mark.parametrize("partition_fields", [[], ["country"]], ids=["unpartitioned", "partitioned"])


def orders(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id long, country string, price int, ts int")


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def files_of(table: SparkTable) -> set[str]:
    return {path.name for path in Path(table.definition.base_path).rglob("*.parquet")}


def states_of(table: SparkTable) -> list[State]:
    """The states of the table's writes; a rollback is an instant of its own."""
    instants = table.metastore.instants()
    return [instant.state for instant in instants if instant.action is not Action.ROLLBACK]


def test_a_second_session_opens_and_writes_tables_too(
    spark: SparkSession, client: chronolake.Client, new_table: NewTable
):
    first = new_table(orders(spark), "id")
    session = spark.newSession()
    second = table(session, first.name, client=client)
    second.upsert(orders(session, (1, "de", 10, 0)))
    first.upsert(orders(spark, (2, "fr", 20, 0)))
    assert rows_of(second.read()) == [(1, "de", 10, 0), (2, "fr", 20, 0)]


def test_a_table_that_was_opened_before_a_swap_of_names_stays_itself(
    spark: SparkSession, client: chronolake.Client, new_table: NewTable
):
    first, second = orders(spark, (1, "de", 10, 0)), orders(spark, (2, "fr", 20, 0))
    opened, replacement = new_table(first, "id"), new_table(first, "id")
    opened.insert(first)
    name = opened.name
    client.table(name).alter(name=f"{name}_old")
    client.table(replacement.name).alter(name=name)

    opened.upsert(second)

    assert opened.name == f"{name}_old"
    assert rows_of(opened.read()) == rows_of(first.union(second))
    assert table(spark, name, client=client).read().count() == 0


@LAYOUTS
def test_written_records_are_read_back(spark: SparkSession, new_table: NewTable, partition_fields: list[str]):
    frame = orders(spark, (1, "de", 10, 0), (2, "fr", 20, 0), (3, None, None, 0))
    table = new_table(frame, "id", partition_fields=partition_fields)
    instant = table.insert(frame)

    assert rows_of(table.read().na.fill("-")) == rows_of(frame.na.fill("-"))
    assert table.read().columns == frame.columns
    assert (instant.state, instant.operation) == (State.COMPLETED, Operation.INSERT)
    assert instant.summary is not None
    assert (instant.summary.records, instant.summary.inserts) == (3, 3)


@LAYOUTS
def test_an_upsert_inserts_updates_and_deletes(
    spark: SparkSession, new_table: NewTable, partition_fields: list[str]
):
    before = orders(spark, (1, "de", 10, 0), (2, "fr", 20, 0), (3, "de", 30, 0))
    table = new_table(before, "id", partition_fields=partition_fields)
    table.upsert(before)
    changes = orders(spark, (1, "de", 11, 0), (3, "de", 0, 0), (4, "it", 40, 0))
    instant = table.upsert(changes.withColumn("op", sf.when(sf.col("id") == 3, "d")), delete_when="op = 'd'")

    assert rows_of(table.read()) == [(1, "de", 11, 0), (2, "fr", 20, 0), (4, "it", 40, 0)]
    assert instant.summary is not None
    assert (instant.summary.inserts, instant.summary.updates, instant.summary.deletes) == (1, 1, 1)


@LAYOUTS
def test_a_delete_needs_keys_only(spark: SparkSession, new_table: NewTable, partition_fields: list[str]):
    before = orders(spark, (1, "de", 10, 5), (2, "fr", 20, 5))
    table = new_table(before, "id", partition_fields=partition_fields, ordering_field="ts")
    table.insert(before)
    instant = table.delete(spark.createDataFrame([(2, "fr"), (9, "fr")], "id long, country string"))

    assert rows_of(table.read()) == [(1, "de", 10, 5)]
    assert instant.operation is Operation.DELETE


def test_an_insert_of_keys_that_exist_is_refused_and_leaves_nothing(spark: SparkSession, new_table: NewTable):
    frame = orders(spark, *((number, "de", 0, 0) for number in range(20)))
    table = new_table(frame, "id")
    table.insert(frame.where("id = 7"))
    files = files_of(table)

    # The other buckets' files are written, and deleted again: only the committer sees the whole.
    with pytest.raises(errors.DuplicateKeys, match=r"1 of the rows.*example '7'.*Use upsert") as caught:
        table.insert(frame)

    assert caught.value.context == {"duplicates": 1, "record_key": "7"}
    assert states_of(table) == [State.COMPLETED, State.ROLLED_BACK]
    assert files_of(table) == files


def test_an_insert_may_drop_keys_that_exist(spark: SparkSession, new_table: NewTable):
    table = new_table(orders(spark), "id")
    table.insert(orders(spark, (1, "de", 10, 0)))
    table.insert(orders(spark, (1, "de", 99, 9), (2, "de", 20, 0)), duplicates="drop")

    assert rows_of(table.read()) == [(1, "de", 10, 0), (2, "de", 20, 0)]


@LAYOUTS
def test_a_snapshot_as_of_a_commit_shows_that_commit(
    spark: SparkSession, new_table: NewTable, partition_fields: list[str]
):
    table = new_table(orders(spark), "id", partition_fields=partition_fields)
    first = table.upsert(orders(spark, (1, "de", 10, 0), (2, "fr", 20, 0)))
    second = table.upsert(orders(spark, (1, "de", 11, 0)))
    table.delete(orders(spark, (1, "de", 0, 0), (2, "fr", 0, 0)))

    assert rows_of(table.read(first.completion_time)) == [(1, "de", 10, 0), (2, "fr", 20, 0)]
    assert rows_of(table.read(second.completion_time)) == [(1, "de", 11, 0), (2, "fr", 20, 0)]
    assert rows_of(table.read(first.requested_time)) == []
    assert rows_of(table.read()) == []


def test_a_table_without_commits_reads_as_empty(spark: SparkSession, new_table: NewTable):
    table = new_table(orders(spark), "id")

    assert table.read().schema == orders(spark).schema
    assert rows_of(table.read()) == []
    assert rows_of(table.changes()) == []


@LAYOUTS
def test_an_incremental_read_gives_each_change_once(
    spark: SparkSession, new_table: NewTable, partition_fields: list[str]
):
    table = new_table(orders(spark), "id", partition_fields=partition_fields)
    first = table.upsert(orders(spark, (1, "de", 10, 0), (2, "de", 20, 0), (3, "fr", 30, 0)))
    table.upsert(orders(spark, (1, "de", 11, 0), (4, "fr", 40, 0)))
    table.delete(orders(spark, (2, "de", 0, 0), (4, "fr", 0, 0)))
    last = table.upsert(orders(spark, (1, "de", 12, 0)))

    assert rows_of(table.changes(first.completion_time, last.completion_time)) == [
        (1, "de", 12, 0, "upsert"),
        (2, "de", 20, 0, "delete"),
    ]
    assert rows_of(table.changes(last.completion_time)) == []
    assert rows_of(table.changes()) == [(1, "de", 12, 0, "upsert"), (3, "fr", 30, 0, "upsert")]


def test_an_incremental_read_includes_the_changes_of_a_restore(spark: SparkSession, new_table: NewTable):
    table = new_table(orders(spark), "id")
    first = table.upsert(orders(spark, (1, "de", 10, 0), (2, "de", 20, 0)))
    savepoint = table.metastore.savepoint()
    second = table.upsert(orders(spark, (1, "de", 11, 0), (3, "fr", 30, 0)))
    table.metastore.restore(savepoint.requested_time)

    assert rows_of(table.read()) == rows_of(table.read(first.completion_time))
    assert rows_of(table.read(second.completion_time)) == [
        (1, "de", 11, 0),
        (2, "de", 20, 0),
        (3, "fr", 30, 0),
    ]
    changes = rows_of(table.changes(second.completion_time))
    assert (1, "de", 10, 0, "upsert") in changes
    assert (3, "fr", 30, 0, "delete") in changes


def test_hudis_columns_come_on_request(spark: SparkSession, new_table: NewTable):
    table = new_table(orders(spark), "id,country", partition_fields=["country"])
    first = table.upsert(orders(spark, (1, "de", 10, 0)))
    second = table.upsert(orders(spark, (2, "de", 20, 0)))

    snapshot = table.read(meta_columns=True)
    assert snapshot.columns == [*columns.META, *orders(spark).columns]
    assert rows_of(snapshot.select(columns.RECORD_KEY, columns.PARTITION_PATH, columns.COMMIT_TIME)) == [
        ("id:1,country:de", "country=de", first.requested_time),
        ("id:2,country:de", "country=de", second.requested_time),
    ]
    changes = table.changes(first.completion_time, meta_columns=True)
    assert changes.columns == [*snapshot.columns, columns.CHANGE_TYPE]


VALUES = ["a/b", "a=b", "100%", "%2F", "{x}", "[y]*?", "tab\t", "ü/🗼", " spaced ", "..", None]


def test_partition_values_may_contain_anything(spark: SparkSession, new_table: NewTable, tmp_path: Path):
    frame = orders(spark, *((number, value, 0, 0) for number, value in enumerate(VALUES)))
    table = new_table(frame, "id", partition_fields=["country"], base_path=str(tmp_path / "a b%20[c]{d}"))
    table.insert(frame)
    table.upsert(frame.withColumn("price", sf.lit(1)))

    rows = table.read().orderBy("id").collect()
    assert [(row["country"], row["price"]) for row in rows] == [(value, 1) for value in VALUES]


def test_every_type_survives(spark: SparkSession, new_table: NewTable):
    frame = spark.sql(
        """select 1 as id, true as b, 1Y as y, 2S as s, 3L as l, 1.5F as f, 2.5D as d,
        cast('1.10' as decimal(20,2)) as dec, 'x' as str, X'00ff' as bin, date'2026-11-21' as day,
        timestamp'2026-11-21 12:00:00.123456 UTC' as ts, timestamp_ntz'2026-11-21 12:00:00' as ntz,
        array(1, null) as arr, map('k', 1.5D) as m, struct(1 as x, array('y') as `odd name`) as st"""
    )
    table = new_table(frame, "id")
    table.insert(frame)
    table.upsert(frame.withColumn("id", sf.lit(2)))

    assert table.read().where("id = 1").collect() == frame.collect()


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("select 1L as id, 'x' as extra, 1 as ts", "lack the columns country, price.*does not: extra"),
        ("select array(1) as id, 'x' as country, 1 as price, 1 as ts", "do not fit"),
    ],
    ids=["columns", "types"],
)
def test_a_frame_that_does_not_fit_is_refused_before_anything_begins(
    spark: SparkSession, new_table: NewTable, expression: str, message: str
):
    table = new_table(orders(spark), "id")

    with pytest.raises(errors.SchemaMismatch, match=message):
        table.upsert(spark.sql(expression))
    assert states_of(table) == []


def test_reserved_names_are_refused(spark: SparkSession, new_table: NewTable):
    with pytest.raises(errors.SchemaMismatch, match="_hoodie_x"):
        new_table(spark.sql("select 1 as id, 2 as _hoodie_x"), "id")


def test_a_type_that_files_do_not_hold_is_refused(spark: SparkSession, new_table: NewTable):
    with pytest.raises(errors.SchemaMismatch, match="interval"):
        new_table(spark.sql("select 1 as id, interval 1 month as i"), "id")


def test_a_frame_written_directly_needs_a_table(spark: SparkSession):
    with pytest.raises(PySparkException, match="no table is given"):
        orders(spark).write.format("chronolake").mode("append").save()


def test_a_task_that_fails_leaves_a_rolled_back_instant_and_no_file(spark: SparkSession, new_table: NewTable):
    # One bucket, so one task: Spark aborts while others still run, and the files that they finish stay.
    table = new_table(orders(spark), "id", buckets=1)
    table.upsert(orders(spark, (1, "de", 0, 0)))
    files = files_of(table)
    damaged = Path(table.definition.base_path, *files)
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])

    with pytest.raises(errors.BaseFileDamaged, match=damaged.name):
        table.upsert(orders(spark, (1, "de", 1, 0)))

    damaged.write_bytes(whole)
    assert states_of(table) == [State.COMPLETED, State.ROLLED_BACK]
    assert rows_of(table.read()) == [(1, "de", 0, 0)]
    assert files_of(table) == files


def test_a_failing_frame_fails_as_itself(spark: SparkSession, new_table: NewTable):
    table = new_table(orders(spark), "id")

    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        table.upsert(
            orders(spark, (1, "de", 0, 0)).withColumn("price", (sf.col("id") / sf.col("ts")).cast("int"))
        )
    assert states_of(table) == [State.ROLLED_BACK]


def commit_beside(url: str, name: str, partition_path: str) -> Instant:
    """Publish a commit that writes the partition's first bucket."""
    with chronolake.connect(url) as client, client.table(name).begin() as write:
        file_id = bucket_file_id(0)
        stat = WriteStat(partition_path, file_id, base_file_name(file_id, "0-0-0", write.requested_time), 1, 1)
        return write.complete([stat])


def test_of_two_writers_of_a_bucket_the_second_to_complete_loses(
    spark: SparkSession, new_table: NewTable, shared_server_url: str
):
    table = new_table(orders(spark), "id", partition_fields=["country"], buckets=1)
    table.upsert(orders(spark, (1, "de", 0, 0)))
    name, publish = table.name, commit_beside

    def overtaken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Runs in a task, so after the Spark write has begun and before it completes.
        publish(shared_server_url, name, "country=de")
        yield from batches

    changes = orders(spark, (1, "de", 1, 0)).coalesce(1)
    with pytest.raises(WriteConflict) as caught:
        table.upsert(changes.mapInArrow(overtaken, changes.schema))

    assert caught.value.code == "write-conflict"
    assert states_of(table) == [State.COMPLETED, State.ROLLED_BACK, State.COMPLETED]
    [rolled_back] = table.metastore.instants(state=State.ROLLED_BACK)
    assert (rolled_back.rollback_reason or "").startswith("WriteConflict: ")


def test_duplicates_are_failed_or_dropped_and_nothing_else(spark: SparkSession, new_table: NewTable) -> None:
    frame = orders(spark, (1, "de", 10, 0))
    table = new_table(frame, "id")

    with pytest.raises(ValueError, match="duplicates is one of 'fail', 'drop', not 'foo'"):
        table.insert(frame, duplicates="foo")  # type: ignore[arg-type]  # that is the mistake
    assert states_of(table) == []


def test_an_unreadable_file_of_a_frame_is_reported_without_a_trace(
    spark: SparkSession, new_table: NewTable, tmp_path: Path
) -> None:
    table = new_table(orders(spark, (1, "de", 10, 0)), "id")
    damaged = tmp_path / "damaged.csv"
    damaged.write_text("1,de,10,0\n2,de,10,0,more\n")
    frame = spark.read.csv(str(damaged), schema="id long, country string, price int, ts int", mode="FAILFAST")

    with pytest.raises(errors.SparkJobFailed, match=r"damaged\.csv: Malformed") as caught:
        table.upsert(frame)

    assert "\tat " not in str(caught.value)
    [written] = table.metastore.instants(action=Action.COMMIT)
    assert written.state is State.ROLLED_BACK
