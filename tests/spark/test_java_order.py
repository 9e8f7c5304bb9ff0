"""Floating-point ordering values compare as in Java: NaN is the largest, and -0.0 is less than 0.0."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from chronolake.slices import columns, log_merge, ordering_values
from chronolake.slices.log_merge import LogContents

NAN = float("nan")
ASCENDING = [-math.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, math.inf, NAN]


def test_values_ascend_as_in_java() -> None:
    integers = ordering_values.comparable(pa.chunked_array([ASCENDING])).to_pylist()
    assert integers == sorted(set(integers))


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
@given(values=st.lists(st.none() | st.floats(width=32)))
def test_values_come_back_bit_by_bit(type_: pa.DataType, values: list[float | None]) -> None:
    array = pa.chunked_array([pa.array(values, type_)])
    back = ordering_values.restored(ordering_values.comparable(array), type_)
    assert back.type == type_
    assert list(map(repr, back.to_pylist())) == list(map(repr, array.to_pylist()))


def test_values_of_other_types_stay() -> None:
    texts = pa.chunked_array([["b", None, "a"]])
    assert ordering_values.comparable(texts) == texts == ordering_values.restored(texts, texts.type)


@pytest.mark.parametrize("stored", ASCENDING)
@pytest.mark.parametrize("later", ASCENDING)
def test_of_a_record_and_a_later_one_in_a_log_the_larger_value_wins_and_of_equals_the_later(
    stored: float, later: float
) -> None:
    base = pa.table({columns.RECORD_KEY: ["1"], "ts": [stored]})
    records = pa.table({columns.RECORD_KEY: ["1"], "ts": [later], columns.COMMIT_TIME: ["2"]})
    deletes = pa.table({log_merge.KEY: pa.array([], pa.string()), log_merge.TIME: pa.array([], pa.string())})
    deletes = deletes.append_column(*log_merge.orderings(1), pa.array([], pa.float64()))

    changes = log_merge.latest_changes(LogContents(records, deletes, records[columns.COMMIT_TIME]), ["ts"])
    [is_kept], _ = log_merge.surviving(base, changes)

    assert is_kept == (_place(stored) > _place(later))


def _place(value: float) -> int:
    return list(map(repr, ASCENDING)).index(repr(value))
