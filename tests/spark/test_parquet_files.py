"""Parquet files and operations: values that would be truncated or misread are refused, without a JVM."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronolake.ingest import csv_files, parquet_files
from chronolake.ingest.csv_files import ReadOptions
from chronolake_spark import errors

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


@pytest.mark.parametrize("sign", [1, -1])
def test_milliseconds_that_no_timestamp_holds_are_refused_with_their_row(file: Path, sign: int):
    last = sign * ((2**63 - 1) // 1000)
    pq.write_table(pa.table({"t": pa.array([None, last], pa.timestamp("ms"))}), file)
    parquet_files.check([file], None)

    pq.write_table(pa.table({"t": pa.array([None, last, last + sign], pa.timestamp("ms"))}), file)
    with pytest.raises(errors.SourceUnreadable, match=r"a\.parquet, row 3, column t: the time is not within"):
        parquet_files.check([file], None)


def test_nanoseconds_within_other_types_are_refused(file: Path):
    rows = pa.array([[{"t": 1}]], pa.list_(pa.struct([("t", NANOS)])))
    pq.write_table(pa.table({"s": rows}), file)

    with pytest.raises(errors.SourceUnreadable, match=r"a\.parquet, column s: .* has nanoseconds"):
        parquet_files.check([file], None)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (pa.array([1], pa.duration("ns")), "duration[ns]"),
        (pa.array([1], pa.time32("ms")), "time32[ms]"),
        (pa.array([1], pa.time64("ns")), "time64[ns]"),
        (pa.array([1.5], pa.float16()), "halffloat"),
        (pa.array([Decimal(1)], pa.decimal256(39, 0)), "decimal256(39, 0)"),
        (pa.array([bytes(16)], pa.uuid()), "extension<arrow.uuid>"),
        (pa.array([1], pa.bool8()), "extension<arrow.bool8>"),
    ],
    ids=["duration", "time32", "time64", "float16", "decimal256", "uuid", "bool8"],
)
def test_types_that_no_table_has_are_refused_with_their_column(file: Path, values: pa.Array, type_: str):
    pq.write_table(pa.table({"id": [1], "v": values}), file)
    with pytest.raises(errors.SourceUnreadable) as refused:
        parquet_files.check([file], None)
    assert f"a.parquet, column v: tables have no type for {type_}; write " in str(refused.value)

    pq.write_table(pa.table({"id": [1], "s": pa.StructArray.from_arrays([values], ["v"])}), file)
    with pytest.raises(errors.SourceUnreadable, match=r"column s\.v: tables have no type"):
        parquet_files.check([file], None)


@pytest.mark.parametrize(
    ("rows", "where"),
    [
        (pa.table([[1], [2]], names=["id", ""]), "of column 2 is empty"),
        (pa.table({"s": pa.StructArray.from_arrays([pa.array([1])], [""])}), r"of column 's\.' is empty"),
    ],
    ids=["column", "field"],
)
def test_an_empty_name_is_refused_with_its_place(file: Path, rows: pa.Table, where: str):
    pq.write_table(rows, file)

    with pytest.raises(errors.SourceUnreadable, match=where):
        parquet_files.check([file], None)


def test_columns_of_nulls_without_a_type_are_those_that_have_none_in_any_file(file: Path, tmp_path: Path):
    second = tmp_path / "b.parquet"
    pq.write_table(pa.table({"id": [1], "n": pa.nulls(1), "m": pa.nulls(1)}), file)
    pq.write_table(pa.table({"id": [1], "n": pa.nulls(1), "m": ["x"]}), second)

    assert parquet_files.untyped_columns([file, second]) == ["n"]


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


def test_int96_is_another_type_than_a_time_without_a_zone(file: Path) -> None:
    times = pa.table({"t": pa.array(WHOLE, pa.timestamp("us"))})
    pq.write_table(times, file)
    second = file.with_name("second.parquet")
    pq.write_table(times, second, use_deprecated_int96_timestamps=True)

    for files in ([file, second], [second, file]):
        with pytest.raises(errors.SourceUnreadable, match="of INT96"):
            parquet_files.refuse_different_types(files)


def test_int96_inside_a_struct_is_refused(file: Path) -> None:
    nested = pa.array([{"at": 1}], pa.struct({"at": pa.timestamp("ns")}))
    pq.write_table(pa.table({"s": nested}), file, use_deprecated_int96_timestamps=True)

    with pytest.raises(errors.SourceUnreadable, match=r"column s\.at: INT96 has nanoseconds"):
        parquet_files.check([file], None)
