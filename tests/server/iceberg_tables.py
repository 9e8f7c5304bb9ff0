"""Tables for the Iceberg catalog, whose files do not exist: their metadata is made from the log alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chronolake
from chronolake import Field
from chronolake_model.file_names import base_file_name
from chronolake_model.files import WriteStat

SCHEMA = (Field("id", "bigint"), Field("value", "string"))


def new_table(client: chronolake.Client, name: str, folder: Path, **definition: Any) -> chronolake.Table:
    """A table with one commit, unless it has partitions."""
    stated = {"schema": list(SCHEMA), "record_key_fields": ["id"], **definition}
    table = client.create_table(name, base_path=str(folder), **stated)
    table.claim_storage()
    if not table.definition.partition_fields:
        commit(table)
    return table


def commit(
    table: chronolake.Table,
    *,
    path: str = "",
    has_field_ids: bool = True,
    file_id: str = "00000000-0000-0000-0000-000000000000-0",
) -> None:
    """An instant with one base file of one file group."""
    with table.begin() as write:
        name = base_file_name(file_id, "0-0-0", write.requested_time)
        write.add(WriteStat(path, file_id, name, 100, 3, inserts=3, has_field_ids=has_field_ids))
