"""Upserts that lack columns, completed with what is stored, against plain Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from chronolake.slices import columns
from chronolake.writing import partial_updates
from chronolake_spark import errors

KEYS = st.sampled_from("abcdef")
VALUES = st.fixed_dictionaries({"tags": st.none() | st.lists(st.text(max_size=2)), "code": st.integers(0, 9)})
TYPES = {"tags": pa.list_(pa.string()), "code": pa.int64()}


def incoming_of(rows: dict[str, tuple[int, bool]]) -> pa.Table:
    """Rows with a price, which may delete, and without the columns of ``TYPES``."""
    return pa.table(
        {
            columns.RECORD_KEY: pa.array(rows, pa.string()),
            columns.DELETE: pa.array([deletes for _, deletes in rows.values()], pa.bool_()),
            "tags": pa.nulls(len(rows), TYPES["tags"]),
            "price": pa.array([price for price, _ in rows.values()], pa.int64()),
            "code": pa.nulls(len(rows), TYPES["code"]),
        }
    )


def stored_of(rows: dict[str, dict[str, Any]]) -> pa.Table:
    values = {name: pa.array([row[name] for row in rows.values()], type_) for name, type_ in TYPES.items()}
    return pa.table({columns.RECORD_KEY: pa.array(rows, pa.string()), **values})


@given(
    st.dictionaries(KEYS, VALUES),
    st.dictionaries(KEYS, st.tuples(st.integers(0, 9), st.booleans())),
    st.booleans(),
)
def test_columns_that_are_lacking_come_from_the_stored_record_of_the_key(
    stored: dict[str, dict[str, Any]], rows: dict[str, tuple[int, bool]], is_required: bool
) -> None:
    new = [key for key, (_, deletes) in rows.items() if key not in stored and not deletes]
    required = {"code", "price"} if is_required else set()

    def completed() -> pa.Table:
        return partial_updates.completed(incoming_of(rows), stored_of(stored), ["tags", "code"], required)

    if new and is_required:
        with pytest.raises(errors.RequiredValueMissing, match="lack the columns code"):
            completed()
        return
    result = completed()
    assert result.schema == incoming_of(rows).schema
    assert {row.pop(columns.RECORD_KEY): row for row in result.to_pylist()} == {
        key: {columns.DELETE: deletes, "price": price, **stored.get(key, {"tags": None, "code": None})}
        for key, (price, deletes) in rows.items()
    }
