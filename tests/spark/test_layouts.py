"""Base files of earlier schemas in the present layout, with field ids and without, also of nested fields."""

from __future__ import annotations

import decimal
import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from chronolake import field_ids
from chronolake.slices import columns, layouts
from chronolake_model import nested_fields
from chronolake_model.tables import Field, NestedField, SchemaField
from chronolake_spark import errors

POINT = pa.struct([("x", pa.int32()), ("y", pa.float32())])
STORED = pa.schema(
    [
        ("id", pa.int64()),
        ("home", pa.struct([("city", pa.string()), ("zip", pa.int32()), ("gone", pa.string())])),
        ("points", pa.list_(pa.field("element", POINT))),
        ("attrs", pa.map_(pa.string(), POINT)),
    ]
)
BEFORE: list[SchemaField] = nested_fields.numbered_columns(
    [
        Field("id", "bigint"),
        Field("home", "struct<city:string,zip:int,gone:string>"),
        Field("points", "array<struct<x:int,y:float>>"),
        Field("attrs", "map<string,struct<x:int,y:float>>"),
    ]
)[0]
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "home": {"city": "Oslo", "zip": 150, "gone": "x"},
        "points": [{"x": 1, "y": 0.5}, None, {"x": None, "y": 1.5}],
        "attrs": [("a", {"x": 7, "y": None}), ("b", None)],
    },
    {"id": 2, "home": None, "points": None, "attrs": None},
    {"id": 3, "home": {"city": None, "zip": None, "gone": None}, "points": [], "attrs": []},
]

POINT_NOW = pa.struct([("why", pa.float64()), ("x", pa.int64()), ("z", pa.string())])
NOW = pa.schema(
    [
        ("id", pa.int64()),
        ("house", pa.struct([("town", pa.string()), ("gone", pa.int32()), ("zip", pa.int64())])),
        ("points", pa.list_(pa.field("element", POINT_NOW))),
        ("attrs", pa.map_(pa.string(), POINT_NOW)),
    ]
)


def now_point(field_id: int, nested: Sequence[NestedField], z: int) -> NestedField:
    x, y = nested
    return NestedField("", field_id, [structs.replace(y, name="why"), x, NestedField("z", z)])


def now() -> list[SchemaField]:
    """The columns after fields were renamed, added, dropped, and added again."""
    id_, home, points, attrs = BEFORE
    city, zip_, _ = home.nested
    [element] = points.nested
    key, value = attrs.nested
    return [
        id_,
        SchemaField(
            "house",
            "struct<town:string,gone:int,zip:bigint>",
            field_id=home.field_id,
            nested=[structs.replace(city, name="town"), NestedField("gone", 100), zip_],
        ),
        structs.replace(
            points, nested=[structs.replace(now_point(element.field_id, element.nested, 101), name="element")]
        ),
        structs.replace(
            attrs, nested=[key, structs.replace(now_point(value.field_id, value.nested, 102), name="value")]
        ),
    ]


EXPECTED: list[dict[str, Any]] = [
    {
        "id": 1,
        "house": {"town": "Oslo", "gone": None, "zip": 150},
        "points": [{"why": 0.5, "x": 1, "z": None}, None, {"why": 1.5, "x": None, "z": None}],
        "attrs": [("a", {"why": None, "x": 7, "z": None}), ("b", None)],
    },
    {"id": 2, "house": None, "points": None, "attrs": None},
    {"id": 3, "house": {"town": None, "gone": None, "zip": None}, "points": [], "attrs": []},
]


def stored_file(layout: pa.Schema) -> pq.ParquetFile:
    """A base file of this layout."""
    meta = dict.fromkeys(columns.META, "m")
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, layout) as writer:
        writer.write_table(pa.Table.from_pylist([meta | row for row in ROWS], schema=layout))
    return pq.ParquetFile(pa.BufferReader(sink.getvalue()))


def read(file: pq.ParquetFile, fields: layouts.StoredFields) -> pa.Table:
    """The rows of a file in the layout of now."""
    present = layouts.file_schema(NOW, now())
    stored = layouts.stored_schema(file, fields, "a.parquet")
    rows = file.read(columns=layouts.columns_of(stored, present))
    return layouts.in_layout(rows, stored, present)


def test_a_written_file_has_the_id_of_each_column_and_nested_field_in_parquet() -> None:
    file = stored_file(layouts.file_schema(STORED, BEFORE))

    assert field_ids.ids_of(file.schema_arrow) == {
        **{name: 2_000_000_001 + number for number, name in enumerate(columns.META)},
        "id": 1,
        "home": 2,
        "points": 3,
        "attrs": 4,
        "home.city": 5,
        "home.zip": 6,
        "home.gone": 7,
        "points.element": 8,
        "points.element.x": 9,
        "points.element.y": 10,
        "attrs.key": 11,
        "attrs.value": 12,
        "attrs.value.x": 13,
        "attrs.value.y": 14,
    }


def test_fields_of_a_file_with_ids_are_found_by_them_whatever_they_are_called() -> None:
    layout = layouts.file_schema(STORED, BEFORE)
    renamed = layout.set(layout.get_field_index("home"), layout.field("home").with_name("anything"))
    file = stored_file(layout)
    anything = pa.Table.from_arrays(file.read().columns, schema=renamed)
    sink = io.BytesIO()
    pq.write_table(anything, sink)

    rows = read(pq.ParquetFile(pa.BufferReader(sink.getvalue())), None)

    assert rows.select(NOW.names).to_pylist() == EXPECTED
    assert rows.schema.equals(layouts.file_schema(NOW, now()), check_metadata=True)
    rows.validate(full=True)


def test_fields_of_a_file_without_ids_are_found_by_their_names_of_then() -> None:
    layout = layouts.file_schema(STORED, BEFORE)
    bare = pa.schema([*((name, pa.string()) for name in columns.META), *STORED])
    assert pa.schema(layout).equals(bare)

    rows = read(stored_file(bare), BEFORE)

    assert rows.select(NOW.names).to_pylist() == EXPECTED


def test_slices_of_nested_columns_are_converted_as_a_whole() -> None:
    present = layouts.file_schema(NOW, now())
    file = stored_file(layouts.file_schema(STORED, BEFORE))
    stored = layouts.stored_schema(file, None, "a.parquet")

    rows = layouts.in_layout(file.read().slice(1), stored, present)

    assert rows.select(NOW.names).to_pylist() == EXPECTED[1:]


def test_a_file_that_should_have_ids_and_lacks_one_is_damaged() -> None:
    layout = layouts.file_schema(STORED, BEFORE)
    file = stored_file(layout.set(7, pa.field("points", layout.field("points").type)))

    with pytest.raises(errors.BaseFileDamaged, match=r"no field id for points, although"):
        layouts.stored_schema(file, None, "a.parquet")


def test_a_column_that_the_table_does_not_have_gets_no_file() -> None:
    with pytest.raises(ValueError, match=r"no column or nested field 'home\.zip'"):
        layouts.file_schema(STORED, [structs.replace(field, nested=field.nested[:1]) for field in BEFORE])


def test_a_file_of_an_earlier_schema_comes_out_in_the_present_layout() -> None:
    stored = pa.schema(
        [("id", pa.int8()), ("price", pa.decimal128(4, 2)), ("rate", pa.float32()), ("gone", pa.string())]
    )
    before, _ = nested_fields.numbered_columns(
        [
            Field("id", "tinyint"),
            Field("price", "decimal(4,2)"),
            Field("rate", "float"),
            Field("gone", "string"),
        ]
    )
    schema = pa.schema(
        [("note", pa.string()), ("number", pa.int64()), ("price", pa.decimal128(9, 2)), ("rate", pa.float64())]
    )
    after = [
        SchemaField("note", "string", field_id=5),
        SchemaField("number", "bigint", field_id=1),
        SchemaField("price", "decimal(9,2)", field_id=2),
        SchemaField("rate", "double", field_id=3),
    ]
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int8()),
            "price": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(4, 2)),
            "rate": pa.array([0.5, 1.5], pa.float32()),
            "gone": ["a", "b"],
        }
    )

    present = field_ids.with_field_ids(schema, after)
    now_rows = layouts.in_layout(rows, field_ids.by_names(stored, before), present)

    assert now_rows.schema == schema
    assert now_rows.to_pylist() == [
        {"note": None, "number": 1, "price": decimal.Decimal("1.50"), "rate": 0.5},
        {"note": None, "number": 2, "price": None, "rate": 1.5},
    ]


def test_nested_fields_that_only_became_wider_are_widened() -> None:
    before, _ = nested_fields.numbered_columns(
        [
            Field("tags", "array<int>"),
            Field("attrs", "map<string,float>"),
            Field("home", "struct<zip:int,geo:array<float>>"),
        ]
    )
    stored = pa.schema(
        [
            ("tags", pa.list_(pa.int32())),
            ("attrs", pa.map_(pa.string(), pa.float32())),
            ("home", pa.struct([("zip", pa.int32()), ("geo", pa.list_(pa.float32()))])),
        ]
    )
    wider = pa.schema(
        [
            ("tags", pa.list_(pa.int64())),
            ("attrs", pa.map_(pa.string(), pa.float64())),
            ("home", pa.struct([("zip", pa.int64()), ("geo", pa.list_(pa.float64()))])),
        ]
    )
    rows = [
        {"tags": [1, None], "attrs": [("k", 0.5)], "home": {"zip": 1, "geo": [0.5]}},
        {"tags": None, "attrs": None, "home": None},
        {"tags": [], "attrs": [], "home": {"zip": None, "geo": None}},
    ]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, field_ids.with_field_ids(stored, before)), sink)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))

    present = field_ids.with_field_ids(wider, before)
    wide_rows = layouts.in_layout(file.read(), layouts.stored_schema(file, None, "a.parquet"), present)

    wide_rows.validate(full=True)
    assert wide_rows.schema.equals(present, check_metadata=True)
    assert wide_rows.to_pylist() == rows
