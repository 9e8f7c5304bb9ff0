"""Bodies of the REST API for the schema of a table: how it is changed, and the versions that it had."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from chronolake_model.schema_changes import (
    AddColumn,
    ColumnPath,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetNullable,
    WidenColumn,
)
from chronolake_model.tables import SchemaField, SchemaVersion

__all__ = [
    "AddColumn",
    "ColumnPath",
    "DropColumn",
    "RenameColumn",
    "SchemaChange",
    "SetNullable",
    "WidenColumn",
]
"""Words of the vocabulary that these bodies have."""

CHANGES_MAX = 1_000


WIDER_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
}
"""The types that a type may be widened to: readers of Parquet turn the stored values into it by themselves.

A decimal may be widened to one of more digits with the same scale.
"""
DECIMAL_PRECISION_MAX: Final = 38


class ChangeSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Change a table's schema: all changes in their order, or none.

    With ``expected_schema_version``, only if this is still the present version.
    """

    changes: Annotated[list[SchemaChange], Meta(min_length=1, max_length=CHANGES_MAX)]
    expected_schema_version: SchemaVersion | None = None


class TableSchema(msgspec.Struct, frozen=True):
    """One version of a table's schema. ``version`` is the version of the table's log that made it."""

    table: str
    schema_version: int
    fields: list[SchemaField]
    created_at: datetime
    version: int


class TableSchemaPage(msgspec.Struct, frozen=True):
    """Versions of a table's schema, oldest first."""

    schemas: list[TableSchema]
    next_cursor: str | None
