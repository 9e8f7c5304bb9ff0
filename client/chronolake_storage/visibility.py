"""Whether Hudi's readers find a table: the file ``hoodie.properties``, and the table that it names."""

from __future__ import annotations

import re
from typing import Final

from chronolake_storage.files import METADATA_FOLDER, Files

PROPERTIES_PATH: Final = f"{METADATA_FOLDER}/hoodie.properties"
BACKUP_PATH: Final = f"{PROPERTIES_PATH}.backup"
"""Hudi's Java readers take it if there is no ``hoodie.properties``. A writer of Hudi that died leaves it."""
PROPERTIES_BYTES_MAX: Final = 1024 * 1024
_TABLE_ID: Final = re.compile(rb"(?m)^chronolake\.table-id=(\S+)\s*$")
_TABLE_NAME: Final = re.compile(rb"(?m)^[ \t\f]*hoodie\.table\.name[ \t\f]*[=: \t\f][ \t\f]*\S")


def shown_by(files: Files, table_id: str) -> str | None:
    """The file by which Hudi's readers find this table; None if there is none.

    A file of another Hudi table does not count.
    """
    for path in (PROPERTIES_PATH, BACKUP_PATH):
        stored = files.read(path, PROPERTIES_BYTES_MAX)
        if stored is not None and table_id_in(stored.body) == table_id:
            return path
    return None


def is_foreign(properties: bytes, table_id: str) -> bool:
    """Whether a ``hoodie.properties`` is of another table than the one of this id. A damaged one is not."""
    return _TABLE_NAME.search(properties) is not None and table_id_in(properties) != table_id


def table_id_in(properties: bytes) -> str:
    """The id of the table that has published a ``hoodie.properties``; empty if it is another one's."""
    match = _TABLE_ID.search(properties)
    return "" if match is None else match[1].decode(errors="replace")
