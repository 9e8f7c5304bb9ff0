"""The stored rows that a merge keeps, from a file in memory and without a JVM."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from chronolake import field_ids
from chronolake.slices import columns
from chronolake.writing import kept_rows
from chronolake.writing.kept_rows import KeptRows
from chronolake_model.tables import SchemaField

_ROWS = 12
_STORED = pa.schema(
    [
        (columns.RECORD_KEY, pa.string()),
        (columns.FILE_NAME, pa.string()),
        ("n", pa.int32()),
        ("f", pa.float64()),
        ("gone", pa.string()),
        ("s", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])),
    ]
)
_FIELDS = [
    SchemaField("n", "int", field_id=1),
    SchemaField("f", "double", field_id=2),
    SchemaField("gone", "string", field_id=3),
    SchemaField("s", "struct<x:bigint,y:array<string>>", field_id=4),
]


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "_PORTION_BYTES", 100)


@settings(max_examples=20)
@given(st.lists(st.booleans(), min_size=_ROWS, max_size=_ROWS), st.integers(1, _ROWS), st.booleans())
def test_the_kept_rows_come_in_the_present_layout(kept: list[bool], group_rows: int, at_once: bool) -> None:
    numbers = range(_ROWS)
    rows = pa.table(
        {
            columns.RECORD_KEY: [f"k{number}" for number in numbers],
            columns.FILE_NAME: ["f"] * _ROWS,
            "n": [None if number % 3 == 0 else number for number in numbers],
            "f": [float("nan") if number % 5 == 0 else number / 2 for number in numbers],
            "gone": ["g" * 40] * _ROWS,
            "s": [None if number % 4 == 0 else {"x": number, "y": [str(number)]} for number in numbers],
        },
        schema=_STORED,
    )
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=group_rows)
    file = pq.ParquetFile(sink.getvalue(), read_dictionary=[columns.FILE_NAME])
    stored = field_ids.by_names(file.schema_arrow, _FIELDS)
    wider = [
        field.with_type(pa.int64()) if field.name == "n" else field for field in stored if field.name != "gone"
    ]
    new = field_ids.by_names(pa.schema([pa.field("new", pa.int32())]), [SchemaField("new", "int", field_id=9)])
    layout = pa.schema([*wider, *new])

    known = file.read(columns=[columns.RECORD_KEY])
    reading = KeptRows(file, stored, layout, known, np.array(kept))
    tables = list(reading.tables(at_once=at_once))

    expected = rows.filter(pa.array(kept)).drop_columns(["gone"])
    found = pa.concat_tables(tables).select(expected.column_names)
    assert [len(table) for table in tables] == [
        sum(kept[start : start + group_rows]) for start in range(0, _ROWS, group_rows)
    ]
    assert all(table.schema.equals(layout) for table in tables)
    assert str(found.to_pylist()) == str(expected.to_pylist())
