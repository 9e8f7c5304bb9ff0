"""Files of earlier versions of a table's schema, as files of the present one: fields go by their field ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

import chronolake
from chronolake.indexes import partial_snapshots
from chronolake.slices import arrow_types, columns, slice_reader, stored_slices
from chronolake.slices.base_files import TableFolder
from chronolake.slices.slice_reader import SliceReader
from chronolake_model.files import FileSlice
from chronolake_model.tables import NestedField, SchemaField, Table
from chronolake_spark.driver import schema


@dataclass(frozen=True, slots=True)
class Versions:
    """The definition of a table, and the schema versions of its files.

    ``fields`` has the schema versions other than the definition's, ``storage_options`` the access to the files.
    """

    table: Table
    fields: Mapping[int, Sequence[SchemaField]]
    storage_options: Mapping[str, str]

    def fields_of(self, version: int) -> Sequence[SchemaField]:
        """The columns of a version, as its files have them."""
        return self.fields.get(version, self.table.schema)

    def all_fields(self) -> dict[int, Sequence[SchemaField]]:
        """The columns of each version, the definition's among them."""
        return {**self.fields, self.table.schema_version: self.table.schema}

    def layout_of(self, version: int) -> int:
        """The present version if files of ``version`` have the same layout, and otherwise ``version``."""
        is_present = _layout(self.fields_of(version)) == _layout(self.table.schema)
        return self.table.schema_version if is_present else version

    def in_present_columns(self, rows: DataFrame, version: int, names: Sequence[str]) -> DataFrame:
        """The columns ``names`` of the present layout, of a frame of files of a version."""
        stored = {field.field_id: field for field in self.fields_of(version)}
        present = {field.name: field for field in self.table.schema}
        made: dict[str, str | Column] = {name: name for name in columns.META} | {
            name: _column(stored.get(present[name].field_id), present[name])
            for name in names
            if name in present
        }
        return schema.with_expressions(rows, [made[name] for name in names])

    def reader(self, names: Sequence[str]) -> SliceReader:
        """A reader of the files, for the columns ``names`` of the present layout."""
        layout = arrow_types.file_layout(self.table.schema)
        return SliceReader(
            TableFolder.of(self.table.base_path, self.storage_options),
            pa.schema([layout.field(name) for name in names]),
            self.all_fields(),
            slice_reader.ordering_of(layout, self.table.merge_fields),
        )


def versions(table: chronolake.Table, definition: Table, slices: Iterable[FileSlice]) -> Versions:
    """The schema versions of the files of ``slices``, for reading them with ``definition``."""
    used = stored_slices.schema_versions(slices)
    fields = partial_snapshots.fields_of_versions(table, definition, used)
    return Versions(definition, fields, table.storage_options)


def _layout(fields: Iterable[SchemaField]) -> list[tuple[object, ...]]:
    return [(field.field_id, field.name, field.type, field.nested) for field in fields]


def _column(stored: SchemaField | None, field: SchemaField) -> str | Column:
    """The value of a column in files that were written with the column ``stored``."""
    if stored is None:
        return schema.null_of(field)
    own = schema.quoted(stored.name)
    if stored.nested == field.nested:
        # A cast goes by the positions of nested fields, which are the same.
        return f"cast({own} as {schema.ddl(field.type)}) as {schema.quoted(field.name)}"
    value = sf.col(own)
    return _present(value, stored.nested, field.nested, schema.type_of(field.type)).alias(field.name)


def _present(
    value: Column, stored: Sequence[NestedField], present: Sequence[NestedField], data_type: DataType
) -> Column:
    """A value with the nested fields ``stored``, as one of ``data_type`` with the nested fields ``present``."""
    if stored == present:
        # A cast goes by the positions of fields, which are the same.
        return value.cast(data_type)
    if isinstance(data_type, StructType):
        known = {field.field_id: field for field in stored}
        parts = [
            _part(value, known.get(field.field_id), field, part.dataType)
            for field, part in zip(present, data_type, strict=True)
        ]
        return sf.when(value.isNotNull(), sf.struct(*parts))
    within_stored, within = stored[-1].nested, present[-1].nested
    if isinstance(data_type, ArrayType):
        element = data_type.elementType
        return sf.transform(value, lambda item: _present(item, within_stored, within, element))
    assert isinstance(data_type, MapType), "no other type has nested fields"
    # The key of a map never changes.
    value_type = data_type.valueType
    return sf.transform_values(value, lambda _, item: _present(item, within_stored, within, value_type))


def _part(struct: Column, stored: NestedField | None, field: NestedField, data_type: DataType) -> Column:
    if stored is None:
        return sf.lit(None).cast(data_type).alias(field.name)
    value = struct.getField(stored.name)
    return _present(value, stored.nested, field.nested, data_type).alias(field.name)
