"""Parquet files and operations: values that would be truncated or misread are refused, without a JVM."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronolake_spark import csv_files, errors, parquet_files
from chronolake_spark.csv_files import ReadOptions

NANOS = pa.timestamp("ns")
WHOLE, CUT = [1_000, None, -1_000], [1_000, None, -1_001]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.parquet"


@pytest.mark.parametrize("int96", [False, True])
def test_times_that_are_no_whole_microseconds_are_refused_with_their_row(file: Path, int96: bool):
    pq.write_table(pa.table({"t": pa.array(WHOLE, NANOS)}), file, use_deprecated_int96_timestamps=int96)
    parquet_files.check([file], None)

    pq.write_table(pa.table({"t": pa.array(CUT, NANOS)}), file, use_deprecated_int96_timestamps=int96)
    with pytest.raises(errors.SourceUnreadable, match=r"a\.parquet, row 3, column t: the time is not a whole"):
        parquet_files.check([file], None)


def test_nanoseconds_within_other_types_are_refused(file: Path):
    rows = pa.array([[{"t": 1}]], pa.list_(pa.struct([("t", NANOS)])))
    pq.write_table(pa.table({"s": rows}), file)

    with pytest.raises(errors.SourceUnreadable, match=r"a\.parquet, column s: .* has nanoseconds"):
        parquet_files.check([file], None)


@pytest.mark.parametrize(
    ("first_type", "second_type"),
    [(pa.int32(), pa.int64()), (pa.decimal128(5, 2), pa.decimal128(10, 4))],
    ids=str,
)
def test_files_of_different_types_are_named_with_the_column(
    file: Path, tmp_path: Path, first_type: pa.DataType, second_type: pa.DataType
):
    second = tmp_path / "b.parquet"
    pq.write_table(pa.table({"id": pa.array([1], pa.int64()), "v": pa.array([None], first_type)}), file)
    pq.write_table(pa.table({"v": pa.array([None], second_type)}), second)

    with pytest.raises(
        errors.SourceUnreadable,
        match=re.escape(f"the column v is {first_type} in {file}, and {second_type} in {second}"),
    ):
        parquet_files.refuse_different_types([file, second])


@pytest.mark.parametrize("operation", ["DEL", "x", "delete!"])
def test_a_value_that_is_no_operation_is_refused_with_its_place(file: Path, tmp_path: Path, operation: str):
    known = ["D", None, " update ", "", "Insert"]
    pq.write_table(pa.table({"Op": [*known, operation]}), file)
    text = tmp_path / "a.csv"
    text.write_text("id,Op\n" + "".join(f"1,{value or ''}\n" for value in [*known, operation]))

    message = f"column Op: '{operation}' is not an operation; rows that delete have d, delete, deleted"
    with pytest.raises(errors.SchemaMismatch, match=f"a.parquet, row 6, {message}"):
        parquet_files.check([file], "op")
    with pytest.raises(errors.SchemaMismatch, match=f"a.csv, line 7, {message}"):
        csv_files.inspect([text], ReadOptions(op_column="op"))
