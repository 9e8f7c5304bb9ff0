"""The table ``orders`` in the working directory, and a deletion through its guard, for the tests of mounts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import msgspec

from chronolake_model.deletable import LogHead
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_storage import claims
from chronolake_storage.claims import Owner
from chronolake_storage.errors import StorageError
from chronolake_storage.guard import Deleting, Guard
from chronolake_storage.local import LocalFiles
from chronolake_storage.overlaps import TablePlace

INSTANT = "20260101000000000"
NAME = base_file_name(bucket_file_id(0), "0-0-0", INSTANT)
OWNER = Owner("metastore-1", "table-1", "shop.orders")


class NeedsNothing:
    """A metastore that needs no file."""

    def owner(self) -> Owner:
        return OWNER

    def tables(self) -> Sequence[TablePlace]:
        return tables

    def needed_files(
        self, deleting: Deleting, paths: Sequence[str], recorded: LogHead | None
    ) -> Mapping[str, str]:
        return {}

    def is_hidden(self) -> bool:
        return False


files = LocalFiles("orders")
tables: list[TablePlace] = []
"""The other tables of the metastore."""


def add_table(folder: str, *, is_dropped: bool = False) -> None:
    """Let the metastore have the table ``shop.other`` in a folder of the working directory."""
    tables.append(TablePlace("table-2", "shop.other", os.path.abspath(folder), is_dropped))


def claim(folder: str, owner: Owner) -> None:
    """Claim a folder, whatever lies in it."""
    LocalFiles(folder).create(
        claims.PATH,
        msgspec.json.encode(claims.Claim(1, owner.metastore_id, owner.table_id, owner.table, "2026-01-01")),
    )


def delete(path: str) -> str | None:
    """Why a file was not deleted; None if it was."""
    try:
        [deletion] = Guard(files, OWNER, NeedsNothing()).delete(Deleting(INSTANT, INSTANT), [path])
    except StorageError as exc:
        return str(exc)
    return deletion.failure
