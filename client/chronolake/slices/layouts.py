"""Base files of any version of a table's schema in the present layout, in Arrow: fields go by field id."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from chronolake import field_ids
from chronolake.slices import columns, errors
from chronolake_model.tables import SchemaField

StoredFields = Sequence[SchemaField] | None
"""The columns of the schema version that a file without field ids was written with; None for one with them."""


def file_schema(table_schema: pa.Schema, fields: Sequence[SchemaField]) -> pa.Schema:
    """The layout of a base file: Hudi's five columns, then the table's, all nullable and with field ids."""
    meta = [pa.field(name, pa.string()) for name in columns.META]
    layout = pa.schema(meta + [pa.field(field.name, field.type) for field in table_schema])
    return field_ids.with_field_ids(layout, fields)


def with_dictionaries(layout: pa.Schema) -> pa.Schema:
    """The same layout in memory, in which columns of repeated texts are dictionaries.

    Such columns are read, filtered and written without decoding the text of each row.
    """
    dictionary = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [field.with_type(dictionary) if field.name in columns.REPEATED else field for field in layout]
    )


def stored_schema(file: pq.ParquetFile, fields: StoredFields, path: str) -> pa.Schema:
    """The schema of a file with the field ids of its columns: those that it carries, or those of its names.

    Raises ``BaseFileDamaged`` if it lacks some of those that it should carry.
    """
    schema: pa.Schema = file.schema_arrow
    if fields is not None:
        return field_ids.by_names(schema, fields)
    missing = [name for name, field_id in field_ids.ids_of(schema).items() if field_id is None]
    if missing:
        raise errors.BaseFileDamaged(
            f"the base file {path} has no field id for {missing[0]}, although its write stat says that it has "
            "the field ids of all columns; restore the file, or the table to a savepoint before it was written",
            {"path": path, "columns": missing},
        )
    return schema


def columns_of(stored: pa.Schema, layout: pa.Schema) -> list[str]:
    """The columns of a file that the layout needs, by their names in the file."""
    wanted = {field_ids.of(field) for field in layout}
    return [field.name for field in stored if _has_id_in(field, wanted)]


def in_layout(rows: pa.Table, stored: pa.Schema, layout: pa.Schema) -> pa.Table:
    """Rows of a file in another layout. Both schemas have field ids.

    ``rows`` have the columns that ``columns_of`` names. A field that the file was written without is null; a
    type that was narrower is widened.
    """
    names = {field_ids.of(field): field.name for field in stored}
    converted = []
    for field in layout:
        name = names.get(field_ids.of(field))
        if name is None:
            converted.append(pa.nulls(len(rows), field.type))
        else:
            converted.append(_column(rows[name], stored.field(name), field))
    return pa.table(converted, schema=layout)


def _has_id_in(field: pa.Field, wanted: set[int | None]) -> bool:
    field_id = field_ids.of(field)
    return field_id is not None and field_id in wanted


def _column(values: pa.ChunkedArray, stored: pa.Field, field: pa.Field) -> pa.ChunkedArray:
    if _is_same(stored, field):
        return values if values.type == field.type else values.cast(field.type)
    return pa.chunked_array([_array(chunk, stored, field) for chunk in values.chunks], field.type)


def _is_same(stored: pa.Field, field: pa.Field) -> bool:
    """Whether the fields within have the same ids, in the same order and under the same names."""
    mine, theirs = field_ids.parts(field.type), field_ids.parts(stored.type)
    return len(mine) == len(theirs) and all(
        name == stored_name and field_ids.of(part) == field_ids.of(stored_part) and _is_same(stored_part, part)
        for (name, part), (stored_name, stored_part) in zip(mine, theirs, strict=True)
    )


def _array(values: pa.Array, stored: pa.Field, field: pa.Field) -> pa.Array:
    """Values of the type of ``stored`` as those of ``field``. Each nested field of it is found by its id."""
    if pa.types.is_struct(field.type):
        return _struct(values, stored, field)
    if pa.types.is_map(field.type):
        keys = _array(values.keys, stored.type.key_field, field.type.key_field)
        items = _array(values.items, stored.type.item_field, field.type.item_field)
        offsets = pa.array(values.offsets.to_numpy())
        return pa.MapArray.from_arrays(offsets, keys, items, mask=values.is_null()).cast(field.type)
    if pa.types.is_list(field.type):
        elements = _array(values.values, stored.type.value_field, field.type.value_field)
        offsets = pa.array(values.offsets.to_numpy())
        return pa.ListArray.from_arrays(offsets, elements, mask=values.is_null()).cast(field.type)
    return values.cast(field.type)


def _struct(values: pa.Array, stored: pa.Field, field: pa.Field) -> pa.Array:
    # Unlike ``field()``, ``flatten()`` knows of an offset and of structs that are null.
    known = {
        field_ids.of(part): (part, array)
        for part, array in zip(stored.type, values.flatten(), strict=True)
        if field_ids.of(part) is not None
    }
    arrays = []
    for part in field.type:
        stored_part, array = known.get(field_ids.of(part), (None, None))
        arrays.append(
            pa.nulls(len(values), part.type) if stored_part is None else _array(array, stored_part, part)
        )
    return pa.StructArray.from_arrays(arrays, fields=list(field.type), mask=values.is_null())
