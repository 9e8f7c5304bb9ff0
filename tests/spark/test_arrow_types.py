"""Column types of a table in data files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from chronolake.slices import arrow_types, base_files, columns
from chronolake_model.tables import NestedField, SchemaField

TYPES = [
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary"),
    *("date", "timestamp", "timestamp_ntz", "decimal(5,1)", "decimal(38,0)"),
]
NESTED = {
    "array<timestamp>": ["element"],
    "map<string,tinyint>": ["key", "value"],
    "struct<a:int,b:date>": ["a", "b"],
}


def test_data_files_have_the_types_and_field_ids_that_a_stored_arrow_schema_would_give_them():
    fields = [SchemaField(f"c{index}", type_, field_id=index) for index, type_ in enumerate(TYPES)]
    fields += [
        SchemaField(
            f"n{index}",
            type_,
            field_id=100 * index,
            nested=[NestedField(name, 100 * index + place) for place, name in enumerate(names, start=1)],
        )
        for index, (type_, names) in enumerate(NESTED.items(), start=1)
    ]
    rows = arrow_types.file_layout(fields).empty_table()
    stored, with_arrow_schema = pa.BufferOutputStream(), pa.BufferOutputStream()
    base_files.write_rows(stored, rows.schema, [rows])
    pq.write_table(rows, with_arrow_schema)

    schema = schema_of(stored)
    assert schema.equals(schema_of(with_arrow_schema), check_metadata=True)
    assert schema.types[: len(columns.META) + len(TYPES)] == rows.schema.types[: len(columns.META) + len(TYPES)]


def schema_of(file: pa.BufferOutputStream) -> pa.Schema:
    return pq.ParquetFile(pa.BufferReader(file.getvalue())).schema_arrow
