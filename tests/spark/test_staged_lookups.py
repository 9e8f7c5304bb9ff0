"""INSERT into tables without a bucket index: tasks stage rows, the committer looks their keys up. No JVM."""

from __future__ import annotations

import itertools
import os
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import chronolake
from chronolake import _http
from chronolake.calls.base import Call
from chronolake_model.schemas import WidenColumn
from chronolake_model.tables import BucketIndex, Field
from chronolake_model.vocabulary import IndexType, TableType
from chronolake_spark.index.record import record_index
from chronolake_spark.index.record.record_index import RecordIndex
from chronolake_spark.write import format_writer
from chronolake_spark.write.tasks import staging
from tests.spark import hudi_reader
from tests.spark.hand_written import base, commit

_NUMBERS = itertools.count(1)
STRUCT = StructType(
    [
        StructField("id", LongType(), nullable=False),
        StructField("day", StringType()),
        StructField("amount", IntegerType()),
        StructField("ts", LongType(), nullable=False),
    ]
)
FIELDS = [
    Field("id", "bigint", nullable=False),
    Field("day", "string"),
    Field("amount", "int"),
    Field("ts", "bigint", nullable=False),
]
LAYOUT = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.int32()), ("ts", pa.int64())])
Row = tuple[int, str, int, int]
NewTable = Callable[..., chronolake.Table]
KINDS = [
    (IndexType.SIMPLE, TableType.COPY_ON_WRITE),
    (IndexType.BLOOM, TableType.MERGE_ON_READ),
    (IndexType.RECORD, TableType.COPY_ON_WRITE),
    (IndexType.RECORD, TableType.MERGE_ON_READ),
]


class Attempt:
    """The context of a task."""

    number = 0

    @classmethod
    def get(cls) -> type[Attempt]:
        return cls

    @classmethod
    def partitionId(cls) -> int:
        return cls.number

    @classmethod
    def stageId(cls) -> int:
        return 1

    @classmethod
    def taskAttemptId(cls) -> int:
        return cls.number


@pytest.fixture(autouse=True)
def attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format_writer, "TaskContext", Attempt)


@pytest.fixture
def new_table(shared_server_url: str, tmp_path: Path) -> Iterator[NewTable]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("staged", if_not_exists=True)

        def make(index: IndexType, type_: TableType, **definition: Any) -> chronolake.Table:
            number = next(_NUMBERS)
            defaults = {"partition_fields": ["day"], "ordering_field": "ts"}
            return client.create_table(
                f"staged.t{os.getpid()}_{number}",
                base_path=str(tmp_path / f"table{number}"),
                schema=FIELDS,
                record_key_fields=["id"],
                index=BucketIndex(index),
                type=type_,
                **{**defaults, **definition},
            )

        yield make


class Insert:
    """An INSERT as Spark runs it: planned when it is made, then its tasks and the committer."""

    def __init__(self, table: chronolake.Table, url: str, *, overwrite: bool = False, **options: str) -> None:
        given = {"table": table.name, "url": url, **options}
        planned = format_writer.writer(given, STRUCT, overwrite=overwrite)
        self.writer = pickle.loads(cloudpickle.dumps(planned))

    def run(self, rows: Sequence[Row], tasks: int = 2) -> None:
        messages = []
        try:
            for task in range(tasks):
                Attempt.number = task
                of_task = pa.Table.from_pylist(
                    [dict(zip(LAYOUT.names, row, strict=True)) for row in rows[task::tasks]], schema=LAYOUT
                )
                messages.append(self.writer.write(iter(of_task.to_batches())))
            self.writer.commit(messages)
        except BaseException:
            self.writer.abort(messages)
            raise


@pytest.fixture
def insert(shared_server_url: str) -> Callable[..., None]:
    def insert(table: chronolake.Table, *rows: Row, **options: Any) -> None:
        Insert(table, shared_server_url, **options).run(rows)
        assert table.orphans().orphans == []

    return insert


def rows_of(table: chronolake.Table) -> list[Row]:
    rows = hudi_reader.rows_of(table).select(LAYOUT.names).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def fetched_by(write: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> int:
    """The bytes of all answers of the server."""
    sizes: list[int] = []

    def answer_of(call: Call[Any], response: httpx.Response) -> Any:
        sizes.append(len(response.content))
        return read(call, response)

    read = _http.answer_of
    with monkeypatch.context() as patches:
        patches.setattr(_http, "answer_of", answer_of)
        write()
    return sum(sizes)


def groups_of(table: chronolake.Table) -> set[tuple[str, str]]:
    return {(slice_.partition_path, slice_.file_id) for slice_ in table.snapshot().slices}


@pytest.mark.parametrize(("index", "type_"), KINDS)
def test_rows_go_where_their_keys_are(
    new_table: NewTable, insert: Callable[..., None], index: IndexType, type_: TableType
) -> None:
    table = new_table(index, type_)
    insert(table, *((id, "a", 0, 1) for id in range(10)), (100, "b", 0, 1))
    groups = groups_of(table)
    assert sorted(path for path, _ in groups) == ["day=a", "day=b"]
    insert(table, (1, "a", 1, 2), (2, "a", 1, 0), (101, "b", 1, 2), (1, "b", 1, 3), (7, "c", 7, 7))

    is_unique = index is IndexType.RECORD
    old = {(id, "a"): (0, 1) for id in range(10)} | {(1, "a"): (1, 2), (100, "b"): (0, 1)}
    new = old | {(101, "b"): (1, 2), (1, "b"): (1, 3), (7, "c"): (7, 7)}
    if is_unique:
        del new[1, "a"], new[7, "a"]
    assert rows_of(table) == sorted((*key, *values) for key, values in new.items())
    assert {path for path, _ in groups_of(table) - groups} == {"day=c"}
    hudi_reader.publish_and_compare(table)

    with pytest.raises(RuntimeError, match="'100'"):
        insert(table, (100, "b" if not is_unique else "z", 9, 9), (500, "b", 9, 9), operation="insert")
    insert(table, (100, "b", 9, 9), (500, "b", 5, 5), operation="insert", duplicates="drop")
    insert(table, (100, "b", 0, 9), (2, "a", 0, 9), (3, "nowhere", 0, 0), operation="delete")
    kept = {key: values for key, values in new.items() if key not in {(100, "b"), (2, "a")}}
    kept[500, "b"] = (5, 5)
    assert rows_of(table) == sorted((*key, *values) for key, values in kept.items())
    insert(table, (900, "b", 9, 9), (901, "b", 9, 9), overwrite=True, partitions="dynamic")
    kept = {key: values for key, values in kept.items() if key[1] != "b"}
    kept |= {(900, "b"): (9, 9), (901, "b"): (9, 9)}
    assert rows_of(table) == sorted((*key, *values) for key, values in kept.items())
    hudi_reader.publish_and_compare(table)
    insert(table, (5, "q", 5, 5), (5, "r", 5, 6), (6, "q", 6, 6), overwrite=True)
    both = [] if is_unique else [(5, "q", 5, 5)]
    assert rows_of(table) == [*both, (5, "r", 5, 6), (6, "q", 6, 6)]
    insert(table, overwrite=True)
    insert(table)
    assert rows_of(table) == []


@pytest.mark.parametrize(("index", "type_"), KINDS[1:3])
def test_rows_that_memory_does_not_hold_are_staged_again(
    new_table: NewTable,
    insert: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    index: IndexType,
    type_: TableType,
) -> None:
    monkeypatch.setattr(staging, "FILE_BYTES_MAX", 400)
    properties = {"files.max-file-size": "20000", "files.record-size-estimate": "400"}
    table = new_table(index, type_, properties=properties)
    insert(table, *((id, "ab"[id % 2], 0, 1) for id in range(300)))
    assert len(groups_of(table)) > 4
    insert(table, *((id, "ab"[id % 2], 1, 2) for id in range(200, 400)))

    assert rows_of(table) == [(id, "ab"[id % 2], int(id >= 200), 2 if id >= 200 else 1) for id in range(400)]
    hudi_reader.publish_and_compare(table)


@pytest.mark.parametrize("index", [IndexType.BLOOM, IndexType.RECORD])
def test_of_two_writers_of_one_new_key_the_second_conflicts(
    new_table: NewTable, insert: Callable[..., None], shared_server_url: str, index: IndexType
) -> None:
    table = new_table(index, TableType.COPY_ON_WRITE)
    insert(table, (1, "a", 0, 1))
    early = Insert(table, shared_server_url)
    other_partition = "c" if index is IndexType.RECORD else "b"
    insert(table, (3, "b", 1, 1))
    with pytest.raises(RuntimeError, match="wrote the same file groups first"):
        early.run([(3, other_partition, 2, 2)])

    assert rows_of(table) == [(1, "a", 0, 1), (3, "b", 1, 1)]
    assert table.orphans().orphans == []
    assert table.timeline.pending().last() is None


def test_an_append_that_read_a_moved_record_conflicts(
    new_table: NewTable, insert: Callable[..., None], shared_server_url: str
) -> None:
    table = new_table(IndexType.RECORD, TableType.MERGE_ON_READ)
    insert(table, (1, "a", 0, 1), (2, "a", 0, 1), (3, "b", 0, 1))
    early = Insert(table, shared_server_url)
    insert(table, (1, "b", 1, 2))
    with pytest.raises(RuntimeError, match="wrote the same file groups first"):
        early.run([(1, "a", 2, 3)])
    assert rows_of(table) == [(1, "b", 1, 2), (2, "a", 0, 1), (3, "b", 0, 1)]


def test_a_record_that_is_older_than_the_stored_one_does_not_move(
    new_table: NewTable, insert: Callable[..., None]
) -> None:
    table = new_table(IndexType.RECORD, TableType.COPY_ON_WRITE)
    insert(table, (1, "a", 0, 5), (2, "a", 0, 5))
    insert(table, (1, "b", 1, 4), (2, "b", 1, 4), (2, "c", 1, 6))
    assert rows_of(table) == [(1, "a", 0, 5), (2, "c", 1, 6)]
    with pytest.raises(RuntimeError, match="a partition has which is not replaced"):
        insert(table, (1, "c", 3, 9), overwrite=True, partitions="dynamic")
    # The key alone says where the record is.
    insert(table, (1, "nowhere", 0, 9), operation="delete")
    assert rows_of(table) == [(2, "c", 1, 6)]


def test_a_deleted_record_does_not_come_back_in_another_partition(
    new_table: NewTable, insert: Callable[..., None]
) -> None:
    table = new_table(IndexType.RECORD, TableType.MERGE_ON_READ)
    insert(table, (1, "a", 0, 10), (2, "a", 0, 10))
    insert(table, (1, "a", 0, 30), operation="delete")
    insert(table, (1, "b", 0, 20))
    insert(table, (1, "b", 0, 25), operation="insert", duplicates="drop")
    assert rows_of(table) == [(2, "a", 0, 10)]
    insert(table, (1, "b", 0, 40))
    assert rows_of(table) == [(1, "b", 0, 40), (2, "a", 0, 10)]


@pytest.mark.parametrize(("index", "type_"), [(IndexType.BUCKET, TableType.COPY_ON_WRITE), *KINDS[2:]])
def test_by_commit_time_the_ordering_field_chooses_between_the_rows_of_one_insert(
    new_table: NewTable, insert: Callable[..., None], index: IndexType, type_: TableType
) -> None:
    table = new_table(index, type_, properties={"merge.mode": "commit-time"})
    insert(table, (1, "a", 0, 9), (2, "a", 0, 9))
    insert(table, (1, "a", 1, 2), (1, "a", 2, 1), (3, "b", 1, 5), (3, "a", 2, 4))

    other_partition = [] if index is IndexType.RECORD else [(3, "a", 2, 4)]
    assert rows_of(table) == [(1, "a", 1, 2), (2, "a", 0, 9), *other_partition, (3, "b", 1, 5)]
    with pytest.raises(RuntimeError, match=r"order is not defined.*an INSERT has no row_order"):
        insert(table, (2, "a", 1, 1), (2, "a", 2, 1))
    insert(table, (1, "a", 7, 7), (1, "a", 8, 8), operation="delete")
    assert [row for row in rows_of(table) if row[0] == 1] == []


def test_a_key_that_two_file_groups_have_is_updated_in_both(
    new_table: NewTable, insert: Callable[..., None]
) -> None:
    table = new_table(IndexType.SIMPLE, TableType.COPY_ON_WRITE, partition_fields=[], ordering_field=None)
    commit(table, {("", "a-0"): base("1", "2"), ("", "b-0"): base("2", "3")})
    insert(table, (2, "x", 2, 2))
    assert [row for row in rows_of(table) if row[0] == 2] == [(2, "x", 2, 2)] * 2
    assert len(rows_of(table)) == 4


@pytest.mark.parametrize(("index", "type_"), KINDS)
def test_inserts_fill_small_file_groups_that_have_none_of_the_keys_and_an_earlier_schema(
    new_table: NewTable, insert: Callable[..., None], index: IndexType, type_: TableType
) -> None:
    table = new_table(index, type_)
    insert(table, (1, "a", 0, 1), (2, "b", 0, 1))
    groups = groups_of(table)
    table.change_schema([WidenColumn("amount", "bigint")])

    # The key is greater than all of its partition, so no file group there is looked up.
    insert(table, (100, "a", 1, 2), (2, "b", 1, 2))

    assert rows_of(table) == [(1, "a", 0, 1), (2, "b", 1, 2), (100, "a", 1, 2)]
    assert groups_of(table) == groups


@pytest.mark.parametrize(("index", "type_"), KINDS)
def test_a_write_fetches_no_more_from_a_table_with_more_partitions(
    new_table: NewTable,
    insert: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    index: IndexType,
    type_: TableType,
) -> None:
    table = new_table(index, type_)
    insert(table, (1, "a", 0, 1), (2, "b", 0, 1))
    few = fetched_by(lambda: insert(table, (1, "a", 1, 2), (3, "b", 1, 2)), monkeypatch)
    insert(table, *((id, f"other {id}", 0, 1) for id in range(10, 200)))

    many = fetched_by(lambda: insert(table, (1, "a", 2, 3), (4, "b", 2, 3)), monkeypatch)

    # A slice has about 380 bytes.
    assert many < few + 2_000


def test_an_index_that_is_far_behind_is_said(
    new_table: NewTable, insert: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(IndexType.RECORD, TableType.COPY_ON_WRITE, partition_fields=[], ordering_field=None)
    commit(table, {("", "a-0"): base("1", "2")})
    with monkeypatch.context() as patches:
        patches.setattr(record_index, "RECORDS_HERE_MAX", 1)
        with pytest.raises(RuntimeError, match=r"update_index\(\)"):
            insert(table, (2, "x", 2, 2))
    RecordIndex(table).catch_up()
    insert(table, (2, "x", 2, 2))
    assert rows_of(table)[1] == (2, "x", 2, 2)
    assert table.timeline.pending().last() is None


@pytest.mark.slow
@pytest.mark.parametrize(("index", "type_"), KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_random_inserts_leave_the_rows_of_an_oracle(
    new_table: NewTable, insert: Callable[..., None], index: IndexType, type_: TableType, seed: int
) -> None:
    choose = random.Random(seed)
    table = new_table(
        index, type_, properties={"files.max-file-size": "9000", "files.record-size-estimate": "400"}
    )
    is_unique = index is IndexType.RECORD
    expected: dict[Any, Row] = {}
    for step in range(6):
        operation = choose.choice(["upsert", "upsert", "upsert", "delete"])
        ids = choose.sample(range(40), choose.randint(1, 25))
        # Ordering values grow with the steps, so that a delete that is forgotten does not matter.
        rows = [(id, choose.choice("abc"), step, 10 * step + choose.randint(0, 5)) for id in ids]
        insert(table, *rows, operation=operation)
        for row in rows:
            key = row[0] if is_unique else row[:2]
            if operation == "delete":
                expected.pop(key, None)
            else:
                expected[key] = row
        assert rows_of(table) == sorted(expected.values())
    hudi_reader.publish_and_compare(table)
