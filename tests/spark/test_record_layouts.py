"""The order of records in clustered files: sorts with little memory, and curves through several columns."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings, strategies as st

from chronolake.slices import ordering_values
from chronolake_model.file_sizes import FileSizes
from chronolake_spark import errors
from chronolake_spark.services import curves, sorting
from chronolake_spark.services.clustering import RecordLayout
from chronolake_spark.services.curves import Curve, Numbers, Ranks
from tests.examples import examples

SORTED_VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [None, False, True]),
    (pa.int8(), [None, -2, 0, 1]),
    (pa.int64(), [None, -(2**63), 0, 2**63 - 1]),
    (pa.float64(), [None, float("-inf"), -0.5, 2.5, float("nan")]),
    (pa.string(), [None, "", "a", "ab", "\U0001f600"]),
    (pa.binary(), [None, b"", b"\x00", b"\xff"]),
    (pa.date32(), [None, date(1960, 1, 1), date(2026, 1, 1)]),
    (pa.timestamp("us", tz="UTC"), [None, datetime(1960, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)]),
    (pa.decimal128(10, 2), [None, Decimal("-3.25"), Decimal("1.50")]),
]


def grid(columns: int, bits: int) -> list[Numbers]:
    """All points of a cube, by column."""
    axes = np.meshgrid(*[np.arange(1 << bits, dtype=np.uint64)] * columns, indexing="ij")
    return [axis.reshape(-1).copy() for axis in axes]


@pytest.mark.parametrize(("columns", "bits"), [(2, 1), (2, 4), (3, 3), (4, 2), (5, 2)])
@pytest.mark.parametrize("curve", Curve)
def test_a_curve_visits_each_point_once(curve: Curve, columns: int, bits: int) -> None:
    points = grid(columns, bits)
    assert sorted(curves.positions(curve, points, bits).tolist()) == list(range(len(points[0])))


@pytest.mark.parametrize(("columns", "bits"), [(2, 5), (3, 3), (4, 2)])
def test_a_step_on_hilberts_curve_changes_one_column_by_one(columns: int, bits: int) -> None:
    points = grid(columns, bits)
    order = np.argsort(curves.positions(Curve.HILBERT, points, bits))
    steps = [np.abs(np.diff(axis[order].astype(np.int64))) for axis in points]
    assert np.array_equal(np.sum(steps, axis=0), np.ones(len(order) - 1))


def test_z_order_interleaves_the_bits_of_columns() -> None:
    points = [np.array([0b10], np.uint64), np.array([0b01], np.uint64)]
    assert curves.positions(Curve.Z_ORDER, points, 2).tolist() == [0b1001]


@pytest.mark.parametrize(("type_", "values"), SORTED_VALUES, ids=lambda value: str(value)[:12])
def test_ranks_and_sorts_order_values_of_each_type_with_null_first(
    type_: pa.DataType, values: list[Any]
) -> None:
    column = ordering_values.comparable(pa.chunked_array([pa.array(values, type_)]))
    ranks = Ranks(column, 8).of(column).tolist()
    assert ranks == sorted(set(ranks))
    assert ranks[0] == 0

    mixed = [*values[::-1], *values]
    rows = pa.table({"value": pa.array(mixed, type_), "row": np.arange(len(mixed))})
    ordered = pa.concat_tables(
        sorting.in_order([rows], lambda table: [ordering_values.comparable(table["value"])])
    )
    expected = pa.array([value for value in values for _ in range(2)], type_)
    # NaN equals itself as a text only.
    assert str(ordered["value"].combine_chunks()) == str(expected)


def test_ranks_use_all_bits_for_values_that_begin_alike() -> None:
    texts = pa.chunked_array([[f"https://lake/{number:04}" for number in range(1_000)]])
    ranks = Ranks(texts, 4).of(texts)
    assert np.unique(ranks).tolist() == list(range(1, 16))
    assert ranks.tolist() == sorted(ranks.tolist())


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 9) | st.none(), st.text("ab", max_size=2)), max_size=40), max_size=12
    ),
    st.sampled_from([200, 2_000, 1 << 20]),
)
@settings(max_examples=examples(80), deadline=None)
def test_a_sort_in_little_memory_gives_the_rows_of_a_stable_sort(
    parts: list[list[tuple[int | None, str]]], held_bytes_max: int
) -> None:
    numbers = itertools.count()
    schema = pa.schema([("a", pa.int64()), ("b", pa.dictionary(pa.int32(), pa.string())), ("row", pa.int64())])
    tables = [
        pa.Table.from_pylist([{"a": a, "b": b, "row": next(numbers)} for a, b in part], schema=schema)
        for part in parts
    ]
    ordered = sorting.in_order(tables, lambda rows: [rows["a"], rows["b"].cast(pa.string())], held_bytes_max)
    rows = [tuple(row.values()) for table in ordered for row in table.to_pylist()]
    given_rows = [tuple(row.values()) for table in tables for row in table.to_pylist()]
    assert rows == sorted(given_rows, key=lambda row: (row[0] is not None, row[0] or 0, row[1]))


def test_a_sort_of_many_runs_holds_few_of_their_rows() -> None:
    random = np.random.default_rng(7)
    held = 1 << 20
    before = pa.total_allocated_bytes()
    largest = 0

    def parts() -> Any:
        for _ in range(64):
            yield pa.table({"key": random.integers(0, 1 << 40, 16_000), "payload": random.random(16_000)})

    keys = []
    for rows in sorting.in_order(parts(), lambda table: [table["key"]], held):
        largest = max(largest, pa.total_allocated_bytes() - before)
        keys.append(rows["key"])
        keys[-1] = pc.min_max(keys[-1]).as_py()
    assert largest < 8 * held
    assert all(first["max"] <= second["min"] for first, second in itertools.pairwise(keys))


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({"hoodie.clustering.plan.strategy.sort.columns": "nothing"}, "no column nothing"),
        ({"hoodie.clustering.plan.strategy.sort.columns": "tags"}, "tags has the type list"),
        ({"hoodie.layout.optimize.strategy": "spiral"}, "linear, zorder, z-order, hilbert"),
        ({"hoodie.clustering.plan.strategy.target.file.max.bytes": "1 GB"}, "number of bytes"),
    ],
)
def test_a_layout_that_a_table_cannot_have_is_refused(details: dict[str, str], message: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))])
    with pytest.raises(errors.TableMismatch, match=message):
        RecordLayout.of(details, schema, FileSizes())
