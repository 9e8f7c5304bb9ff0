"""The long lists of events: rows of the log beside the events that name them (docs/decisions/0015)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.changes import ListKey, ListOfEvent
from chronolake_metastore.domain.lists import ListEntry, ListName
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.pooled import Connection
from chronolake_metastore.store.postgres.transaction import Query, Statement, Transaction
from chronolake_model.files import FileGroupName
from chronolake_model.marker_names import DeletedFile
from chronolake_model.times import Micros

_APPEND: Final = statements.load("event_lists/append")
_FIND_UNPLANNED_GROUPS: Final = statements.load("event_lists/find_unplanned_groups")
_FIND_UNPLANNED_FILES: Final = statements.load("event_lists/find_unplanned_files")
_READ: Final = statements.load("event_lists/read")
_ORPHANS: Final = statements.load("event_lists/find_without_event")
_PAGE: Final = statements.load("event_lists/page")
_READ_ALL: Final = """
    SELECT partition_path, name
    FROM event_entry
    WHERE table_id = %(table_id)s::uuid AND instant = moment(%(instant)s) AND list = %(list)s
    ORDER BY ordinal
"""


class StoredEntry(msgspec.Struct, frozen=True):
    """One row."""

    of: ListKey
    ordinal: int
    entry: ListEntry


def append(lists: Sequence[ListOfEvent]) -> Statement:
    """Append the entries of lists."""
    rows = [(listed.key, ordinal, entry) for listed in lists for ordinal, entry in enumerate(listed.entries)]
    return _APPEND, {
        "table_id": [of.table_id for of, _, _ in rows],
        "instant": [of.instant for of, _, _ in rows],
        "list": [of.name.value for of, _, _ in rows],
        "ordinal": [ordinal for _, ordinal, _ in rows],
        "version": [of.version for of, _, _ in rows],
        "partition_path": [entry.partition_path for _, _, entry in rows],
        "name": [entry.name for _, _, entry in rows],
    }


def unplanned_groups(
    table_id: UUID, instant: Micros, groups: Iterable[FileGroupName]
) -> Query[list[FileGroupName]]:
    """The file groups of ``groups`` that the plan of the instant does not name."""
    names = list(groups)
    parameters = {
        "table_id": table_id,
        "instant": instant,
        "partition_paths": [name.partition_path for name in names],
        "file_ids": [name.file_id for name in names],
    }
    return Query(_FIND_UNPLANNED_GROUPS, parameters, lambda rows: [FileGroupName(*row) for row in rows])


def unplanned_files(table_id: UUID, instant: Micros, files: Sequence[DeletedFile]) -> Query[list[DeletedFile]]:
    """The files of ``files`` that the plan of the instant does not name, in order."""
    parameters = {
        "table_id": table_id,
        "instant": instant,
        "partition_paths": [file.partition_path for file in files],
        "file_names": [file.file_name for file in files],
    }
    return Query(_FIND_UNPLANNED_FILES, parameters, lambda rows: sorted(DeletedFile(*row) for row in rows))


async def read(tx: Transaction, of: ListKey) -> list[ListEntry]:
    """All entries of one list."""
    named = {"table_id": of.table_id, "instant": of.instant, "list": of.name.value}
    return [ListEntry(*row) for row in await tx.query(_READ_ALL, named)]


async def page(
    connection: Connection,
    table_id: UUID,
    instant: Micros,
    name: ListName,
    after: int,
    limit: int,
    bytes_max: int,
) -> tuple[list[tuple[int, ListEntry]], bool]:
    """The entries after the ordinal ``after``, each with its own, up to either bound; at least one if any.

    The flag says whether there may be more after them.
    """
    named = {
        "table_id": table_id,
        "instant": instant,
        "list": name.value,
        "after": after,
        "limit": limit,
        "bytes_max": bytes_max,
    }
    rows = await connection.execute(_PAGE, named)
    entries = [(ordinal, ListEntry(partition_path, entry)) for ordinal, partition_path, entry, _ in rows]
    return entries, bool(rows) and (len(rows) == limit or len(rows) < rows[0][3])


async def entries(tx: Transaction, lists: Sequence[ListKey]) -> AsyncIterator[StoredEntry]:
    """The entries of lists, one by one, each list's in their order, however many there are."""
    named = {
        "table_ids": [of.table_id for of in lists],
        "instants": [of.instant for of in lists],
        "lists": [of.name.value for of in lists],
    }
    async for table_id, instant, name, ordinal, version, partition_path, entry in tx.stream(_READ, named):
        of = ListKey(table_id, Micros(instant), version, ListName(name))
        yield StoredEntry(of, ordinal, ListEntry(partition_path, entry))


async def without_event(tx: Transaction, table_id: UUID | None, limit: int) -> list[tuple[UUID, int, str, int]]:
    """The first ``limit`` lists whose event does not name them: table, version, list, number of entries."""
    rows = await tx.query(_ORPHANS, {"table_id": table_id, "limit": limit})
    return [(of_table, version, name, count) for of_table, version, name, count in rows]
