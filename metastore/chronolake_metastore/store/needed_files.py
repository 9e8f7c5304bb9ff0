"""The statements by which rows of files leave PostgreSQL: those that were cleaned before ``files_from``."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.needed_events import BEGINNING
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.transaction import Statement, Transaction
from chronolake_model.times import Micros

DELETED_AT_ONCE: Final = 5_000
"""Rows that one transaction looks at."""
_LEAVES: Final = statements.load("needed_files/leaves")
_DELETE: Final = statements.load("needed_files/delete").replace("{leaves}", _LEAVES)
_PRUNE: Final = statements.load("needed_files/prune_replay").replace("{leaves}", _LEAVES)


class FilePeriod(msgspec.Struct, frozen=True):
    """The place of a row among the files that left the latest slices of a table."""

    superseded_at: Micros = BEGINNING
    version: int = 0
    ordinal: int = 0
    live_from: Micros = BEGINNING


class DeletedFiles(msgspec.Struct, frozen=True):
    """The number of deleted rows, and the last row that was looked at; None after the last part."""

    deleted: int
    last: FilePeriod | None


async def delete(tx: Transaction, table_id: UUID, after: FilePeriod) -> DeletedFiles:
    """Delete some of the files of a table that have left, after a row."""
    named = msgspec.structs.asdict(after) | {"table_id": table_id, "rows": DELETED_AT_ONCE}
    for superseded_at, version, ordinal, live_from, deleted in await tx.query(_DELETE, named):
        return DeletedFiles(deleted, FilePeriod(superseded_at, version, ordinal, live_from))
    return DeletedFiles(0, None)


def prune_replay() -> Statement:
    """Delete from the replay table what may be missing in the projection; before the same of instants."""
    return _PRUNE, {}
