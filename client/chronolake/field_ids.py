"""Field ids in the Arrow schemas of data files: pyarrow writes them to Parquet, and reads them.

A file has the id of each column, nested fields and Hudi's five included, or of none. Several readers return
wrong records from a file that has only some of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from chronolake_model import nested_fields
from chronolake_model.meta_columns import FIELD_IDS
from chronolake_model.tables import NestedField, SchemaField

_METADATA: Final = b"PARQUET:field_id"


def with_field_ids(schema: pa.Schema, fields: Iterable[SchemaField]) -> pa.Schema:
    """The schema of a data file with the field ids of all columns; ``fields`` are the table's.

    Columns and nested fields are found by their names. Raises ``ValueError`` for one that is not in ``fields``.
    """
    complete = by_names(schema, fields)
    for path, field_id in ids_of(complete).items():
        if field_id is None:
            raise ValueError(f"the table has no column or nested field {path!r}, so it has no field id")
    return complete


def by_names(schema: pa.Schema, fields: Iterable[SchemaField]) -> pa.Schema:
    """``schema`` with the field ids that its columns have by their names, and with no others."""
    known = {name: NestedField(name, field_id) for name, field_id in FIELD_IDS.items()}
    known |= {field.name: NestedField(field.name, field.field_id, field.nested) for field in fields}
    return pa.schema([_with_id(field, known.get(field.name)) for field in schema])


def ids_of(schema: pa.Schema) -> dict[str, int | None]:
    """The field id, or None, of each column and nested field, by its path."""
    return dict(_ids([(field.name, field) for field in schema], []))


def of(field: pa.Field) -> int | None:
    """The field id of a column or nested field."""
    text = (field.metadata or {}).get(_METADATA)
    return None if text is None else int(text)


def parts(data_type: pa.DataType) -> list[tuple[str, pa.Field]]:
    """The fields within a type, one level deep, with the names that paths have for them."""
    if pa.types.is_struct(data_type):
        return [(field.name, field) for field in data_type]
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return [(nested_fields.ELEMENT, data_type.value_field)]
    if pa.types.is_map(data_type):
        return [(nested_fields.KEY, data_type.key_field), (nested_fields.VALUE, data_type.item_field)]
    return []


def _with_id(field: pa.Field, known: NestedField | None) -> pa.Field:
    metadata = {name: text for name, text in (field.metadata or {}).items() if name != _METADATA}
    if known is not None:
        metadata[_METADATA] = str(known.field_id).encode()
    data_type = _type_with_ids(field.type, known.nested if known else [])
    return pa.field(field.name, data_type, field.nullable, metadata)


def _type_with_ids(data_type: pa.DataType, nested: Iterable[NestedField]) -> pa.DataType:
    known = {field.name: field for field in nested}
    fields = [_with_id(field, known.get(name)) for name, field in parts(data_type)]
    if pa.types.is_struct(data_type):
        return pa.struct(fields)
    if pa.types.is_list(data_type):
        return pa.list_(*fields)
    if pa.types.is_large_list(data_type):
        return pa.large_list(*fields)
    if pa.types.is_map(data_type):
        return pa.map_(*fields)
    return data_type


def _ids(
    named_fields: Iterable[tuple[str, pa.Field]], parents: Sequence[str]
) -> Iterator[tuple[str, int | None]]:
    for name, field in named_fields:
        names = [*parents, name]
        yield nested_fields.join(names), of(field)
        yield from _ids(parts(field.type), names)
