from __future__ import annotations

import decimal

import pyarrow as pa

from chronolake_spark import base_files


def test_a_file_of_an_earlier_schema_is_read_in_the_present_layout() -> None:
    stored = pa.table(
        {
            "id": pa.array([1, 2], pa.int8()),
            "price": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(4, 2)),
            "rate": pa.array([0.5, 1.5], pa.float32()),
            "gone": ["a", "b"],
        }
    )
    schema = pa.schema(
        [("note", pa.string()), ("number", pa.int64()), ("price", pa.decimal128(9, 2)), ("rate", pa.float64())]
    )

    now = base_files.in_layout(stored, schema, {"number": "id", "price": "price", "rate": "rate"})

    assert now.schema == schema
    assert now.to_pylist() == [
        {"note": None, "number": 1, "price": decimal.Decimal("1.50"), "rate": 0.5},
        {"note": None, "number": 2, "price": None, "rate": 1.5},
    ]
