"""Schema changes of a load without Spark: columns and nested fields that a table lacks, and wider columns.

The rules are those of ``chronolake_spark.write.schema_merges``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

import chronolake
from chronolake.errors import SchemaChanged
from chronolake.ingest import request as ingest_request
from chronolake.ingest.job import Load
from chronolake.writing import column_names
from chronolake_model import column_types
from chronolake_model.column_types import ArrayType, DataType, MapType, StructField, StructType
from chronolake_model.schemas import AddColumn, SchemaChange, WidenColumn
from chronolake_model.tables import Field, SchemaField, Table

_TRIES_MAX: Final = 5


def given(table: Table, load: Load) -> list[Field]:
    """The columns of the files, without that of operations. New ones have their stated types."""
    own = {field.name.lower() for field in table.schema}
    stated = ingest_request.stated_types(load.request)
    op_column = (load.request.op_column or "").lower()
    return [
        field if (name := field.name.lower()) in own else Field(field.name, stated.get(name, field.type))
        for field in load.reader.rows.fields
        if field.name.lower() != op_column
    ]


def apply(table: chronolake.Table, load: Load) -> None:
    """Change the table so that the rows fit. Raises ``SchemaChanged`` when others change it all the time."""
    for tries_left in reversed(range(_TRIES_MAX)):
        definition = table.reload().definition
        wanted, _ = changed(definition, given(definition, load))
        if not wanted:
            return
        try:
            table.change_schema(wanted, expected_schema_version=definition.schema_version)
        except SchemaChanged:
            if not tries_left:
                raise
    table.reload()


def changed(table: Table, fields: Sequence[Field]) -> tuple[list[SchemaChange], Table]:
    """The changes for rows with these columns, and the table then, but for new field ids."""
    by_name = {field.name.lower(): field for field in fields}
    own = {field.name.lower() for field in table.schema}
    added = [field for field in fields if field.name.lower() not in own]
    wanted: list[SchemaChange] = [AddColumn(column_names.plain(field.name), field.type) for field in added]
    after: list[SchemaField] = []
    for field in table.schema:
        type_ = field.type
        if field.name.lower() in by_name and field.name not in ingest_request.fixed_columns(table):
            type_, of_field = _changed_type(field, by_name[field.name.lower()].type)
            wanted += of_field
        after.append(msgspec.structs.replace(field, type=type_))
    new = [SchemaField(field.name, field.type, field_id=1) for field in added]
    return wanted, msgspec.structs.replace(table, schema=[*after, *new])


def _changed_type(field: Field, type_: str) -> tuple[str, list[SchemaChange]]:
    path = column_names.plain(field.name)
    if column_types.is_wider(type_, than=field.type):
        return type_, [WidenColumn(path, type_)]
    own, other = column_types.parse(field.type), column_types.parse(type_)
    additions: list[SchemaChange] = [
        AddColumn(inner, column_types.spell(of_field)) for inner, of_field in _fields_beyond(path, own, other)
    ]
    return column_types.spell(_merged(own, other)), additions


def _fields_beyond(path: str, own: DataType, other: DataType) -> Iterator[tuple[str, DataType]]:
    """The paths and types of the struct fields that only ``other`` has, at any depth."""
    match own, other:
        case StructType(), StructType():
            known = _by_name(own)
            for field in other.fields:
                inner = f"{path}.{column_names.plain(field.name)}"
                if field.name.lower() in known:
                    yield from _fields_beyond(inner, known[field.name.lower()].type, field.type)
                else:
                    yield inner, field.type
        case ArrayType(), ArrayType():
            yield from _fields_beyond(f"{path}.element", own.element, other.element)
        case MapType(), MapType():
            yield from _fields_beyond(f"{path}.value", own.value, other.value)
        case _:
            return


def _merged(own: DataType, other: DataType) -> DataType:
    """``own`` with the struct fields that only ``other`` has, after its own, as the server adds them."""
    match own, other:
        case StructType(), StructType():
            known, new = _by_name(own), _by_name(other)
            kept = [
                StructField(field.name, _merged(field.type, new[name].type) if name in new else field.type)
                for name, field in known.items()
            ]
            return StructType((*kept, *(field for name, field in new.items() if name not in known)))
        case ArrayType(), ArrayType():
            return ArrayType(_merged(own.element, other.element))
        case MapType(), MapType():
            return MapType(own.key, _merged(own.value, other.value))
        case _:
            return own


def _by_name(struct: StructType) -> dict[str, StructField]:
    return {field.name.lower(): field for field in struct.fields}
