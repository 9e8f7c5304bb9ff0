"""Values that a client derives from the definition of a table. No I/O but the log.

What Hudi's readers will not see is logged as a warning before the command is sent.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from chronolake_model import column_types
from chronolake_model.schemas import AddColumn, SchemaChange, TableSchema
from chronolake_model.tables import CreateTable, Field, SchemaField, Table
from chronolake_model.vocabulary import Action, TableType

if TYPE_CHECKING:
    import pyarrow as pa

PUBLICATION_PAUSES: Final = (0.05, 0.1, 0.2, 0.5, *[1.0] * 90)
"""Seconds between the tries to execute a compaction whose plan is not published yet.

In all more than the lease of a publisher, which runs on after its server was killed.
"""
HUDI_LOGGER: Final = "chronolake.hudi"
_LOG: Final = logging.getLogger(HUDI_LOGGER)


def fields_of(schema: Iterable[Field] | pa.Schema) -> list[Field]:
    """The columns of a new table. Raises ``TypeError`` for a schema of another kind, or of Arrow's types."""
    fields = list(schema)
    if all(isinstance(field, Field) for field in fields):
        return fields
    if type(schema).__module__.startswith("pyarrow.") and type(schema).__name__ == "Schema":
        return [_field_of(field) for field in fields]
    given = type(schema)
    name = f"a list of {type(fields[0]).__name__}" if given is list else f"{given.__module__}.{given.__name__}"
    raise TypeError(
        f"schema is a list of chronolake.Field, as [Field('id', 'bigint')], or a pyarrow.Schema, not {name}"
    )


def _field_of(field: pa.Field) -> Field:
    from chronolake.slices import arrow_types  # noqa: PLC0415  # PyArrow

    try:
        type_ = column_types.spell(arrow_types.column_type(field.type))
    except ValueError as exc:
        raise TypeError(f"the field {field.name!r} of the schema cannot be a column: {exc}") from exc
    return Field(field.name, type_, nullable=field.nullable)


def warn_of_new(table: CreateTable) -> None:
    """Warn if Hudi's readers will not see a table of this definition."""
    from chronolake_hudi import publishable  # noqa: PLC0415  # slow

    # The server refuses what is no definition.
    with contextlib.suppress(ValueError, KeyError, StopIteration):
        _warn(table.name, publishable.unseen(table))


def needs_former_schemas(table: Table, changes: Iterable[SchemaChange]) -> bool:
    """Whether a new column may have the name of one that the table does not have any more."""
    return table.schema_version > 1 and any(isinstance(change, AddColumn) for change in changes)


def warn_of_changes(
    table: Table, changes: Iterable[SchemaChange], former: Iterable[Sequence[SchemaField]]
) -> None:
    """Warn if Hudi's readers will not see a table after changes of its schema.

    ``former`` are the columns of its versions until now; those of the present one may be left out.
    """
    from chronolake_hudi import publishable  # noqa: PLC0415  # slow

    # The server refuses what is no change.
    with contextlib.suppress(ValueError):
        _warn(table.name, publishable.unseen_after(table, changes, [table.schema, *former]))


def _warn(name: str, reason: str | None) -> None:
    if reason is not None:
        _LOG.warning("Hudi's readers will not see %s: %s", name, reason)


def with_schema(table: Table, schema: TableSchema) -> Table:
    """The table with this schema, unless its own is of a later version."""
    if schema.schema_version < table.schema_version:
        return table
    return msgspec.structs.replace(table, schema=schema.fields, schema_version=schema.schema_version)


def write_action(type_: TableType) -> Action:
    """The action of a write to a table of this type."""
    match type_:
        case TableType.COPY_ON_WRITE:
            return Action.COMMIT
        case TableType.MERGE_ON_READ:
            return Action.DELTACOMMIT
