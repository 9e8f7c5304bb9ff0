"""Values that a client derives from the definition of a table. No I/O."""

from __future__ import annotations

from typing import Final

import msgspec

from chronolake_model.schemas import TableSchema
from chronolake_model.tables import Table
from chronolake_model.vocabulary import Action, TableType

PUBLICATION_PAUSES: Final = (0.05, 0.1, 0.2, 0.5, *[1.0] * 60)
"""Seconds between the tries to execute a compaction whose plan is not published yet: a minute in all."""


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
