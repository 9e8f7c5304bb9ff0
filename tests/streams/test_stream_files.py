"""The files of a streaming task, at a real server and in a folder on disk, without a JVM."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import chronolake
from chronolake import AddColumn, BucketIndex, Field, TableType
from chronolake.slices import errors
from chronolake.streaming import BuffersFull, Limits, StreamFiles, TaskWriter
from chronolake_model.vocabulary import IndexType
from tests.examples import examples
from tests.spark import hudi_reader

_NUMBERS = itertools.count(1)
FIELDS = [Field("id", "bigint", nullable=False), Field("ts", "bigint"), Field("name", "string")]
SMALL = Limits(bucket_bytes=4_000, memory_bytes=100_000)
NO_NUMBER = pa.nulls(1, pa.int64())
NewTable = Callable[..., chronolake.Table]


class Row(NamedTuple):
    """A row of a source: of one key the later row counts, or the one with the larger ``ts``."""

    id: int
    ts: int
    name: str
    deletes: bool = False


@pytest.fixture(scope="module")
def new_table(shared_server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewTable]:
    with chronolake.connect(shared_server_url) as client:
        client.create_namespace("streamed", if_not_exists=True)

        def make(type: TableType = TableType.MERGE_ON_READ, **definition: object) -> chronolake.Table:
            name = f"streamed.t{next(_NUMBERS)}"
            return client.create_table(
                name,
                base_path=str(tmp_path_factory.mktemp("tables") / name),
                schema=FIELDS,
                record_key_fields=["id"],
                type=type,
                **{"index": BucketIndex(buckets=2)} | definition,  # type: ignore[arg-type]
            )

        yield make


def batch(*rows: Row) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    types = [pa.int64(), pa.int64(), pa.string()]
    arrays = [pa.array(values, type_) for values, type_ in zip(columns, types, strict=False)]
    return pa.RecordBatch.from_arrays(arrays, [field.name for field in FIELDS])


def deletes_of(*rows: Row) -> pa.Array:
    return pa.array([row.deletes for row in rows], pa.bool_())


def write(writer: TaskWriter, *rows: Row) -> None:
    writer.write(batch(*rows), deletes=deletes_of(*rows))


def stored(table: chronolake.Table) -> dict[int, Row]:
    rows = hudi_reader.rows_of(table).select([field.name for field in FIELDS]).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: Row(**row) for row in rows}


def log_files(table: chronolake.Table) -> int:
    return sum(len(file_slice.log_files) for file_slice in table.snapshot().slices)


def expected(rows: list[Row], ordering_field: str | None) -> dict[int, Row]:
    winners: dict[int, Row] = {}
    for row in rows:
        before = winners.get(row.id)
        if before is None or ordering_field is None or row.ts >= before.ts:
            winners[row.id] = row
    return {row.id: row for row in winners.values() if not row.deletes}


ROWS = st.builds(
    Row,
    id=st.integers(0, 5),
    ts=st.integers(0, 9),
    name=st.sampled_from(["x", "y" * 1_500]),
    deletes=st.sampled_from([False, False, True]),
)
STEPS = st.lists(
    st.one_of(
        st.lists(ROWS, min_size=1, max_size=6),
        st.sampled_from(["barrier", "complete", "restart"]),
    ),
    max_size=8,
)


@pytest.mark.parametrize(
    ("type", "ordering_field"),
    [
        (TableType.MERGE_ON_READ, None),
        (TableType.MERGE_ON_READ, "ts"),
        (TableType.COPY_ON_WRITE, None),
    ],
)
def test_readers_see_the_row_that_counts_of_each_key_whenever_it_was_flushed(
    new_table: NewTable, type: TableType, ordering_field: str | None
) -> None:
    @given(steps=STEPS)
    @settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
    def check(steps: list[list[Row] | str]) -> None:
        table = new_table(type, ordering_field=ordering_field)
        with table.open_stream("job", tasks=1) as stream:
            writer = TaskWriter(stream, 0, StreamFiles(table), limits=SMALL)
            given_rows: list[Row] = []
            passed, checkpoint = 0, 0
            for step in [*steps, "barrier", "complete"]:
                match step:
                    case "barrier":
                        checkpoint += 1
                        written = writer.barrier(checkpoint)
                        files = written.files
                        assert written.rows == len(given_rows) - passed
                        assert written.rows == written.superseded + written.unchanged + (
                            files.inserts + files.updates + files.deletes
                        )
                        passed = len(given_rows)
                        # In blocking mode the next instant waits for this.
                        stream.complete(checkpoint)
                    case "complete" if checkpoint:
                        stream.complete(checkpoint)
                    case "complete":
                        pass
                    case "restart":
                        writer.restart(checkpoint or None)
                        del given_rows[passed:]
                    case rows:
                        assert isinstance(rows, list)
                        write(writer, *rows)
                        given_rows += rows
        assert stored(table) == {
            id: row._replace(deletes=False) for id, row in expected(given_rows, ordering_field).items()
        }
        if log_files(table) or type is TableType.COPY_ON_WRITE:
            hudi_reader.publish_and_compare(table)

    check()


def test_a_record_that_replaces_a_delete_of_the_same_checkpoint_is_kept(new_table: NewTable) -> None:
    table = new_table()
    with table.open_stream("job", tasks=1) as stream:
        writer = TaskWriter(stream, 0, StreamFiles(table), limits=SMALL)
        write(writer, Row(1, 0, "first"), Row(2, 0, "first"))
        write(writer, Row(1, 0, "", deletes=True), Row(2, 0, "", deletes=True))
        write(writer, Row(1, 0, "second"))
        write(writer, Row(3, 0, "third"))
        writer.barrier(1)
        stream.complete(1)
    assert {id: row.name for id, row in stored(table).items()} == {1: "second", 3: "third"}
    assert log_files(table) > 1
    hudi_reader.publish_and_compare(table)


def test_deletes_that_fill_the_buffers_are_refused_until_the_barrier(new_table: NewTable) -> None:
    table = new_table()
    with table.open_stream("job", tasks=1) as stream:
        limits = Limits(bucket_bytes=50_000, memory_bytes=50_000)
        writer = TaskWriter(stream, 0, StreamFiles(table), limits=limits)
        rows = [Row(id, 0, "", deletes=True) for id in range(400)]
        first = 0
        with pytest.raises(BuffersFull, match="deletes take"):
            for first in range(0, 10_000, 400):
                write(writer, *(row._replace(id=row.id + first) for row in rows))
        assert writer.buffered_bytes <= 50_000
        assert writer.barrier(1).files.deletes == first


def test_the_flushes_of_a_bucket_in_one_instant_make_one_base_file(new_table: NewTable) -> None:
    table = new_table(TableType.COPY_ON_WRITE, index=BucketIndex(buckets=1))
    with table.open_stream("job", tasks=1) as stream:
        writer = TaskWriter(stream, 0, StreamFiles(table), limits=SMALL)
        write(writer, Row(1, 0, "a"), Row(2, 0, "a"))
        write(writer, Row(2, 0, "b"), Row(3, 0, "b"))
        write(writer, Row(1, 0, "", deletes=True))
        written = writer.barrier(1)
        stream.complete(1)
    assert (written.files.files, written.files.records, written.flushes) == (1, 2, 3)
    assert (written.files.inserts, written.files.updates, written.files.deletes) == (3, 1, 1)
    assert {id: row.name for id, row in stored(table).items()} == {2: "b", 3: "b"}
    [base_file] = Path(table.definition.base_path).glob("*.parquet")
    assert base_file.stat().st_size == written.files.size_bytes


def test_a_task_of_a_copy_on_write_table_waits_for_the_checkpoint_before(new_table: NewTable) -> None:
    table = new_table(TableType.COPY_ON_WRITE)
    with table.open_stream("job", tasks=1) as stream:
        writer = TaskWriter(stream, 0, StreamFiles(table), limits=SMALL)
        write(writer, Row(1, 0, "a"))
        writer.barrier(1)
        write(writer, Row(1, 0, "b"))
        with pytest.raises(chronolake.errors.InstantNotYet):
            writer.barrier(2, wait_seconds=0)
        stream.complete(1)
        writer.barrier(2)
        stream.complete(2)
    assert stored(table) == {1: Row(1, 0, "b")}


def test_the_files_of_a_task_that_restarts_are_deleted(new_table: NewTable) -> None:
    table = new_table()
    with table.open_stream("job", tasks=1) as stream:
        killed = TaskWriter(stream, 0, StreamFiles(table), limits=SMALL)
        write(killed, Row(1, 0, "lost"))
        write(killed, Row(1, 0, "lost"))
        writer = TaskWriter(stream, 0, StreamFiles(table), limits=SMALL)
        writer.restart(None)
        write(writer, Row(2, 0, "kept"))
        writer.barrier(1)
        [instant] = stream.complete(1)
    assert stored(table) == {2: Row(2, 0, "kept")}
    assert len(list(table.deletions(instant.requested_time))) == 1


def test_partitions_and_deletes_by_key_alone(new_table: NewTable) -> None:
    table = new_table(partition_fields=["name"], ordering_field="ts")
    with table.open_stream("job", tasks=1) as stream:
        writer = TaskWriter(stream, 0, StreamFiles(table))
        write(writer, Row(1, 1, "a"), Row(1, 1, "b"))
        writer.write(pa.table({"name": ["b"], "ts": [2], "id": [1]}), deletes=True)
        writer.barrier(1)
        stream.complete(1)
    assert stored(table) == {1: Row(1, 1, "a")}


@pytest.mark.parametrize(
    ("rows", "deletes", "error", "message"),
    [
        ({"id": [1], "ts": [1]}, False, errors.SchemaMismatch, "lack the columns name"),
        ({"id": [1], "ts": [1], "name": ["a"], "x": [1]}, False, errors.SchemaMismatch, "others: x"),
        ({"id": [1], "ts": ["1"], "name": ["a"]}, False, errors.SchemaMismatch, "column ts is string"),
        ({"id": [1]}, True, errors.SchemaMismatch, "lack the columns ts"),
        ({"id": [1], "ts": NO_NUMBER}, True, errors.InvalidOrderingValue, "is null in 1"),
        ({"id": NO_NUMBER, "ts": [1], "name": ["a"]}, False, errors.InvalidRecordKey, "null or empty"),
        (
            {"id": [1], "ts": [1], "name": ["a"]},
            pa.array([True, False]),
            errors.SchemaMismatch,
            "a boolean for each of the 1 rows",
        ),
    ],
)
def test_rows_that_cannot_be_written_are_refused_before_they_are_buffered(
    new_table: NewTable,
    rows: dict[str, list[object]],
    deletes: pa.Array | bool,
    error: type[Exception],
    message: str,
) -> None:
    table = new_table(ordering_field="ts")
    with table.open_stream("job", tasks=1) as stream:
        writer = TaskWriter(stream, 0, StreamFiles(table))
        with pytest.raises(error, match=message):
            writer.write(pa.table(rows), deletes=deletes)
        assert writer.buffered_bytes == 0
        writer.write(pa.table({"id": [1], "ts": [1], "name": ["a"]}).slice(0, 0))
        assert writer.barrier(1).rows == 0


def test_a_table_that_was_changed_meanwhile_is_refused_with_what_to_do(new_table: NewTable) -> None:
    table = new_table()
    with table.open_stream("job", tasks=1) as stream:
        writer = TaskWriter(stream, 0, StreamFiles(table))
        write(writer, Row(1, 0, "a"))
        table.change_schema([AddColumn("more", "bigint")])
        before = StreamFiles(table)
        with pytest.raises(errors.SchemaMismatch, match="restart the task"):
            writer.barrier(1)
        writer = TaskWriter(stream, 0, before)
        writer.restart(None)
        writer.write(pa.table({"id": [1], "ts": [0], "name": ["a"], "more": [1]}))
        writer.barrier(1)
        [instant] = stream.complete(1)
    assert instant.schema_version == 2


def test_a_table_without_buckets_is_refused(new_table: NewTable) -> None:
    with pytest.raises(errors.TableMismatch, match="bucket index"):
        StreamFiles(new_table(index=BucketIndex(IndexType.SIMPLE)))


def test_the_rows_of_a_bucket_have_memory_of_their_own(new_table: NewTable) -> None:
    files = StreamFiles(new_table(index=BucketIndex(buckets=8)))
    rows = pa.table({"id": range(1_000), "ts": [0] * 1_000, "name": ["x" * 100] * 1_000})
    parts = files.by_bucket(rows, deletes=False)
    assert sum(map(len, parts.values())) == 1_000
    for part in parts.values():
        assert part.get_total_buffer_size() < 2 * part.nbytes
        ids = part["id"].to_pylist()
        assert ids == sorted(ids)
        assert pc.all(pc.equal(part["_chronolake_bucket"], part["_chronolake_bucket"][0])).as_py()
