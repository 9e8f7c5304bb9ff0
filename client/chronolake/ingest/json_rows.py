"""The rows of JSON files in Arrow, after ``json_files`` has found the types that hold each value as it is.

PyArrow reads records a line, and refuses a value of another type. Python decodes what PyArrow does not read:
arrays of records, numbers that are stored as text, and very long lines.
"""

from __future__ import annotations

import decimal
import functools
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.json

from chronolake.ingest import json_records, record_blocks, text_files
from chronolake.slices import arrow_types
from chronolake.writing import csv_types
from chronolake_model import column_types
from chronolake_model.column_types import ArrayType, DataType, DecimalType, PrimitiveType, StructType
from chronolake_model.tables import Field

_DECODED_ROWS: Final = 10_000


def rows(file: Path, fields: Sequence[Field]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a file, and the number of each batch's first row, from 0. Raises ``SourceUnreadable``."""
    types = {field.name: column_types.parse(field.type) for field in fields}
    schema = pa.schema([pa.field(name, arrow_types.of(type_)) for name, type_ in types.items()])
    count = 0
    if not text_files.is_json_array(file):
        try:
            for batch in _read(file, schema):
                yield count, batch
                count += len(batch)
        except pa.ArrowInvalid:
            pass  # Python decodes the rows from here on.
        else:
            return
    records = itertools.islice(json_records.records(file), count, None)
    while portion := list(itertools.islice(records, _DECODED_ROWS)):
        values = [
            pa.array(
                [_value(record.fields.get(name), types[name]) for record in portion], schema.field(name).type
            )
            for name in types
        ]
        yield count, pa.RecordBatch.from_arrays(values, schema=schema)
        count += len(portion)


def place_of(file: Path, row: int) -> str:
    """The place of a row by its number from 0: its line, or its number in an array."""
    return next(itertools.islice(json_records.records(file), row, None)).place


def _read(file: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with text_files.Utf8Stream(file, text_files.UTF8, advice=text_files.JSON_ADVICE) as stream:
        yield from record_blocks.parsed(
            record_blocks.of_lines(stream), functools.partial(_parsed, schema=schema)
        )


def _parsed(_: int, block: pa.Buffer, *, schema: pa.Schema) -> pa.Table:
    return pyarrow.json.read_json(
        pa.BufferReader(block),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(block)),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _value(value: Any, type_: DataType) -> Any:  # noqa: PLR0911  # one for each type
    """A decoded value as Python has it for a type of Arrow."""
    if value is None:
        return None
    match type_:
        case PrimitiveType(csv_types.STRING):
            return str(value).lower() if isinstance(value, bool) else str(value)
        case PrimitiveType("bigint"):
            return int(value)
        case PrimitiveType("double"):
            return float(value)
        case DecimalType():
            return decimal.Decimal(value)
        case ArrayType(element):
            return [_value(item, element) for item in value]
        case StructType(fields):
            return {field.name: _value(value.get(field.name), field.type) for field in fields}
        case _:
            return value
