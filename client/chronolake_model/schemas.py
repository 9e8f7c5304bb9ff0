"""Bodies of the REST API for the schema of a table: how it is changed, and the versions that it had."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from chronolake_model.tables import ColumnName, ColumnType, SchemaField, SchemaVersion

CHANGES_MAX = 1_000
ColumnPath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=16_384,
        description=(
            "A column, or a nested field: `address.city`, `tags.element`, `attrs.value`. A name with a dot or "
            "a backtick is in backticks."
        ),
        examples=["address.city"],
    ),
]


class AddColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="change", tag="add"):
    """Add a column, or a field to a struct, after the others.

    It must be nullable, because existing files do not have it.
    """

    name: ColumnPath
    type: ColumnType
    nullable: bool = True


class RenameColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="change", tag="rename"):
    """Rename a column or a field of a struct; its field id stays. ``new_name`` is a name, and no path."""

    name: ColumnPath
    new_name: ColumnName


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


class WidenColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="change", tag="widen"):
    """Give a column or nested field a type that holds every value of its present one."""

    name: ColumnPath
    type: ColumnType


class SetNullable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="change", tag="nullable"):
    """Make a column nullable. The reverse is refused, because there may be nulls."""

    name: ColumnPath
    nullable: bool = True


class DropColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="change", tag="drop"):
    """Drop a column or a field of a struct.

    Its field id is not used again, not even for a column of the same name.
    """

    name: ColumnPath


SchemaChange = AddColumn | RenameColumn | WidenColumn | SetNullable | DropColumn


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
