"""Types of CSV columns: which are inferred, and how values are converted, without a JVM."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from chronolake.ingest import csv_advice, csv_files, csv_profiles
from chronolake.ingest.csv_files import ReadOptions
from chronolake.writing import csv_types
from chronolake_spark import errors


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.csv"


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "-20", "0"], "bigint"),
        (["9223372036854775807", "-9223372036854775808"], "bigint"),
        (["9223372036854775808"], "string"),
        (["007", "8"], "string"),
        (["-0"], "string"),
        (["+1"], "string"),
        ([" 1"], "string"),
        (["1_000"], "string"),
        (["1.50", "2.00", "-0.25"], "decimal(18,2)"),
        (["1.1", "1.10", "1.9"], "string"),
        (["1.5", "2"], "string"),
        (["2", "1.5"], "string"),
        (["0.0", "-0.0"], "string"),
        (["-0.01", "0.00", "-0.10"], "decimal(18,2)"),
        (["+1.5"], "string"),
        (["1."], "string"),
        (["0." + "1" * 37], "decimal(38,37)"),
        (["0." + "1" * 39], "string"),
        (["12345678901234567890.12", "1.00"], "decimal(38,2)"),
        (["1234567890123456789012345678901234567.89"], "string"),
        (["01.5"], "string"),
        ([".5"], "string"),
        (["1e5", "2"], "string"),
        (["NaN", "1.5"], "string"),
        (["true", "false"], "boolean"),
        (["true", "TRUE"], "string"),
        (["True"], "string"),
        (["true", "yes"], "string"),
        (["1", "true"], "string"),
        (["2026-01-31", "0001-01-01"], "date"),
        (["2026-02-30"], "string"),
        (["2026-1-31"], "string"),
        (["2026-01-31", "2026-01-31 10:00:00"], "string"),
        (["2026-01-31 10:00:00.100000", "2026-01-31 10:00:00.123456"], "timestamp_ntz"),
        (["2026-01-31 10:00:00.1", "2026-01-31 10:00:00.100"], "string"),
        (["2026-01-31 10:00:00", "2026-01-31 10:00:00.0"], "string"),
        (["2026-01-31T10:00:00"], "timestamp_ntz"),
        (["2026-01-31 10:00:00", "2026-01-31T10:00:00"], "string"),
        (["2026-01-31 10:00:00.1234567"], "string"),
        (["2026-01-31T10:00:00Z", "2026-01-31T11:00:00Z"], "timestamp"),
        (["2026-01-31T10:00:00+02:00", "2026-01-31T11:00:00+02:00"], "timestamp"),
        (["2026-01-31T10:00:00Z", "2026-01-31T12:00:00+02:00"], "string"),
        (["2026-01-31 24:00:00"], "string"),
        (["2026-01-31T10:00:00Z", "2026-01-31T10:00:00"], "string"),
        (['""', "1"], "string"),
        (["", ""], "string"),
    ],
    ids=" ".join,
)
def test_a_type_is_inferred_only_where_every_value_could_be_written_back(
    file: Path, values: list[str], type_: str
):
    file.write_text("id,v\n" + "".join(f"1,{value}\n" for value in values))

    assert csv_files.inspect([file], ReadOptions()).profiles["v"].type == type_


def test_all_rows_of_all_files_decide_the_type(file: Path):
    file.write_text("id,v\n" + "1,2\n" * 1_200_000)  # More than one block of Arrow's reader.
    last = file.with_name("b.csv")
    last.write_text("v,id\n2,1\n007,1\n")
    inspection = csv_files.inspect([file, last], ReadOptions())

    assert (inspection.rows, inspection.profiles["v"].type, inspection.profiles["id"].type) == (
        1_200_002,
        "string",
        "bigint",
    )


@given(
    st.lists(st.sampled_from(["9", "10", "9.5", "+1", "007", "1e5", "", "x", "2026-01-31"]), max_size=6),
    st.data(),
)
def test_the_inferred_type_of_a_column_does_not_depend_on_its_batches(values: list[str], data: st.DataObject):
    cut = data.draw(st.integers(0, len(values)))
    whole, first, second = (csv_profiles.Profile() for _ in range(3))
    whole.add(pa.array(values, pa.string()))
    first.add(pa.array(values[:cut], pa.string()))
    second.add(pa.array(values[cut:], pa.string()))
    first.merge(second)

    assert first.type == whole.type
    assert first.value_summary.kind == whole.value_summary.kind
    assert first.value_summary.is_ordered_as_text == whole.value_summary.is_ordered_as_text
    assert whole.value_summary.kind is csv_profiles.ValueKind.TEXT or (
        first.value_summary.type == whole.value_summary.type
    )


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        ("007", "bigint", 7),
        ("+7", "int", 7),
        ("12345678901234567890.12", "double", 12345678901234567890.12),
        ("1.5", "decimal(10,2)", 1.5),
        (".5", "decimal(10,2)", 0.5),
        ("-5.", "double", -5),
        ("TRUE", "boolean", True),
    ],
)
def test_a_type_that_the_caller_states_takes_other_ways_to_write_a_value(
    value: str, type_: str, expected: float
):
    assert csv_types.convert(pa.array([value, None]), type_, stated=True).to_pylist() == [expected, None]
    with pytest.raises(csv_types.ValueMismatch):
        csv_types.convert(pa.array([None, value]), type_, stated=False)


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("16777217", "float"),
        ("+16777217.", "float"),
        ("16777217.00", "float"),
        ("9007199254740993", "double"),
        ("12345678901234567890", "double"),
    ],
)
def test_a_whole_number_that_would_change_is_refused_also_for_a_stated_type(value: str, type_: str):
    with pytest.raises(csv_types.ValueMismatch):
        csv_types.convert(pa.array([None, value]), type_, stated=True)


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        ("16777216", "float", 16777216),
        ("16777218.0", "float", 16777218),
        ("0.1", "float", 0.10000000149011612),
        ("16777217.5", "float", 16777218),
        ("9007199254740992", "double", 9007199254740992),
        ("1e23", "double", 1e23),
        ("-0", "double", 0),
    ],
)
def test_a_stated_float_is_the_nearest_to_a_fraction_and_equals_a_whole_number(
    value: str, type_: str, expected: float
):
    assert csv_types.convert(pa.array([value]), type_, stated=True).to_pylist() == [expected]


def test_a_number_that_is_too_large_for_a_double_is_never_infinity():
    assert csv_types.convert(pa.array(["inf"]), "double", stated=True).to_pylist() == [float("inf")]
    with pytest.raises(csv_types.ValueMismatch):
        csv_types.convert(pa.array(["1", "1e400"]), "double", stated=True)


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("1" * 38, "decimal(38,2)"),
        ("1" * 40, "decimal(38,0)"),
        ("1" * 40, "decimal(18,0)"),
        ("0." + "1" * 45, "decimal(38,38)"),
    ],
)
@pytest.mark.parametrize("stated", [True, False])
def test_a_number_of_too_many_digits_is_never_another_number(value: str, type_: str, stated: bool):
    with pytest.raises(csv_types.ValueMismatch):
        csv_types.convert(pa.array([None, value]), type_, stated=stated)


def test_values_that_only_different_files_write_differently_make_a_string(file: Path):
    file.write_text("id\n\n1.1\n1.9\n")
    other, empty = file.with_name("b.csv"), file.with_name("c.csv")
    other.write_text("id\n1.10\n")
    empty.write_text("id\n")

    assert csv_files.inspect([empty, file, empty], ReadOptions()).profiles["id"].type == "decimal(18,1)"
    assert csv_files.inspect([empty, file, other], ReadOptions()).profiles["id"].type == "string"


def test_files_without_a_row_do_not_decide_types():
    with pytest.raises(errors.SchemaMismatch, match="hold no row, so the types of n cannot be inferred"):
        csv_advice.check_types_known(["n"], 0)
    csv_advice.check_types_known([], 0)
    csv_advice.check_types_known(["id"], 1)
    csv_advice.check_types_known(["id"], None)


WHOLE = st.sampled_from(["0", "-0", "1", "-1", "01", "+1", "true", "TRUE", "x"]) | st.from_regex(
    r"\A-?[0-9]{1,22}\Z"
)


FRACTION = st.sampled_from(["", ".0", ".1", ".10", ".00", ".01"]) | st.from_regex(r"\A\.[0-9]{1,20}\Z")


TIMES = st.builds(
    "2026-01-{}{}1{}:00:00{}{}".format,
    st.sampled_from(["30", "31", "32"]),
    st.sampled_from(" T"),
    st.integers(0, 2),
    st.sampled_from(["", ".1", ".10", ".100000"]),
    st.sampled_from(["", "Z", "+00:00", "+01:00"]),
)


@given(
    st.lists(st.builds(str.__add__, WHOLE, FRACTION))
    | FRACTION.flatmap(lambda fraction: st.lists(WHOLE.map(lambda whole: whole + fraction)))
    | st.lists(TIMES, max_size=3)
)
def test_values_written_differently_never_become_one_value_of_the_inferred_type(values: list[str]):
    array = pa.array(values, pa.string())
    profile = csv_profiles.Profile()
    profile.add(array)
    converted = csv_types.convert(array, profile.type, stated=False).to_pylist()

    assert len(set(converted)) == len(set(values))
    for value, stored in zip(values, converted, strict=True):
        if isinstance(stored, Decimal):
            assert format(stored, "f") == value
        elif not isinstance(stored, datetime.datetime):
            assert value == (str(stored).lower() if isinstance(stored, bool) else str(stored))
