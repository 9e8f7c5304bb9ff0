"""Schema changes on write: columns and nested fields that a table lacks are added to it, and columns widened.

The change is made before the write, as one version of the schema. If the write fails, the new columns remain,
and are null in all records. Nested fields are not widened, because the vectorised reader of Spark does not read
widened nested fields in the files of before; Hudi's readers use it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

import chronolake
from chronolake.errors import SchemaChanged
from chronolake.writing import writable_tables
from chronolake_model.schemas import WIDER_TYPES, AddColumn, SchemaChange, WidenColumn
from chronolake_model.tables import Field, SchemaField, Table
from chronolake_spark.driver import schema
from chronolake_spark.write import nested_types, writes

_TRIES_MAX: Final = 5
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def apply(table: chronolake.Table, df: DataFrame, **how: Any) -> Table:
    """The definition of ``table``, changed so that rows of ``df`` fit. ``how`` is as for ``writes.tagged``.

    A column that ``delete_when`` or ``row_order`` names is not added. A frame that does not fit the changed
    table either is refused before the change. Raises ``SchemaMismatch``, ``IncompatibleSchema``, and
    ``SchemaChanged`` when other writers change the schema all the time.
    """
    used = _used(how)
    for tries_left in reversed(range(_TRIES_MAX)):
        definition = writable_tables.check(table.reload().definition, only_inserts=True)
        wanted, changed = _changed(definition, df, used)
        if not wanted:
            break
        writes.tagged(df, changed, **how)
        try:
            table.change_schema(wanted, expected_schema_version=definition.schema_version)
        except SchemaChanged:
            if not tries_left:
                raise
    return table.reload().definition


def merged(table: Table, df: DataFrame, **how: Any) -> Table:
    """The definition that ``apply`` would make of ``table``, but for new field ids. Nothing is changed."""
    return _changed(table, df, _used(how))[1]


def _used(how: Mapping[str, Any]) -> list[Column]:
    """The columns that need not be the table's."""
    condition = how.get("delete_when")
    return [*writes.columns_of(how.get("row_order", ())), *([] if condition is None else [condition])]


def _changed(table: Table, df: DataFrame, used: Sequence[Column]) -> tuple[list[SchemaChange], Table]:
    """The changes of the schema of ``table`` for rows of ``df``, and the table then, but for new field ids."""
    unknown = writes.unknown_columns(df, table, used)
    added = schema.fields_of(df.select(*map(schema.quoted, unknown)).schema)
    wanted: list[SchemaChange] = [AddColumn(schema.plain(field.name), field.type) for field in added]
    sources = writes.sources_of(df, [field.name for field in table.schema])
    fixed = {*table.record_key_fields, *table.partition_fields, *table.ordering_fields}
    fields: list[SchemaField] = []
    for field in table.schema:
        type_, of_field = field.type, list[SchemaChange]()
        if field.name in sources and field.name not in fixed:
            type_, of_field = _changed_type(field, df.schema[sources[field.name]].dataType)
        wanted += of_field
        fields.append(msgspec.structs.replace(field, type=type_))
    new = [SchemaField(field.name, field.type, field_id=1) for field in added]
    return wanted, msgspec.structs.replace(table, schema=[*fields, *new])


def _changed_type(field: Field, given: DataType) -> tuple[str, list[SchemaChange]]:
    """The type of a column after the changes for values of the type ``given``, and the changes."""
    path, text = schema.plain(field.name), given.simpleString()
    if _is_wider(text, field):
        return text, [WidenColumn(path, text)]
    if not isinstance(given, ArrayType | MapType | StructType):
        return field.type, []
    own = schema.type_of(field.type)
    additions: list[SchemaChange] = [
        AddColumn(inner, schema.text_of(type_, field.name))
        for inner, type_ in nested_types.fields_beyond(path, own, given)
    ]
    return schema.text_of(nested_types.merged(own, given), field.name), additions


def _is_wider(given: str, field: Field) -> bool:
    own = field.type.strip().lower().replace(" ", "")
    new, old = _DECIMAL.fullmatch(given), _DECIMAL.fullmatch(own)
    if new and old:
        return new[2] == old[2] and int(new[1]) > int(old[1])
    return given in WIDER_TYPES.get(own, ())
