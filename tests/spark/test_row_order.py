"""Which of several rows of one key wins, and the outcome of every row that was read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession, functions as sf

import chronolake
from chronolake.cli import main as command_line
from chronolake_spark import RowCounts, SparkTable, errors, row_counts, table as spark_table
from chronolake_spark.write import writes

pytestmark = pytest.mark.spark

KEYS = 7
_SPLIT_BYTES = "spark.sql.files.maxPartitionBytes"
Line = tuple[int, int]


@pytest.fixture
def small_splits(spark: SparkSession) -> Iterator[None]:
    """Spark cuts files into splits of 4,000 bytes."""
    before = spark.conf.get(_SPLIT_BYTES)
    spark.conf.set(_SPLIT_BYTES, "4000")
    yield
    spark.conf.set(_SPLIT_BYTES, before)


def write_csv(file: Path, lines: Sequence[Line]) -> None:
    file.write_text("id,n\n" + "".join(f"{id},{n}\n" for id, n in lines))


def write_json(file: Path, lines: Sequence[Line]) -> None:
    file.write_text("".join(json.dumps({"id": id, "n": n}) + "\n" for id, n in lines))


def write_parquet(file: Path, lines: Sequence[Line]) -> None:
    ids, numbers = zip(*lines, strict=True)
    # Not compressed and without dictionaries: else the file would be too small to be split.
    table = pa.table({"id": pa.array(ids), "n": pa.array(numbers)})
    pq.write_table(table, file, row_group_size=100, use_dictionary=False, compression="none")


@pytest.mark.usefixtures("small_splits")
@pytest.mark.parametrize(
    ("suffix", "write"),
    [("csv", write_csv), ("jsonl", write_json), ("parquet", write_parquet)],
)
def test_the_last_line_of_the_last_file_wins_for_any_split_of_the_files(
    spark: SparkSession,
    shared_server_url: str,
    client: chronolake.Client,
    tmp_path: Path,
    suffix: str,
    write: Callable[[Path, Sequence[Line]], None],
) -> None:
    # Spark reads the largest splits first: that of the first file, which is the smallest, comes last.
    sizes = {"a": 20, "b": 900, "c": 3_000}
    start = 0
    for name, size in sizes.items():
        write(tmp_path / f"{name}.{suffix}", [(n % KEYS, n) for n in range(start, start + size)])
        start += size
    table_name = f"order.of_{suffix}"
    where = ["--url", shared_server_url, "--base-path", str(tmp_path / "table")]
    source = ["--source", str(tmp_path / f"*.{suffix}"), "--key", "id"]
    code = command_line.run(["ingest", "--table", table_name, "--engine", "spark", *where, *source])

    assert code == 0
    table = spark_table(spark, table_name, client=client)
    assert sorted(row.n for row in table.read().collect()) == list(range(start - KEYS, start))
    [instant] = table.metastore.instants()
    assert row_counts(instant) == RowCounts(start, KEYS, 0, 0, start - KEYS, 0)


def test_a_direction_in_the_row_order_is_refused_with_an_expression(spark: SparkSession) -> None:
    assert len(writes.columns_of(["n", -sf.col("n")])) == 2
    for direction in (sf.col("n").desc(), sf.asc_nulls_last("n")):
        with pytest.raises(errors.SchemaMismatch, match=r"an expression such as -col\('n'\)"):
            writes.columns_of(direction)


def test_rows_that_differ_and_that_nothing_orders_are_refused(
    spark: SparkSession, new_table: Callable[..., SparkTable]
) -> None:
    table = new_table(spark.createDataFrame([], "id long, n int"), "id")
    twice = spark.createDataFrame([(1, 10, 1), (1, 11, 2), (2, 20, 1)], "id long, n int, line int")

    with pytest.raises(errors.DuplicateKeys, match="their order is not defined; for example '1'"):
        table.upsert(twice.drop("line"))
    assert table.metastore.snapshot().slices == []
    assert row_counts(table.upsert(twice, row_order=["line"])) == RowCounts(3, 2, 0, 0, 1, 0)
    same = spark.createDataFrame([(2, 21), (2, 21), (3, 30)], "id long, n int")
    assert row_counts(table.upsert(same)) == RowCounts(3, 1, 1, 0, 1, 0)
    gone = row_counts(table.delete(spark.createDataFrame([(3,), (3,), (9,)], "id long")))
    assert gone == RowCounts(3, 0, 0, 1, 1, 1)
    assert {tuple(row) for row in table.read().collect()} == {(1, 11), (2, 21)}


def test_equal_ordering_values_decide_nothing(
    spark: SparkSession, new_table: Callable[..., SparkTable]
) -> None:
    frame = spark.createDataFrame([(1, 5, "a"), (1, 5, "b"), (1, 4, "c")], "id long, at int, v string")
    table = new_table(frame, "id", ordering_field="at")

    with pytest.raises(errors.DuplicateKeys, match="1 rows"):
        table.upsert(frame)
    counts = row_counts(table.upsert(frame, row_order=[frame.v]))
    older = row_counts(table.upsert(spark.createDataFrame([(1, 3, "old")], frame.schema)))

    assert counts == RowCounts(read=3, inserted=1, updated=0, deleted=0, superseded=2, unchanged=0)
    assert older == RowCounts(read=1, inserted=0, updated=0, deleted=0, superseded=0, unchanged=1)
    assert [row.v for row in table.read().collect()] == ["b"]


def test_the_counts_of_a_commit_cannot_be_given_by_the_caller(
    spark: SparkSession, new_table: Callable[..., SparkTable]
) -> None:
    frame = spark.createDataFrame([(1,)], "id long")

    with pytest.raises(ValueError, match=r"rows\.read is written by Chronolake"):
        new_table(frame, "id").upsert(frame, extra_metadata={"rows.read": "9"})
