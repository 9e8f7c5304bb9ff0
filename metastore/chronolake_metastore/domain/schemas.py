"""Schemas: how the columns of a table may change while its files stay as they are (decision 0013).

Columns and nested fields are known by their field ids. A change must not make an existing file unreadable, or
move a record to another file group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from chronolake_hudi import publishable
from chronolake_metastore import errors
from chronolake_metastore.domain import definitions, nested_changes, publication
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import ImpossibleEvent, TableSchemaChanged
from chronolake_metastore.domain.nested_changes import RefusedChangeError
from chronolake_metastore.domain.tables import Definition, Table
from chronolake_model import merge_modes, nested_fields
from chronolake_model.columns import (
    COLUMNS_MAX,
    NAME_CHARACTERS_MAX,
    SCHEMA_BYTES_MAX,
    Field,
    SchemaField,
    refuse_larger,
)
from chronolake_model.schema_changes import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetNullable,
    WidenColumn,
)
from chronolake_model.times import Micros

_COLUMNS_NAMED_MAX: Final = 50


class Schema(msgspec.Struct, frozen=True):
    """One version of a table's schema. ``version`` is the version of the table's log that made it."""

    schema_version: int
    fields: list[SchemaField]
    created_at: Micros
    version: int


class ChangeSchema(Command, frozen=True):
    table: str
    changes: list[SchemaChange]
    expected_schema_version: int | None = None


def change(table: Table, command: ChangeSchema) -> TableSchemaChanged:
    """Change a table's schema by the whole request, or not at all.

    Raises ``SchemaChanged``, ``IncompatibleSchema`` or ``InvalidTable``.
    """
    definition = table.definition
    expected, present = command.expected_schema_version, definition.schema_version
    if expected not in (None, present):
        raise errors.SchemaChanged(
            f"the schema of {table.name!r} has version {present}, not {expected}; read it, and send the change "
            "again",
            table=table.name,
            schema_version=present,
            expected_schema_version=expected,
        )
    columns = _Columns(definition)
    for schema_change in command.changes:
        columns.change(schema_change)
    try:
        refuse_larger("the schema", columns.fields, SCHEMA_BYTES_MAX)
        refuse_larger("changes", command.changes, SCHEMA_BYTES_MAX)
    except ValueError as exc:
        raise errors.InvalidTable(f"{exc}, in {table.name!r}") from exc
    _refuse_unreadable(table, columns.fields)
    return TableSchemaChanged(
        name=table.name,
        schema_version=present + 1,
        fields=columns.fields,
        last_field_id=columns.last_field_id,
        changes=command.changes,
    )


def _refuse_unreadable(table: Table, fields: Sequence[SchemaField]) -> None:
    """Raise ``IncompatibleSchema`` when Hudi must be able to read the table, and could not."""
    if not publication.is_demanded(table.definition):
        return
    changed = msgspec.structs.replace(table.definition, schema=list(fields))
    reason = publishable.obstacle(changed) or publishable.log_obstacle(changed)
    renamed = publication.unreadable_versions(fields, {0: table.definition.schema})
    if reason is None and renamed:
        reason = (
            f"Hudi's readers would show wrong values of {renamed[0]!r} in the files from before; add a column "
            "of a new name"
        )
    if reason is not None:
        raise errors.IncompatibleSchema(
            f"{table.name!r} has the property hudi.publish=true, and {reason}. To change the schema all the "
            "same, unset the property: publication then pauses",
            table=table.name,
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


class _Columns:
    """The columns while a change is applied. A refusal leaves the table unchanged."""

    def __init__(self, definition: Definition) -> None:
        self.last_field_id = definition.last_field_id
        self._table = definition.name
        self._roles = _roles(definition)
        self._fields = {field.field_id: field for field in definition.schema}
        # Spark, Hive and most engines compare names of columns without regard to case.
        self._ids = {field.name.lower(): field.field_id for field in definition.schema}
        self._count = sum(map(_count, definition.schema))

    @property
    def fields(self) -> list[SchemaField]:
        """All that are left, in their order."""
        return list(self._fields.values())

    def change(self, schema_change: SchemaChange) -> None:
        path = schema_change.name
        try:
            column, *names = nested_fields.split(path)
            if isinstance(schema_change, AddColumn):
                _refuse_not_addable(schema_change, names[-1] if names else column)
            if names:
                self._change_nested(column, names, schema_change)
            else:
                self._change_column(column, schema_change)
        except (ValueError, RefusedChangeError) as exc:
            context = exc.context if isinstance(exc, RefusedChangeError) else {}
            raise errors.IncompatibleSchema(
                f"the column {path[:100]!r} of {self._table!r}: {exc}",
                table=self._table,
                column=path,
                **context,
            ) from exc

    def _change_column(self, name: str, schema_change: SchemaChange) -> None:
        match schema_change:
            case AddColumn():
                self._add(name, schema_change)
            case RenameColumn():
                self._rename(name, schema_change)
            case WidenColumn():
                self._widen(name, schema_change)
            case SetNullable():
                self._set_nullable(name, schema_change)
            case DropColumn():
                self._drop(name)
            case _:
                assert_never(schema_change)

    def _change_nested(self, name: str, names: Sequence[str], schema_change: SchemaChange) -> None:
        column = self._field(name)
        match schema_change:
            case AddColumn():
                data_type = definitions.check_column(Field(schema_change.name, schema_change.type))
                changed, self.last_field_id = nested_changes.add(column, names, data_type, self.last_field_id)
            case RenameColumn():
                changed = nested_changes.rename(column, names, schema_change.new_name)
            case WidenColumn():
                definitions.check_column(Field(schema_change.name, schema_change.type))
                changed = nested_changes.widen(column, names, schema_change.type)
            case SetNullable():
                _refuse_required(schema_change)
                changed = nested_changes.set_nullable(column, names)
            case DropColumn():
                changed = nested_changes.drop(column, names)
            case _:
                assert_never(schema_change)
        # The type may have become too long, or too deep.
        definitions.check_column(changed)
        self._put(changed)

    def _add(self, name: str, schema_change: AddColumn) -> None:
        data_type = definitions.check_column(Field(name, schema_change.type))
        self._refuse_taken(name)
        field_id = self.last_field_id + 1
        nested, self.last_field_id = nested_fields.numbered(data_type, field_id)
        self._put(SchemaField(name, schema_change.type, field_id=field_id, nested=nested))

    def _rename(self, name: str, schema_change: RenameColumn) -> None:
        field = self._field(name)
        self._refuse_role(name, "renamed")
        definitions.check_column(Field(schema_change.new_name, field.type))
        if schema_change.new_name == name:
            raise RefusedChangeError("it already has this name")
        # The same name in another case is allowed.
        del self._ids[name.lower()]
        self._refuse_taken(schema_change.new_name)
        self._put(msgspec.structs.replace(field, name=schema_change.new_name))

    def _widen(self, name: str, schema_change: WidenColumn) -> None:
        field = self._field(name)
        self._refuse_role(name, "given another type")
        definitions.check_column(Field(name, schema_change.type))
        nested_changes.refuse_no_wider(schema_change.type, field.type)
        self._put(msgspec.structs.replace(field, type=schema_change.type))

    def _set_nullable(self, name: str, schema_change: SetNullable) -> None:
        field = self._field(name)
        _refuse_required(schema_change)
        if field.nullable:
            raise RefusedChangeError("it is nullable already")
        self._put(msgspec.structs.replace(field, nullable=True))

    def _drop(self, name: str) -> None:
        field = self._field(name)
        # The record key cannot be dropped, so a column always remains.
        self._refuse_role(name, "dropped")
        del self._fields[field.field_id], self._ids[name.lower()]
        self._count -= _count(field)

    def _put(self, field: SchemaField) -> None:
        before = self._fields.get(field.field_id)
        self._count += _count(field) - (_count(before) if before else 0)
        if self._count > COLUMNS_MAX:
            raise RefusedChangeError(f"a table has {COLUMNS_MAX:,} columns at most, nested fields included")
        self._fields[field.field_id] = field
        self._ids[field.name.lower()] = field.field_id

    def _field(self, name: str) -> SchemaField:
        field_id = self._ids.get(name.lower())
        if field_id is not None and self._fields[field_id].name == name:
            return self._fields[field_id]
        names = [field.name for field in self._fields.values()]
        raise RefusedChangeError(
            f"there is no column {name[:100]!r}; the columns are {_listed(names)}",
            columns=names[:_COLUMNS_NAMED_MAX],
        )

    def _refuse_role(self, name: str, done: str) -> None:
        if role := self._roles.get(name):
            raise RefusedChangeError(
                f"{role} field cannot be {done}, because records are placed and compared by its name and type; "
                "create another table, and write the records into it"
            )

    def _refuse_taken(self, name: str) -> None:
        if (field_id := self._ids.get(name.lower())) is not None:
            taken = self._fields[field_id].name
            raise RefusedChangeError(f"there is the column {taken!r} already (case does not count)")


def _refuse_not_addable(schema_change: AddColumn, name: str) -> None:
    if not schema_change.nullable:
        raise RefusedChangeError("existing files do not have it; add it as a nullable column")
    if len(name) > NAME_CHARACTERS_MAX:
        raise RefusedChangeError(f"a name has {NAME_CHARACTERS_MAX} characters at most")


def _refuse_required(schema_change: SetNullable) -> None:
    if not schema_change.nullable:
        raise RefusedChangeError("there may be nulls in it, so a nullable column stays nullable")


def _count(column: SchemaField) -> int:
    return 1 + sum(1 for _ in nested_fields.field_ids(column.nested))


def _roles(definition: Definition) -> dict[str, str]:
    """The columns by which records are placed and ordered, and what they are."""
    ordering = merge_modes.ordering_fields(definition.ordering_field, definition.properties)
    return {
        **dict.fromkeys(ordering, "an ordering"),
        **dict.fromkeys(definition.partition_fields, "a partition"),
        **dict.fromkeys(definition.record_key_fields, "a record key"),
    }


def _listed(names: Sequence[str]) -> str:
    unnamed = len(names) - _COLUMNS_NAMED_MAX
    return ", ".join(names[:_COLUMNS_NAMED_MAX]) + (f" and {unnamed:,} more" if unnamed > 0 else "")
