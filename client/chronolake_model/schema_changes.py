"""Changes of a table's columns."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chronolake_model.columns import ColumnName, ColumnType

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
