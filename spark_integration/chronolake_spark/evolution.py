"""Files of earlier versions of a table's schema, as files of the present one: columns go by their field ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import chronolake
from chronolake_model.files import FileSlice
from chronolake_model.tables import SchemaField, Table
from chronolake_spark import columns


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

    def names(self, version: int) -> dict[str, str]:
        """The names of the table's columns in the files of a version, for the columns that these files have."""
        stored = {field.field_id: field.name for field in self.fields_of(version)}
        own = {field.name: stored[field.field_id] for field in self.table.schema if field.field_id in stored}
        return {**{name: name for name in columns.META}, **own}


def versions(table: chronolake.Table, definition: Table, slices: Iterable[FileSlice]) -> Versions:
    """The schema versions of the base files of ``slices``, for reading them with ``definition``."""
    used = {slice_.base_file.schema_version for slice_ in slices if slice_.base_file is not None}
    used.discard(definition.schema_version)
    return Versions(
        definition, {version: table.schema(version).fields for version in used}, table.storage_options
    )
