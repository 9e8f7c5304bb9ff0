"""Writes of rows by the client, without Spark and a JVM. Random histories are compared with a dictionary."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest

import chronolake
from chronolake import Action, State
from chronolake.indexes.record import record_index
from chronolake.slices import errors
from chronolake.writing import incoming, local_writes, written_files
from chronolake_model.tables import BucketIndex
from chronolake_model.vocabulary import IndexType, TableType
from tests.client.rows import SCHEMA, NewTable, amounts
from tests.fix_s3 import S3

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC).replace(tzinfo=None)
NANOSECONDS = pandas.Timestamp("2024-01-01 00:00:00.123456789")
BUCKETS = BucketIndex(IndexType.BUCKET, 2)
INDEXES = [BUCKETS, BucketIndex(IndexType.SIMPLE)]
Values = tuple[int, int | None, str, int]


def rows_of(*values: Values) -> pa.Table:
    """Rows with these ids, amounts, notes and ordering values: odd ids in one partition."""
    ids, amounts_, notes, ts = zip(*values, strict=True)
    days = [str(id_ % 2) for id_ in ids]
    return pa.table({"id": ids, "amount": amounts_, "note": notes, "ts": ts, "day": days})


def _writes(table: chronolake.Table) -> list[chronolake.Instant]:
    return [instant for instant in table.instants() if instant.action is not Action.ROLLBACK]


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: str(index.type))
@pytest.mark.parametrize("type_", TableType)
def test_rows_are_inserted_updated_and_deleted_and_counted(
    new_rows: NewTable, type_: TableType, index: BucketIndex
) -> None:
    table = new_rows(type=type_, index=index)
    inserted = table.insert(rows_of((1, 10, "a", 1), (2, 20, "b", 1), (3, None, "c", 1)))
    assert (inserted.instant.state, inserted.counts.inserted) == (State.COMPLETED, 3)
    upserted = table.upsert(rows_of((1, 11, "a", 2), (4, 40, "d", 1)))
    assert upserted.counts.read == upserted.counts.inserted + upserted.counts.updated == 2
    assert amounts(table.to_arrow()) == {1: 11, 2: 20, 3: None, 4: 40}
    late = table.upsert(rows_of((1, 12, "late", 0)))
    deleted = table.delete([{"id": 2, "day": "0"}, {"id": 6, "day": "0"}], extra_metadata={"job": "7"})
    assert (deleted.counts.deleted, deleted.counts.unchanged) == (1, 1)
    assert deleted.instant.extra_metadata["job"] == "7"
    assert amounts(table.to_arrow()) == {1: 11, 3: None, 4: 40}
    assert amounts(table.to_arrow(late)) == {1: 11, 2: 20, 3: None, 4: 40}
    assert list(table.instants(pending=True)) == []


def test_many_keys_are_found_beside_a_longer_one(new_rows: NewTable) -> None:
    table = new_rows()
    many = range(1, 20_001, 2)
    table.insert(rows_of(*((id_, 1, "a", 1) for id_ in (*many, 10_000_000_001))))

    deleted = table.delete([{"id": id_, "day": "1"} for id_ in many])

    assert deleted.counts.deleted == len(many)
    assert amounts(table.to_arrow()) == {10_000_000_001: 1}


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ({"amount": [1]}, errors.SchemaMismatch, "lack the columns id, note, ts, day"),
        (rows_of((1, 10, "a", 1)).append_column("extra", [[1]]), errors.SchemaMismatch, "does not: extra"),
        (rows_of((1, 10, "a", 1)).set_column(0, "id", [[None]]), errors.InvalidRecordKey, "null or empty"),
        (rows_of((1, 10, "a", 1)).set_column(1, "amount", [["x"]]), errors.SchemaMismatch, "'x' does not fit"),
        (rows_of((1, 10, "a", 1)).set_column(1, "amount", [[1.5]]), errors.SchemaMismatch, "cannot hold"),
        (rows_of((1, 10, "a", 1)).set_column(1, "amount", [[2**31]]), errors.SchemaMismatch, "cannot hold"),
        (rows_of((1, 10, "a", 1)).set_column(3, "ts", [[None]]), errors.RequiredValueMissing, "not nullable"),
        (rows_of((1, 10, "a", 1)).set_column(4, "day", [[""]]), errors.InvalidPartitionValue, "empty string"),
        (rows_of((1, 10, "a", 1), (1, 11, "b", 1)), errors.DuplicateKeys, "order is not defined"),
        (rows_of((1, 10, "a", 1)).slice(1), ValueError, "no rows to write"),
        ([], ValueError, "no rows to write"),
        ([{"id": 1, "note": "a"}, {"id": 2}], errors.SchemaMismatch, "dict 1 lacks note, which dict 0 has"),
        ([{"id": 1}, {"id": 2, "note": "a"}], errors.SchemaMismatch, "dict 0 lacks note, which dict 1 has"),
        ([{"note": "\ud800"}], errors.InvalidText, "column note: .* surrogates not allowed"),
        ([{"note": pandas.NaT}], errors.SchemaMismatch, "cannot be columns"),
        ([{"note": 10**40}], errors.SchemaMismatch, "cannot be columns"),
        ([{"note": "a"}, {"note": 3.0}], errors.SchemaMismatch, "column note: its values have no common type"),
        ({"note": [date(2024, 1, 1), NOON]}, errors.SchemaMismatch, "note: .* is a time without a zone"),
        ([{"note": date(2024, 1, 1)}, {"note": NOON}], errors.SchemaMismatch, "note: .* is a time without"),
        (pandas.DataFrame({"note": [None, NANOSECONDS]}, dtype=object), errors.SchemaMismatch, "microseconds"),
        ({"id": "42"}, errors.SchemaMismatch, "column id: '42' is a str: give a list"),
        (7, TypeError, "not int"),
        (bytearray(b"42"), TypeError, "not bytearray"),
    ],
)
def test_rows_that_cannot_be_written_are_refused_before_an_instant_begins(
    orders: chronolake.Table, rows: Any, error: type[Exception], message: str
) -> None:
    before = [instant.requested_time for instant in orders.instants()]
    with pytest.raises(error, match=message):
        orders.upsert(rows)
    assert [instant.requested_time for instant in orders.instants()] == before


def test_keys_alone_find_no_record_of_a_table_with_partitions(orders: chronolake.Table) -> None:
    with pytest.raises(TypeError, match=r"found by id, day: give dicts, not a list of int"):
        orders.delete([1, 2])


def test_an_insert_of_keys_that_exist_is_rolled_back_or_drops_them(new_rows: NewTable) -> None:
    table = new_rows(index=BUCKETS)
    table.insert(rows_of((1, 10, "a", 1)))
    with pytest.raises(errors.DuplicateKeys, match=r"1 of the rows to insert .* for example '1'"):
        table.insert(rows_of((1, 11, "b", 2), (3, 30, "c", 2)))
    assert _writes(table)[1].state is State.ROLLED_BACK
    dropped = table.insert(rows_of((1, 11, "b", 2), (3, 30, "c", 2)), "drop")
    assert (dropped.counts.inserted, dropped.counts.unchanged) == (1, 1)
    assert amounts(table.to_arrow()) == {1: 10, 3: 30}
    with pytest.raises(ValueError, match="one of fail, drop, not"):
        table.insert(rows_of((1, 11, "b", 2)), "skip")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        lambda rows: pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=1)),
        lambda rows: rows.to_pandas(),
        lambda rows: rows.to_pandas().iloc[::-1],
        polars.from_arrow,
        lambda rows: polars.from_arrow(rows).lazy(),
        lambda rows: rows.to_pydict(),
        lambda rows: rows.to_pylist(),
        duckdb.from_arrow,
    ],
    ids=["reader", "pandas", "pandas with an index", "polars", "lazy polars", "dict", "dicts", "duckdb"],
)
def test_rows_come_from_each_library(new_rows: NewTable, given: Callable[[pa.Table], Any]) -> None:
    table = new_rows(index=BUCKETS)
    rows = rows_of((1, 10, "a", 1), (2, None, "b", 1))
    result = table.upsert(given(rows))
    assert result.counts.read == 2
    assert sorted(table.to_arrow().to_pylist(), key=str) == sorted(rows.to_pylist(), key=str)


@pytest.mark.parametrize("failure", [OSError("lost"), pa.ArrowInvalid("broken")], ids=["storage", "arrow"])
def test_a_write_is_not_failed_by_the_record_index_after_it(
    new_rows: NewTable, failure: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = new_rows(index=BucketIndex(IndexType.RECORD), partition_fields=[])

    def fail(*_: object, **_named: object) -> None:
        raise failure

    monkeypatch.setattr(record_index.RecordIndex, "catch_up", fail)
    record_index.follow(table)
    assert f"the record index was not updated after a write: {failure}" in caplog.text


def test_maps_are_dicts_or_pairs_as_they_are_read(new_rows: NewTable) -> None:
    schema = [chronolake.Field("id", "bigint"), chronolake.Field("sizes", "map<string,int>")]
    table = new_rows(schema=schema, index=BUCKETS, partition_fields=[], ordering_field=None)
    rows = [{"id": 1, "sizes": [("a", 1), ("b", None)]}, {"id": 2, "sizes": None}]
    table.upsert([{"id": 1, "sizes": {"a": 1, "b": None}}, {"id": 2, "sizes": None}])
    table.upsert(table.to_arrow().to_pylist())
    assert sorted(table.to_arrow().to_pylist(), key=str) == rows
    with pytest.raises(errors.SchemaMismatch, match="column sizes: a key or value in it is not"):
        table.upsert([{"id": 1, "sizes": {"a": 1.5}}])


@pytest.mark.parametrize("type_", [pa.large_string(), pa.string_view()], ids=str)
def test_a_chunk_of_much_text_is_written_in_parts(
    new_rows: NewTable, monkeypatch: pytest.MonkeyPatch, type_: pa.DataType
) -> None:
    monkeypatch.setattr(incoming, "_BATCH_BYTES_MAX", 1_000)
    table = new_rows(index=BUCKETS)
    rows = rows_of(*((id_, id_, "text of more than 12 bytes", 1) for id_ in range(20)))
    large = rows.set_column(2, "note", rows["note"].cast(type_))

    assert len(list(incoming._parts(large.to_batches()[0]))) == 2
    assert table.upsert(large).counts.inserted == 20
    assert amounts(table.to_arrow()) == {id_: id_ for id_ in range(20)}


def test_rows_of_a_write_that_was_cancelled_are_spilled_no_more() -> None:
    held = incoming.HeldRows(bytes_max=0)
    [batch] = rows_of((1, 10, "a", 1)).to_batches()
    held.add(batch)
    held.close()

    with pytest.raises(ValueError, match="cancelled"):
        held.add(batch)


@pytest.mark.parametrize("type_", TableType)
def test_rows_are_written_in_an_object_store(server_url: str, namespace: str, s3: S3, type_: TableType) -> None:
    with chronolake.connect(server_url, storage_options=s3.options) as client:
        table = client.create_table(
            f"{namespace}.rows",
            base_path=s3.base_path,
            schema=SCHEMA,
            record_key_fields=["id"],
            ordering_field="ts",
            type=type_,
            index=BucketIndex(IndexType.BUCKET, 4),
        )
        table.insert(rows_of(*((id_, id_, "a", 1) for id_ in range(20))))
        table.upsert(rows_of(*((id_, -id_, "b", 2) for id_ in range(0, 30, 3))))
        table.delete([{"id": 1}, {"id": 3}])

        updated = {id_: -id_ for id_ in range(0, 30, 3)}
        stored = {id_: id_ for id_ in range(20)} | updated
        assert amounts(table.to_arrow()) == {id_: stored[id_] for id_ in stored if id_ not in (1, 3)}


def test_an_overwrite_replaces_the_partitions_of_its_rows_or_the_table(new_rows: NewTable) -> None:
    table = new_rows(index=BUCKETS)
    table.upsert(rows_of((1, 10, "a", 1), (2, 20, "b", 1)))
    table.overwrite(rows_of((3, 30, "c", 1)), "dynamic")
    assert amounts(table.to_arrow()) == {2: 20, 3: 30}
    table.overwrite(rows_of((5, 50, "d", 1)), "all")
    assert amounts(table.to_arrow()) == {5: 50}
    reader = rows_of((7, 70, "e", 1)).to_reader()
    reader.read_all()
    with pytest.raises(ValueError, match="gives no rows: it may have been read before"):
        table.overwrite(reader, "all")
    assert amounts(table.to_arrow()) == {5: 50}
    table.overwrite(polars.DataFrame(schema=rows_of((5, 50, "d", 1)).column_names), "all")
    assert amounts(table.to_arrow()) == {}
    table.overwrite([], "all")
    with pytest.raises(ValueError, match="no rows"):
        table.overwrite([], "dynamic")
    with pytest.raises(ValueError, match='"all" the whole table'):
        table.overwrite([])


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: str(index.type))
@pytest.mark.parametrize("type_", TableType)
def test_no_row_of_writers_at_the_same_time_is_lost(
    new_rows: NewTable, shared_server_url: str, type_: TableType, index: BucketIndex
) -> None:
    table = new_rows(type=type_, index=index)
    table.upsert(rows_of((0, 0, "first", 0)))

    def write(writer: int) -> None:
        with chronolake.connect(shared_server_url) as client:
            own = client.table(table.name)
            for number in range(3):
                id_ = 1 + writer + 2 * number
                own.upsert(rows_of((id_, id_, "x", 1), (0, id_, "x", id_)), on_conflict="retry")

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, range(2)))
    assert amounts(table.to_arrow()) == {0: 6, **{id_: id_ for id_ in range(1, 7)}}
    assert list(table.instants(pending=True)) == []


def test_a_write_that_loses_a_conflict_says_so_and_is_rolled_back(
    new_rows: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_rows(type=TableType.COPY_ON_WRITE, index=BUCKETS)
    table.upsert(rows_of((1, 10, "a", 1)))
    write_files = local_writes.write

    def write_after_another(*arguments: Any) -> local_writes.FilesToPublish:
        files = write_files(*arguments)
        monkeypatch.undo()
        table.upsert(rows_of((1, 11, "b", 2)))
        return files

    monkeypatch.setattr(local_writes, "write", write_after_another)
    with pytest.raises(chronolake.errors.WriteConflict, match="Nothing was written: run it again"):
        table.upsert(rows_of((1, 12, "c", 3)))
    monkeypatch.setattr(local_writes, "write", write_after_another)
    retried = table.upsert(rows_of((1, 12, "c", 3)), on_conflict="retry")
    assert retried.instant.extra_metadata["conflicts.retries"] == "1"
    assert amounts(table.to_arrow()) == {1: 12}


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
def test_a_write_that_is_interrupted_is_rolled_back_at_once(
    new_rows: NewTable, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    table = new_rows(index=BUCKETS)
    write_base_file = written_files.write_base_file

    def fail(*arguments: Any) -> Any:
        write_base_file(*arguments)
        raise failure("now")

    monkeypatch.setattr(written_files, "write_base_file", fail)
    with pytest.raises(failure):
        table.upsert(rows_of((1, 10, "a", 1)))
    monkeypatch.undo()
    [failed] = _writes(table)
    assert failed.state is State.ROLLED_BACK
    table.upsert(rows_of((1, 11, "a", 1)))
    assert amounts(table.to_arrow()) == {1: 11}
    [_] = Path(table.definition.base_path).rglob("*.parquet")


@pytest.mark.parametrize("failure", [chronolake.errors.ConnectionFailed("now"), OSError("now")])
def test_a_write_that_has_completed_raises_nothing(
    new_rows: NewTable, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    table = new_rows(index=BUCKETS)

    def fail(*_arguments: Any) -> Any:
        raise failure

    monkeypatch.setattr(chronolake.Write, "refresh", fail)
    monkeypatch.setattr(chronolake.Table, "finish_rollbacks", fail)
    result = table.insert(rows_of((1, 10, "a", 1)), extra_metadata={"job": "7"})
    assert result.instant == table.instant(result.instant.requested_time)


def test_a_write_without_an_answer_to_its_completion_says_which_instant_may_have_completed(
    new_rows: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_rows(index=BUCKETS)
    command = chronolake.Write._command

    def lose_answer(*arguments: Any, **options: Any) -> Any:
        if arguments[1:]:
            command(*arguments, **options)
        raise chronolake.errors.ConnectionFailed("now")

    monkeypatch.setattr(chronolake.Write, "_command", lose_answer)
    monkeypatch.setattr(chronolake.Write, "refresh", lose_answer)
    with pytest.raises(chronolake.errors.ConnectionFailed) as raised:
        table.insert(rows_of((1, 10, "a", 1)))
    [written] = _writes(table)
    assert written.state is State.COMPLETED
    assert f"{written.requested_time} of {table.name} may have completed" in raised.value.__notes__[0]


def test_a_write_completes_beside_one_that_was_killed(new_rows: NewTable, shared_server_url: str) -> None:
    table = new_rows(index=BUCKETS)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.client.dying_row_writer", shared_server_url, table.name],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.kill()
    table.upsert(rows_of((1, 11, "a", 1)))
    assert amounts(table.to_arrow()) == {1: 11}
    [killed] = table.instants(pending=True)
    assert killed.writer == "killed"
    table.rollback(killed.requested_time, writer="killed")
    [file] = Path(table.definition.base_path).rglob("*.parquet")
    assert killed.requested_time not in file.name


def test_changes_of_the_schema_and_of_the_number_of_buckets_are_seen(new_rows: NewTable) -> None:
    table = new_rows(type=TableType.COPY_ON_WRITE, index=BUCKETS)
    table.upsert(rows_of((1, 10, "a", 1), (2, 20, "b", 1)))
    table.change_schema([chronolake.WidenColumn("amount", "bigint"), chronolake.RenameColumn("note", "text")])
    rows = rows_of((1, 2**40, "c", 2)).rename_columns(["id", "amount", "text", "ts", "day"])
    table.upsert(rows)
    found = {row["id"]: (row["amount"], row["text"]) for row in table.to_arrow().to_pylist()}
    assert found == {1: (2**40, "c"), 2: (20, "b")}


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_client_for_an_event_loop_writes_rows_too(shared_server_url: str, new_rows: NewTable) -> None:
    made = new_rows(index=BucketIndex(IndexType.SIMPLE))
    async with chronolake.connect_async(shared_server_url) as client:
        table = await client.table(made.name)
        await table.upsert(rows_of((1, 10, "a", 1), (2, 20, "b", 1)))
        result = await table.upsert(rows_of((1, 11, "a", 2), (3, 30, "c", 1)))
        assert (result.counts.inserted, result.counts.updated) == (1, 1)
        assert amounts(await table.to_arrow()) == {1: 11, 2: 20, 3: 30}


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancelled_task_leaves_no_pending_instant(
    shared_server_url: str, new_rows: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = new_rows(index=BUCKETS)
    began, ended = threading.Event(), threading.Event()
    write_files = local_writes.write

    def slow(*arguments: Any) -> Any:
        began.set()
        ended.wait(30)
        return write_files(*arguments)

    monkeypatch.setattr(local_writes, "write", slow)
    async with chronolake.connect_async(shared_server_url) as client:
        task = asyncio.create_task((await client.table(made.name)).upsert(rows_of((1, 10, "a", 1))))
        assert await asyncio.to_thread(began.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [instant.state for instant in _writes(made)] == [State.ROLLED_BACK]
        ended.set()
    assert amounts(made.to_arrow()) == {}


@pytest.mark.parametrize("type_", TableType)
def test_a_record_of_a_key_that_is_unique_in_the_table_moves_to_another_partition(
    new_rows: NewTable, type_: TableType
) -> None:
    table = new_rows(type=type_, index=BucketIndex(IndexType.RECORD))

    def upsert(day: str, ts: int, amount: int) -> None:
        table.upsert([{"id": 1, "amount": amount, "note": "a", "ts": ts, "day": day}])

    def found() -> list[tuple[str, int]]:
        return [(row["day"], row["amount"]) for row in table.to_arrow().to_pylist()]

    upsert("1", 1, 10)
    upsert("0", 3, 30)
    assert found() == [("0", 30)]
    upsert("1", 2, 20)
    assert found() == [("0", 30)]
    with pytest.raises(errors.DuplicateKeys, match="keys are unique in the whole table"):
        table.overwrite([{"id": 1, "amount": 40, "note": "b", "ts": 4, "day": "1"}], "dynamic")
    table.delete([1])
    assert found() == []
