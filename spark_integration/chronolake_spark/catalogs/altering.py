"""``ALTER TABLE``, ``DROP TABLE`` and ``TRUNCATE TABLE``: the changes that Spark describes, as the server's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from pyspark.sql.types import DataType, _parse_datatype_json_string

from chronolake_model import nested_fields
from chronolake_model.schemas import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetNullable,
    WidenColumn,
)
from chronolake_spark import errors
from chronolake_spark.catalogs import definitions, new_tables
from chronolake_spark.catalogs.context import CatalogContext
from chronolake_spark.catalogs.definitions import OfTable, TableOfSpark
from chronolake_spark.driver import schema
from chronolake_spark.tables import SparkTable


class ChangeOfSpark(msgspec.Struct, frozen=True):
    """A change, by the name of Spark's class. ``column`` is a path; ``type`` is JSON of Spark."""

    change: str
    column: list[str] = []
    type: str | None = None
    nullable: bool = True
    to: str | None = None
    property: str = ""
    value: str = ""
    comment: str | None = None
    position: str | None = None
    default: str | None = None
    if_exists: bool = False


class TableToAlter(msgspec.Struct, frozen=True):
    """A request to change a table."""

    table: str
    changes: list[ChangeOfSpark]


class TableToRename(msgspec.Struct, frozen=True):
    """A request to rename a table."""

    table: str
    to: str


_REFUSED: Final = {
    "UpdateColumnPosition": "the columns of a table keep their order: name them in SELECT",
    "UpdateColumnComment": "columns have no comments; a table may have one",
    "UpdateColumnDefaultValue": "columns have no default values",
    "ClusterBy": "tables are not clustered by columns: set hoodie.clustering.plan.strategy.sort.columns",
    "AddConstraint": "tables have no constraints",
    "DropConstraint": "tables have no constraints",
}
_PROPERTY_CHANGES: Final = ("SetProperty", "RemoveProperty")


def alter(context: CatalogContext, request: TableToAlter) -> TableOfSpark:
    """Change the columns or the properties of a table. Raises ``InvalidOption``, and the server's errors."""
    table = context.table(request.table)
    of_properties = [change for change in request.changes if change.change in _PROPERTY_CHANGES]
    of_columns = [change for change in request.changes if change.change not in _PROPERTY_CHANGES]
    # No statement of Spark has both, so a table has all changes of a statement or none.
    assert not (of_properties and of_columns)
    if of_columns:
        version = table.definition.schema_version
        columns = [
            _schema_change(change) for change in of_columns if not _is_done(table.definition.schema, change)
        ]
        if columns:
            table.change_schema(columns, expected_schema_version=version)
    if of_properties:
        for change in of_properties:
            _refuse_fixed(change.property)
        table.alter(
            set={change.property: change.value for change in of_properties if change.change == "SetProperty"},
            unset=[change.property for change in of_properties if change.change == "RemoveProperty"],
        )
    return definitions.loaded(table.definition)


def rename(context: CatalogContext, request: TableToRename) -> None:
    """Give a table another name, perhaps in another namespace."""
    context.table(request.table).alter(name=request.to)


def drop(context: CatalogContext, request: OfTable) -> None:
    """Drop a table. Its files stay."""
    context.client.drop_table(request.table)


def truncate(context: CatalogContext, request: OfTable) -> None:
    """Replace all records of a table by none, in one instant."""
    table = SparkTable(context.spark, context.client, context.table(request.table))
    nothing = context.spark.createDataFrame([], schema.struct_of(table.definition.schema))
    table.overwrite(nothing, "all")


def _is_done(fields: Sequence[object], change: ChangeOfSpark) -> bool:
    """Whether a column to drop IF EXISTS does not exist."""
    names = {getattr(field, "name", None) for field in fields}
    return change.change == "DeleteColumn" and change.if_exists and change.column[0] not in names


def _schema_change(change: ChangeOfSpark) -> SchemaChange:
    path = nested_fields.join(change.column)
    match change.change:
        case "AddColumn":
            _refuse_unsupported(change, path)
            return AddColumn(path, _type(change), change.nullable)
        case "RenameColumn":
            return RenameColumn(path, change.to or "")
        case "UpdateColumnType":
            return WidenColumn(path, _type(change))
        case "UpdateColumnNullability":
            return SetNullable(path, change.nullable)
        case "DeleteColumn":
            return DropColumn(path)
        case _:
            reason = _REFUSED.get(change.change, f"the server has no change {change.change}")
            raise errors.InvalidOption(reason)


def _refuse_unsupported(change: ChangeOfSpark, path: str) -> None:
    if change.position is not None:
        raise errors.InvalidOption(f"a new column comes after the others: leave out FIRST or AFTER of {path}")
    if change.default is not None:
        raise errors.InvalidOption(f"columns have no default values: leave out DEFAULT of {path}")
    if change.comment is not None:
        raise errors.InvalidOption(f"columns have no comments: leave out COMMENT of {path}")


def _type(change: ChangeOfSpark) -> str:
    assert change.type is not None
    given: DataType = _parse_datatype_json_string(change.type)
    new_tables.refuse_comments(given, nested_fields.join(change.column))
    return schema.text_of(given, change.column[-1])


def _refuse_fixed(name: str) -> None:
    if name in new_tables.OF_SPARK:
        raise errors.InvalidOption(f"{name} is a word of Spark's: choose another name for the property")
    if name == "buckets":
        raise errors.InvalidOption(
            "the number of buckets is changed by chronolake_spark.table(spark, 'namespace.table')"
            ".resize_buckets(number), which writes all files anew"
        )
    if name in new_tables.FIXED:
        raise errors.InvalidOption(f"a table keeps its {name} as it was made with: make another table")
