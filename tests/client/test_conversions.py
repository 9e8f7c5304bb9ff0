"""Conversions of columns in Arrow to the types of a table: no value changes."""

from __future__ import annotations

import contextlib
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest

from chronolake.slices import arrow_types
from chronolake.slices.errors import SchemaMismatch
from chronolake.writing import conversions, python_values
from chronolake_model import column_types
from chronolake_model.tables import SchemaField


def converted(type_: str, values: pa.Array | pa.ChunkedArray) -> list[Any]:
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    result: list[Any] = conversions.converted(column, SchemaField("v", type_, field_id=1)).to_pylist()
    return result


def of_polars(values: list[Any]) -> pa.ChunkedArray:
    return pa.RecordBatchReader.from_stream(polars.DataFrame({"v": values})).read_all()["v"]


DAY, NOON_UTC = date(2024, 1, 1), datetime(2024, 1, 1, 12, tzinfo=UTC)
NOON = NOON_UTC.replace(tzinfo=None)
ROW = {"a": 1.0, "b": Decimal("1.5"), "c": 1, "d": None}
LISTS = pa.array([[{"x": 2, "y": 1}], None, [{"x": 4, "y": 3}, None], []])
MAPS = pa.array(
    [[("a", {"x": 2, "y": 1})], None, [("b", {"x": 4, "y": 3})]],
    pa.map_(pa.string(), pa.struct({"x": pa.int64(), "y": pa.int64()})),
)


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        ("int", pa.array([1.0, None]), [1, None]),
        ("int", pa.array(["12", "-3"]), [12, -3]),
        ("int", pa.nulls(1), [None]),
        ("bigint", pa.array([1], pa.uint64()), [1]),
        ("float", pa.array([0.5, None]), [0.5, None]),
        ("decimal(10,2)", pa.array([12]), [Decimal("12.00")]),
        ("decimal(4,2)", pa.array([1.25]), [Decimal("1.25")]),
        ("decimal(10,2)", pa.array([n / 100 for n in range(1000)]), [Decimal(n) / 100 for n in range(1000)]),
        ("decimal(4,1)", pa.array([0.1], pa.float32()), [Decimal("0.1")]),
        ("double", pa.array([Decimal("12.300000000000000")], pa.decimal128(18, 15)), [12.3]),
        ("date", pa.array([0], pa.timestamp("us")), [date(1970, 1, 1)]),
        ("string", pa.array(["a", None]).dictionary_encode(), ["a", None]),
        ("string", pa.array([1]), ["1"]),
        ("array<string>", of_polars([["a", None], None]), [["a", None], None]),
        ("array<int>", pa.array([[1]]), [[1]]),
        ("array<double>", pa.array([[1], None]), [[1.0], None]),
        ("array<decimal(4,2)>", pa.array([[Decimal("1.5")]]), [[Decimal("1.50")]]),
        ("struct<y:bigint,x:string>", of_polars([{"x": "a", "y": 1}]), [{"y": 1, "x": "a"}]),
        (
            "array<struct<y:bigint,x:string>>",
            of_polars([[{"x": "a", "y": 1}], None]),
            [[{"y": 1, "x": "a"}], None],
        ),
        ("array<struct<y:bigint,x:bigint>>", LISTS.slice(1), [None, [{"y": 3, "x": 4}, None], []]),
        (
            "array<array<struct<y:bigint,x:bigint>>>",
            pa.array([LISTS.to_pylist()], pa.list_(LISTS.type)),
            [[[{"y": 1, "x": 2}], None, [{"y": 3, "x": 4}, None], []]],
        ),
        ("map<bigint,int>", pa.array([[(1, 1)]], pa.map_(pa.int32(), pa.int32())), [[(1, 1)]]),
        ("map<string,struct<y:bigint,x:bigint>>", MAPS.slice(1), [None, [("b", {"y": 3, "x": 4})]]),
    ],
)
def test_a_value_that_the_type_holds_is_converted(type_: str, values: pa.Array, expected: list[Any]) -> None:
    assert converted(type_, values) == expected


@pytest.mark.parametrize(
    ("type_", "values", "message"),
    [
        ("int", pa.array([1.5]), "cannot hold every value"),
        ("int", pa.array([2**40]), "cannot hold every value"),
        ("int", pa.array(["1.5"]), "the string '1.5' does not fit int"),
        ("int", pa.array([True]), "cast it yourself"),
        ("float", pa.array([0.1]), "cannot hold every value"),
        ("double", pa.array([2**60 + 1]), "cannot hold every value"),
        ("decimal(10,2)", pa.array([10**9]), "cannot hold every value"),
        ("decimal(4,2)", pa.array([Decimal("1.255")]), "cannot hold every value"),
        ("date", pa.array([1], pa.timestamp("us")), "cannot hold every value"),
        ("timestamp", pa.array([0], pa.timestamp("us")), "give it a time zone"),
        ("timestamp", pa.array(["2024-01-01 12:00:00"]), "does not fit timestamp; give the time with its zone"),
        ("timestamp", pa.array([1], pa.timestamp("ns", "UTC")), "cannot hold every value"),
        ("timestamp", pa.array([1]), "with its unit"),
        ("string", pa.array([b"x"]), "convert it to strings yourself"),
        ("string", pa.array([1.5]), "convert it to strings yourself"),
        ("array<int>", pa.array([[2**40]]), "cannot hold every value"),
        ("array<float>", pa.array([[0.1]]), "cannot hold every value"),
        ("array<float>", pa.array([[2**24 + 1]]), "cannot hold every value"),
        ("array<double>", pa.array([[2**53 + 1]]), "cannot hold every value"),
        ("array<decimal(4,2)>", pa.array([[Decimal("1.125")]]), "cannot hold every value"),
        ("array<decimal(4,2)>", pa.array([[Decimal("123.5")]]), "cannot hold every value"),
        ("array<struct<a:int>>", pa.array([[{"a": "1"}]]), "cannot hold every value"),
        ("struct<a:timestamp>", pa.array([{"a": NOON}]), "cannot hold every value"),
        ("struct<a:int>", pa.array([{"a": 1, "c": 2}]), "cannot hold every value"),
        ("struct<x:int>", pa.array([{"x": 1, "X": 2}]), "cannot hold every value"),
        ("decimal(4,2)", pa.array([1.155]), "cannot hold every value"),
        ("decimal(4,2)", pa.array([1.15 + 1e-15]), "cannot hold every value"),
    ],
)
def test_a_value_that_would_change_is_refused(type_: str, values: pa.Array, message: str) -> None:
    with pytest.raises(SchemaMismatch, match=message) as refused:
        converted(type_, values)
    assert "frame" not in str(refused.value), "the rows may be those of files"


@pytest.mark.parametrize("zone", ["Z", "+01:00"])
def test_a_string_with_a_zone_is_a_time(zone: str) -> None:
    [time] = converted("timestamp", pa.array([f"2024-01-01 12:00:00{zone}"]))
    assert time == datetime.fromisoformat(f"2024-01-01T12:00:00{zone}")


NANOSECONDS = pandas.Timestamp("2024-01-01 00:00:00.123456789")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([DAY, None, NOON], "is a time without a zone, and another value is a date"),
        ([NOON, DAY], "is a date, and another value is a time without a zone"),
        ([NOON_UTC, NOON], "another value is a time with a zone"),
        ([NOON, NOON_UTC], "another value is a time without a zone"),
        ([NANOSECONDS], "has nanoseconds"),
        ([{"a": NANOSECONDS}], "column v.a: .* has nanoseconds"),
        ([{"a": DAY}, None, {"a": NOON}], "column v.a: .* another value is a date"),
        ([[DAY], [NOON]], "another value is a date"),
    ],
)
def test_times_that_arrow_would_change_are_refused(values: list[Any], message: str) -> None:
    with pytest.raises(SchemaMismatch, match=message):
        python_values.table_of({"v": values})


@pytest.mark.parametrize("values", ["42", b"42", bytearray(b"42"), memoryview(b"42"), {4, 2}, {4: 2}, 42, None])
def test_a_value_that_is_no_column_is_refused_and_not_split(values: Any) -> None:
    with pytest.raises(SchemaMismatch, match=r"column id: .* give a list, with one value"):
        python_values.table_of({"id": values})


@pytest.mark.parametrize(
    "values", [range(2), (0, 1), iter([0, 1]), pandas.Series([0, 1]), polars.Series([0, 1])]
)
def test_a_column_may_be_any_sequence(values: Any) -> None:
    assert python_values.table_of({"id": values})["id"].to_pylist() == [0, 1]


def test_times_of_one_kind_are_taken() -> None:
    columns = {"v": iter([NOON, None]), "w": [{"a": DAY, "b": NOON_UTC}, None], "x": pa.array([1, 2])}
    assert python_values.table_of(columns).to_pylist() == [
        {"v": NOON, "w": {"a": DAY, "b": NOON_UTC}, "x": 1},
        {"v": None, "w": None, "x": 2},
    ]


def test_integers_of_python_beyond_64_bits_are_decimals() -> None:
    assert python_values.table_of({"v": [2**70, None, -1]})["v"].to_pylist() == [2**70, None, -1]


TYPES = ("boolean", "int", "double", "decimal(4,2)", "string", "binary", "date", "timestamp", "timestamp_ntz")
NUMBERS = {"int", "double", "decimal(4,2)"}
TAKEN = {
    "boolean": {"string"},
    "int": NUMBERS | {"string"},
    "double": NUMBERS,
    "decimal(4,2)": NUMBERS,
    "string": set(TYPES),
    "binary": set[str](),
    "date": {"timestamp_ntz", "string"},
    "timestamp": set[str](),
    "timestamp_ntz": {"date"},
}
"""For each type of a file, the other types of columns that may take its values."""
VALUES = {
    "boolean": True,
    "int": 1,
    "double": 1.0,
    "decimal(4,2)": Decimal("1.00"),
    "string": "1",
    "binary": b"1",
    "date": DAY,
    "timestamp": NOON_UTC,
    "timestamp_ntz": NOON.replace(hour=0),
}


@pytest.mark.parametrize(
    ("given", "wanted", "is_taken"),
    [
        ("struct<t:timestamp_ntz>", "struct<t:timestamp>", False),
        ("array<double>", "array<string>", False),
        ("map<string,array<double>>", "map<string,array<string>>", False),
        ("array<int>", "array<bigint>", True),
    ],
)
def test_the_rule_holds_within_nested_types(given: str, wanted: str, *, is_taken: bool) -> None:
    assert (conversions.other_kind(given, wanted) is None) == is_taken


@pytest.mark.parametrize("wanted", TYPES)
@pytest.mark.parametrize("given", TYPES)
def test_one_rule_says_which_types_of_files_a_column_takes(given: str, wanted: str) -> None:
    is_taken = given == wanted or wanted in TAKEN[given]
    values = pa.array([VALUES[given]], arrow_types.of(column_types.parse(given)))

    assert (conversions.other_kind(given, wanted) is None) == is_taken
    if given != "string":
        with contextlib.nullcontext() if is_taken else pytest.raises(SchemaMismatch, match="not converted"):
            converted(wanted, values)
