"""Values at the edges of each column type, through log files of both kinds of blocks."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chronolake.slices import arrow_types, columns, log_contents
from chronolake.slices.base_files import TableFolder
from chronolake.slices.log_contents import LogFormat
from chronolake.slices.stored_slices import SliceFile
from chronolake_model import column_types, nested_fields
from chronolake_model.tables import Field
from chronolake_spark import errors

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DAY_OF_CAESAR = -735_598
VALUES: list[tuple[str, list[Any]]] = [
    ("tinyint", [-128, 127, None]),
    ("smallint", [-32_768, 32_767, None]),
    ("bigint", [-LONG_MAX - 1, LONG_MAX, None]),
    ("double", [float("inf"), -0.0, 5e-324]),
    ("decimal(1,1)", [Decimal("0.9"), Decimal("-0.9"), None]),
    ("decimal(19,0)", [Decimal(-128), Decimal(255), None]),
    ("decimal(38,0)", [Decimal("9" * 38), Decimal("-" + "9" * 38), None]),
    ("decimal(38,38)", [Decimal("-0." + "9" * 38), Decimal("0." + "0" * 37 + "1"), None]),
    ("date", [DAY_OF_CAESAR, -INT_MAX - 1, INT_MAX]),
    ("timestamp", [-62_135_596_800_000_001, -LONG_MAX - 1, LONG_MAX]),
    ("timestamp_ntz", [-12_219_292_799_999_999, -LONG_MAX - 1, LONG_MAX]),
    ("binary", [b"", b"\x00\xff", None]),
    ("string", ["", "\x00", "\U0010ffff"]),
    ("array<struct<x:date,y:array<smallint>>>", [[], [None, {"x": INT_MAX, "y": [None, 1]}], None]),
    (
        "struct<a:int,b:struct<c:decimal(10,3),d:timestamp>>",
        [{"a": None, "b": {"c": None, "d": LONG_MAX}}, None],
    ),
    ("map<string,date>", [[], [("", INT_MAX), ("a", None)], None]),
    ("map<string,decimal(38,18)>", [[], [("a", Decimal("0.000000000000000001"))], None]),
]


@pytest.mark.parametrize("has_avro_blocks", [True, False])
@pytest.mark.parametrize(("type_text", "values"), VALUES)
def test_values_at_the_edges_of_a_type_come_back_from_a_log_file(
    tmp_path: Path, type_text: str, values: list[Any], has_avro_blocks: bool
):
    folder = TableFolder.of(str(tmp_path))
    fields, _ = nested_fields.numbered_columns([Field("c", type_text)])
    layout = arrow_types.file_layout(fields)
    column = pa.array(values, arrow_types.of(column_types.parse(type_text)))
    meta = [pa.array([f"{number}" for number in range(len(values))]) for _ in columns.META]
    records = pa.table([*meta, column], schema=layout)
    format_ = LogFormat.of("shop.orders", fields, has_avro_blocks=has_avro_blocks)

    size = log_contents.write(folder, "log", f"{11:017d}", format_, records, [])

    file = SliceFile("log", size, 1, has_field_ids=True)
    contents = log_contents.read(folder, [(file, fields)], layout, ())
    stored = contents.records["c"].combine_chunks().cast(column.type)
    assert stored.equals(column)
    # -0.0 equals 0.0.
    assert pa.types.is_nested(column.type) or str(stored) == str(column)


@pytest.mark.parametrize(("name", "type_text"), [("c", "map<int,string>"), ("a b", "int")])
def test_avro_blocks_that_cannot_state_a_column_are_refused_with_the_column(
    tmp_path: Path, name: str, type_text: str
):
    fields, _ = nested_fields.numbered_columns([Field(name, type_text)])
    layout = arrow_types.file_layout(fields)
    rows = pa.table([pa.nulls(1, field.type) for field in layout], schema=layout)
    format_ = LogFormat.of("shop.orders", fields, has_avro_blocks=True)

    with pytest.raises(errors.LogFileUnsupported, match=f"hudi.log-blocks=avro, and '{name}' is .*to parquet"):
        log_contents.write(TableFolder.of(str(tmp_path)), "log", f"{11:017d}", format_, rows, [])
