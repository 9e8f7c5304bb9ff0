"""Whether files may be deleted: the facts in the log and the projections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.deletable import FileFacts
from chronolake_metastore.store import clocks
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, read
from chronolake_model.file_names import parse_file_name
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros
from chronolake_model.vocabulary import State

_KNOWN: Final = statements.load("deletable/find_known_files")
_BASE_PATH: Final = statements.load("base_paths/get_state")


class BasePathState(msgspec.Struct, frozen=True):
    """Whether a table has its folder for itself: see the statement."""

    table: str
    is_dropped: bool
    is_comparable: bool
    taken_by: str | None
    overlaps_with: str | None


async def base_path(connection: Connection, table_id: UUID) -> BasePathState | None:
    """Whether a table has its folder for itself; None if the table never existed."""
    row = (await connection.execute(_BASE_PATH, {"table_id": table_id})).one_or_none()
    return None if row is None else BasePathState(*row)


def find(table_id: UUID, files: Sequence[tuple[DeletedFile, Micros]], now: Micros) -> Query[list[FileFacts]]:
    """The facts about data files, in their order. Each file is given with the time in its name."""
    return Query(
        _KNOWN,
        {**_named(table_id, files), "now": now},
        lambda rows: [
            FileFacts(time, None if state is None else State(state), *flags)
            for (_, time), (_, state, *flags) in zip(files, rows, strict=True)
        ],
    )


async def known(
    connection: Connection, table_id: UUID, files: Sequence[tuple[DeletedFile, Micros]]
) -> list[FileFacts]:
    """As ``find``, by the steady clock."""
    return await read(connection, find(table_id, files, (await clocks.now(connection)).steady)) if files else []


def _named(table_id: UUID, files: Sequence[tuple[DeletedFile, Micros]]) -> dict[str, object]:
    return {
        "table_id": table_id,
        "partition_paths": [file.partition_path for file, _ in files],
        "file_names": [file.file_name for file, _ in files],
        "file_ids": [parse_file_name(file.file_name).file_id for file, _ in files],
        "requested_times": [time for _, time in files],
    }
