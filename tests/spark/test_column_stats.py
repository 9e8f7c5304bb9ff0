from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET

from chronolake.slices import base_files
from chronolake.slices.column_stats import COLUMNS_MAX, StatsCollector
from chronolake_metastore.domain import column_stats as checked
from chronolake_metastore.domain.column_stats import Columns
from chronolake_metastore.domain.literals import LiteralKind, order, parse
from chronolake_model.files import ColumnStats, WriteStat


def stats_of(type_: pa.DataType, *chunks: Sequence[Any]) -> ColumnStats:
    """The stats of one column, collected over these tables."""
    schema = pa.schema([pa.field("c", type_)])
    collector = StatsCollector(schema, {"c": 7})
    tables = [pa.table({"c": pa.array(chunk, type_)}, schema=schema) for chunk in chunks]
    assert list(collector.watch(tables)) == tables
    [stats] = collector.stats()
    return stats


@pytest.mark.parametrize(
    ("type_", "chunks", "expected"),
    [
        (pa.bool_(), [[True, None], [False]], ColumnStats(7, False, True, 1)),
        (pa.int64(), [[5, -(2**63)], [None], []], ColumnStats(7, -(2**63), 5, 1)),
        (pa.int8(), [[None, None]], ColumnStats(7, nulls=2)),
        (pa.float64(), [[0.5, math.inf], [-math.inf]], ColumnStats(7, "-Infinity", "Infinity", 0)),
        (pa.float64(), [[1.0], [math.nan], [2.0]], ColumnStats(7, nulls=0)),
        (pa.float32(), [[math.nan, None]], ColumnStats(7, nulls=1)),
        (pa.decimal128(4, 2), [[Decimal("-1.50"), Decimal("10.00")]], ColumnStats(7, "-1.50", "10.00", 0)),
        (pa.decimal128(38, 38), [[Decimal("1E-38")]], ColumnStats(7, f"0.{'0' * 37}1", f"0.{'0' * 37}1", 0)),
        (pa.string(), [["b", "é"], ["", None]], ColumnStats(7, "", "é", 1)),
        (pa.string(), [["a\0", "b"]], ColumnStats(7, UNSET, "b", 0)),
        (pa.string(), [["a" * 65]], ColumnStats(7, "a" * 64, "a" * 63 + "b", 0)),
        (pa.string(), [["\U0010ffff" * 65]], ColumnStats(7, "\U0010ffff" * 64, UNSET, 0)),
        (pa.string(), [["\ud7ff" * 65]], ColumnStats(7, "\ud7ff" * 64, "\ud7ff" * 63 + "\ue000", 0)),
        (pa.date32(), [[date(1969, 1, 2)]], ColumnStats(7, "1969-01-02", "1969-01-02", 0)),
        (
            pa.timestamp("us", "UTC"),
            [[datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2, 0, 0, 0, 5, tzinfo=UTC)]],
            ColumnStats(7, "2026-01-02T00:00:00+00:00", "2026-01-02T00:00:00.000005+00:00", 0),
        ),
        (pa.binary(), [[b"a"]], ColumnStats(7, nulls=0)),
        (pa.list_(pa.int32()), [[[1], None]], ColumnStats(7, nulls=1)),
    ],
)
def test_stats_have_the_least_and_the_greatest_value_and_the_nulls(
    type_: pa.DataType, chunks: Sequence[Sequence[Any]], expected: ColumnStats
) -> None:
    assert stats_of(type_, *chunks) == expected


def test_a_date_beyond_the_calendar_has_no_bounds() -> None:
    beyond = pa.table({"c": pa.array([10**7, 0], pa.int32()).cast(pa.date32())})
    collector = StatsCollector(beyond.schema, {"c": 7})

    assert len(list(collector.watch([beyond]))) == 1

    assert collector.stats() == [ColumnStats(7, nulls=0)]


def test_only_the_first_columns_that_are_wanted_have_stats() -> None:
    names = [f"c{number}" for number in range(COLUMNS_MAX + 5)]
    schema = pa.schema([pa.field(name, pa.int32()) for name in ["other", *names]])

    collector = StatsCollector(schema, {name: number for number, name in enumerate(names, start=1)})

    assert [stats.field_id for stats in collector.stats()] == list(range(1, COLUMNS_MAX + 1))


@pytest.mark.parametrize(
    ("type_", "kind", "values"),
    [
        (
            pa.string(),
            LiteralKind.STRING,
            st.text(max_size=80) | st.text("a\U0010ffff", min_size=60, max_size=70),
        ),
        (pa.float64(), LiteralKind.FLOAT, st.floats()),
        (pa.decimal128(38, 10), LiteralKind.DECIMAL, st.decimals(-(10**20), 10**20, places=10)),
        (pa.date32(), LiteralKind.DATE, st.dates()),
        (pa.timestamp("us"), LiteralKind.TIMESTAMP_NTZ, st.datetimes()),
        (pa.timestamp("us", "UTC"), LiteralKind.TIMESTAMP, st.datetimes(timezones=st.just(UTC))),
    ],
)
@given(st.data())
def test_the_server_takes_the_stats_and_no_value_is_out_of_their_bounds(
    type_: pa.DataType, kind: LiteralKind, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    there = data.draw(st.lists(values | st.none(), min_size=1, max_size=4))
    stats = stats_of(type_, there)

    checked.check(Columns({7: kind}, 7), WriteStat("", "f", "n", 1, len(there), column_stats=[stats]))

    for value in (item for item in there if item is not None):
        assert stats.min is UNSET or order(parse(kind, stats.min)) <= order(value)  # type: ignore[operator]
        assert stats.max is UNSET or order(value) <= order(parse(kind, stats.max))  # type: ignore[operator]


def test_no_row_group_is_held_while_the_next_one_is_made() -> None:
    schema = pa.schema([("id", pa.int64())])
    values: list[weakref.ref[Any]] = []
    held: list[int] = []

    def made(number: int) -> pa.Table:
        held.append(sum(value() is not None for value in values))
        array = np.full(base_files.ROW_GROUP_ROWS, number)
        values.append(weakref.ref(array))
        return pa.table([pa.array(array)], schema=schema)

    tables = StatsCollector(schema, {"id": 1}).watch(map(made, range(4)))
    base_files.write_rows(pa.MockOutputStream(), schema, tables)
    assert held == [0, 0, 0, 0]
