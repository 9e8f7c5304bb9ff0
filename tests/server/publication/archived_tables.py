"""Tables whose published active timeline is short, and what the files of their history hold."""

from __future__ import annotations

import io
from typing import Any, Final

import msgspec
import pyarrow.parquet as pq

from chronolake_model.publication import ACTIVE_HOURS_PROPERTY, KEEP_MAX_PROPERTY, KEEP_MIN_PROPERTY
from chronolake_model.vocabulary import GRACE_PROPERTY
from chronolake_storage.publishing import HISTORY_FOLDER, TIMELINE_FOLDER
from tests.published import PublishedTable

SHORT: Final = {
    KEEP_MAX_PROPERTY: "4",
    KEEP_MIN_PROPERTY: "2",
    ACTIVE_HOURS_PROPERTY: "0",
    GRACE_PROPERTY: "0",
}
"""With more than four commits, all but two leave."""


def names(table: PublishedTable, folder: str = TIMELINE_FOLDER) -> list[str]:
    """The names of the files in a folder of a table."""
    return sorted(file.file_name for file in table.store.files().files_in(folder))


def history_names(table: PublishedTable) -> list[str]:
    """The names of the files of the history."""
    return names(table, HISTORY_FOLDER)


def manifest(table: PublishedTable) -> list[dict[str, Any]]:
    """The entries of the present manifest, as readers find it."""
    number = int(table.body(f"{HISTORY_FOLDER}/_version_"))
    entries: list[dict[str, Any]] = msgspec.json.decode(table.body(f"{HISTORY_FOLDER}/manifest_{number}"))[
        "files"
    ]
    return entries


def archived(table: PublishedTable) -> list[dict[str, Any]]:
    """The rows of the history that readers find, in the order of the files; none without a history."""
    if "_version_" not in history_names(table):
        return []
    rows: list[dict[str, Any]] = []
    for entry in manifest(table):
        content = table.body(f"{HISTORY_FOLDER}/{entry['fileName']}")
        assert len(content) == entry["fileLen"]
        rows += pq.ParquetFile(io.BytesIO(content)).read().to_pylist()
    return rows


def times(rows: list[dict[str, Any]]) -> list[str]:
    """The requested times of rows."""
    return [row["instantTime"] for row in rows]


def active_times(table: PublishedTable) -> list[str]:
    """The requested times of the files on the active timeline."""
    return [name[:17] for name in names(table) if not name.startswith(".")]
