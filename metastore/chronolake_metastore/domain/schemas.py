"""Schemas: how the columns of a table may change while its files stay as they are (decision 0013).

A column is known by its field id. A change must not make an existing file unreadable, or move a record to
another file group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, assert_never

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain import tables
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import ImpossibleEvent, TableSchemaChanged
from chronolake_metastore.domain.tables import Definition, Table
from chronolake_model import column_types, schemas as wire
from chronolake_model.tables import COLUMNS_MAX, SCHEMA_BYTES_MAX, Field, SchemaField, refuse_larger
from chronolake_model.times import Micros, to_datetime

_COLUMNS_NAMED_MAX: Final = 50


class Schema(msgspec.Struct, frozen=True):
    """One version of a table's schema. ``version`` is the version of the table's log that made it."""

    schema_version: int
    fields: list[SchemaField]
    created_at: Micros
    version: int


class ChangeSchema(Command, frozen=True):
    table: str
    request: wire.ChangeSchema


def change(table: Table, request: wire.ChangeSchema) -> TableSchemaChanged:
    """Change a table's schema by the whole request, or not at all.

    Raises ``SchemaChanged``, ``IncompatibleSchema`` or ``InvalidTable``.
    """
    definition = table.definition
    expected, present = request.expected_schema_version, definition.schema_version
    if expected not in (None, present):
        raise errors.SchemaChanged(
            f"the schema of {table.name!r} has version {present}, not {expected}; read it, and send the change "
            "again",
            table=table.name,
            schema_version=present,
            expected_schema_version=expected,
        )
    columns = _Columns(definition)
    for schema_change in request.changes:
        columns.change(schema_change)
    try:
        refuse_larger("the schema", columns.fields, SCHEMA_BYTES_MAX)
        refuse_larger("changes", request.changes, SCHEMA_BYTES_MAX)
    except ValueError as exc:
        raise errors.InvalidTable(f"{exc}, in {table.name!r}") from exc
    return TableSchemaChanged(
        name=table.name,
        schema_version=present + 1,
        fields=columns.fields,
        last_field_id=columns.last_field_id,
        changes=request.changes,
    )


def evolve(table: Table, event: TableSchemaChanged) -> Table:
    """The table after ``event``; raises ``ImpossibleEvent``."""
    if event.schema_version != table.definition.schema_version + 1:
        raise ImpossibleEvent("versions of the schema are dense")
    definition = msgspec.structs.replace(
        table.definition,
        schema=event.fields,
        schema_version=event.schema_version,
        last_field_id=event.last_field_id,
    )
    return msgspec.structs.replace(table, definition=definition)


def present(table: Table, time: Micros, version: int) -> Schema:
    """The schema of a table that the event of this time and version has made."""
    return Schema(table.definition.schema_version, table.definition.schema, time, version)


def document(table: Table, schema: Schema) -> wire.TableSchema:
    """A version of the schema as the REST API shows it."""
    return wire.TableSchema(
        table=table.name,
        schema_version=schema.schema_version,
        fields=schema.fields,
        created_at=to_datetime(schema.created_at),
        version=schema.version,
    )


class _Columns:
    """The columns while a change is applied. A refusal leaves the table unchanged."""

    def __init__(self, definition: Definition) -> None:
        self.last_field_id = definition.last_field_id
        self._table = definition.name
        self._roles = _roles(definition)
        self._fields = {field.field_id: field for field in definition.schema}
        # Spark, Hive and most engines compare names of columns without regard to case.
        self._ids = {field.name.lower(): field.field_id for field in definition.schema}

    @property
    def fields(self) -> list[SchemaField]:
        """All that are left, in their order."""
        return list(self._fields.values())

    def change(self, schema_change: wire.SchemaChange) -> None:
        match schema_change:
            case wire.AddColumn():
                self._add(schema_change)
            case wire.RenameColumn():
                self._rename(schema_change)
            case wire.WidenColumn():
                self._widen(schema_change)
            case wire.SetNullable():
                self._set_nullable(schema_change)
            case wire.DropColumn():
                self._drop(schema_change)
            case _:
                assert_never(schema_change)

    def _add(self, schema_change: wire.AddColumn) -> None:
        tables.check_column(Field(schema_change.name, schema_change.type))
        if not schema_change.nullable:
            raise self._refused(
                schema_change.name, ("existing files do not have it; add it as a nullable column")
            )
        if len(self._fields) >= COLUMNS_MAX:
            raise self._refused(schema_change.name, f"a table has {COLUMNS_MAX:,} columns at most")
        self._refuse_taken(schema_change.name)
        self.last_field_id += 1
        self._put(SchemaField(schema_change.name, schema_change.type, field_id=self.last_field_id))

    def _rename(self, schema_change: wire.RenameColumn) -> None:
        field = self._field(schema_change.name)
        self._refuse_role(schema_change.name, "renamed")
        tables.check_column(Field(schema_change.new_name, field.type))
        if schema_change.new_name == schema_change.name:
            raise self._refused(schema_change.name, "it already has this name")
        # The same name in another case is allowed.
        del self._ids[schema_change.name.lower()]
        self._refuse_taken(schema_change.new_name)
        self._put(msgspec.structs.replace(field, name=schema_change.new_name))

    def _widen(self, schema_change: wire.WidenColumn) -> None:
        field = self._field(schema_change.name)
        self._refuse_role(schema_change.name, "given another type")
        tables.check_column(Field(schema_change.name, schema_change.type))
        if not column_types.is_wider(schema_change.type, field.type):
            allowed = column_types.widenings(field.type)
            advice = f"it may become {' or '.join(allowed)}" if allowed else "no type is wider"
            raise self._refused(
                schema_change.name,
                f"files that store it as {field.type[:100]} cannot be read as {schema_change.type[:100]}; "
                f"{advice}",
                type=field.type,
                allowed=allowed,
            )
        self._put(msgspec.structs.replace(field, type=schema_change.type))

    def _set_nullable(self, schema_change: wire.SetNullable) -> None:
        field = self._field(schema_change.name)
        if not schema_change.nullable:
            raise self._refused(
                schema_change.name, ("there may be nulls in it, so a nullable column stays nullable")
            )
        if field.nullable:
            raise self._refused(schema_change.name, "it is nullable already")
        self._put(msgspec.structs.replace(field, nullable=True))

    def _drop(self, schema_change: wire.DropColumn) -> None:
        field = self._field(schema_change.name)
        # The record key cannot be dropped, so a column always remains.
        self._refuse_role(schema_change.name, "dropped")
        del self._fields[field.field_id], self._ids[schema_change.name.lower()]

    def _put(self, field: SchemaField) -> None:
        self._fields[field.field_id] = field
        self._ids[field.name.lower()] = field.field_id

    def _field(self, name: str) -> SchemaField:
        field_id = self._ids.get(name.lower())
        if field_id is not None and self._fields[field_id].name == name:
            return self._fields[field_id]
        names = [field.name for field in self._fields.values()]
        raise self._refused(
            name,
            (f"there is no such column; the columns are {_listed(names)}"),
            columns=names[:_COLUMNS_NAMED_MAX],
        )

    def _refuse_role(self, name: str, done: str) -> None:
        if role := self._roles.get(name):
            raise self._refused(
                name,
                f"{role} field cannot be {done}, because records are placed and compared by its name and type; "
                "create another table, and write the records into it",
            )

    def _refuse_taken(self, name: str) -> None:
        if (field_id := self._ids.get(name.lower())) is not None:
            taken = self._fields[field_id].name
            raise self._refused(name, f"there is the column {taken!r} already (case does not count)")

    def _refused(self, column: str, why: str, **context: Any) -> errors.IncompatibleSchema:
        return errors.IncompatibleSchema(
            f"the column {column[:100]!r} of {self._table!r}: {why}",
            table=self._table,
            column=column,
            **context,
        )


def _roles(definition: Definition) -> dict[str, str]:
    """The columns by which records are placed and ordered, and what they are."""
    ordering = [] if definition.ordering_field is None else [definition.ordering_field]
    return {
        **dict.fromkeys(ordering, "an ordering"),
        **dict.fromkeys(definition.partition_fields, "a partition"),
        **dict.fromkeys(definition.record_key_fields, "a record key"),
    }


def _listed(names: Sequence[str]) -> str:
    unnamed = len(names) - _COLUMNS_NAMED_MAX
    return ", ".join(names[:_COLUMNS_NAMED_MAX]) + (f" and {unnamed:,} more" if unnamed > 0 else "")
