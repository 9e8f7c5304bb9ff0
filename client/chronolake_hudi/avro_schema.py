"""A table's schema in Avro, as Hudi keeps it in the extra metadata of commits and in the headers of log blocks.

The record of a table ``t`` is ``hoodie.t.t_record``; a struct is a record that has the name of its column, in
the namespace of the record around it; a decimal is a fixed. Nullable columns are unions with null, which is
their default. Avro knows no tinyint and no smallint: both become int, and come back as int.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, assert_never

import msgspec

from chronolake_hudi.errors import UnsupportedFormat
from chronolake_model import column_types, meta_columns
from chronolake_model.column_types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from chronolake_model.tables import Field

Schema = dict[str, Any]
"""An Avro schema of a record, as JSON has it."""

OPERATION: Final = "_hoodie_operation"
"""A column that some tables have beside the meta columns: what the writer did to the record."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PRIMITIVES: Final[Mapping[str, object]] = {
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}
_LOGICAL: Final[Mapping[tuple[str, str], str]] = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
    ("string", "uuid"): "string",
}
_PLAIN: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "enum": "string",
    "fixed": "binary",
}


def problems(fields: Sequence[Field]) -> list[str]:
    """Why Avro cannot state this schema, one sentence for each column concerned; empty if it can.

    Names in Avro are ASCII letters, digits and ``_``, and do not begin with a digit. Keys of maps are strings.
    """
    columns = [StructField(field.name, column_types.parse(field.type)) for field in fields]
    return list(_problems_of_struct((), columns))


def of_table(table_name: str, fields: Sequence[Field], *, meta: bool) -> Schema:
    """The schema of a table, with the meta columns before the others if ``meta``.

    Hudi leaves the meta columns out in the metadata of commits, and states them in log blocks. ``table_name``
    is the one in hoodie.properties. The fields must be without ``problems``.
    """
    name = _sanitized(table_name)
    namespace = f"hoodie.{name}"
    record = _record(f"{name}_record", namespace, [(_parsed(field), field.nullable) for field in fields])
    if meta:
        own_fields = [
            {"name": column, "type": ["null", "string"], "doc": "", "default": None}
            for column in meta_columns.META
        ]
        record["fields"] = own_fields + record["fields"]
    return record


def encode(schema: Schema) -> str:
    """The text of a schema. The same schema gives the same text."""
    return msgspec.json.encode(schema).decode()


def decode(text: str, path: str) -> list[Field]:
    """The columns of the table whose schema a file ``path`` states, without the meta columns.

    Raises ``UnsupportedFormat`` if the text is no schema of a record, or if a column has a type that
    Chronolake has not.
    """
    try:
        schema = msgspec.json.decode(text)
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise ValueError("it is no record")
        record = _Reading().type_of(schema, "", "the table")
        assert isinstance(record, StructType)
        stated = schema["fields"]
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise UnsupportedFormat(
            path, f"the Avro schema of the table cannot be read: {exc}", "change the column's type with Hudi"
        ) from exc
    left_out = {*meta_columns.META, OPERATION}
    return [
        Field(field.name, column_types.spell(field.type), nullable=_is_nullable(statement["type"]))
        for field, statement in zip(record.fields, stated, strict=True)
        if field.name not in left_out
    ]


def _problems_of_struct(path: tuple[str, ...], columns: Sequence[StructField]) -> Iterator[str]:
    for name, count in Counter(column.name for column in columns).items():
        if count > 1:
            yield f"{'.'.join((*path, name))!r} is the name of {count} columns"
    for column in columns:
        column_path = (*path, column.name)
        if not _NAME.fullmatch(column.name):
            yield f"{'.'.join(column_path)!r} is no name in Avro: letters, digits and _ are, no digit first"
        yield from _problems_of_type(column_path, column.type)


def _problems_of_type(path: tuple[str, ...], data_type: DataType) -> Iterator[str]:
    match data_type:
        case ArrayType(element):
            yield from _problems_of_type(path, element)
        case MapType(key, value):
            if key != PrimitiveType("string"):
                yield f"{'.'.join(path)!r} is a map with keys of type {column_types.spell(key)}, not string"
            yield from _problems_of_type(path, value)
        case StructType(fields):
            yield from _problems_of_struct(path, fields)
        case PrimitiveType() | DecimalType():
            return
        case _:
            assert_never(data_type)


def _parsed(field: Field) -> StructField:
    return StructField(field.name, column_types.parse(field.type))


def _sanitized(table_name: str) -> str:
    # As Hudi does: what a name in Avro may not have becomes two underscores.
    replaced = re.sub(r"[^A-Za-z0-9_]", "__", table_name, flags=re.ASCII)
    return f"__{replaced[1:]}" if replaced[:1].isdigit() else replaced


def _record(name: str, namespace: str, fields: Sequence[tuple[StructField, bool]]) -> Schema:
    own = f"{namespace}.{name}"
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [_field(field, own, nullable) for field, nullable in fields],
    }


def _field(field: StructField, namespace: str, nullable: bool) -> dict[str, object]:
    avro_type = _avro_type(field.type, field.name, namespace)
    if nullable:
        return {"name": field.name, "type": ["null", avro_type], "default": None}
    return {"name": field.name, "type": avro_type}


def _avro_type(data_type: DataType, name: str, namespace: str) -> object:
    match data_type:
        case PrimitiveType(primitive):
            return _PRIMITIVES[primitive]
        case DecimalType(precision, scale):
            return _decimal(precision, scale, f"{namespace}.{name}")
        case ArrayType(element):
            return {"type": "array", "items": ["null", _avro_type(element, name, namespace)]}
        case MapType(_, value):
            return {"type": "map", "values": ["null", _avro_type(value, name, namespace)]}
        case StructType(fields):
            return _record(name, namespace, [(field, True) for field in fields])
        case _:
            assert_never(data_type)


def _decimal(precision: int, scale: int, namespace: str) -> dict[str, object]:
    size = ((10**precision - 1).bit_length() + 8) // 8
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": namespace,
        "size": size,
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
    }


def _is_nullable(avro_type: object) -> bool:
    return avro_type == "null" or (isinstance(avro_type, list) and "null" in avro_type)


class _Reading:
    """Reads one schema. Raises ``ValueError`` at the first type that Chronolake has not."""

    def __init__(self) -> None:
        self._named: dict[str, DataType] = {}
        """Named types by their full names; a type that is still open is not among them."""

    def type_of(self, avro_type: object, namespace: str, path: str) -> DataType:
        """The column type of an Avro type."""
        match avro_type:
            case list():
                return self._union(avro_type, namespace, path)
            case str():
                return self._word(avro_type, namespace, path)
            case {"type": dict() | list() as inner}:
                return self.type_of(inner, namespace, path)
            case dict():
                return self._complex(avro_type, namespace, path)
            case _:
                raise ValueError(f"{path} has no type of Avro, but {str(avro_type)[:100]}")

    def _complex(self, schema: dict[str, Any], namespace: str, path: str) -> DataType:
        match schema:
            case {"type": "array", "items": items}:
                return ArrayType(self.type_of(items, namespace, path))
            case {"type": "map", "values": values}:
                return MapType(PrimitiveType("string"), self.type_of(values, namespace, path))
            case {"type": "record" | "enum" | "fixed", "name": str(name)}:
                return self._named_type(schema, name, namespace, path)
            case {"type": str()}:
                return self._annotated(schema, namespace, path)
            case _:
                raise ValueError(f"{path} has no type of Avro, but {str(schema)[:100]}")

    def _union(self, branches: list[object], namespace: str, path: str) -> DataType:
        match [branch for branch in branches if branch != "null"]:
            case [branch]:
                return self.type_of(branch, namespace, path)
            case ["int", "long"] | ["long", "int"]:
                return PrimitiveType("bigint")
            case ["float", "double"] | ["double", "float"]:
                return PrimitiveType("double")
            case _:
                raise ValueError(f"{path} is a union of several types")

    def _word(self, word: str, namespace: str, path: str) -> DataType:
        if word in _PLAIN and word not in ("enum", "fixed"):
            return PrimitiveType(_PLAIN[word])
        full_name = word if "." in word or not namespace else f"{namespace}.{word}"
        if full_name not in self._named:
            raise ValueError(f"{path} has the type {word}, which is unknown or contains itself")
        return self._named[full_name]

    def _named_type(self, schema: dict[str, Any], name: str, namespace: str, path: str) -> DataType:
        if "." in name:
            namespace, _, name = name.rpartition(".")
        else:
            namespace = schema.get("namespace", namespace)
        if schema["type"] == "record":
            data_type: DataType = StructType(tuple(self._fields(schema, namespace, path)))
        else:
            data_type = self._annotated(schema, namespace, path)
        self._named[f"{namespace}.{name}" if namespace else name] = data_type
        return data_type

    def _fields(self, schema: dict[str, Any], namespace: str, path: str) -> Iterator[StructField]:
        fields = schema.get("fields")
        if not isinstance(fields, list) or not fields:
            raise ValueError(f"{path} is a struct without fields")
        for field in fields:
            match field:
                case {"name": str(name), "type": avro_type}:
                    yield StructField(name, self.type_of(avro_type, namespace, f"the column {name!r}"))
                case _:
                    raise ValueError(f"{path} has a field without name or type")

    def _annotated(self, schema: dict[str, Any], namespace: str, path: str) -> DataType:
        base, logical = schema["type"], schema.get("logicalType")
        if logical == "decimal" and base in ("bytes", "fixed"):
            text = f"decimal({schema.get('precision')},{schema.get('scale', 0)})"
            return column_types.parse(text)
        if logical is not None:
            if (base, logical) not in _LOGICAL:
                raise ValueError(f"{path} has the logical type {logical} of {base}")
            return PrimitiveType(_LOGICAL[base, logical])
        return PrimitiveType(_PLAIN[base]) if base in _PLAIN else self._word(base, namespace, path)
