"""Schemas of tables as Iceberg has them, and the name mapping of files without field ids.

Columns and nested fields keep their field ids. All are optional: a column may be newer than a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, assert_never

import msgspec

from chronolake_metastore.domain.schemas import Schema
from chronolake_model import column_types
from chronolake_model.column_types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructType,
)
from chronolake_model.columns import NestedField, SchemaField
from chronolake_model.meta_columns import FIELD_IDS

_PRIMITIVES: Final = {
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


class AmbiguousName(Exception):
    """A name that stood for two columns in files without field ids."""


def document(schema: Schema) -> dict[str, Any]:
    """A version of a table's schema."""
    return {
        "type": "struct",
        "schema-id": schema.schema_version,
        "fields": [
            _field(field.name, field.field_id, column_types.parse(field.type), field.nested)
            for field in schema.fields
        ],
    }


def primitive(data_type: DataType) -> str | None:
    """Iceberg's name of a type without parts; None for a nested type."""
    match data_type:
        case PrimitiveType(name):
            return _PRIMITIVES[name]
        case DecimalType(precision, scale):
            return f"decimal({precision}, {scale})"
        case ArrayType() | MapType() | StructType():
            return None
        case _:
            assert_never(data_type)


def primitives(fields: Iterable[SchemaField]) -> dict[int, str]:
    """Iceberg's names of the types of columns, without nested ones, by field id."""
    types = {field.field_id: primitive(column_types.parse(field.type)) for field in fields}
    return {field_id: name for field_id, name in types.items() if name is not None}


def _field(name: str, field_id: int, data_type: DataType, nested: Sequence[NestedField]) -> dict[str, Any]:
    return {"id": field_id, "name": name, "required": False, "type": _type(data_type, nested)}


def _type(data_type: DataType, nested: Sequence[NestedField]) -> Any:
    match data_type:
        case PrimitiveType() | DecimalType():
            return primitive(data_type)
        case ArrayType(element):
            [known] = nested
            return {
                "type": "list",
                "element-id": known.field_id,
                "element": _type(element, known.nested),
                "element-required": False,
            }
        case MapType(key, value):
            known_key, known_value = nested
            return {
                "type": "map",
                "key-id": known_key.field_id,
                "key": _type(key, known_key.nested),
                "value-id": known_value.field_id,
                "value": _type(value, known_value.nested),
                "value-required": False,
            }
        case StructType(fields):
            return {
                "type": "struct",
                "fields": [
                    _field(field.name, known.field_id, field.type, known.nested)
                    for field, known in zip(fields, nested, strict=True)
                ],
            }
        case _:
            assert_never(data_type)


class _Named(msgspec.Struct):
    """The names of a field in several versions of a schema, and the fields within it by their ids."""

    names: list[str]
    within: dict[int, _Named]


def name_mapping(versions: Sequence[Schema]) -> list[dict[str, Any]]:
    """The columns of files without field ids, which were written with these versions.

    Hudi's five are among them: pyiceberg refuses a file with a column that is not. Raises ``AmbiguousName`` if
    a name stood for two columns: readers have no other way to tell them apart.
    """
    columns: dict[int, _Named] = {}
    for version in versions:
        _collect(version.fields, columns)
    return _mapping(columns) + [{"field-id": id_, "names": [name]} for name, id_ in FIELD_IDS.items()]


def _collect(fields: Iterable[SchemaField | NestedField], into: dict[int, _Named]) -> None:
    for field in fields:
        named = into.setdefault(field.field_id, _Named([], {}))
        if field.name not in named.names:
            named.names.append(field.name)
        _collect(field.nested, named.within)


def _mapping(fields: Mapping[int, _Named]) -> list[dict[str, Any]]:
    owner: dict[str, int] = {}
    for field_id, named in fields.items():
        for name in named.names:
            if owner.setdefault(name, field_id) != field_id:
                raise AmbiguousName(name)
    return [
        {"field-id": field_id, "names": named.names}
        | ({"fields": _mapping(named.within)} if named.within else {})
        for field_id, named in fields.items()
    ]
