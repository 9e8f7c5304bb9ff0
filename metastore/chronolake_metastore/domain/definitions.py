"""The definition of a new table: what it may be, and what only an adopted one may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import properties
from chronolake_model import column_types, merge_modes, meta_columns, nested_fields, partition_paths
from chronolake_model.column_types import DataType, StructType
from chronolake_model.columns import COLUMNS_MAX, TYPE_CHARACTERS_MAX, BucketIndex, Field
from chronolake_model.merge_modes import MERGE_MODE_PROPERTY, ORDERING_FIELDS_PROPERTY, MergeMode
from chronolake_model.partition_paths import KEPT_KEYS_PROPERTY, KEPT_PROPERTY, are_kept
from chronolake_model.times import Tick
from chronolake_model.vocabulary import ADOPTED_PROPERTY, TableType

META_COLUMN_PREFIX: Final = "_hoodie_"
KEY_TYPES_REFUSED: Final = ("array", "map", "struct", "float", "double", "binary")


class NewDefinition(msgspec.Struct, frozen=True):
    """The definition of a new table, as its creator states it.

    With ``reuse_base_path`` it takes the folder over from dropped tables.
    """

    name: str
    base_path: str
    schema: Sequence[Field]
    record_key_fields: list[str]
    type: TableType = TableType.COPY_ON_WRITE
    partition_fields: list[str] = []
    ordering_field: str | None = None
    index: BucketIndex = BucketIndex()
    tick: Tick = Tick.MILLISECOND
    properties: dict[str, str] = {}
    reuse_base_path: bool = False


def check(definition: NewDefinition) -> None:
    """Raise ``InvalidTable`` when no new table can have this definition.

    A table that is adopted from Hudi may have more: see ``_refuse_adopted_only``.
    """
    is_adopted = ADOPTED_PROPERTY in definition.properties
    _check_schema(definition.schema, is_adopted=is_adopted)
    properties.refuse_unknown(definition.properties)
    properties.check(definition.properties)
    names = {field.name for field in definition.schema}
    properties.refuse_unsortable(definition.properties, definition.schema)
    ordering = merge_modes.ordering_fields(definition.ordering_field, definition.properties)
    if not is_adopted:
        _refuse_adopted_only(definition)
    _check_named("record_key_fields", definition.record_key_fields, names)
    _check_named("partition_fields", definition.partition_fields, names)
    _check_named("ordering_field", ordering, names)
    if not ordering and definition.properties.get(MERGE_MODE_PROPERTY) == MergeMode.EVENT_TIME:
        raise errors.InvalidTable(
            f"the property {MERGE_MODE_PROPERTY} is {MergeMode.EVENT_TIME}, and the table has no ordering "
            "field to compare: give ordering_field",
            property=MERGE_MODE_PROPERTY,
        )
    _check_separable(definition.record_key_fields)
    types = {field.name: field.type for field in definition.schema}
    # The values of partition fields are not computed from paths that are kept, nor paths from values.
    partitions = [] if are_kept(definition.properties) else definition.partition_fields
    for role, columns in (
        ("record key", definition.record_key_fields),
        ("partition", partitions),
        ("ordering", ordering),
    ):
        refused = KEY_TYPES_REFUSED[:3] if role == "ordering" else KEY_TYPES_REFUSED
        for column in columns:
            if types[column].lower().lstrip().startswith(refused):
                raise errors.InvalidTable(
                    f"the {role} field {column!r} is of type {types[column]}; "
                    f"{', '.join(refused)} cannot be used",
                    column=column,
                )


def check_column(field: Field) -> DataType:
    """The type of a column. Raises ``InvalidTable`` when no table could have such a column."""
    if field.name.lower().startswith(META_COLUMN_PREFIX):
        raise errors.InvalidTable(
            f"the column {field.name!r} begins with {META_COLUMN_PREFIX}, which is reserved for meta columns",
            column=field.name,
        )
    return _type_of(field)


def _is_delete_flag(field: Field) -> bool:
    return (field.name, field.type.strip().lower()) == (meta_columns.IS_DELETED, "boolean")


def _type_of(field: Field) -> DataType:
    try:
        if len(field.type) > TYPE_CHARACTERS_MAX:
            raise ValueError(f"it has more than {TYPE_CHARACTERS_MAX:,} characters")
        data_type = column_types.parse(field.type)
        _refuse_repeated_fields(data_type)
    except ValueError as exc:
        raise errors.InvalidTable(
            f"the column {field.name!r} has the type {field.type[:100]!r}: {exc}", column=field.name
        ) from exc
    return data_type


def _refuse_repeated_fields(data_type: DataType) -> None:
    fields = nested_fields.parts(data_type)
    if isinstance(data_type, StructType):
        seen: set[str] = set()
        for field in fields:
            if field.name.lower() in seen:
                raise ValueError(f"a struct has the field {field.name!r} twice (case does not count)")
            seen.add(field.name.lower())
    for field in fields:
        _refuse_repeated_fields(field.type)


def _refuse_adopted_only(definition: NewDefinition) -> None:
    """Refuse what only a table with files of Hudi needs."""
    if not definition.record_key_fields:
        raise errors.InvalidTable(
            "record_key_fields is empty: give the columns whose values identify a record; only a table that is "
            "adopted from Hudi may have none"
        )
    for name in (KEPT_KEYS_PROPERTY, KEPT_PROPERTY, ORDERING_FIELDS_PROPERTY):
        if name in definition.properties:
            raise errors.InvalidTable(
                f"the property {name} is only for tables that are adopted from Hudi: leave it out",
                property=name,
            )


def _check_separable(record_key_fields: list[str]) -> None:
    """Refuse names that would let the text ``a:1,b:2`` of a key have two readings."""
    if len(record_key_fields) <= 1:
        return
    for column in record_key_fields:
        if any(separator in column for separator in partition_paths.SEPARATORS):
            raise errors.InvalidTable(
                f"the record key field {column!r} has a comma or a colon in its name, which separate the "
                "fields of a record key of several; rename it",
                column=column,
            )


def _check_schema(schema: Sequence[Field], *, is_adopted: bool) -> None:
    seen: set[str] = set()
    count = len(schema)
    for field in schema:
        # Spark, Hive and most engines compare names of columns without regard to case.
        folded = field.name.lower()
        if folded in seen:
            raise errors.InvalidTable(
                f"the schema has the column {field.name!r} twice (case does not count)", column=field.name
            )
        data_type = _type_of(field) if is_adopted and _is_delete_flag(field) else check_column(field)
        count += nested_fields.count(data_type)
        seen.add(folded)
    if count > COLUMNS_MAX:
        raise errors.InvalidTable(
            f"a table has {COLUMNS_MAX:,} columns at most, nested fields included, and not {count:,}"
        )


def _check_named(role: str, columns: Sequence[str], names: set[str]) -> None:
    if len(set(columns)) != len(columns):
        raise errors.InvalidTable(f"{role} names a column twice", columns=columns)
    missing = [column for column in columns if column not in names]
    if missing:
        raise errors.InvalidTable(
            f"{role} names {', '.join(map(repr, missing))}, which the schema does not have", columns=missing
        )
