"""Schema changes on write: the columns of a frame that a table lacks are added to it, and columns are widened.

The change is made before the write, as one version of the schema. If the write fails, the new columns remain,
and are null in all records.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from pyspark.sql import Column, DataFrame

import chronolake
from chronolake.errors import SchemaChanged
from chronolake_model.schemas import WIDER_TYPES, AddColumn, SchemaChange, WidenColumn
from chronolake_model.tables import Field, SchemaField, Table
from chronolake_spark import schema, write

_TRIES_MAX: Final = 5
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def apply(table: chronolake.Table, df: DataFrame, **how: Any) -> Table:
    """The definition of ``table``, changed so that rows of ``df`` fit. ``how`` is as for ``write.tagged``.

    A column that ``delete_when`` or ``row_order`` names is not added. A frame that does not fit the changed
    table either is refused before the change. Raises ``SchemaMismatch``, ``IncompatibleSchema``, and
    ``SchemaChanged`` when other writers change the schema all the time.
    """
    condition = how.get("delete_when")
    used = [*write.columns_of(how.get("row_order", ())), *([] if condition is None else [condition])]
    for tries_left in reversed(range(_TRIES_MAX)):
        definition = write.writable(table.reload().definition)
        wanted = changes(definition, df, used)
        if not wanted:
            break
        write.tagged(df, _changed(definition, wanted, _new_fields(definition, df, used)), **how)
        try:
            table.change_schema(wanted, expected_schema_version=definition.schema_version)
        except SchemaChanged:
            if not tries_left:
                raise
    return table.reload().definition


def changes(table: Table, df: DataFrame, used: Sequence[Column]) -> list[SchemaChange]:
    """The changes of the schema of ``table`` for rows of ``df``."""
    added = _new_fields(table, df, used)
    additions: list[SchemaChange] = [AddColumn(schema.plain(field.name), field.type) for field in added]
    sources = write.sources_of(df, [field.name for field in table.schema])
    fixed = {*table.record_key_fields, *table.partition_fields, table.ordering_field}
    widened: list[SchemaChange] = []
    for field in table.schema:
        if field.name in fixed or field.name not in sources:
            continue
        given = df.schema[sources[field.name]].dataType.simpleString()
        if _is_wider(given, field):
            widened.append(WidenColumn(schema.plain(field.name), given))
    return [*additions, *widened]


def _new_fields(table: Table, df: DataFrame, used: Sequence[Column]) -> list[Field]:
    unknown = write.unknown_columns(df, table, used)
    return schema.fields_of(df.select(*map(schema.quoted, unknown)).schema)


def _changed(table: Table, wanted: Sequence[SchemaChange], added: Sequence[Field]) -> Table:
    """The table as the changes will leave it, but for the field ids of the columns that are ``added``."""
    widened = {change.name: change.type for change in wanted if isinstance(change, WidenColumn)}
    own = [
        msgspec.structs.replace(field, type=widened.get(schema.plain(field.name), field.type))
        for field in table.schema
    ]
    new = [SchemaField(field.name, field.type, field_id=1) for field in added]
    return msgspec.structs.replace(table, schema=[*own, *new])


def _is_wider(given: str, field: Field) -> bool:
    own = field.type.strip().lower().replace(" ", "")
    new, old = _DECIMAL.fullmatch(given), _DECIMAL.fullmatch(own)
    if new and old:
        return new[2] == old[2] and int(new[1]) > int(old[1])
    return given in WIDER_TYPES.get(own, ())
